"""The exact engine for many models of the same counts, which share tables where they can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from epsilometer.inference.exact import PROBED, estimate_exact
from epsilometer.inference.exact_grid import tensor_fixed_strength
from epsilometer.inference.exact_problem import Level, Problem, epsilon_end
from epsilometer.inference.exact_solve import make_problem, needs_rays, solve, solve_by_panels
from epsilometer.inference.grid_posterior import GridPosterior, from_solution
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Fixed

THICKEST = 0.95
"""Rings of larger strengths are too thin for differences of masses."""

DEPTHS = (60.0, 120.0)
"""How far below its peak, in nats, masses are tabulated at either level."""

TOLERANCE = 1e-3
"""The exact engine's own, for quantiles of epsilon."""

CLOSE = 0.05
"""Log evidences of two levels that differ by more are found by the engine's own way."""


class ComparisonEngine:
    """The exact engine, with tables that models of other fixed strengths share."""

    def __init__(
        self, *, counts: AttackCounts, quick: bool, report: Callable[[str], None] | None
    ) -> None:
        self._counts, self._quick, self._report = counts, quick, report
        self._problems: list[Problem] = []

    def estimate(self, model: AuditModel) -> GridPosterior:
        """The posterior under a model, with its evidence."""
        counts = self._counts
        model.check(counts)
        correlated = isinstance(model.likelihood, CorrelatedNormal)
        if correlated and self._quick and not model.scatters(counts):
            level = Level.number(0, correlated=True)
            return from_solution(counts, model, solve(counts, model, level, hint=None))
        found = None if correlated else self._by_tables(model)
        return found or estimate_exact(counts, model, report=self._report)

    def _by_tables(self, model: AuditModel) -> GridPosterior | None:
        """A fixed strength by the tables that serve every strength; None where they would not do.

        Two levels, the second twice as deep into the tails, must agree to the engine's tolerance.
        """
        counts = self._counts
        if not isinstance(model.strength, Fixed) or model.strength.value > THICKEST:
            return None
        if isinstance(model.epsilon, Fixed) or model.scatters(counts):
            return None
        if not self._problems:
            for number, depth in enumerate(DEPTHS):
                level = Level.number(number, correlated=False)
                self._problems.append(make_problem(counts, model, level).deepened(depth))
        made_for = self._problems[0].model
        same = made_for.delta == model.delta and made_for.epsilon == model.epsilon
        if not same or needs_rays(self._problems[0]):
            return None
        levels = []
        for problem in self._problems:
            own = replace(problem, model=model)
            rows = tensor_fixed_strength(own, model.strength.value, epsilon_end(model))
            solution = solve_by_panels(own, None, rows, "fixed strength")
            levels.append(from_solution(counts, model, solution))
        coarse, fine = levels
        before, after = coarse.quantile("epsilon", PROBED), fine.quantile("epsilon", PROBED)
        error = float(np.max(np.abs(after - before) / np.maximum(1.0, after)))
        if error > TOLERANCE or abs(fine.log_evidence - coarse.log_evidence) > CLOSE:
            return None
        return fine.finished(
            error=error, tolerance=TOLERANCE, levels=len(levels), provenance=fine.provenance
        )
