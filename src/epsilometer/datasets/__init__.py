"""Populations by name or from the user's files.  Sampling from them is done elsewhere."""
