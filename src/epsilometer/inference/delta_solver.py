"""How the posterior of epsilon is solved at one of many deltas: tables and panels are shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import masses, panels
from epsilometer.inference.exact import PROBED, ExactSettings, estimate_exact
from epsilometer.inference.exact_grid import solve_on_grid
from epsilometer.inference.exact_problem import (
    Level,
    Problem,
    Reach,
    Solution,
    epsilon_end,
    marginal,
)
from epsilometer.inference.exact_solve import make_problem, needs_rays, solve_problem
from epsilometer.inference.panels import PanelDensity
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Fixed

FloatArray = NDArray[np.float64]

BLUNT = 0.1
"""Deltas below this sharpness share a table with the fewest nodes in d."""

RUGGED = 2.0
"""Panels of another delta serve if they leave at most this many times as much unresolved as there."""

EDGE = 1e-6
"""A density that is still above this part of its peak where its panels end was cut off."""


def difference(density: PanelDensity, other: PanelDensity) -> float:
    """The largest change of the quantities that must agree between levels, relative above 1."""
    return Probe.of(density).distance(other)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A density with its quantiles, to hold others against; a quantile is much dearer than a look-up."""

    quantiles: FloatArray
    slopes: FloatArray
    mean: float

    @classmethod
    def of(cls, density: PanelDensity) -> Probe:
        quantiles = density.quantile(PROBED)
        return cls(quantiles=quantiles, slopes=density.density(quantiles), mean=density.mean())

    def distance(self, other: PanelDensity, enough: float = 0.0) -> float:
        """How far the other's quantiles and mean are off, relative above 1.

        To first order in the difference if that is below ``enough``, which saves the quantiles of the
        other: where a density has a valley the first order is far too large.
        """
        scale = np.maximum(1.0, self.quantiles)
        mean = abs(other.mean() - self.mean) / max(1.0, self.mean)
        gap = np.abs(other.cdf(self.quantiles) - PROBED)
        moved = gap / np.maximum(self.slopes, 1e-300) / scale
        if moved.max() > enough:
            moved = np.abs(other.quantile(PROBED) - self.quantiles) / scale
        return max(float(moved.max()), mean)


class Solver(ABC):
    """Something that solves at a delta, starting from what is known at another."""

    levels: int
    method: str

    @abstractmethod
    def solve(
        self, delta: float, near: float | None, *, certain: bool
    ) -> tuple[PanelDensity, float | None]:
        """The density and its error, or None for the error if levels were not compared."""


class SeparateSolver(Solver):
    """A run of its own for each delta: whatever the engine can do, this can."""

    def __init__(self, counts: AttackCounts, model: AuditModel, settings: ExactSettings) -> None:
        self._counts, self._model, self._settings = counts, model, settings
        self.levels, self.method = 0, "separate runs"

    def solve(
        self, delta: float, near: float | None, *, certain: bool
    ) -> tuple[PanelDensity, float | None]:
        posterior = estimate_exact(self._counts, replace(self._model, delta=delta), self._settings)
        self.levels = max(self.levels, posterior.accuracy.levels)
        return posterior.marginals["epsilon"], posterior.accuracy.error


