"""Checks of a posterior: what it depends on, and whether its model fits."""
