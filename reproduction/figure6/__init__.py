"""Figure 6: autocorrelations of the sampler."""
