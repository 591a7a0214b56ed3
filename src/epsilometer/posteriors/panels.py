"""Functions of one variable stored as Legendre polynomials on panels, and densities made of them.

A panel is an interval [low, high] with the function's values at Gauss-Legendre nodes.  Integrals,
partial integrals and interpolation between the nodes are then exact for polynomials, so the accuracy is
that of the polynomial, which :func:`tail` estimates from its last coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike
from scipy.special import roots_jacobi

from epsilometer._arrays import BoolArray, FloatArray, IndexArray


@lru_cache(maxsize=32)
def gauss_legendre(count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [-1, 1]."""
    return legendre.leggauss(count)


@lru_cache(maxsize=32)
def analysis_matrix(count: int) -> FloatArray:
    """The matrix from values at the nodes to Legendre coefficients."""
    nodes, weights = gauss_legendre(count)
    basis = legendre.legvander(nodes, count - 1)
    return np.asarray((basis * weights[:, None]).T * (np.arange(count)[:, None] + 0.5))


@lru_cache(maxsize=32)
def integration_matrix(count: int) -> FloatArray:
    """Legendre coefficients of a polynomial -> those of its integral from -1 (one more of them)."""
    return np.asarray(legendre.legint(np.eye(count), lbnd=-1))


def tail(coefficients: FloatArray) -> FloatArray:
    """Size of the last two coefficients (last axis): what a finer panel could still change."""
    return np.asarray(np.abs(coefficients[..., -1]) + np.abs(coefficients[..., -2]))


def legendre_sum(coefficients: FloatArray, x: FloatArray) -> FloatArray:
    """Evaluate Legendre series with coefficients along the FIRST axis at x, elementwise."""
    return np.asarray(legendre.legval(x, coefficients, tensor=False))


@dataclass(frozen=True, kw_only=True)
class QuadratureRule:
    """Nodes in (0, 1) of a reference panel, Gauss weights, and weights for interpolation."""

    nodes: FloatArray
    weights: FloatArray
    barycentric: FloatArray


@lru_cache(maxsize=64)
def rule(count: int, left: float, right: float) -> QuadratureRule:
    """Gauss rule on [0, 1] for the weight x^left (1 - x)^right."""
    points, weights = roots_jacobi(count, right, left)
    nodes = 0.5 * (1 + points)
    gaps = nodes[:, None] - nodes[None, :]
    np.fill_diagonal(gaps, 1.0)
    weights = weights / 2 ** (1 + left + right)
    return QuadratureRule(nodes=nodes, weights=weights, barycentric=1 / np.prod(4 * gaps, axis=1))


def remainder(density: PanelDensity) -> float:
    """The part of the mass that finer panels could still move."""
    return float(np.sum(left_unresolved(density.breaks, density.values)))


MOST_STEPS = 60  # of a search within a panel: bisection alone then reaches machine precision


@dataclass(frozen=True, kw_only=True)
class PanelDensity:
    """A normalised probability density on [breaks[0], breaks[-1]], polynomial on each panel.

    ``breaks`` are the increasing ends of the panels; ``values`` (panel, node) the density at their
    Gauss-Legendre nodes, normalised on construction.
    """

    breaks: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", self.values / self._integral(1.0))

    @property
    def _half_widths(self) -> FloatArray:
        return np.asarray(0.5 * np.diff(self.breaks))

    @property
    def _weights(self) -> FloatArray:
        return gauss_legendre(self.values.shape[1])[1]

    @property
    def nodes(self) -> FloatArray:
        """Positions of ``values``, in the same shape."""
        return panel_nodes(self.breaks, self.values.shape[1])

    def _integral(self, of: FloatArray | float) -> float:
        """Integral of the density times a function, given at the nodes."""
        return float(np.sum(self._half_widths[:, None] * self.values * of * self._weights))

    def _masses(self) -> FloatArray:
        return np.asarray(self._half_widths * (self.values @ self._weights))

    def density(self, x: ArrayLike) -> FloatArray:
        """The density at x, 0 outside the support."""
        points = np.asarray(x, dtype=float)
        flat = points.ravel()
        panel, local = locate(self.breaks, flat)
        coefficients = self.values @ analysis_matrix(self.values.shape[1]).T
        value = np.maximum(legendre_sum(coefficients[panel].T, local), 0.0)
        outside = (flat < self.breaks[0]) | (flat > self.breaks[-1])
        return np.where(outside, 0.0, value).reshape(points.shape)

    def cdf(self, x: ArrayLike) -> FloatArray:
        """P(X <= x)."""
        points = np.asarray(x, dtype=float)
        panel, local = locate(self.breaks, points.ravel())
        masses = self._masses()
        before = np.concatenate([[0.0], np.cumsum(masses)])
        count = self.values.shape[1]
        coefficients = self.values @ (integration_matrix(count) @ analysis_matrix(count)).T
        partial = self._half_widths[panel] * legendre_sum(coefficients[panel].T, local)
        # A polynomial may dip below zero where the density nearly vanishes; its integral may not.
        partial = np.clip(partial, 0.0, masses[panel])
        return np.asarray(np.clip(before[panel] + partial, 0.0, 1.0).reshape(points.shape))

    def probability_above(self, value: float) -> float:
        """P(X > value)."""
        return float(1 - self.cdf(value))

    def quantile(self, probability: ArrayLike) -> FloatArray:
        """The x with P(X <= x) = probability, by Newton steps kept within a shrinking bracket."""
        target = np.asarray(probability, dtype=float)
        flat = target.ravel()
        masses = np.maximum(self._masses(), 0.0)
        before = np.concatenate([[0.0], np.cumsum(masses)])
        panel = np.searchsorted(before / before[-1], flat, side="right") - 1
        panel = np.clip(panel, 0, len(self.values) - 1)
        count = self.values.shape[1]
        density = (self.values[panel] @ analysis_matrix(count).T).T
        integral = integration_matrix(count) @ density
        half = self._half_widths[panel]
        wanted = np.clip(flat * before[-1] - before[panel], 0.0, masses[panel])
        low, high = np.full(len(flat), -1.0), np.ones(len(flat))
        x = np.clip(2 * wanted / np.maximum(masses[panel], 1e-300) - 1, -1.0, 1.0)
        for _ in range(MOST_STEPS):
            gap = np.clip(half * legendre_sum(integral, x), 0.0, masses[panel]) - wanted
            under = gap < 0
            low, high = np.where(under, x, low), np.where(under, high, x)
            slope = half * legendre_sum(density, x)
            step = x - gap / np.where(slope > 0, slope, np.inf)
            inside = (step > low) & (step < high) & (slope > 0)
            found = (high - low < 1e-15) | (np.abs(gap) < 1e-14 * before[-1])
            x = np.where(found, x, np.where(inside, step, 0.5 * (low + high)))
            if found.all():
                break
        return np.asarray((self.breaks[panel] + half * (1 + x)).reshape(target.shape))

    def mean(self) -> float:
        """E[X]."""
        return self._integral(self.nodes)

    def standard_deviation(self) -> float:
        """The root of E[(X - E[X])^2]."""
        return float(np.sqrt(self._integral((self.nodes - self.mean()) ** 2)))


