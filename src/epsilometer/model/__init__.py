"""The probability model: regions, counts, scores, priors, likelihoods, joint density.

Pure NumPy and SciPy, except for normal cell probabilities, which are compiled.
"""
