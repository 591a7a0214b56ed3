"""The exact engine: the posterior by deterministic quadrature, with an error estimate that is checked.

The latent error rates are integrated out analytically but for one dimension (`edges.py`), so the
posterior of (epsilon, strength) needs two-dimensional quadrature, and the correlations add a small
grid (`nuisance.py`).  The same problem is solved at rising levels of resolution; the difference
between the last two is the error estimate, and levels rise until it meets what was asked.
NumPy and SciPy only: there is nothing to compile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from epsilometer import _validate
from epsilometer.inference.exact_groups import check_exact, solve_groups
from epsilometer.inference.exact_problem import Level, Solution
from epsilometer.inference.exact_solve import solve
from epsilometer.inference.grid_posterior import GridPosterior, from_solution
from epsilometer.inference.provenance import Provenance
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal

PROBED = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that must agree between levels, together with the means."""


@dataclass(frozen=True, kw_only=True)
class ExactSettings:
    """How accurate the exact engine must be, and how hard it may try.

    Parameters
    ----------
    tolerance
        Largest acceptable change, between two levels of resolution, of the 5 % to 95 % quantiles
        and the mean of epsilon (relative where above 1) and of the strength; 1e-3 unless given,
        1e-2 for the correlated likelihood and for groups of dependent attacks.
    most_levels
        Levels tried before giving up; the posterior then says that the tolerance was not met.
    """

    tolerance: float | None = None
    most_levels: int = 4

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            _validate.positive("tolerance", self.tolerance)
        _validate.whole_number("most_levels", self.most_levels, least=2, most=6)


def estimate_exact(
    counts: AttackCounts,
    model: AuditModel,
    settings: ExactSettings | None = None,
    *,
    report: Callable[[str], None] | None = None,
) -> GridPosterior:
    """Return the posterior of the model given the counts, by quadrature.

    Parameters
    ----------
    counts, model
        What was observed and what is assumed.
    settings
        Accuracy wanted.
    report
        Called with a line of text as work proceeds, for a progress display.

    Raises
    ------
    ContradictionError
        If the counts have no weight anywhere under the model.

    Notes
    -----
    Cost grows linearly with the number of distinct counts.  ``posterior.accuracy`` holds the error
    estimate and whether it meets the tolerance.
    """
    settings = settings or ExactSettings()
    model.check(counts)
    check_exact(counts, model)
    started = time.perf_counter()
    groups = model.scatters(counts)
    step = solve_groups if groups else solve
    # Two-dimensional quadrature, of correlated counts or of groups, is less accurate than fluxes.
    planar = groups or isinstance(model.likelihood, CorrelatedNormal)
    tolerance = settings.tolerance or (1e-2 if planar else 1e-3)
    hint: Solution | None = None
    previous: GridPosterior | None = None
    errors: list[float] = []
    for number in range(settings.most_levels):
        if report:
            report(f"resolution level {number + 1}")
        level = Level.number(number, correlated=planar)
        solution = step(counts, model, level, hint=hint)
        posterior = from_solution(counts, model, solution)
        hint = solution
        if previous is not None:
            errors.append(_difference(previous, posterior))
            if errors[-1] <= tolerance:
                break
        previous = posterior
    return posterior.finished(
        error=errors[-1],
        tolerance=tolerance,
        levels=len(errors) + 1,
        provenance=Provenance.now(
            engine="exact",
            settings={"tolerance": tolerance, "most_levels": settings.most_levels},
            seconds=time.perf_counter() - started,
        ),
    )


def _difference(coarse: GridPosterior, fine: GridPosterior) -> float:
    """The largest change of the probed quantities between two levels."""
    worst = 0.0
    for name in ("epsilon", "strength"):
        if name not in fine.parameters:
            continue
        before = np.append(coarse.quantile(name, PROBED), coarse.mean(name))
        after = np.append(fine.quantile(name, PROBED), fine.mean(name))
        scale = np.maximum(1.0, np.abs(after))
        worst = max(worst, float(np.max(np.abs(after - before) / scale)))
    if not worst and "within_correlation" in fine.parameters:
        worst = abs(fine.log_evidence - coarse.log_evidence)
    return worst
