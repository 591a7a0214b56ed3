"""The distribution of one parameter.

A point mass, draws, a density on panels (`exact/panels.py`), or a distribution function
(`tabulated.py`).  All of them have quantile, probability_above, mean, standard_deviation and
density.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import iqr, norm

from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError
from epsilometer.posteriors.panels import PanelDensity
from epsilometer.posteriors.tabulated import Tabulated


@dataclass(frozen=True, kw_only=True)
class PointMass:
    """A fixed parameter: all its quantiles are its value."""

    value: float

    def quantile(self, probability: ArrayLike) -> FloatArray:
        return np.full(np.shape(probability), self.value)

    def probability_above(self, value: float) -> float:
        return float(self.value > value)

    def mean(self) -> float:
        return self.value

    def standard_deviation(self) -> float:
        return 0.0

    def density(self, value: ArrayLike) -> FloatArray:
        return np.where(np.asarray(value) == self.value, np.inf, 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """The pooled draws of all chains, of a parameter between ``low`` and ``high``."""

    values: FloatArray
    low: float
    high: float

    def quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(np.quantile(self.values, np.asarray(probability, dtype=float)))

    def probability_above(self, value: float) -> float:
        return float(np.mean(self.values > value))

    def mean(self) -> float:
        return float(self.values.mean())

    def standard_deviation(self) -> float:
        return float(self.values.std(ddof=1))

    def density(self, value: ArrayLike) -> FloatArray:
        """A Gaussian kernel estimate with Silverman's bandwidth, reflected at finite ends.

        For plots; quantiles and probabilities come from the draws themselves.
        """
        draws, points = self.values.ravel(), np.asarray(value, dtype=float)
        spread = min(float(draws.std()), float(iqr(draws)) / 1.34)
        if not spread > 0:
            spread = float(draws.std()) or 1e-9
        width = 0.9 * spread * len(draws) ** -0.2
        # Bins a tenth of the bandwidth wide change the estimate by less than one part in a thousand.
        bins = int(np.clip(np.ptp(draws) / (0.1 * width), 1, 20_000))
        mass, edges = np.histogram(draws, bins=bins)
        used = mass > 0
        centres, mass = 0.5 * (edges[:-1] + edges[1:])[used], mass[used] / len(draws)
        for end in (self.low, self.high):
            near = np.abs(centres - end) < 10 * width  # none if there is no end
            centres = np.append(centres, 2 * end - centres[near])
            mass = np.append(mass, mass[near])
        flat = points.ravel()
        few = np.array_split(flat[:, None], len(flat) // 256 + 1)
        result = np.concatenate([norm.pdf(part, centres, width) @ mass for part in few])
        return np.where((flat >= self.low) & (flat <= self.high), result, 0.0).reshape(points.shape)


Marginal = PointMass | Draws | PanelDensity | Tabulated


def check_probability(probability: ArrayLike) -> FloatArray:
    """Convert probabilities to an array, refusing values outside [0, 1]."""
    array = np.asarray(probability, dtype=float)
    if not np.all((array >= 0) & (array <= 1)):
        raise InputError(f"expected 0 <= probability <= 1, got {array.tolist()}.")
    return array
