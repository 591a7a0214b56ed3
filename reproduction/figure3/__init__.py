"""Figure 3: ten weak and ten strong attacks; the region shaded by the posterior."""
