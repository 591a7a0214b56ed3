"""From tables of likelihoods to probabilities of families, strengths and leaks, by summation.

The axis is the logarithm of the algorithm's leak, in even steps.  For every component (a family with a
mixing rate and its interpretation) and every strength distribution, the likelihoods of all bases are
averaged over their strengths and multiplied.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from epsilometer._arrays import FloatArray
from epsilometer.engines.curve.strength_rows import averaging_rows, cell_means, log_products
from epsilometer.engines.curve.tables import Table
from epsilometer.errors import ContradictionError
from epsilometer.model.models import Component, CurveModel
from epsilometer.model.strengths import EVERYWHERE, Region, StrengthDistributions
from epsilometer.posteriors.tabulated import edges_of

#: The smallest leak, in units of the largest: smaller ones are indistinguishable from none.
SMALLEST_LEAK = 1e-4

#: Nats below the best beyond which nothing is computed.
NATS_BELOW_BEST = 30.0

#: Larger standard deviations are replaced by this one, so that axes are never coarse.
WIDEST_DEVIATION = 0.2


class Resolution(NamedTuple):
    """Step of log leak, in standard deviations of the sharpest likelihood, and strength distributions.

    These are Beta distributions, a grid of means and concentrations in a region that contains all that
    have probability.
    """

    steps: float
    means: int
    concentrations: int
    region: Region = EVERYWHERE


@dataclass(frozen=True, kw_only=True, eq=False)
class LeakGrid:
    """One table on the axis: leaks, largest first, and likelihoods of bases relative to their best.

    ``rows`` are the leaks of the algorithm that may have probability, ``columns`` those of a base.
    ``log_common`` is the log likelihood of all bases if they have the same leak.
    """

    table: Table
    leaks: FloatArray
    log_common: FloatArray
    likelihood: FloatArray
    log_top: float
    rows: slice
    columns: slice


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Probabilities of everything on the axis.

    Attributes
    ----------
    grids
        One for each remaining family and rate.
    components, grid_of
        The remaining components of the model, and the grid of each.
    distributions
        Strength distributions.
    log_likelihood
        For each grid: log likelihood of all bases at (distribution, row), which other priors share.
    probability
        For each component: probability of (distribution, row of its grid).
    no_leak
        Probability that nothing leaks at all; with ``probability`` it sums to one.
    log_evidence
        Log probability of the order of scores, relative to labels in random order.
    step
        Step of the log leak.
    """

    model: CurveModel
    grids: tuple[LeakGrid, ...]
    components: tuple[Component, ...]
    grid_of: tuple[int, ...]
    distributions: StrengthDistributions
    log_likelihood: tuple[FloatArray, ...]
    probability: tuple[FloatArray, ...]
    no_leak: float
    log_evidence: float
    step: float

    @cached_property
    def weights(self) -> FloatArray:
        """Posterior probability of each component."""
        return np.array([table.sum() for table in self.probability])

    @cached_property
    def distribution_weights(self) -> FloatArray:
        """Posterior probability of each strength distribution; without any leak, the prior one."""
        weights = np.sum([table.sum(axis=1) for table in self.probability], axis=0)
        return np.asarray(weights + self.no_leak * self.distributions.weights)

    @property
    def bases(self) -> int:
        """The number of bases."""
        return int(self.grids[0].likelihood.shape[1])

    def grid(self, component: int) -> LeakGrid:
        """The grid of a component."""
        return self.grids[self.grid_of[component]]

    def rows_of(self, component: int) -> FloatArray:
        """Leaks of the algorithm at which a component has probability, largest first."""
        grid = self.grid(component)
        return grid.leaks[grid.rows]

    def edges_of(self, component: int) -> FloatArray:
        """Edges of the cells around these leaks, largest first; one more."""
        return edges_of(self.rows_of(component), self.step)

    def strength_rows(self, grid: LeakGrid, distribution: int) -> FloatArray:
        """Weights of a base's leaks (columns) at each leak of the algorithm (rows)."""
        return _strength_rows(grid, self.distributions, distribution, self.step)


