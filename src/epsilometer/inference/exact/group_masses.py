"""Likelihood of the average error rates of one group, and its masses over rings.

Given its average (a, b), the spread and epsilon, the members of a group are independent, and the
likelihood of each is an integral over its own rates,

    h(a, b) = 1 / Z(a, b) * integral over R(epsilon, delta) of g(alpha, beta) k(alpha - a) k(beta - b).

Both integrals are sums over cells: the mass of g (or the area, for Z) that R(epsilon, delta) leaves of
a cell, which is exact along beta, times the mean of the scatter k over the cell.  Masses do not know
the spread and means of k do not know epsilon, so a product of three small matrices gives h on a whole
grid of averages.  The product of h over the members is then integrated over rings as in
`tensor_masses.py`: cumulative sums along one angle, cut by cubic polynomials where the edges run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.inference.exact.planar import cumulative_sums
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import Scatter

SMALLEST_SPREAD = 0.6
"""In cells of a member's grid, which could not follow a smaller one.  Below it the log likelihood is
interpolated to spread 0, where a group is one attack: edges matter in proportion to the spread there."""

SEARCH_POINTS = 400
"""Averages, one rate at a time, among which the window of a group is sought."""

MOST_GAIN = 1.5
"""How far cutting the scatter may move a member's log likelihood from one average to another: inside the
region Z changes by a factor of about 4, from a corner to the middle."""

BESIDE_EDGE = 2
"""Points beyond an edge that the polynomial in the edge's own cell is made of."""

LEAST_KEPT = 1e-3
"""Of the scatter inside the region, as a part of the most that averages beside it keep: with less an
average is three spreads outside."""

TINY = 1e-290


@dataclass(frozen=True, kw_only=True)
class GroupAccuracy:
    """Cells of a member's grid and points of the averages' grid, a side, and how far they reach.

    The reach is in standard deviations of a count.
    """

    cells: int
    points: int
    reach: float


@dataclass(frozen=True, kw_only=True)
class AverageGrid:
    """Angles of a group's averages for each spread: midpoints for alpha, ends and all for beta.

    ``theta`` and ``phi`` are (spread, point); alpha = sin^2 theta and beta = sin^2 phi.
    """

    theta: FloatArray
    theta_step: FloatArray
    phi: FloatArray
    phi_step: FloatArray

    @property
    def alpha(self) -> FloatArray:
        """(spread, point)."""
        return np.asarray(np.sin(self.theta) ** 2)

    @property
    def beta(self) -> FloatArray:
        """(spread, point)."""
        return np.asarray(np.sin(self.phi) ** 2)

    @classmethod
    def of_windows(cls, alpha: FloatArray, beta: FloatArray, points: int) -> AverageGrid:
        """From windows of angles, each (spread, 2)."""
        step = np.diff(alpha, axis=1) / points
        theta = alpha[:, :1] + step * (np.arange(points) + 0.5)
        phi_step = np.diff(beta, axis=1) / points
        phi = beta[:, :1] + phi_step * np.arange(points + 1)
        return cls(theta=theta, theta_step=step[:, 0], phi=phi, phi_step=phi_step[:, 0])


