"""What every way of solving shares: levels of resolution, the problem, panels of epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import ContradictionError, InputError
from epsilometer.inference import edges, masses, panels
from epsilometer.inference.edges import EdgeAccuracy
from epsilometer.inference.mass_table import TableAccuracy
from epsilometer.inference.nuisance import NuisanceGrid, peak_guess, take
from epsilometer.inference.rows import Rows
from epsilometer.inference.spread_grid import SpreadGrid
from epsilometer.inference.tensor_masses import TensorAccuracy, TensorMasses
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Fixed, Uniform

FloatArray = NDArray[np.float64]


MOST_ROUNDS = 40


CHUNK_ENTRIES = 250_000
"""Numbers in one array while masses are combined: what a core's cache holds is quickest, and it
bounds the memory for many bases."""


DEEPEST = 1200.0
"""Tables hold masses down to about e^-600 in double precision; twice that is asked for at most."""


TABLE_ATTACKS = 2000
"""Attacks tabulated together; a tenth of that with correlations, whose tables are larger."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """Everything that sets the resolution of one pass."""

    table: TableAccuracy
    tensor: TensorAccuracy
    nodes: int
    tolerance: float
    negligible: float
    rounds: int
    delta_nodes: int
    nuisance: tuple[int, int]

    @classmethod
    def number(cls, index: int, *, correlated: bool) -> Level:
        """Level 0 is the cheapest; each following one is finer in every respect.

        With correlations masses carry a ripple of about 1e-3 of themselves, which averages out in
        the posterior but would be chased by refinement for ever: so grids are refined a few times
        only, and the difference between levels tells what that left.
        """
        return cls(
            table=TableAccuracy(
                edge=EdgeAccuracy(nodes=16 + 4 * index, reach=5.8 + 0.6 * index),
                nodes=8 + 2 * index,
                tolerance=10.0 ** (-4 - 1.5 * index),
                tail_tolerance=0.1 * 0.3**index,
                depth=12.0 + 6 * index,
            ),
            tensor=TensorAccuracy(points=36 + 12 * index, reach=6.3 + 0.5 * index, nodes=7 + index),
            nodes=6 + index if correlated else 6 + 2 * index,
            tolerance=1e-3 * 0.3**index if correlated else 10.0 ** (-4 - index),
            negligible=1e-7 * 0.1**index if correlated else 1e-11,
            rounds=(3, 1, 2, 2, 2, 2)[index] if correlated else MOST_ROUNDS,
            delta_nodes=index,
            nuisance=(5 + index, 4 + index),
        )

    def for_bases(self, number: int) -> Level:
        """The same level for so many bases: errors of their log likelihoods add up."""
        table = replace(
            self.table,
            tolerance=self.table.tolerance * min(1.0, 10 / number),
            tail_tolerance=self.table.tail_tolerance * min(1.0, 3 / number),
        )
        return replace(self, table=table)


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Rows on panels of epsilon: everything the posterior is made of.

    ``log_rows`` is log p(epsilon) + log integral over s, shape (panel, node, nuisance node), without
    quadrature weights in epsilon but with the prior weights of the nuisance grid.  ``rows`` is None if
    the strength is fixed.  ``t_breaks`` are panels of t = s epsilon where a shared grid was used.
    """

    breaks: FloatArray
    t_breaks: FloatArray
    log_rows: FloatArray
    rows: Rows | None
    nuisance: NuisanceGrid | SpreadGrid
    method: str

    def row_mass(self) -> FloatArray:
        """Quadrature weights of the rows, (panel, node); a fixed epsilon is one row of weight 1."""
        if len(self.breaks) == 2 and self.breaks[0] == self.breaks[1]:
            return np.ones((1, 1))
        _, weights = panels.gauss_legendre(self.log_rows.shape[1])
        return np.asarray(0.5 * np.diff(self.breaks)[:, None] * weights)


Masses = masses.InterpolatedMasses | TensorMasses