POINTS_PER_PANEL = 128  # between which a distribution function is linear, to 1e-4 of a panel


def table(density: PanelDensity) -> tuple[FloatArray, FloatArray]:
    """Points so dense that the distribution function is nearly linear between them, and its values."""
    steps = np.linspace(0.0, 1.0, POINTS_PER_PANEL, endpoint=False)
    points = (density.breaks[:-1, None] + np.diff(density.breaks)[:, None] * steps).ravel()
    points = np.append(points, density.breaks[-1])
    return points, np.maximum.accumulate(density.cdf(points))


def invert(density: PanelDensity, uniform: FloatArray) -> FloatArray:
    """Quantiles of many probabilities at once, from a fine table of the distribution function."""
    points, cumulative = table(density)
    # Of points with no mass between them only those next to an increase may be used.
    rises = np.diff(cumulative) > 0
    useful = np.append(rises, False) | np.append(False, rises)
    return np.asarray(np.interp(uniform, cumulative[useful], points[useful]))


def panel_rule(breaks: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights of the panels between breaks, shape (panel, node) each."""
    points, weights = gauss_legendre(count)
    half = 0.5 * np.diff(breaks)[:, None]
    return np.asarray(breaks[:-1, None] + half * (1 + points)), np.asarray(half * weights)


def panel_nodes(breaks: FloatArray, count: int) -> FloatArray:
    """The nodes of :func:`panel_rule` alone."""
    return panel_rule(breaks, count)[0]


def locate(breaks: FloatArray, x: FloatArray) -> tuple[IndexArray, FloatArray]:
    """The panel that contains each x, or the nearest, and its position there from -1 to 1."""
    inside = np.clip(x, breaks[0], breaks[-1])
    panel = np.clip(np.searchsorted(breaks, inside, side="right") - 1, 0, len(breaks) - 2)
    return panel, (inside - breaks[panel]) / (0.5 * np.diff(breaks))[panel] - 1


def left_unresolved(breaks: FloatArray, values: FloatArray) -> FloatArray:
    """How much of the integral of values (panel, node) a finer panel could still change, by panel."""
    left = tail(values @ analysis_matrix(values.shape[1]).T)
    return np.asarray(left * (0.5 * np.diff(breaks)))


def lagrange(nodes: FloatArray, x: FloatArray) -> FloatArray:
    """Weights, first axis the nodes, that interpolate values at the nodes to the points x."""
    if len(nodes) == 1:
        return np.ones((1, *np.shape(x)))
    scale = 4 / (nodes.max() - nodes.min())
    weights = []
    for k, node in enumerate(nodes):
        others = np.delete(nodes, k)
        top = np.prod((x[..., None] - others) * scale, axis=-1)
        weights.append(top / np.prod((node - others) * scale))
    return np.stack(weights)


def linear_matrix(nodes: FloatArray, points: FloatArray) -> FloatArray:
    """Matrix (points, nodes) of linear interpolation, constant beyond the outer nodes."""
    return np.stack([np.interp(points, nodes, one) for one in np.eye(len(nodes))], axis=1)


def unresolved(breaks: FloatArray, values: FloatArray, tolerance: float) -> BoolArray:
    """Panels on which a density (panel, node) is not yet a polynomial to the given tolerance."""
    mass = float(np.sum(panel_rule(breaks, values.shape[1])[1] * values))
    wide = 0.5 * np.diff(breaks) > 1e-10 * breaks[-1]
    return np.asarray((left_unresolved(breaks, values) > tolerance * mass) & wide)


def split_panels(breaks: FloatArray, which: BoolArray) -> FloatArray:
    """The breaks with the chosen panels halved."""
    middles = 0.5 * (breaks[:-1] + breaks[1:])[which]
    return np.sort(np.concatenate([breaks, middles]))


def trimmed(density: FloatArray, negligible: float) -> slice:
    """The panels to keep: all except negligible ones at the ends.

    A panel is negligible if the density there never exceeds that fraction of its peak; one extra panel
    is kept on each side.
    """
    live = np.flatnonzero(density.max(axis=1) > negligible * density.max())
    return slice(max(int(live[0]) - 1, 0), min(int(live[-1]) + 2, len(density)))