def solve(
    model: CurveModel,
    tables: tuple[Table, ...],
    resolution: Resolution,
    known: Solution | None = None,
) -> Solution:
    """Compute all probabilities.

    ``known`` is a solution with the same strength distributions, for another prior or for more tables:
    its likelihoods are reused where they are on a fine enough axis.
    """
    distributions = model.strength.distributions(
        resolution.means, resolution.concentrations, resolution.region
    )
    fixed = model.strength.fixed_value or 1.0
    step = min(_sharpest(tables), WIDEST_DEVIATION) * resolution.steps
    if known is not None and (
        known.step > step or not np.array_equal(known.distributions[:2], distributions[:2])
    ):
        known = None
    step = step if known is None else known.step
    keys = [(table.family.name, table.rate) for table in tables]
    left = [
        (component, keys.index(key))
        for component in model.components
        if (key := (component.curves.family.name, component.curves.rate)) in keys
    ]
    priors = [
        _log_prior(component, _axis(tables[number], step), step, model)
        for component, number in left
    ]
    grids = _grids(tables, [number for _, number in left], priors, step, fixed)
    log_likelihood = _log_products(grids, distributions, step, known)
    with np.errstate(divide="ignore"):
        log_weights = np.log(distributions.weights)[:, None]
    logs = [
        log_likelihood[number] + log_weights + prior[grids[number].rows]
        for (_, number), prior in zip(left, priors, strict=True)
    ]
    nothing = float(model.no_leak or 0.0)
    leaking = float(logsumexp([logsumexp(table) for table in logs]) + np.log1p(-nothing))
    total = float(np.logaddexp(leaking, np.log(nothing) if nothing else -np.inf))
    if not np.isfinite(total):
        raise ContradictionError("no curve of the model can generate scores in this order.")
    return Solution(
        model=model,
        grids=grids,
        components=tuple(component for component, _ in left),
        grid_of=tuple(number for _, number in left),
        distributions=distributions,
        log_likelihood=tuple(log_likelihood),
        probability=tuple((1 - nothing) * np.exp(log_table - total) for log_table in logs),
        no_leak=float(np.exp(np.log(nothing) - total)) if nothing else 0.0,
        log_evidence=total,
        step=step,
    )


def _axis(table: Table, step: float) -> FloatArray:
    count = int(np.ceil(-np.log(SMALLEST_LEAK) / step)) + 1
    return np.asarray(table.leaks[-1] * np.exp(-step * np.arange(count)))


def _sharpest(tables: tuple[Table, ...]) -> float:
    """Smallest standard deviation of log leak, if all bases have the same leak, among likely tables."""
    deviation, best = 1.0, -np.inf
    for table in tables:
        axis = _axis(table, 0.004)
        # If the likelihood is sharper than this axis, use a finer one around its maximum.
        for _ in range(4):
            logs = table.at(axis).sum(axis=0)
            weights = np.exp(logs - logs.max())
            weights /= weights.sum()
            middle = float(weights @ np.log(axis))
            width = float(np.sqrt(weights @ (np.log(axis) - middle) ** 2))
            spacing = abs(float(np.log(axis[1] / axis[0])))
            if width > 2 * spacing:
                break
            around = axis[int(np.argmax(logs))]
            axis = around * np.exp(np.linspace(6, -6, 601) * max(spacing, width))
            axis = axis[axis <= table.leaks[-1]]
        if logs.max() > best - NATS_BELOW_BEST:
            deviation = min(deviation, width) if logs.max() < best + NATS_BELOW_BEST else width
        best = max(best, float(logs.max()))
    return max(deviation, 1e-5)


