"""Distributions of epsilon from probabilities of leaks, as tabulated distribution functions.

Every component has its own map from leaks to epsilon, so distributions are summed as functions of
epsilon.  There may be probability at 0, where nothing leaks, and at infinity, where no epsilon
suffices.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from epsilometer._arrays import FloatArray, FloatPair

#: Subdivisions of a cell of the axis, along a smooth curve through its neighbours.
FINER = 6

#: Most points of a distribution function; quantiles are interpolated between them.
MOST_POINTS = 6000


@dataclass(frozen=True, kw_only=True, eq=False)
class Tabulated:
    """A distribution on [0, inf]: its distribution function at increasing finite points.

    ``cumulative`` starts with the probability at the first point and ends with that of finite values.
    """

    points: FloatArray
    cumulative: FloatArray

    def quantile(self, probability: ArrayLike) -> FloatArray:
        wanted = np.asarray(probability, dtype=float)
        quantiles = np.interp(wanted, self.cumulative, self.points)
        return np.where(wanted > self.cumulative[-1] + 1e-12, np.inf, quantiles)

    def probability_above(self, value: float) -> float:
        # The first point includes its own probability.
        cumulative = np.interp(value, self.points, self.cumulative, left=0.0)
        return float(np.clip(1 - cumulative, 0.0, 1.0))

    @property
    def infinite(self) -> float:
        """Probability of no finite value."""
        return float(max(0.0, 1 - self.cumulative[-1]))

    def _moment(self, power: int) -> float:
        if self.infinite > 1e-9:
            return float("inf")
        low, high = self.points[:-1], self.points[1:]
        # Uniform between the points.
        cells = (low + high) / 2 if power == 1 else (low * low + low * high + high * high) / 3
        return float(
            np.diff(self.cumulative) @ cells + self.cumulative[0] * self.points[0] ** power
        )

    def mean(self) -> float:
        return self._moment(1)

    def standard_deviation(self) -> float:
        return float(np.sqrt(max(0.0, self._moment(2) - self._moment(1) ** 2)))

    def density(self, value: ArrayLike) -> FloatArray:
        """A difference quotient over a hundredth of the interquartile range, without the mass at 0."""
        x = np.asarray(value, dtype=float)
        low, high = self.quantile([0.25, 0.75])
        width = 0.01 * float(high - low) if np.isfinite(high) and high > low else 1e-3
        start = np.maximum(x - width, 0.0)
        step = np.interp(x + width, self.points, self.cumulative) - np.interp(
            start, self.points, self.cumulative
        )
        return np.where(x >= 0, step / (x + width - start), 0.0)


def trimmed(edges: FloatArray, mass: FloatArray) -> FloatPair:
    """Edges of cells and their probabilities without outer cells of negligible probability.

    ``mass`` may have several columns; cells are left out where all are negligible.
    """
    columns = mass.reshape(len(mass), -1)
    kept = np.flatnonzero((columns >= 1e-12 * columns.max(axis=0)).any(axis=1))
    return edges[kept[0] : kept[-1] + 2], mass[kept[0] : kept[-1] + 1]


def refined(edges: FloatArray, mass: FloatArray) -> FloatPair:
    """Edges of finer cells, largest leak first, and their probabilities.

    ``edges`` are those of cells with the given probabilities, which are interpolated smoothly in the
    logarithm.
    """
    ends, inner = trimmed(np.log(edges), mass)
    if len(inner) < 5 or np.any(inner <= 0):
        return np.exp(ends), inner
    place = np.arange(FINER * len(inner) + 1) / FINER
    fine = np.interp(place, np.arange(len(ends)), ends)
    widths, axis = ends[:-1] - ends[1:], (ends[:-1] + ends[1:]) / 2
    middle = (fine[1:] + fine[:-1]) / 2
    # Interpolate inside the outermost nodes; beyond them use the last values.
    spline = CubicSpline(axis[::-1], np.log(inner / widths)[::-1])
    density = np.exp(spline(np.clip(middle, axis[-1], axis[0])))
    parts = density * (fine[:-1] - fine[1:])
    return np.exp(fine), parts * (inner.sum() / parts.sum())


def mixed(parts: Sequence[tuple[FloatArray, FloatArray]], at_zero: float) -> Tabulated:
    """Combine parts into one distribution: increasing edges of cells, and the cells' probabilities.

    Edges may be infinite, and cells without width; ``at_zero`` is additional probability at 0.
    """
    finite = [edges[np.isfinite(edges)] for edges, _ in parts]
    points = np.unique(np.concatenate([np.zeros(1), *finite]))
    if len(points) > MOST_POINTS:
        # Drop the points that are closest together.
        points = points[np.linspace(0, len(points) - 1, MOST_POINTS).astype(int)]
    cumulative = np.full(len(points), at_zero)
    for edges, mass in parts:
        running = np.append(0.0, np.cumsum(mass))
        ends = np.isfinite(edges)
        if ends.any():
            # A cell without width is a jump, complete at its position.
            last = np.append(np.diff(edges[ends]) > 0, True)
            cumulative += np.interp(points, edges[ends][last], running[ends][last], left=0.0)
    # Negligible cells were left out; their probability must not appear at infinity.
    total = at_zero + sum(float(mass.sum()) for _, mass in parts)
    return Tabulated(points=points, cumulative=np.maximum.accumulate(cumulative) / total)


def middles(edges: FloatArray) -> FloatArray:
    """Leaks in the middle of cells, in the logarithm."""
    return np.asarray(np.sqrt(edges[1:] * edges[:-1]))
