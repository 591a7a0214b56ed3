"""Likelihood of the average error rates of one group, and its masses over rings.

Given its average (a, b), the spread and epsilon, the members of a group are independent, and the
likelihood of each is an integral over its own rates,

    h(a, b) = 1 / Z(a, b) * integral over R(epsilon, delta) of g(alpha, beta) k(alpha - a) k(beta - b).

Both integrals are sums over cells: the mass of g (or the area, for Z) of the part of a cell inside
R(epsilon, delta), which is exact along beta, times the mean of the scatter k over the cell.  Masses do
not depend on the spread and means of k do not depend on epsilon, so a product of three small matrices
gives h on a whole grid of averages.  The product of h over the members is then integrated over rings as
in `planar.py`: cumulative sums along one angle, cut by cubic polynomials at the edges.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.engines.exact.kernels import angle_windows
from epsilometer.engines.exact.planar import TINY, AverageGrid, Density
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.model import region
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import Scatter

#: In cells of a member's grid, which cannot resolve a smaller one.  Below it the log likelihood is
#: interpolated to spread 0, where a group is one attack: there edges matter in proportion to the
#: spread.
SMALLEST_SPREAD = 0.6

#: Averages, one rate at a time, used to find the ends of a group's window.
SEARCH_POINTS = 100

#: How much truncating the scatter may change a member's log likelihood from one average to another:
#: inside the region Z changes by a factor of about 4, from a corner to the middle.
MOST_GAIN = 1.5

#: Points beyond an edge that the polynomial in the edge's own cell needs.
POINTS_BEYOND_EDGE = 2

#: Smallest share of the scatter inside the region, relative to the largest among nearby averages:
#: with less, an average is three spreads outside.
LEAST_KEPT = 1e-3


class ScatteredGroup:
    """One group of scattered members: the density of its average at any epsilon."""

    def __init__(
        self, counts: AttackCounts, scatter: Scatter, spread: FloatArray, resolution: Resolution
    ) -> None:
        distinct, times = _distinct(counts)
        sides = [_Rates(part, resolution) for part in np.split(distinct, 2, axis=1)]
        # Each member has its own smallest spread, rounded to a power of sqrt(2), so that a few
        # values cover all members.
        cell = np.maximum(*(np.median(np.diff(side.edges), axis=1) for side in sides))
        floors = 2.0 ** (np.ceil(2 * np.log2(SMALLEST_SPREAD * cell)) / 2)
        wide = np.maximum(spread, floors[:, None])
        windows = [_windows(scatter, side, wide, times, resolution.plane_reach) for side in sides]
        self.grid = AverageGrid.of_windows(windows[0], windows[1], resolution.group_points(2 / 3))
        averages = (self.grid.alpha, self.grid.beta)
        constant = -float(np.sum(np.log1p(counts.trials_h0) + np.log1p(counts.trials_h1)))
        # The part that does not depend on epsilon, with the Jacobian of rate = sin^2 angle.
        angles = (self.grid.theta, self.grid.phi)
        jacobians = (np.log(np.maximum(np.sin(2 * angle), TINY)) for angle in angles)
        self._fixed = constant + _outer_sum(*jacobians)
        self._parts: list[tuple[_Members, FloatArray]] = []
        for floor in np.unique(floors):
            mine = np.flatnonzero(floors == floor)
            part = [_Rates(side, resolution) for side in np.split(distinct[mine], 2, axis=1)]
            members = _Members(scatter, part, times[mine], wide[mine[0]], averages)
            share = (spread / wide[mine[0]])[:, None, None]
            self._parts.append((members, share))
            if np.any(share < 1):
                self._fixed += (1 - share) * members.without_spread(averages)

    def density(self, epsilon: float, delta: float) -> Density:
        """The likelihood of the average, of all members together, truncated to R(epsilon, delta)."""
        total = self._fixed.copy()
        for members, share in self._parts:
            total += share * members.log_likelihood(epsilon, delta)
        total[self._far_outside(epsilon, delta)] = -np.inf
        return Density.of(self.grid, total)

    def _far_outside(self, epsilon: float, delta: float) -> BoolArray:
        """Averages outside R(epsilon, delta), except those near its edge, which polynomials need.

        Both integrals vanish there, and their quotient is unknown.
        """
        grid = self.grid
        position = np.arange(grid.phi.shape[1])
        low, high = (
            (np.arcsin(np.sqrt(np.clip(beta, 0.0, 1.0))) - grid.phi[:, :1]) / grid.phi_step[:, None]
            for beta in region.beta_limits(grid.alpha, epsilon, delta)
        )
        below = position < np.floor(low)[:, :, None] - POINTS_BEYOND_EDGE
        above = position > np.ceil(high)[:, :, None] + POINTS_BEYOND_EDGE
        return np.asarray(below | above)


class PooledGroup:
    """One group whose counts are added up and taken to be normal: nothing depends on epsilon."""

    def __init__(self, counts: AttackCounts, spread: FloatArray, resolution: Resolution) -> None:
        sides, logs = [], []
        for errors, trials in counts.by_hypothesis:
            number = float(trials.sum())
            extra = spread**2 * float((trials * (trials - 1.0)).sum()) / number**2
            sides.append((float(errors.sum()) / number, number, extra))
        windows = [angle_windows(*side, resolution.plane_reach) for side in sides]
        grid = AverageGrid.of_windows(windows[0], windows[1], resolution.group_points(2 / 3))
        for (rate, number, extra), points in zip(sides, (grid.alpha, grid.beta), strict=True):
            binomial = np.maximum(points * (1 - points), TINY)
            variance = binomial / number + extra[:, None]
            # Density of the count in the angle: the Jacobian cancels an infinite density at 0 and 1.
            logs.append(
                -0.5 * (points - rate) ** 2 / variance
                + 0.5 * np.log(4 * binomial / variance)
                - np.log(np.sqrt(2 * np.pi) * number)
            )
        self._density = Density.of(grid, _outer_sum(*logs))

    def density(self, epsilon: float, delta: float) -> Density:
        """The likelihood of the average, for any region."""
        return self._density


Group = ScatteredGroup | PooledGroup


def _continued(values: FloatArray, known: BoolArray) -> FloatArray:
    """Extend values along the last axis as constants beyond the outermost known ones."""
    count = values.shape[-1]
    first = np.argmax(known, axis=-1)
    last = count - 1 - np.argmax(known[..., ::-1], axis=-1)
    index = np.clip(np.arange(count), first[..., None], last[..., None])
    return np.asarray(np.take_along_axis(values, index, axis=-1))


def _outer_sum(alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """(..., alpha point) + (..., beta point): (..., alpha point, beta point)."""
    return np.asarray(alpha[..., :, None] + beta[..., None, :])


class _Members:
    """Members of a group with a common smallest spread: their log likelihood given the average."""

    def __init__(
        self,
        scatter: Scatter,
        sides: Sequence[_Rates],
        times: FloatArray,
        spread: FloatArray,
        averages: Sequence[FloatArray],
    ) -> None:
        self._sides, self._times = sides, times
        self._log_largest = sides[0].log_largest + sides[1].log_largest
        self._means = [
            [_kernel(scatter, *side, spread) for side in zip(pair, averages, strict=True)]
            for pair in zip(sides[0].edges, sides[1].edges, strict=True)
        ]
        # Cells that cover all averages and the scatter around them, for the area of the region.
        reach = scatter.reach * spread
        self._area_edges: list[FloatArray] = []
        for points in averages:
            low = np.maximum(points.min(axis=1) - reach, 0.0)
            high = np.minimum(points.max(axis=1) + reach, 1.0)
            self._area_edges.append(np.linspace(low, high, sides[0].edges.shape[1], axis=1))
        self._area_means = [
            _kernel(scatter, *side, spread) for side in zip(self._area_edges, averages, strict=True)
        ]

    def log_likelihood(self, epsilon: float, delta: float) -> FloatArray:
        """Of all members, by (spread, theta, phi)."""
        alpha, beta = self._area_edges
        points, weights = _two_points(alpha)
        limits = region.beta_limits(points, epsilon, delta)
        share = _sandwich(self._area_means, _cut_masses(weights, beta, limits))
        # Relative to the line: if the region is thin, all shares are small.
        known = share > LEAST_KEPT * share.max(axis=-1, keepdims=True)
        log_share = np.log(np.maximum(share, TINY))
        x, y = self._sides
        limits = region.beta_limits(x.points, epsilon, delta)
        masses = _cut_masses(x.weights, y.below, [y.probability_below(edge) for edge in limits])
        total = np.zeros(share.shape)
        for means, cells, largest, times in zip(
            self._means, masses, self._log_largest, self._times, strict=True
        ):
            # In place: allocating memory for every step costs as much as the steps.
            logs = _sandwich(means, cells)
            np.log(np.maximum(logs, TINY, out=logs), out=logs)
            logs -= log_share
            # An average of a likelihood is at most its largest value.  Quotients of two sums may be
            # larger, where little of a scatter that ends abruptly is inside the region.
            np.minimum(logs, largest, out=logs)
            logs *= times
            total += logs
        return _continued(total, known)

    def without_spread(self, averages: Sequence[FloatArray]) -> FloatArray:
        """The same if every member equals its average."""
        pairs = zip(self._sides, averages, strict=True)
        sides = (side.log_density(points[:, None, :]) for side, points in pairs)
        logs = np.maximum(_outer_sum(*sides), -1e4)
        return np.asarray(np.einsum("m,smab->sab", self._times, logs))


def _kernel(
    scatter: Scatter, edges: FloatArray, points: FloatArray, spread: FloatArray
) -> FloatArray:
    """Means of the scatter over cells: (spread, point, cell); edges (cell + 1) or a row per spread."""
    edges = np.atleast_2d(edges)
    z = (edges[:, None, :] - points[:, :, None]) / spread[:, None, None]
    return np.diff(scatter.distribution(z), axis=2) / np.diff(edges, axis=1)[:, None, :]


def _sandwich(means: Sequence[FloatArray], cells: FloatArray) -> FloatArray:
    """Sum over cells: (spread, alpha point, cell) x (cell, cell) x (spread, beta point, cell)."""
    return np.asarray(means[0] @ cells @ means[1].transpose(0, 2, 1))


def _cut_masses(weights: FloatArray, below: FloatArray, limits: Sequence[FloatArray]) -> FloatArray:
    """Mass of the part of each cell inside a region: (..., alpha cell, beta cell).

    ``weights`` are those of the two points in alpha (point, ..., cell), at which the masses below the
    lower and the upper edge of the region are the ``limits``; ``below`` are those below the edges of
    cells in beta.
    """
    total = np.zeros((*weights.shape[1:], below.shape[-1]))
    for weight, low, high in zip(weights, *limits, strict=True):
        cut = np.clip(below[..., None, :], low[..., None], high[..., None])
        cut *= weight[..., None]
        total += cut
    return np.diff(total, axis=-1)


def _windows(
    scatter: Scatter, rates: _Rates, spread: FloatArray, times: FloatArray, reach: float
) -> FloatArray:
    """Angles (spread, 2) outside which no average of this rate has any likelihood.

    ``spread`` is (member, spread), at least each member's smallest.
    """
    far = scatter.reach * spread.max(axis=0)
    low = np.arcsin(np.sqrt(np.maximum(rates.edges.min() - far, 0.0)))
    high = np.arcsin(np.sqrt(np.minimum(rates.edges.max() + far, 1.0)))
    angle = np.linspace(low, high, SEARCH_POINTS, axis=1)
    points = np.sin(angle) ** 2
    logs = np.zeros(points.shape)
    for edges, masses, wide, number in zip(
        rates.edges, np.diff(rates.below), spread, times, strict=True
    ):
        one = _kernel(scatter, edges, points, wide) @ masses
        logs += number * np.log(np.maximum(one, TINY))
    logs -= logs.max(axis=1, keepdims=True)
    least = -0.5 * reach**2 - MOST_GAIN * float(times.sum())
    first = _first_above(angle, logs, least)
    last = _first_above(angle[:, ::-1], logs[:, ::-1], least)
    return np.stack([first, last], axis=1)


def _first_above(x: FloatArray, values: FloatArray, least: float) -> FloatArray:
    """Where the values of each row first exceed ``least``, by linear interpolation."""
    row, after = np.arange(len(x)), np.argmax(values > least, axis=1)
    before = np.maximum(after - 1, 0)
    rise = np.where(after > 0, values[row, after] - values[row, before], 1.0)
    part = np.where(after > 0, (least - values[row, before]) / rise, 0.0)
    return np.asarray(x[row, before] + part * (x[row, after] - x[row, before]))


class _Rates:
    """One rate of some members: cells where a count leaves it, and two Gauss points in each.

    Arrays have a row per member; ``points`` and ``weights`` are (point of a cell, member, cell).
    ``below`` is the posterior probability of the rate below each edge, under a uniform prior.
    """

    def __init__(self, counts: FloatArray, resolution: Resolution) -> None:
        count, trials = counts[:, :1], counts[:, 1:]
        self._count, self._rest = count, trials - count
        x, n = count[:, 0], trials[:, 0]
        low, high = angle_windows(x / n, n, 0.0, resolution.plane_reach).T
        self.edges = np.sin(np.linspace(low, high, resolution.group_points(1.5) + 1, axis=1)) ** 2
        self.below = self.probability_below(self.edges)
        self.points, half = _two_points(self.edges)
        self.weights = half * np.exp(self.log_density(self.points))
        self.log_largest = self.log_density(count / trials)[:, 0]

    def probability_below(self, rate: FloatArray) -> FloatArray:
        from scipy.special import betainc

        return np.asarray(betainc(self._count + 1, self._rest + 1, rate))

    def log_density(self, rate: FloatArray) -> FloatArray:
        """Log posterior density under a uniform prior, (..., member, rate)."""
        from scipy.special import betaln, xlog1py, xlogy

        count, rest = self._count, self._rest
        return np.asarray(xlogy(count, rate) + xlog1py(rest, -rate) - betaln(count + 1, rest + 1))


def _two_points(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two Gauss points in each cell along the last axis, and their weights: (point, ..., cell)."""
    half = 0.5 * np.diff(edges, axis=-1)
    middle = edges[..., :-1] + half
    shift = half / np.sqrt(3.0)
    return np.stack([middle - shift, middle + shift]), np.stack([half, half])


def _distinct(counts: AttackCounts) -> tuple[FloatArray, FloatArray]:
    """The distinct members of a group, and how often each occurs."""
    table = np.stack([getattr(counts, name) for name in COLUMNS], axis=1)
    rows, times = np.unique(table, axis=0, return_counts=True)
    return rows.astype(float), times.astype(float)