def _log_prior(
    component: Component, leaks: FloatArray, step: float, model: CurveModel
) -> FloatArray:
    """Log prior probability of the cell around each leak, including that of the component."""
    edges, epsilon = (
        component.curves.epsilon(at, model.delta) for at in (edges_of(leaks, step), leaks)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = model.epsilon.log_density(epsilon) + np.log(edges[:-1] - edges[1:])
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    return np.asarray(logs + np.log(component.probability))


def _grids(
    tables: tuple[Table, ...],
    numbers: list[int],
    priors: list[FloatArray],
    step: float,
    fixed: float,
) -> tuple[LeakGrid, ...]:
    """Likelihoods on the axis, and the leaks that may matter under any distribution."""
    drafts, best = [], -np.inf
    for number, table in enumerate(tables):
        leaks = _axis(table, step)
        logs = table.at(fixed * leaks)
        # The likelihood of a base is at most its maximum up to the algorithm's leak, for any strengths.
        most = np.maximum.accumulate(logs[:, ::-1], axis=1)[:, ::-1].sum(axis=0)
        prior = np.max(
            [p for p, table_number in zip(priors, numbers, strict=True) if table_number == number],
            axis=0,
        )
        drafts.append((leaks, logs, most + prior))
        best = max(best, float((logs.sum(axis=0) + prior).max()))
    grids = []
    for table, (leaks, logs, most) in zip(tables, drafts, strict=True):
        kept = np.flatnonzero(most > best - NATS_BELOW_BEST)
        rows = slice(int(kept[0]), int(kept[-1]) + 1) if len(kept) else slice(0, 1)
        # The maximum over leaks that some distribution can reach.
        top = logs[:, rows.start :].max(axis=1, keepdims=True)
        near = np.flatnonzero((logs > top - NATS_BELOW_BEST).any(axis=0))
        columns = slice(int(near[0]), int(near[-1]) + 1)
        grids.append(
            LeakGrid(
                table=table,
                leaks=leaks,
                log_common=logs.sum(axis=0),
                likelihood=np.exp(np.minimum(logs - top, 0.0)).T,
                log_top=float(top.sum()),
                rows=rows,
                columns=columns,
            )
        )
    return tuple(grids)


def _strength_rows(
    grid: LeakGrid, distributions: StrengthDistributions, distribution: int, step: float
) -> FloatArray:
    means = cell_means(
        float(distributions.means[distribution]),
        float(distributions.concentrations[distribution]),
        step,
        len(grid.leaks),
    )
    return averaging_rows(means, grid.rows, grid.columns)


def _log_products(
    grids: tuple[LeakGrid, ...],
    distributions: StrengthDistributions,
    step: float,
    known: Solution | None,
) -> list[FloatArray]:
    """Log likelihood of all bases together, for each grid (distribution, row)."""
    log_likelihood = [
        np.empty((len(distributions.weights), grid.rows.stop - grid.rows.start)) for grid in grids
    ]
    by_range: dict[tuple[int, ...], list[int]] = {}
    for number, grid in enumerate(grids):
        for start, stop in _unknown_rows(grid, known, log_likelihood[number]):
            ends = (start, stop, grid.columns.start, grid.columns.stop)
            by_range.setdefault(ends, []).append(number)
    bases = grids[0].likelihood.shape[1]
    for (start, stop, *_), numbers in by_range.items():
        # Grids on the same part of the axis share the averages over strengths.
        first = replace(grids[numbers[0]], rows=slice(start, stop))
        together = np.concatenate(
            [grids[number].likelihood[first.columns] for number in numbers], axis=1
        )
        for distribution in range(len(distributions.weights)):
            targets = [
                log_likelihood[n][distribution, start - grids[n].rows.start :][: stop - start]
                for n in numbers
            ]
            if np.isinf(distributions.concentrations[distribution]):
                # Bases may contradict each other so strongly that products underflow.
                for target, number in zip(targets, numbers, strict=True):
                    target[:] = grids[number].log_common[first.rows]
                continue
            logs = log_products(
                _strength_rows(first, distributions, distribution, step) @ together, bases
            )
            for place, (target, number) in enumerate(zip(targets, numbers, strict=True)):
                target[:] = logs[:, place] + grids[number].log_top
    return log_likelihood


def _unknown_rows(
    grid: LeakGrid, known: Solution | None, found: FloatArray
) -> list[tuple[int, int]]:
    """Fill in the known rows of a grid; return the ends of the ranges that are missing."""
    start, stop = grid.rows.start, grid.rows.stop
    for number, other in enumerate(() if known is None else known.grids):
        low, high = max(start, other.rows.start), min(stop, other.rows.stop)
        if known is not None and other.table is grid.table and low < high:
            shift = other.rows.start
            found[:, low - start : high - start] = known.log_likelihood[number][
                :, low - shift : high - shift
            ]
            return [(a, b) for a, b in ((start, low), (high, stop)) if a < b]
    return [(start, stop)]


def region_of(solution: Solution, resolution: Resolution) -> Region:
    """The distributions with probability, and their neighbours: many bases leave few of them."""
    finite = np.isfinite(solution.distributions.concentrations)
    if not finite.any():
        return resolution.region
    table = np.sum([mass.sum(axis=1) for mass in solution.probability], axis=0)[finite]
    table = table.reshape(resolution.means, resolution.concentrations)
    if not table.sum() > 0:
        return resolution.region
    old, ends = resolution.region, []
    pairs = (old[:2], old[2:])
    for axis, (first, last) in enumerate(pairs):
        share = table.sum(axis=1 - axis)
        x = (np.polynomial.legendre.leggauss(len(share))[0] + 1) / 2
        kept = np.flatnonzero(share > 1e-6 * share.max())
        # Extend to the next distribution on either side, which no longer matters.
        low = x[kept[0] - 1] if kept[0] > 0 else 0.0
        high = x[kept[-1] + 1] if kept[-1] + 1 < len(x) else 1.0
        ends += [float(first + (last - first) * low), float(first + (last - first) * high)]
    return Region(*ends)
