"""The posterior of the trade-off function from the ranks of all scores."""