@dataclass(frozen=True, kw_only=True)
class Density:
    """A likelihood of the averages on their grid, as cumulative integrals along phi and slopes.

    Arrays are (spread, theta, phi), in units of exp(log_unit[spread]).
    """

    grid: AverageGrid
    sums: FloatArray
    slopes: FloatArray
    log_unit: FloatArray

    @classmethod
    def of(cls, grid: AverageGrid, log_values: FloatArray) -> Density:
        """From log densities (spread, theta, phi) in the angles."""
        top = np.maximum(log_values.max(axis=(1, 2)), -1e300)
        slopes = np.exp(log_values - top[:, None, None])
        unit = top + np.log(grid.theta_step * grid.phi_step)
        return cls(grid=grid, sums=cumulative_sums(slopes), slopes=slopes, log_unit=unit)

    def log_ring(self, epsilon: float, delta: float, strength: FloatArray) -> FloatArray:
        """Log mass of the rings R_s(epsilon, delta): (strength, spread).

        A ring is the strip between the lower edges of R(epsilon, delta) and of its core, and the one
        between the upper edges.  Both ends of a strip are read off one polynomial, so that thin strips
        do not cancel.
        """
        alpha = self.grid.alpha[:, None, :]
        level = strength[None, :, None]
        outer = region.beta_limits(alpha, epsilon, delta)
        inner = region.beta_limits(alpha, level * epsilon, level * delta)
        total = np.zeros((len(alpha), len(strength)))
        for whole, core, sign in zip(outer, inner, (1.0, -1.0), strict=True):
            strip = self._below(core) - self._below(whole)
            total += sign * strip.sum(axis=-1)
        return np.asarray((np.log(np.maximum(total, TINY)) + self.log_unit[:, None]).T)

    def _below(self, beta: FloatArray) -> FloatArray:
        """Integral along phi up to beta (spread, any, theta), by cubic Hermite polynomials."""
        grid = self.grid
        points = grid.phi.shape[1]
        x = np.arcsin(np.sqrt(beta))
        x -= grid.phi[:, :1, None]
        x /= grid.phi_step[:, None, None]
        np.clip(x, 0.0, points - 1.0, out=x)
        cell = np.minimum(x.astype(np.intp), points - 2)
        x -= cell
        spreads, _, thetas = x.shape
        cell += (np.arange(spreads)[:, None, None] * thetas + np.arange(thetas)) * points
        low, slope = self.sums.take(cell), self.slopes.take(cell)
        cell += 1
        rise, next_slope = self.sums.take(cell) - low, self.slopes.take(cell)
        # u [s + u ((3 - 2 u) r - (2 - u) s - (1 - u) s')], from value, rise and both slopes.
        bend = (3 - 2 * x) * rise - (2 - x) * slope - (1 - x) * next_slope
        return np.asarray(low + x * (slope + x * bend))


