"""The surface of groups of dependent attacks: likelihood of epsilon and strength at nodes of the spread.

Groups of one are independent attacks (`surface.py`); the others come from `group_masses.py`.  The spread
is a nuisance parameter on its own grid refined in each step where the posterior
has probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IndexArray, IntArray
from epsilometer.engines.exact.flux import thread_pool
from epsilometer.engines.exact.group_masses import Group, PooledGroup, ScatteredGroup
from epsilometer.engines.exact.kernels import Guess
from epsilometer.engines.exact.nuisance import LEAST_LOG_NUISANCE, Arrays, NuisanceGrid, spread_out
from epsilometer.engines.exact.planar import Density
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.engines.exact.surface import AttackSurface
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import LARGEST_SPREAD
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Prior
from epsilometer.posteriors import panels
from epsilometer.posteriors.panels import PanelDensity

if TYPE_CHECKING:
    from epsilometer.engines.exact.integrate import Solution
    from epsilometer.engines.exact.posterior import GridPosterior

#: Approximates a fixed strength of 1, the limit of thin rings.
STRONGEST = 1 - 1e-6


def _nodes(refinement: int) -> int:
    """Nodes on a panel of the spread."""
    return Resolution.number(refinement, planar=True).nuisance[0] - 2


def _several(counts: AttackCounts) -> list[IndexArray]:
    """Rows of each group with more than one member."""
    return [np.asarray(rows) for rows in counts.members if len(rows) > 1]


def _single(counts: AttackCounts) -> IndexArray:
    """Rows that are groups of one."""
    return np.array([int(rows[0]) for rows in counts.members if len(rows) == 1], np.intp)


@dataclass(frozen=True, kw_only=True)
class GroupSurface:
    """log p(counts | epsilon, strength, spread), all groups together.

    The likelihood of a group's average depends on epsilon, since members are truncated to
    R(epsilon, delta): results for an epsilon are cached in ``known``.
    """

    counts: AttackCounts
    model: CountModel
    deltas: tuple[float, ...]
    nuisance: SpreadGrid
    groups: tuple[Group, ...]
    alone: AttackSurface | None
    guess: Guess
    known: dict[tuple[float, float], list[Density]] = field(default_factory=dict)

    method = "groups"
    planar = True
    smallest_epsilon = 0.0
    depth = float("inf")  # sums over cells have no limited depth
    common_error = 0.0  # refinement steps share nothing

    @classmethod
    def of(
        cls,
        counts: AttackCounts,
        model: CountModel,
        *,
        deltas: Sequence[float],
        refinement: int,
        grid: SpreadGrid | None = None,
    ) -> GroupSurface:
        """Tables of every group at the nodes of the spread, by default those for its prior."""
        prior = model.dependence.spread
        assert prior is not None
        resolution = Resolution.number(refinement, planar=True)
        if grid is None:
            grid = _first_spread_grid(prior, _nodes(refinement))
        several, single = _several(counts), _single(counts)
        scatter = model.dependence.scatter

        def group(rows: IndexArray) -> Group:
            members = counts.take(rows)
            if scatter is None:
                return PooledGroup(members, grid.spread, resolution)
            return ScatteredGroup(members, scatter, grid.spread, resolution)

        alone = None
        if len(single):
            alone = AttackSurface.of(
                counts.take(single), model.likelihood, deltas, refinement=max(refinement, 1)
            )
        # The pooled counts only give a guess of where panels should start.
        pooled = AttackSurface.of(counts.pooled(), model.likelihood, deltas)
        return cls(
            counts=counts,
            model=model,
            deltas=tuple(deltas),
            nuisance=grid,
            groups=tuple(thread_pool().map(group, several)),
            alone=alone,
            guess=pooled.guess,
        )

    def finer(self, refinement: int, solution: Solution) -> GroupSurface:
        """The same groups at a finer resolution, with the spread refined where it has probability."""
        prior = self.model.dependence.spread
        assert prior is not None
        probability = solution.nuisance_probability()
        grid = _refined(self.nuisance, prior, probability, _nodes(refinement))
        return self.of(
            self.counts, self.model, deltas=self.deltas, refinement=refinement, grid=grid
        )

    def reaching(self, end: float) -> GroupSurface:
        """Only attacks without a group have tables of limited extent."""
        if self.alone is None or end <= self.alone.end:
            return self
        return replace(self, alone=self.alone.reaching(end))

    def deepened(self, depth: float) -> GroupSurface:
        """There is nothing to deepen."""
        return self

    def deficit(self, epsilon: FloatArray, strength: FloatArray, delta: float) -> float:
        """Not known, and not needed."""
        return 0.0

    def log_likelihood(self, epsilon: FloatArray, strength: FloatArray, delta: float) -> FloatArray:
        """Log likelihood (point, spread)."""
        strength = np.minimum(strength, STRONGEST)
        total = self._by_group(epsilon, strength, delta).sum(axis=0)
        if self.alone is not None:
            total += self.alone.log_likelihood(epsilon, strength, delta)
        return np.asarray(total)

    def each(
        self, epsilon: FloatArray, strength: FloatArray, delta: float
    ) -> Iterator[tuple[IndexArray, FloatArray]]:
        """Each group separately: its rows of the counts, and its log likelihood (point, spread)."""
        strength = np.minimum(strength, STRONGEST)
        group_logs = self._by_group(epsilon, strength, delta)
        yield from zip(_several(self.counts), group_logs, strict=True)
        if self.alone is not None:
            single = _single(self.counts)
            for rows, logs in self.alone.each(epsilon, strength, delta):
                yield single[rows], np.broadcast_to(logs, group_logs.shape[1:])

    def without(self, row: int) -> GroupSurface:
        """The same groups without that of a row; recomputed, as groups share no tables."""
        group = next(rows for rows in self.counts.members if row in rows)
        left = np.setdiff1d(np.arange(len(self.counts)), group)
        return self.of(self.counts.take(left), self.model, deltas=self.deltas, refinement=0)

    def first(self) -> GroupSurface:
        """The same groups without refinement."""
        return self.of(self.counts, self.model, deltas=self.deltas, refinement=0)

    def _by_group(self, epsilon: FloatArray, strength: FloatArray, delta: float) -> FloatArray:
        """Log likelihood (group, point, spread) of each group with more than one member."""
        logs = np.empty((len(self.groups), len(epsilon), len(self.nuisance)))

        def fill(value: float) -> None:
            mine = np.flatnonzero(epsilon == value)
            area = region.log_ring_area(value, delta, strength[mine])[:, None]
            key = value, delta
            if key not in self.known:
                self.known[key] = [group.density(value, delta) for group in self.groups]
            for number, density in enumerate(self.known[key]):
                logs[number, mine] = density.log_ring(value, delta, strength[mine]) - area

        list(thread_pool().map(fill, np.unique(epsilon).tolist()))
        return logs


#: The likelihood of all counts together.
Surface = AttackSurface | GroupSurface


# --- the grid of the spread -----------------------------------------------------------------------

#: Quantiles of the prior at the breaks between the first panels.
FIRST_QUANTILES = np.array([0.2, 0.5, 0.8, 0.97])

#: Prior probability beyond the last panel.
BEYOND_LAST_PANEL = 1e-5

#: Posterior probability below which a panel at an end is dropped.
NEGLIGIBLE_PANEL = 1e-4


@dataclass(frozen=True, kw_only=True)
class SpreadGrid(NuisanceGrid):
    """Gauss-Legendre nodes on panels of the spread, with the prior's weights.

    A fixed spread is one node of weight 1 without panels.
    """

    breaks: FloatArray
    spread: FloatArray
    log_weight: FloatArray

    @property
    def count(self) -> int:
        """Nodes on a panel."""
        return len(self.spread) // (len(self.breaks) - 1)

    def density(self, probability: FloatArray) -> PanelDensity:
        """The density with the given probabilities at the nodes."""
        _, weights = panels.panel_rule(self.breaks, self.count)
        return PanelDensity(breaks=self.breaks, values=probability.reshape(weights.shape) / weights)

    def marginals(
        self, model: CountModel, counts: AttackCounts, probability: FloatArray
    ) -> dict[str, PanelDensity]:
        """The marginal of the spread, unless it is fixed."""
        return {"spread": self.density(probability)} if len(self.breaks) else {}

    def draw(
        self, posterior: GridPosterior, cell: IntArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Draw the spread in each given cell: a node, spread out over its share of the marginal."""
        if not len(self.breaks):
            return {}
        cells = posterior.cells
        logs = np.maximum(cells.log_nuisance, LEAST_LOG_NUISANCE) + self.log_weight
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        cumulative = np.cumsum(weights, axis=1)
        cumulative /= cumulative[:, -1:]
        node = (cumulative[cell] < rng.random(len(cell))[:, None]).sum(axis=1)
        share = cells.mass @ (weights / weights.sum(axis=1, keepdims=True))
        jitter = rng.random(len(cell))
        return {"spread": spread_out(posterior.marginals["spread"], share, node, jitter)}

    def stored(self) -> Arrays:
        """Arrays to store in a file."""
        return {
            "nuisance_spread": (("nuisance",), self.spread),
            "nuisance_log_weight": (("nuisance",), self.log_weight),
        }

    def nodes_at_cuts(self, model: CountModel) -> BoolArray:
        """Nodes of the spread on an outer panel that is not at an end of the prior."""
        cut_nodes = np.zeros(len(self), dtype=bool)
        prior = model.dependence.spread
        if len(self.breaks) and prior is not None:
            cut_nodes[: self.count] |= self.breaks[0] > 0
            cut_nodes[-self.count :] |= self.breaks[-1] < 0.9 * float(
                prior.upper_quantile(BEYOND_LAST_PANEL)
            )
        return cut_nodes

    @classmethod
    def restored(cls, arrays: Mapping[str, FloatArray], breaks: FloatArray) -> SpreadGrid:
        """From the arrays of :meth:`stored` in a file, and the breaks of the marginal."""
        spread, log_weight = arrays["nuisance_spread"], arrays["nuisance_log_weight"]
        if len(spread) != len(log_weight):
            raise InputError("expected a weight for every node of the spread.")
        return cls(breaks=breaks, spread=spread, log_weight=log_weight)


