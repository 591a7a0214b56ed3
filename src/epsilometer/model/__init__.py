"""The probability model: regions, counts, priors, likelihoods, joint density.

NumPy and SciPy, but for the cells of a normal, which are compiled.
"""