class ScatteredGroup:
    """One group of scattered members: the density of its average at any epsilon."""

    def __init__(
        self,
        counts: AttackCounts,
        scatter: Scatter,
        spread: FloatArray,
        accuracy: GroupAccuracy,
    ) -> None:
        distinct, multiplicity = _distinct(counts)
        self._scatter = scatter
        self._multiplicity = multiplicity
        self._members = [
            (
                _Axis.of(int(x), int(n0), accuracy),
                _Axis.of(int(y), int(n1), accuracy),
            )
            for x, n0, y, n1 in distinct
        ]
        # Each member has a smallest spread of its own; rounded, so that a few serve all members.
        self._floors = [_rounded_up(SMALLEST_SPREAD * _cell(pair)) for pair in self._members]
        self._spreads = {floor: np.maximum(spread, floor) for floor in set(self._floors)}
        self._shares = {floor: spread / wide for floor, wide in self._spreads.items()}
        windows = [
            self._windows([pair[side] for pair in self._members], accuracy) for side in (0, 1)
        ]
        self.grid = AverageGrid.of_windows(windows[0], windows[1], accuracy.points)
        rates = (self.grid.alpha, self.grid.beta)
        self._means = [
            tuple(
                self._kernel(axis.edges, points, self._spreads[floor])
                for axis, points in zip(pair, rates, strict=True)
            )
            for pair, floor in zip(self._members, self._floors, strict=True)
        ]
        self._areas = {}
        for floor, wide in self._spreads.items():
            edges = [_area_cells(points, scatter.reach * wide, accuracy.cells) for points in rates]
            means = tuple(
                self._kernel(one, points, wide) for one, points in zip(edges, rates, strict=True)
            )
            self._areas[floor] = (edges, means)
        self._still: dict[int, FloatArray] = {}
        self._log_constant = -float(np.sum(np.log1p(counts.trials_h0) + np.log1p(counts.trials_h1)))

    def _kernel(self, edges: FloatArray, points: FloatArray, spread: FloatArray) -> FloatArray:
        """Means of the scatter over cells: (spread, point, cell); edges (cell + 1) or a row a spread."""
        edges = edges if edges.ndim == 2 else edges[None]
        z = (edges[:, None, :] - points[:, :, None]) / spread[:, None, None]
        return np.diff(self._scatter.distribution(z), axis=2) / np.diff(edges, axis=1)[:, None, :]

    def _windows(self, axes: list[_Axis], accuracy: GroupAccuracy) -> FloatArray:
        """Angles (spread, 2) outside of which no average of this rate has any likelihood."""
        reach = self._scatter.reach * max(float(wide.max()) for wide in self._spreads.values())
        low = max(min(float(axis.edges[0]) for axis in axes) - reach, 0.0)
        high = min(max(float(axis.edges[-1]) for axis in axes) + reach, 1.0)
        ends = np.arcsin(np.sqrt([low, high]))
        angle = np.linspace(ends[0], ends[1], SEARCH_POINTS)
        size = len(self._spreads[self._floors[0]])
        points = np.broadcast_to(np.sin(angle) ** 2, (size, SEARCH_POINTS))
        logs = np.zeros(points.shape)
        for axis, floor, times in zip(axes, self._floors, self._multiplicity, strict=True):
            one = self._kernel(axis.edges, points, self._spreads[floor]) @ axis.masses
            logs += times * np.log(np.maximum(one, TINY))
        depth = 0.5 * accuracy.reach**2 + MOST_GAIN * float(self._multiplicity.sum())
        alive = logs > logs.max(axis=1, keepdims=True) - depth
        first = np.argmax(alive, axis=1)
        last = SEARCH_POINTS - 1 - np.argmax(alive[:, ::-1], axis=1)
        window = np.stack(
            [angle[np.maximum(first - 1, 0)], angle[np.minimum(last + 1, SEARCH_POINTS - 1)]],
            axis=1,
        )
        return np.asarray(window)

    def density(self, epsilon: float, delta: float) -> Density:
        """The likelihood of the average, all members together, cut to R(epsilon, delta)."""
        total = np.full(self.grid.theta.shape + self.grid.phi.shape[1:], self._log_constant)
        kept = {}
        for floor, (edges, means) in self._areas.items():
            share = _sandwich(means, _cut_areas(edges[0], edges[1], epsilon, delta))
            # Relative to the line: where the region is thin, all of it keeps little.
            known = share > LEAST_KEPT * share.max(axis=-1, keepdims=True)
            kept[floor] = np.log(np.maximum(share, TINY)), known
        for number, (x, y) in enumerate(self._members):
            floor, times = self._floors[number], self._multiplicity[number]
            masses = _cut_masses(x, y, epsilon, delta)
            logs = np.log(np.maximum(_sandwich(self._means[number], masses), TINY))
            logs = _continued(logs - kept[floor][0], kept[floor][1])
            # An average of a likelihood is nowhere more than its largest value.  Quotients of two sums
            # may be, where the region leaves next to nothing of a scatter that ends abruptly.
            np.minimum(logs, x.log_largest + y.log_largest, out=logs)
            small = np.flatnonzero(self._shares[floor] < 1)
            if len(small):
                share = self._shares[floor][small, None, None]
                logs[small] = (
                    share * logs[small] + (1 - share) * self._without_spread(number)[small]
                )
            total += times * logs
        total += _log_jacobian(self.grid.theta)[:, :, None] + _log_jacobian(self.grid.phi)[:, None]
        total[self._far_outside(epsilon, delta)] = -np.inf
        return Density.of(self.grid, total)

    def _without_spread(self, number: int) -> FloatArray:
        """The log likelihood of a member that is its average: (spread, theta, phi)."""
        if number not in self._still:
            sides = [
                _log_beta_density(axis.count, axis.trials, points)
                for axis, points in zip(
                    self._members[number], (self.grid.alpha, self.grid.beta), strict=True
                )
            ]
            logs = sides[0][:, :, None] + sides[1][:, None, :]
            self._still[number] = np.maximum(logs, -1e4)
        return self._still[number]

    def _far_outside(self, epsilon: float, delta: float) -> BoolArray:
        """Averages beyond R(epsilon, delta) and not next to its edge, where polynomials need them.

        Both integrals vanish out there, and their quotient is not known.
        """
        grid = self.grid
        position = np.arange(grid.phi.shape[1])
        low, high = (
            (np.arcsin(np.sqrt(np.clip(beta, 0.0, 1.0))) - grid.phi[:, :1]) / grid.phi_step[:, None]
            for beta in region.beta_limits(grid.alpha, epsilon, delta)
        )
        below = position < np.floor(low)[:, :, None] - BESIDE_EDGE
        above = position > np.ceil(high)[:, :, None] + BESIDE_EDGE
        return np.asarray(below | above)


