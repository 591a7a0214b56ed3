"""Populations that can be loaded by name."""

from epsilometer.datasets.named import load_population as load_population

__all__: list[str]
