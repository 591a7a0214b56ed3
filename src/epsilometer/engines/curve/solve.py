"""From tables of likelihoods to probabilities of families, strengths and leaks, by summation.

For every component (a family with a mixing rate and its interpretation) and every strength
distribution, the likelihoods of all bases are averaged over their strengths and multiplied.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.engines.curve.axis import Axis, axis_for
from epsilometer.engines.curve.strength_rows import log_products, strength_weights
from epsilometer.engines.curve.tables import Table
from epsilometer.errors import ContradictionError, InputError
from epsilometer.model.models import Component, CurveModel
from epsilometer.model.shapes import Cells
from epsilometer.model.strengths import EVERYWHERE, Region, StrengthDistributions
from epsilometer.posteriors.provenance import Accuracy

#: Nats below the best leak of a base beyond which its likelihood counts as 0.
NATS_BELOW_BEST = 300.0

#: Every this many-th place a prior density is computed, to find the peaks of posteriors.
PRIOR_STRIDE = 5

#: Tables times bases multiplied at a time.
AT_ONCE = 2000


#: Probability of a component below which finer steps and other priors leave it out.
RULED_OUT = 1e-9


class Resolution(NamedTuple):
    """Step of log leak, in standard deviations of the sharpest likelihood, strengths and shapes.

    Strengths have Beta distributions, a grid of means and concentrations in a region that contains all
    that have probability; shapes of families have cells.
    """

    steps: float
    means: int
    concentrations: int
    region: Region = EVERYWHERE
    cells: Cells = {}  # noqa: RUF012 (never changed)


@dataclass(frozen=True, kw_only=True)
class CurveAccuracy(Accuracy):
    """The engine's error estimate: of quantiles, or twice that of the probability below them.

    ``region`` contains the strength distributions summed over in the last step.
    """

    region: Region = EVERYWHERE
    cells: Cells = field(default_factory=dict)

    def __post_init__(self) -> None:
        ends = Region(*map(float, self.region))
        if not (0 <= ends[0] < ends[1] <= 1 and 0 <= ends[2] < ends[3] <= 1):
            raise InputError(f"expected a region of strength distributions, got {self.region!r}.")
        object.__setattr__(self, "region", ends)
        cells = {name: tuple(map(float, edges)) for name, edges in self.cells.items()}
        object.__setattr__(self, "cells", cells)


@dataclass(frozen=True, kw_only=True, eq=False)
class LeakGrid:
    """One table on the axis.

    ``log_common`` is the log likelihood of all bases at each row, if they have the same leak;
    ``likelihood`` that of each base at each column, relative to its best; ``log_top`` is the sum of
    the logs of these.
    """

    table: Table
    log_common: FloatArray
    likelihood: FloatArray
    log_top: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Probabilities of everything on the axis.

    Attributes
    ----------
    axis
        Leaks of the algorithm (rows), and of a base (columns).
    grids
        One for each remaining family and rate.
    components, grid_of
        The remaining components of the model, and the grid of each.
    distributions
        Strength distributions.
    logs
        For each grid: log likelihood of all bases and the prior of (distribution, row).
    cells
        For each component and row: epsilon, and the log of its range in the cell times the prior.
    probability
        For each component: probability of (distribution, row).
    no_leak
        Probability that nothing leaks at all; with ``probability`` it sums to one.
    log_evidence
        Log probability of the order of scores, relative to labels in random order.
    """

    model: CurveModel
    axis: Axis
    grids: tuple[LeakGrid, ...]
    components: tuple[Component, ...]
    grid_of: tuple[int, ...]
    distributions: StrengthDistributions
    logs: tuple[FloatArray, ...]
    cells: tuple[FloatPair, ...]
    probability: tuple[FloatArray, ...] = ()
    no_leak: float = 0.0
    log_evidence: float = -np.inf

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

    @cached_property
    def edges(self) -> FloatArray:
        """Edges of the cells of the algorithm's leak, largest first."""
        return np.exp(self.axis.row_edges)

    def strength_rows(self, distribution: int, rows: IntArray | slice = slice(None)) -> FloatArray:
        """Weights of a base's leaks (columns) at leaks of the algorithm, all or these rows."""
        axis = self.axis._replace(rows=self.axis.rows[rows])
        return _strength_rows(axis, self.distributions, distribution)

    def under(self, model: CurveModel) -> "Solution":
        """The same under the model's prior of epsilon, on the same axis."""
        logs = []
        for number, (epsilon, log_range) in zip(self.grid_of, self.cells, strict=True):
            with np.errstate(invalid="ignore"):
                prior = model.epsilon.log_density(epsilon) + log_range
            logs.append(self.logs[number] + np.where(np.isfinite(prior), prior, -np.inf))
        nothing = float(model.no_leak or 0.0)
        leaking = float(logsumexp([logsumexp(table) for table in logs]) + np.log1p(-nothing))
        total = float(np.logaddexp(leaking, np.log(nothing) if nothing else -np.inf))
        if not np.isfinite(total):
            raise ContradictionError("no curve of the model can generate scores in this order.")
        return replace(
            self,
            model=model,
            probability=tuple((1 - nothing) * np.exp(log_table - total) for log_table in logs),
            no_leak=float(np.exp(np.log(nothing) - total)) if nothing else 0.0,
            log_evidence=total,
        )


