"""Figure 5: the fourth algorithm at three levels of noise."""