@dataclass(frozen=True, kw_only=True)
class Reach:
    """For which delta, and how far in t, tables are made that problems of several deltas share."""

    delta: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The distinct attacks, their kernels on the nuisance grid, and the model."""

    model: AuditModel
    level: Level
    nuisance: NuisanceGrid | SpreadGrid
    family: edges.Family
    multiplicity: FloatArray
    number: int
    smallest_epsilon: float
    caches: dict[int, Masses] = field(default_factory=dict)
    reach: Reach | None = None
    """None if nothing is shared: tables are then made for the model's own delta."""

    @property
    def table_delta(self) -> float:
        """The largest d of the tables, at least the model's delta."""
        return self.model.delta if self.reach is None else self.reach.delta

    @property
    def correlated(self) -> bool:
        """Whether masses come from two-dimensional quadrature rather than from fluxes."""
        return isinstance(self.model.likelihood, CorrelatedNormal)

    @property
    def attacks(self) -> int:
        return len(self.multiplicity)

    def log_largest(self) -> FloatArray:
        """A bound on each attack's log likelihood: no average over a ring can exceed it.

        Where a ring's mass is too small to be known, far out in epsilon, this keeps noise over a tiny
        area from passing for a peak.  The normal density of the correlated likelihood has no bound.
        """
        kernel = self.family[0][0]
        if isinstance(kernel, edges.BinomialKernel):
            return kernel.log_largest()
        return np.full(self.attacks, np.inf)

    def attack_chunks(self, size: int) -> list[NDArray[np.intp]]:
        return [
            np.arange(start, min(start + size, self.attacks))
            for start in range(0, self.attacks, size)
        ]

    def deepened(self, depth: float) -> Problem:
        """The same problem with tables resolved further down into the tails."""
        if depth > DEEPEST:
            raise ContradictionError(
                "the attacks contradict each other or the prior so strongly that their likelihood "
                f"falls below e^-{DEEPEST:.0f}; check the counts, or widen the prior of epsilon."
            )
        table = replace(self.level.table, depth=depth, even=0.5 * depth)
        return replace(self, level=replace(self.level, table=table), caches={})

    def family_of(self, chunk: NDArray[np.intp]) -> edges.Family:
        return take(self.family, chunk)


LARGEST_EPSILON = 600.0


def epsilon_end(model: AuditModel) -> float:
    """Where the axis of epsilon ends: beyond it the prior leaves nothing that matters."""
    prior = model.epsilon
    assert not isinstance(prior, Fixed)
    if float(prior.upper_quantile(1e-6)) > LARGEST_EPSILON:
        raise InputError(
            f"expected a prior of epsilon that stays below {LARGEST_EPSILON:.0f}, got {prior!r}."
        )
    end = float(prior.upper_quantile(0.0 if isinstance(prior, Uniform) else 1e-15))
    return min(end, LARGEST_EPSILON)


