"""Posteriors: their common interface, distributions, files and updates; engines make them."""
