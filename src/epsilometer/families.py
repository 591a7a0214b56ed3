"""Families of trade-off curves, their mixtures, and the strengths of attacks."""

from epsilometer._lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