def first_breaks(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """First panels of epsilon and of t, fine around where the strongest and weakest attack may be.

    epsilon is held from below by the strongest attack and t = s epsilon from above by the weakest,
    each as sharply as that attack is known; outwards panels grow in threes.
    """
    end = epsilon_end(problem.model)
    large, small, width = peak_guess(problem.family)
    level = np.log(np.maximum(1 - problem.model.delta - large, 1e-9) / small)
    level = np.clip(level, 0.0, end)
    result = []
    for attack, lowest in (
        (int(np.argmax(level)), problem.smallest_epsilon),
        (int(np.argmin(level)), 0.0),
    ):
        centre, reach = float(level[attack]), max(float(width[attack]), 1e-6 * end)
        reach = min(reach, 0.02 * end)
        steps = reach * 3.0 ** np.arange(int(np.log(end / reach) / np.log(3.0)) + 1)
        points = np.concatenate(
            [centre - steps, [centre], centre + steps, 0.25 * end * np.arange(5)]
        )
        points = np.unique(points[(points > lowest) & (points < end)])
        keep = np.append(True, np.diff(points) > 0.3 * reach)
        points = points[keep]
        points = points[(points > lowest + 0.3 * reach) & (points < end - 0.3 * reach)]
        points = np.concatenate([_near_zero(problem, points[0] if len(points) else end), points])
        result.append(np.concatenate([[lowest], points, [end]]))
    return result[0], result[1]


def _near_zero(problem: Problem, before: float) -> FloatArray:
    """Breaks from the smallest epsilon up, each four times the one before.

    After weak attacks half of the posterior may be a spike there, too thin to be found by halving
    panels.
    """
    smallest = problem.smallest_epsilon
    if smallest <= 0:
        return np.empty(0)
    count = max(0, math.ceil(math.log(before / smallest, 4.0)) - 1)
    return np.asarray(smallest * 4.0 ** np.arange(1, count + 1), dtype=np.float64)


def panel_nodes(breaks: FloatArray, count: int) -> FloatArray:
    """Gauss-Legendre nodes of the panels between breaks, shape (panel, node)."""
    points, _ = panels.gauss_legendre(count)
    return np.asarray(breaks[:-1, None] + 0.5 * np.diff(breaks)[:, None] * (1 + points))


def unresolved(breaks: FloatArray, values: FloatArray, tolerance: float) -> NDArray[np.bool_]:
    """Panels on which a density (panel, node) is not yet a polynomial to the given tolerance."""
    half = 0.5 * np.diff(breaks)
    _, weights = panels.gauss_legendre(values.shape[1])
    mass = float(np.sum(half[:, None] * values * weights))
    left = panels.tail(values @ panels.analysis_matrix(values.shape[1]).T) * half
    wide = half > 1e-10 * breaks[-1]
    return np.asarray((left > tolerance * mass) & wide)


def split_panels(breaks: FloatArray, which: NDArray[np.bool_]) -> FloatArray:
    """The breaks with the chosen panels halved."""
    middles = 0.5 * (breaks[:-1] + breaks[1:])[which]
    return np.sort(np.concatenate([breaks, middles]))


def trimmed(density: FloatArray, negligible: float) -> slice:
    """The panels to keep: all but the negligible ones at the ends.

    Negligible is where the density never exceeds that fraction of its peak; one panel is kept to
    spare on each side.
    """
    live = np.flatnonzero(density.max(axis=1) > negligible * density.max())
    return slice(max(int(live[0]) - 1, 0), min(int(live[-1]) + 2, len(density)))


def marginal(log_rows: FloatArray) -> FloatArray:
    """Sum over the nuisance grid, scaled to a maximum of 1."""
    top = log_rows.max()
    if not np.isfinite(top) or top < -1e200:
        raise ContradictionError(
            "the counts have no weight under this model: check the prior, the fixed values and delta."
        )
    return np.asarray(np.exp(log_rows - top).sum(axis=-1))


PanelRows = Callable[[FloatArray], tuple[FloatArray, list[Rows]]]
"""From epsilons to log likelihood integrated over s, shape (epsilon, nuisance), and their rows."""


def delta_node_count(problem: Problem) -> int:
    """How many values of d the masses are tabulated at."""
    return nodes_up_to(problem, problem.table_delta)


def nodes_up_to(problem: Problem, delta: float) -> int:
    """How many values of d in [0, delta] masses are interpolated between; 1 if delta is 0."""
    if delta == 0:
        return 1
    sharp = masses.sharpness(problem.family, delta)
    base = 2 if sharp < 0.1 else 3 + int(np.ceil(2 * sharp))
    return base + problem.level.delta_nodes


def moved_nodes(problem: Problem, own_nodes: FloatArray) -> FloatArray | None:
    """The matrix (node of the table, own node) from one set of d to the other; None if it is one."""
    if problem.table_delta == problem.model.delta:
        return None
    nodes = masses.delta_nodes(problem.table_delta, delta_node_count(problem))
    return masses.lagrange(nodes, own_nodes)


def mass_table_of(problem: Problem, chunk: NDArray[np.intp], d_count: int, end: float) -> Masses:
    """The table of a chunk of attacks; kept between rounds of refinement if it covers them all."""
    key = int(chunk[0])
    if key in problem.caches:
        return problem.caches[key]
    family = problem.family_of(chunk)
    if problem.reach is not None:
        end = max(end, problem.reach.end)
    table: Masses
    if problem.correlated:
        table = TensorMasses(family, problem.table_delta, end, d_count, problem.level.tensor)
    else:
        table = masses.InterpolatedMasses(
            family, problem.table_delta, end, d_count, problem.level.table
        )
    if len(chunk) == problem.attacks:
        problem.caches[key] = table
    return table
