"""Every estimator on the same data."""
