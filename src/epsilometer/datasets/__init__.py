"""Populations by name, and from files of the user's.  What is drawn from them is decided elsewhere."""
