"""Functions of one variable stored as Legendre polynomials on panels, and densities made of them.

A panel is an interval [low, high] with the function's values at Gauss-Legendre nodes.  Integrals,
partial integrals and interpolation between the nodes are then exact for polynomials, so the
accuracy is that of the polynomial, which :func:`tail` judges by its last coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


@lru_cache(maxsize=32)
def gauss_legendre(count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [-1, 1]."""
    return legendre.leggauss(count)


@lru_cache(maxsize=32)
def analysis_matrix(count: int) -> FloatArray:
    """The matrix that turns values at the nodes into Legendre coefficients."""
    nodes, weights = gauss_legendre(count)
    basis = legendre.legvander(nodes, count - 1)
    return np.asarray((basis * weights[:, None]).T * (np.arange(count)[:, None] + 0.5))


@lru_cache(maxsize=32)
def integration_matrix(count: int) -> FloatArray:
    """Legendre coefficients of a polynomial -> those of its integral from -1 (one more of them)."""
    matrix = np.zeros((count + 1, count))
    matrix[0, 0] = matrix[1, 0] = 1.0
    for k in range(1, count):
        matrix[k + 1, k] += 1 / (2 * k + 1)
        matrix[k - 1, k] -= 1 / (2 * k + 1)
    return matrix


def tail(coefficients: FloatArray) -> FloatArray:
    """Size of the last two coefficients (last axis): what a finer panel could still change."""
    return np.asarray(np.abs(coefficients[..., -1]) + np.abs(coefficients[..., -2]))


def legendre_sum(coefficients: FloatArray, x: FloatArray) -> FloatArray:
    """Evaluate Legendre series with coefficients along the FIRST axis at x, elementwise."""
    count = len(coefficients)
    previous, current = np.ones_like(x), x
    total = coefficients[0] * previous
    if count > 1:
        total = total + coefficients[1] * current
    for k in range(1, count - 1):
        previous, current = current, ((2 * k + 1) * x * current - k * previous) / (k + 1)
        total += coefficients[k + 1] * current
    return np.asarray(total)


@dataclass(frozen=True, kw_only=True)
class PanelDensity:
    """A normalised probability density on [breaks[0], breaks[-1]], polynomial on each panel.

    Parameters
    ----------
    breaks
        Increasing ends of the panels, one more than there are panels.
    values
        Density at the Gauss-Legendre nodes of each panel, shape (panels, nodes).  It is normalised
        on construction.
    """

    breaks: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        mass = np.sum(self._half_widths[:, None] * self.values * self._weights)
        object.__setattr__(self, "values", self.values / mass)

    @property
    def _half_widths(self) -> FloatArray:
        return np.asarray(0.5 * np.diff(self.breaks))

    @property
    def _weights(self) -> FloatArray:
        return gauss_legendre(self.values.shape[1])[1]

    @property
    def nodes(self) -> FloatArray:
        """Where ``values`` are given, in the same shape."""
        points = gauss_legendre(self.values.shape[1])[0]
        return np.asarray(self.breaks[:-1, None] + self._half_widths[:, None] * (1 + points))

    def _masses(self) -> FloatArray:
        return np.asarray(self._half_widths * (self.values @ self._weights))

    def _locate(self, x: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        inside = np.clip(x, self.breaks[0], self.breaks[-1])
        panel = np.clip(
            np.searchsorted(self.breaks, inside, side="right") - 1, 0, len(self.values) - 1
        )
        local = (inside - self.breaks[panel]) / self._half_widths[panel] - 1
        return panel, local

    def density(self, x: ArrayLike) -> FloatArray:
        """The density at x, 0 outside the support."""
        points = np.asarray(x, dtype=float)
        flat = points.ravel()
        panel, local = self._locate(flat)
        coefficients = self.values @ analysis_matrix(self.values.shape[1]).T
        value = np.maximum(legendre_sum(coefficients[panel].T, local), 0.0)
        outside = (flat < self.breaks[0]) | (flat > self.breaks[-1])
        return np.where(outside, 0.0, value).reshape(points.shape)

    def cdf(self, x: ArrayLike) -> FloatArray:
        """P(X <= x)."""
        points = np.asarray(x, dtype=float)
        shape = points.shape
        panel, local = self._locate(points.ravel())
        masses = self._masses()
        before = np.concatenate([[0.0], np.cumsum(masses)])
        count = self.values.shape[1]
        coefficients = self.values @ (integration_matrix(count) @ analysis_matrix(count)).T
        partial = self._half_widths[panel] * legendre_sum(coefficients[panel].T, local)
        # A polynomial may dip below zero where the density all but vanishes; its integral may not.
        partial = np.clip(partial, 0.0, masses[panel])
        return np.asarray(np.clip(before[panel] + partial, 0.0, 1.0).reshape(shape))

    def quantile(self, probability: ArrayLike) -> FloatArray:
        """The x with P(X <= x) = probability, by bisection on the distribution function."""
        target = np.asarray(probability, dtype=float)
        flat = target.ravel()
        before = np.concatenate([[0.0], np.cumsum(np.maximum(self._masses(), 0.0))])
        before /= before[-1]
        panel = np.clip(np.searchsorted(before, flat, side="right") - 1, 0, len(self.values) - 1)
        low, high = self.breaks[panel].copy(), self.breaks[panel + 1].copy()
        for _ in range(60):
            middle = 0.5 * (low + high)
            under = self.cdf(middle) < flat
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return np.asarray((0.5 * (low + high)).reshape(target.shape))

    def mean(self) -> float:
        """E[X]."""
        return float(np.sum(self._half_widths[:, None] * self.values * self.nodes * self._weights))

    def variance(self) -> float:
        """E[(X - E[X])^2]."""
        centred = (self.nodes - self.mean()) ** 2
        return float(np.sum(self._half_widths[:, None] * self.values * centred * self._weights))
