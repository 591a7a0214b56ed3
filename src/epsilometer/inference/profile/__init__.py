"""The posterior of the whole trade-off curve, from the ranks of all scores."""
