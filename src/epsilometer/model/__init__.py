"""The probability model: regions, counts, priors, likelihoods, joint density.  NumPy and SciPy only."""
