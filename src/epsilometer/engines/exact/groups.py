"""The surface of groups of dependent attacks: likelihood of epsilon and strength at nodes of the spread.

Groups of one are independent attacks (`surface.py`); the others come from `group_masses.py`.  The spread
is a nuisance parameter on its own grid (`spread_grid.py`), refined in each step where the posterior
has probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from epsilometer._arrays import FloatArray, IndexArray
from epsilometer.engines.exact.flux import thread_pool
from epsilometer.engines.exact.group_masses import (
    Density,
    Group,
    GroupAccuracy,
    PooledGroup,
    ScatteredGroup,
)
from epsilometer.engines.exact.integrate import Solution
from epsilometer.engines.exact.kernels import Guess
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.engines.exact.spread_grid import SpreadGrid, first_spread_grid, refined
from epsilometer.engines.exact.surface import AttackSurface
from epsilometer.model import region
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts

STRONGEST = 1 - 1e-6
"""Approximates a fixed strength of 1, the limit of thin rings."""


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
        planar = Resolution.number(refinement, planar=True).planar
        # The cost grows with the cube of the points per side, the accuracy with their square.
        points = (planar.points + Resolution.number(0, planar=True).planar.points) // 2
        if grid is None:
            grid = first_spread_grid(prior, _nodes(refinement))
        accuracy = GroupAccuracy(
            # An average is known better than a member's rates, so fewer points suffice.
            cells=3 * points // 2,
            points=2 * points // 3,
            reach=planar.reach,
        )
        several, single = _several(counts), _single(counts)
        scatter = model.dependence.scatter

        def group(rows: IndexArray) -> Group:
            members = counts.take(rows)
            if scatter is None:
                return PooledGroup(members, grid.spread, accuracy)
            return ScatteredGroup(members, scatter, grid.spread, accuracy)

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
        grid = refined(self.nuisance, prior, probability, _nodes(refinement))
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
