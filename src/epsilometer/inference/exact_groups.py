"""Groups of dependent attacks in the exact engine: rows of likelihood over epsilon, strength and spread.

Groups of one are independent attacks, whose ring masses come from rays; the others come from
`group_masses.py`.  The spread is a nuisance parameter on a grid of its own (`spread_grid.py`), refined
from level to level where the posterior turns out to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import InputError
from epsilometer.inference import masses
from epsilometer.inference.edges import thread_pool
from epsilometer.inference.exact_problem import (
    FloatArray,
    Level,
    PanelRows,
    Problem,
    Solution,
    split_panels,
    unresolved,
)
from epsilometer.inference.exact_solve import (
    RAY_DEPTH,
    at_fixed_epsilon,
    solve,
    solve_by_panels,
)
from epsilometer.inference.group_masses import (
    Density,
    Group,
    GroupAccuracy,
    PooledGroup,
    ScatteredGroup,
)
from epsilometer.inference.mass_table import MassTable
from epsilometer.inference.nuisance import make_family
from epsilometer.inference.rows import Rows, strength_panels
from epsilometer.inference.spread_grid import SpreadGrid, first_spread_grid, refined
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import PooledGroups, ScatteredMembers
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Beta, Fixed

FIRST_STRENGTHS = np.array([0.0, 0.1, 0.35, 0.75, 1.0])

MOST_STRENGTH_ROUNDS = 6
"""Rounds in which a row may halve its panels of the strength; sums over cells carry a ripple that
refinement would follow for ever."""

STRONGEST = 1 - 1e-6
"""A fixed strength of 1 is the limit of thin rings; this one is thin enough."""


def check_exact(counts: AttackCounts, model: AuditModel) -> None:
    """Refuse what the exact engine cannot do with groups."""
    if model.scatters(counts) and isinstance(model.likelihood, CorrelatedNormal):
        raise InputError(
            "the exact engine takes correlated counts one by one, not in groups: use MCMC "
            "(--engine mcmc), or the binomial likelihood if every challenge had its own shadow models."
        )


def solve_groups(
    counts: AttackCounts, model: AuditModel, level: Level, *, hint: Solution | None
) -> Solution:
    """Solve at one level, starting from the panels of a coarser solution if there is one."""
    dependence = model.dependence
    assert isinstance(dependence, ScatteredMembers | PooledGroups)
    fixed = dependence.spread
    if isinstance(dependence, ScatteredMembers) and isinstance(fixed, Fixed) and fixed.value == 0:
        return _solve_pooled_attacks(counts, model, level, hint=hint)
    likelihood = GroupLikelihood.of(counts, model, level, _grid(dependence, level, hint))
    if isinstance(model.epsilon, Fixed):
        return _solve_fixed_epsilon(likelihood, model.epsilon.value)
    return solve_by_panels(likelihood.problem, hint, likelihood.panel_rows(), "groups")


def _grid(
    dependence: ScatteredMembers | PooledGroups, level: Level, hint: Solution | None
) -> SpreadGrid:
    count = level.nuisance[0] - 2
    if hint is None:
        return first_spread_grid(dependence.spread, count)
    grid = hint.nuisance
    assert isinstance(grid, SpreadGrid)
    probability = spread_probability(hint)
    return refined(grid, dependence.spread, probability, count)


def spread_probability(solution: Solution) -> FloatArray:
    """Posterior probability of each node of the spread."""
    scaled = np.exp(solution.log_rows - solution.log_rows.max())
    total = (scaled * solution.row_mass()[:, :, None]).sum(axis=(0, 1))
    return np.asarray(total / total.sum())


def _solve_pooled_attacks(
    counts: AttackCounts, model: AuditModel, level: Level, *, hint: Solution | None
) -> Solution:
    """Spread 0: members share their rates, so a group is one attack but for binomial constants."""
    pooled = counts.pooled()
    solution = solve(pooled, model, level, hint=hint)
    offset = _log_choices(counts) - _log_choices(pooled)
    rows = solution.rows
    if rows is not None:
        rows = replace(rows, log_likelihood=rows.log_likelihood + offset)
    return replace(solution, log_rows=solution.log_rows + offset, rows=rows)


def _log_choices(counts: AttackCounts) -> float:
    """Log of the product of all binomial coefficients."""
    from scipy.special import gammaln

    total = 0.0
    for errors, trials in (
        (counts.false_positives, counts.trials_h0),
        (counts.false_negatives, counts.trials_h1),
    ):
        logs = gammaln(trials + 1.0) - gammaln(errors + 1.0) - gammaln(trials - errors + 1.0)
        total += float(logs.sum())
    return total


class GroupLikelihood:
    """log p(counts | epsilon, strength, spread), all groups together."""

    @classmethod
    def of(
        cls, counts: AttackCounts, model: AuditModel, level: Level, grid: SpreadGrid
    ) -> GroupLikelihood:
        """Tables of every group at the nodes of the spread."""
        dependence, members = model.dependence, counts.members
        assert isinstance(dependence, ScatteredMembers | PooledGroups)
        accuracy = GroupAccuracy(
            # An average is known better than a member's rates, so fewer points do for it.
            cells=3 * level.tensor.points // 2,
            points=2 * level.tensor.points // 3,
            reach=level.tensor.reach,
        )
        groups: list[Group] = []
        for rows in members:
            if len(rows) == 1:
                continue
            group = counts.take(rows)
            if isinstance(dependence, PooledGroups):
                groups.append(PooledGroup(group, grid.spread, accuracy))
            else:
                groups.append(ScatteredGroup(group, dependence.scatter, grid.spread, accuracy))
        problem = Problem(
            model=model,
            level=level,
            nuisance=grid,
            # Only where epsilon's panels begin is guessed from these.
            family=make_family(model.likelihood, counts.pooled(), grid),
            multiplicity=np.ones(len(members)),
            number=len(members),
            smallest_epsilon=0.0,
        )
        alone = np.array([int(rows[0]) for rows in members if len(rows) == 1], dtype=np.intp)
        return cls(problem, counts, alone, groups)

    def __init__(
        self,
        problem: Problem,
        counts: AttackCounts,
        alone: NDArray[np.intp],
        groups: list[Group],
    ) -> None:
        self.problem = problem
        self._groups = groups
        self._number = len(alone)
        self._family = None
        if len(alone):
            distinct, times = counts.take(alone).distinct()
            self._times = times.astype(float)
            self._family = make_family(problem.model.likelihood, distinct, problem.nuisance)

    def panel_rows(self) -> PanelRows:
        """What :func:`solve_by_panels` asks for."""
        strength = self.problem.model.strength

        def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Rows]]:
            rays = self._rays(epsilon)
            numbers = range(len(epsilon))
            if isinstance(strength, Fixed):
                at = partial(self._at_fixed_strength, epsilon, rays, min(strength.value, STRONGEST))
                return np.stack(list(thread_pool().map(at, numbers))), []
            row = partial(self._row, epsilon, rays)
            rows = list(thread_pool().map(row, numbers))
            return np.concatenate([row.log_integral() for row in rows]), rows

        return evaluate

    def _rays(self, epsilon: FloatArray) -> MassTable | None:
        """Ring masses of the attacks without a group, at all epsilons."""
        if self._family is None:
            return None
        attacks = len(self._times)
        accuracy = replace(self.problem.level.table, depth=RAY_DEPTH)
        return masses.ray_table(
            self._family,
            np.tile(np.arange(attacks), len(epsilon)),
            np.repeat(epsilon, attacks),
            self.problem.model.delta,
            0.0,
            accuracy,
        )

    def _at(
        self,
        epsilon: float,
        densities: list[Density],
        rays: MassTable | None,
        first_path: int,
        strength: FloatArray,
    ) -> FloatArray:
        """Log likelihood (strength, spread) at one epsilon."""
        total = np.zeros((len(strength), len(self.problem.nuisance)))
        for logs in self.by_group(epsilon, densities, strength):
            total += logs
        if rays is not None:
            shape = (len(self._times), len(strength))
            path = np.broadcast_to(first_path + np.arange(shape[0])[:, None], shape)
            _, ring = rays.masses(path, np.broadcast_to(strength, shape))
            unit = rays.log_unit[first_path : first_path + shape[0], None]
            logs = np.log(np.maximum(ring, 1e-300)) + unit
            area = region.log_ring_area(epsilon, self.problem.model.delta, strength)[:, None]
            total += np.tensordot(self._times, logs, axes=1) - self._number * area
        return total

    def by_group(
        self, epsilon: float, densities: list[Density], strength: FloatArray
    ) -> Iterator[FloatArray]:
        """Log likelihood (strength, spread) of each group with more than one member."""
        delta = self.problem.model.delta
        area = region.log_ring_area(epsilon, delta, strength)[:, None]
        for density in densities:
            yield density.log_ring(epsilon, delta, strength) - area

    def densities(self, epsilon: float) -> list[Density]:
        """Of each group's average."""
        delta = self.problem.model.delta
        return [group.density(epsilon, delta) for group in self._groups]

    def _first_path(self, number: int) -> int:
        return number * len(self._times) if self._family is not None else 0

    def _at_fixed_strength(
        self, epsilon: FloatArray, rays: MassTable | None, strength: float, number: int
    ) -> FloatArray:
        value = float(epsilon[number])
        found = self._at(
            value, self.densities(value), rays, self._first_path(number), np.array([strength])
        )
        return np.asarray(found[0])

    def _row(self, epsilon: FloatArray, rays: MassTable | None, number: int) -> Rows:
        level, prior = self.problem.level, self.problem.model.strength
        assert isinstance(prior, Beta)
        value = float(epsilon[number])
        densities = self.densities(value)
        breaks = FIRST_STRENGTHS
        known: dict[tuple[float, float], FloatArray] = {}
        for _ in range(MOST_STRENGTH_ROUNDS):
            quadrature = strength_panels([breaks], prior, level.nodes)
            pairs = list(pairwise(breaks.tolist()))
            new = [index for index, pair in enumerate(pairs) if pair not in known]
            nodes = quadrature.nodes[0, new]
            found = self._at(value, densities, rays, self._first_path(number), nodes.ravel())
            found = found.reshape(*nodes.shape, -1)
            known |= {pairs[index]: part for index, part in zip(new, found, strict=True)}
            logs = np.stack([known[pair] for pair in pairs])[None]
            weighted = logs[0] + self.problem.nuisance.log_weight
            density = np.exp(weighted - weighted.max()).sum(axis=-1)
            split = unresolved(breaks, density, level.tolerance)
            if not split.any():
                break
            breaks = split_panels(breaks, split)
        return Rows(epsilon=np.array([value]), quadrature=quadrature, log_likelihood=logs)

    def row(self, epsilon: float) -> Rows:
        """The likelihood along the strength at one epsilon."""
        values = np.array([epsilon])
        return self._row(values, self._rays(values), 0)

    def at_strength(self, epsilon: float, strength: float) -> FloatArray:
        """The likelihood at one point, (1, spread)."""
        values = np.array([epsilon])
        strength = min(strength, STRONGEST)
        return self._at_fixed_strength(values, self._rays(values), strength, 0)[None]


def _solve_fixed_epsilon(likelihood: GroupLikelihood, epsilon: float) -> Solution:
    problem = likelihood.problem
    strength, rows = problem.model.strength, None
    if isinstance(strength, Fixed):
        logs = likelihood.at_strength(epsilon, strength.value)
    else:
        rows = likelihood.row(epsilon)
        logs = rows.log_integral()
    return at_fixed_epsilon(problem, epsilon, logs, rows, "groups")
