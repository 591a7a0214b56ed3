"""Measurement: from an algorithm and a population to losses, and from losses to attack results.

Nothing here depends on the posterior: inference receives error counts or scores only.
"""