def _first_spread_grid(prior: Prior, count: int) -> SpreadGrid:
    """Panels between quantiles of the prior."""
    fixed = prior.fixed_value
    if fixed is not None:
        return SpreadGrid(breaks=np.zeros(0), spread=np.array([fixed]), log_weight=np.zeros(1))
    end = min(float(prior.upper_quantile(BEYOND_LAST_PANEL)), LARGEST_SPREAD)
    inner = np.asarray(prior.quantile(FIRST_QUANTILES))
    breaks = np.unique(np.concatenate([[0.0], inner[inner < 0.9 * end], [end]]))
    return _spread_grid(prior, breaks, count)


def _spread_grid(prior: Prior, breaks: FloatArray, count: int) -> SpreadGrid:
    """Gauss-Legendre nodes between the given breaks."""
    spread, weights = (part.ravel() for part in panels.panel_rule(breaks, count))
    log_weight = np.log(weights) + prior.log_density(spread)
    return SpreadGrid(breaks=breaks, spread=spread, log_weight=log_weight)


def _refined(grid: SpreadGrid, prior: Prior, probability: FloatArray, count: int) -> SpreadGrid:
    """A grid for the next step, finer where a coarser one found the posterior without resolving it."""
    if prior.fixed_value is not None:
        return grid
    left = panels.left_unresolved(grid.breaks, grid.density(probability).values)
    mass = probability.reshape(len(left), -1).sum(axis=1)
    live = np.flatnonzero(mass > NEGLIGIBLE_PANEL)
    kept = slice(int(live[0]), int(live[-1]) + 1)
    breaks = panels.split_panels(grid.breaks[kept.start : kept.stop + 1], left[kept] > 0.02)
    if kept.stop == len(left) and breaks[-1] < LARGEST_SPREAD:
        # The prior is negligible beyond this end, but the data may say otherwise.
        breaks = np.append(breaks, min(2 * breaks[-1], LARGEST_SPREAD))
    if kept.start == 0 and breaks[0] > 0:
        breaks = np.append(0.0, breaks)
    return _spread_grid(prior, breaks, count)