class PooledGroup:
    """One group whose counts were added up and are taken to be normal: nothing depends on epsilon."""

    def __init__(self, counts: AttackCounts, spread: FloatArray, accuracy: GroupAccuracy) -> None:
        windows, logs = [], []
        sides = []
        for errors, trials in counts.by_hypothesis:
            number = float(trials.sum())
            rate = float(errors.sum()) / number
            extra = spread**2 * float((trials * (trials - 1.0)).sum()) / number**2
            windows.append(_normal_windows(rate, number, extra, accuracy.reach))
            sides.append((rate, number, extra))
        grid = AverageGrid.of_windows(windows[0], windows[1], accuracy.points)
        for (rate, number, extra), points in zip(sides, (grid.alpha, grid.beta), strict=True):
            binomial = np.maximum(points * (1 - points), TINY)
            variance = binomial / number + extra[:, None]
            # Density of the count in the angle: the Jacobian cancels an infinite density at 0 and 1.
            logs.append(
                -0.5 * (points - rate) ** 2 / variance
                + 0.5 * np.log(4 * binomial / variance)
                - np.log(np.sqrt(2 * np.pi) * number)
            )
        self._density = Density.of(grid, logs[0][:, :, None] + logs[1][:, None, :])

    def density(self, epsilon: float, delta: float) -> Density:
        """The likelihood of the average, whatever the region."""
        return self._density


Group = ScatteredGroup | PooledGroup


def _cell(pair: tuple[_Axis, _Axis]) -> float:
    """The typical cell of a member's grid, the wider of its two sides."""
    return max(axis.typical_cell for axis in pair)


def _rounded_up(value: float) -> float:
    """To a power of the root of 2."""
    return float(2.0 ** (np.ceil(2 * np.log2(value)) / 2))


def _continued(values: FloatArray, known: BoolArray) -> FloatArray:
    """Values along the last axis, beyond the outermost known ones as they are there."""
    count = values.shape[-1]
    first = np.argmax(known, axis=-1)
    last = count - 1 - np.argmax(known[..., ::-1], axis=-1)
    index = np.clip(np.arange(count), first[..., None], last[..., None])
    return np.asarray(np.take_along_axis(values, index, axis=-1))


def _log_jacobian(angle: FloatArray) -> FloatArray:
    """Of rate = sin^2 angle."""
    return np.log(np.maximum(np.sin(2 * angle), TINY))


def _sandwich(means: Sequence[FloatArray], cells: FloatArray) -> FloatArray:
    """Sum over cells: (spread, alpha point, cell) x (cell, cell) x (spread, beta point, cell)."""
    return np.asarray(means[0] @ cells @ means[1].transpose(0, 2, 1))


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """One rate of one member: cells where its count leaves it, and two Gauss points in each.

    ``below`` is the posterior probability of the rate below each edge, under a uniform prior.
    """

    count: int
    trials: int
    edges: FloatArray
    below: FloatArray
    points: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, count: int, trials: int, accuracy: GroupAccuracy) -> _Axis:
        from scipy.special import betainc

        window = _normal_windows(count / trials, trials, np.zeros(1), accuracy.reach)[0]
        angle = np.linspace(window[0], window[1], accuracy.cells + 1)
        edges = np.sin(angle) ** 2
        points, weights = _two_points(edges)
        density = np.exp(_log_beta_density(count, trials, points))
        return cls(
            count=count,
            trials=trials,
            edges=edges,
            below=np.asarray(betainc(count + 1, trials - count + 1, edges)),
            points=points,
            weights=weights * density,
        )

    @property
    def log_largest(self) -> float:
        """Log density at the observed rate."""
        rate = np.array(self.count / self.trials)
        return float(_log_beta_density(self.count, self.trials, rate))

    @property
    def masses(self) -> FloatArray:
        """Probability of each cell."""
        return np.diff(self.below)

    @property
    def typical_cell(self) -> float:
        return float(np.median(np.diff(self.edges)))

    def probability_below(self, rate: FloatArray) -> FloatArray:
        from scipy.special import betainc

        return np.asarray(betainc(self.count + 1, self.trials - self.count + 1, rate))


