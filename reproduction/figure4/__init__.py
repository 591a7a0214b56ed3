"""Figure 4: error curves and joint posteriors of the four algorithms."""
