"""Figure 2: what assuming a strength, and measuring longer, does to the interval of epsilon."""