def _two_points(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two Gauss points in each cell, and their weights, along the last axis."""
    half = 0.5 * np.diff(edges, axis=-1)
    middle = edges[..., :-1] + half
    shift = half / np.sqrt(3.0)
    points = np.stack([middle - shift, middle + shift], axis=-1)
    return points.reshape(*half.shape[:-1], -1), np.repeat(half, 2, axis=-1)


def _log_beta_density(count: int, trials: int, rate: FloatArray) -> FloatArray:
    from scipy.special import betaln, xlog1py, xlogy

    rest = trials - count
    return np.asarray(xlogy(count, rate) + xlog1py(rest, -rate) - betaln(count + 1, rest + 1))


def _cut_masses(x: _Axis, y: _Axis, epsilon: float, delta: float) -> FloatArray:
    """Probability of each cell of a member's grid, as far as it lies in R(epsilon, delta)."""
    low, high = region.beta_limits(x.points, epsilon, delta)
    cut = np.clip(y.below, y.probability_below(low)[:, None], y.probability_below(high)[:, None])
    rows = x.weights[:, None] * np.diff(cut, axis=1)
    return np.asarray(rows[::2] + rows[1::2])


def _cut_areas(
    alpha_edges: FloatArray, beta_edges: FloatArray, epsilon: float, delta: float
) -> FloatArray:
    """Area of each cell, as far as it lies in R(epsilon, delta); the first axis is the spread."""
    points, weights = _two_points(alpha_edges)
    low, high = region.beta_limits(points, epsilon, delta)
    cut = np.clip(beta_edges[:, None, :], low[:, :, None], high[:, :, None])
    rows = weights[:, :, None] * np.diff(cut, axis=2)
    return np.asarray(rows[:, ::2] + rows[:, 1::2])


def _area_cells(points: FloatArray, reach: FloatArray, count: int) -> FloatArray:
    """Edges (spread, cell + 1) of cells that cover all averages and what scatters around them."""
    low = np.maximum(points.min(axis=1) - reach, 0.0)
    high = np.minimum(points.max(axis=1) + reach, 1.0)
    return np.asarray(low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, count + 1))


def _normal_windows(rate: float, trials: float, extra: FloatArray, reach: float) -> FloatArray:
    """Angles (spread, 2) between which a rate is within ``reach`` standard deviations.

    The variance of the observed rate is p (1 - p) / trials + extra, so the ends solve a quadratic
    equation, Wilson's with something on top.
    """
    square = reach * reach
    centre = (rate + 0.5 * square / trials) / (1 + square / trials)
    radius = np.sqrt(
        np.maximum(centre**2 - (rate**2 - square * extra) / (1 + square / trials), 0.0)
    )
    low, high = np.clip(centre - radius, 0.0, 1.0), np.clip(centre + radius, 0.0, 1.0)
    low, high = np.where(low < 1e-14, 0.0, low), np.where(high > 1 - 1e-14, 1.0, high)
    return np.stack([np.arcsin(np.sqrt(low)), np.arcsin(np.sqrt(high))], axis=1)


def _distinct(counts: AttackCounts) -> tuple[IntArray, FloatArray]:
    """The members of a group that differ, and how often each occurs."""
    table = np.stack(
        [counts.false_positives, counts.trials_h0, counts.false_negatives, counts.trials_h1], axis=1
    )
    rows, times = np.unique(table, axis=0, return_counts=True)
    return rows, times.astype(float)