def solve(
    model: CurveModel,
    tables: tuple[Table, ...],
    resolution: Resolution,
) -> Solution:
    """Compute all probabilities."""
    distributions = model.strength.distributions(
        resolution.means, resolution.concentrations, resolution.region
    )
    numbers = {(table.family, table.rate): number for number, table in enumerate(tables)}
    left = [
        (component, numbers[key])
        for component in model.components_of(resolution.cells)
        if (key := (component.curves.family, component.curves.rate)) in numbers
    ]
    used = sorted({number for _, number in left})
    tables = tuple(tables[number] for number in used)
    fixed = model.strength.fixed_value or 1.0
    grid_of = [used.index(number) for _, number in left]
    first = [left[grid_of.index(number)][0] for number in range(len(tables))]
    priors = [partial(_log_density, component, model) for component in first]
    axis = axis_for(tables, priors, resolution.steps, fixed)
    grids = [_grid(table, axis, fixed) for table in tables]
    with np.errstate(divide="ignore"):
        log_weights = np.log(distributions.weights)[:, None]
    return Solution(
        model=model,
        axis=axis,
        grids=tuple(grids),
        components=tuple(component for component, _ in left),
        grid_of=tuple(grid_of),
        distributions=distributions,
        logs=tuple(log + log_weights for log in _log_products(grids, axis, distributions)),
        cells=tuple(
            _cells(component, tables[number], axis, model.delta)
            for (component, _), number in zip(left, grid_of, strict=True)
        ),
    ).under(model)


def _log_density(component: Component, model: CurveModel, places: FloatArray) -> FloatArray:
    """Log prior density of the log leak, up to a constant, roughly."""
    some = places[::PRIOR_STRIDE]
    epsilon = component.curves.epsilon(np.exp(some), model.delta)
    with np.errstate(divide="ignore"):
        logs = model.epsilon.log_density(epsilon) + np.log(np.maximum(epsilon, 1e-300))
    logs = np.maximum(logs, -1e9)
    return np.asarray(np.interp(places[::-1], some[::-1], logs[::-1])[::-1])


def _cells(component: Component, table: Table, axis: Axis, delta: float) -> FloatPair:
    """Epsilon at each leak, and the log of its range in the cell times the component's prior."""
    leaks, edges = np.exp(axis.rows), np.exp(axis.row_edges)
    inside = leaks <= table.leaks[-1] * (1 + 1e-9)
    edges[-1] = 0.0  # the last cell contains all smaller leaks
    ends, epsilon = (
        component.curves.epsilon(np.minimum(at, table.leaks[-1]), delta) for at in (edges, leaks)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(ends[:-1] - ends[1:])
    return epsilon, np.where(inside, logs, -np.inf) + np.log(component.probability)


def _grid(table: Table, axis: Axis, fixed: float) -> LeakGrid:
    """Likelihoods of one table on the axis."""
    logs = table.at(np.exp(axis.columns))
    top = logs.max(axis=1, keepdims=True)
    likelihood = np.exp(np.maximum(logs - top, -NATS_BELOW_BEST)).T
    # Linear between columns, they would have too small averages where they are concave.
    bend = (likelihood[2:] - 2 * likelihood[1:-1] + likelihood[:-2]) / 12
    likelihood[1:-1] = np.maximum(likelihood[1:-1] - bend, likelihood[1:-1] / 4)
    return LeakGrid(
        table=table,
        log_common=table.at(fixed * np.exp(axis.rows)).sum(axis=0),
        likelihood=likelihood,
        log_top=float(top.sum()),
    )


def _strength_rows(
    axis: Axis, distributions: StrengthDistributions, distribution: int
) -> FloatArray:
    mean, concentration, full = (float(column[distribution]) for column in distributions[:3])
    return strength_weights(mean, concentration, full, axis.rows, axis.columns)


def _log_products(
    grids: list[LeakGrid], axis: Axis, distributions: StrengthDistributions
) -> list[FloatArray]:
    """Log likelihood of all bases together, for each grid (distribution, row)."""
    if not grids:
        return []
    bases, count = grids[0].likelihood.shape[1], len(distributions.weights)
    size = max(1, AT_ONCE // bases)
    parts = [grids[start : start + size] for start in range(0, len(grids), size)]
    together = [np.concatenate([grid.likelihood for grid in part], axis=1) for part in parts]
    tops = np.array([grid.log_top for grid in grids])
    result = np.empty((len(grids), count, len(axis.rows)))
    at_full = [strength_weights(1.0, 1.0, 1.0, axis.rows, axis.columns) @ each for each in together]
    averages: list[FloatArray] = []
    for number, (mean, concentration, full, _) in enumerate(zip(*distributions, strict=True)):
        if np.isinf(concentration):
            # Bases may contradict each other so strongly that products underflow.
            result[:, number] = [grid.log_common for grid in grids]
            continue
        if full == 0:  # the distributions that follow differ only in the share of full strength
            weights = strength_weights(mean, concentration, 0.0, axis.rows, axis.columns)
            averages = [weights @ columns for columns in together]
        logs = [
            log_products((1 - full) * average + full * most if full else average, bases)
            for average, most in zip(averages, at_full, strict=True)
        ]
        result[:, number] = np.concatenate(logs, axis=1).T + tops[:, None]
    return list(result)


def likely(tables: tuple[Table, ...], solution: Solution) -> tuple[Table, ...]:
    """Tables with any probability, also if a prior changes it a thousandfold."""
    weights = np.zeros(len(solution.grids))
    np.add.at(weights, np.array(solution.grid_of), solution.weights)
    ruled_in = zip(solution.grids, weights, strict=True)
    kept = {id(grid.table) for grid, weight in ruled_in if weight > RULED_OUT}
    return tuple(table for table in tables if id(table) in kept) or tables


def region_of(solution: Solution, resolution: Resolution) -> Region:
    """The distributions with probability, and their neighbours: many bases leave few of them."""
    finite = np.isfinite(solution.distributions.concentrations)
    if not finite.any():
        return resolution.region
    table = np.sum([mass.sum(axis=1) for mass in solution.probability], axis=0)[finite]
    table = table.reshape(resolution.means, resolution.concentrations, -1).sum(axis=2)
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