class SharedSolver(Solver):
    """Tables shared by deltas, and panels taken over from the nearest one."""

    def __init__(
        self,
        counts: AttackCounts,
        model: AuditModel,
        deltas: Sequence[float] | FloatArray,
        settings: ExactSettings,
    ) -> None:
        assert settings.tolerance is not None
        self._counts, self._model, self._settings = counts, model, settings
        self._correlated = isinstance(model.likelihood, CorrelatedNormal)
        self._problems: dict[tuple[int, int], Problem] = {}
        self._hints: dict[tuple[float, int], Solution] = {}
        self.levels, self.method = 1, "shared tables"
        first = self._bare(0, float(deltas[0]))
        blunt = [d for d in deltas if masses.sharpness(first.family, float(d)) < BLUNT]
        smooth = [d for d in deltas if not needs_rays(self._bare(0, float(d)))]
        self._table_deltas = sorted({float(max(part)) for part in (blunt, smooth) if part})

    def _bare(self, number: int, delta: float) -> Problem:
        """The problem at a level, made once, with the model's delta put in."""
        if (number, -1) not in self._problems:
            level = Level.number(number, correlated=self._correlated)
            self._problems[number, -1] = make_problem(self._counts, self._model, level)
        problem = self._problems[number, -1]
        return replace(problem, model=replace(self._model, delta=delta), caches={})

    def solve(
        self, delta: float, near: float | None, *, certain: bool
    ) -> tuple[PanelDensity, float | None]:
        # Grids of the correlated likelihood are refined at the lowest level only.
        start = 0 if certain or self._correlated else self.levels - 1
        before: PanelDensity | None = None
        error: float | None = None
        for number in range(start, self._settings.most_levels):
            hint = self._hints.get((delta, number - 1))
            own = hint is not None
            if hint is None and near is not None:
                hint = self._hints.get((near, number))
            density, solution = self._solve_at(delta, number, hint, own=own)
            self._hints[delta, number] = replace(solution, rows=None)
            if before is not None:
                error = difference(before, density)
                self.levels = max(self.levels, number + 1)
            before = density
            if number == self.levels - 1 and (not certain and not self._correlated):
                break
            assert self._settings.tolerance is not None
            if error is not None and error <= self._settings.tolerance and number >= 1:
                break
        return density, error

    def _solve_at(
        self, delta: float, number: int, hint: Solution | None, *, own: bool
    ) -> tuple[PanelDensity, Solution]:
        """Solve at one level; a hint that is not its ``own`` is given up where it does not serve."""
        bare = self._bare(number, delta)
        if hint is not None and (hint.method == "rays") != needs_rays(bare):
            # Rays know nothing of panels in t.
            hint = None
        if hint is None or own:
            solution = self._once(bare, hint)
            return _density(solution), solution
        if self._correlated:
            # Masses carry a ripple that refinement would follow from delta to delta.
            bare = replace(bare, level=replace(bare.level, rounds=1))
        solution = self._once(bare, hint)
        density = _density(solution)
        allowed = max(bare.level.tolerance, RUGGED * _unresolved(_density(hint)))
        if self._cut_off(density) or _unresolved(density) > allowed:
            solution = self._once(self._bare(number, delta), None)
            density = _density(solution)
        return density, solution

    def _once(self, bare: Problem, hint: Solution | None) -> Solution:
        """Solve with the table of the smallest delta that is large enough."""
        delta, number = bare.model.delta, bare.level.delta_nodes
        group = int(np.searchsorted(self._table_deltas, delta))
        if isinstance(self._model.strength, Fixed) or group == len(self._table_deltas):
            return solve_problem(bare, hint=hint)
        end = epsilon_end(self._model)
        if hint is not None:
            end = max(float(hint.breaks[-1]), float(hint.t_breaks[-1]))
        known = self._problems.get((number, group))
        if known is None or known.reach is None or known.reach.end < end:
            known = replace(bare, reach=Reach(delta=self._table_deltas[group], end=end))
        level = replace(known.level, rounds=bare.level.rounds)
        solution, used = solve_on_grid(replace(known, model=bare.model, level=level), hint)
        self._problems[number, group] = used
        return solution

    def _cut_off(self, density: PanelDensity) -> bool:
        """Whether panels that were made for another delta end where this density does not."""
        least = EDGE * density.values.max()
        above = density.breaks[-1] < epsilon_end(self._model) and density.values[-1, -1] > least
        smallest = self._bare(0, 0.0).smallest_epsilon
        below = density.breaks[0] > smallest and density.values[0, 0] > least
        return bool(above or below)


def _density(solution: Solution) -> PanelDensity:
    return PanelDensity(breaks=solution.breaks, values=marginal(solution.log_rows))


def _unresolved(density: PanelDensity) -> float:
    """The part of the mass that finer panels could still move."""
    values = density.values
    left = panels.tail(values @ panels.analysis_matrix(values.shape[1]).T)
    return float(np.sum(0.5 * np.diff(density.breaks) * left))
