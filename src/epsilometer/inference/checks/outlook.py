"""What more data would settle an inconclusive verdict: the same rates, more often seen.

A forecast, not a promise: it takes the error rates seen so far to be those that would be seen again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsilometer._arrays import Say
from epsilometer.errors import ContradictionError, InputError
from epsilometer.inference.exact.engine import estimate_exact
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.verdict import Outcome, Verdict
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel

FACTORS = (2, 4, 10)
"""How many times as much data is tried."""

MOST_DISTINCT = {True: 1000, False: 60}
"""Distinct counts, of a bounded likelihood or not, up to which trying takes seconds and not minutes."""


@dataclass(frozen=True, kw_only=True)
class MoreData:
    """What one way of adding data would come to.

    Attributes
    ----------
    factor, largest_factor
        The smallest factor tried that would settle the question, None if none would; the largest tried.
    outcome, probability_above
        The verdict at that factor, or at the largest one tried.
    """

    factor: int | None
    outcome: Outcome
    probability_above: float
    largest_factor: int


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """More challenges on each base, or more bases; None where it was not worked out."""

    challenges: MoreData | None
    bases: MoreData | None


def look_ahead(posterior: Posterior, verdict: Verdict, *, report: Say | None = None) -> Outlook:
    """Find out what more data would settle, by estimating from multiplied counts.

    The exact engine is used, whichever made the posterior.  Nothing is worked out for more distinct
    counts than `MOST_DISTINCT`, where it would take minutes.
    """
    counts, model = posterior.counts, posterior.model
    # Groups take the engine too long to try.
    if model.scatters(counts) or not is_quick(counts, model):
        return Outlook(challenges=None, bases=None)
    return Outlook(
        challenges=_more(posterior, verdict, with_more_challenges, report),
        bases=_more(posterior, verdict, with_more_bases, report),
    )


def is_quick(counts: AttackCounts, model: AuditModel) -> bool:
    """Whether the exact engine is quick enough to be run on the side."""
    return len(counts.distinct()[0]) <= MOST_DISTINCT[model.likelihood.bounded]


def with_more_challenges(counts: AttackCounts, factor: int) -> AttackCounts:
    """The same error rates from ``factor`` times as many challenges."""
    return replace(counts, **{column: factor * getattr(counts, column) for column in COLUMNS})


def with_more_bases(counts: AttackCounts, factor: int) -> AttackCounts:
    """Every base ``factor`` times."""
    columns: dict[str, Any] = {c: np.tile(getattr(counts, c), factor) for c in COLUMNS}
    return AttackCounts(**columns)


def _more(
    posterior: Posterior,
    verdict: Verdict,
    grow: Callable[[AttackCounts, int], AttackCounts],
    report: Say | None,
) -> MoreData | None:
    """Try the largest factor first: if that does not settle it, a smaller one would not either."""
    found: MoreData | None = None
    for factor in reversed(FACTORS):
        if report:
            report(f"what {factor} times as much data would settle")
        try:
            grown = grow(posterior.counts, factor)
        except InputError:
            continue  # more trials than can be counted exactly
        try:
            ahead = estimate_exact(grown, posterior.model)
        except ContradictionError:
            return found
        if not ahead.trustworthy:
            return found
        above = ahead.probability_above("epsilon", verdict.claim)
        outcome = verdict.thresholds.outcome(above)
        settled = outcome is not Outcome.INCONCLUSIVE
        if settled or found is None:
            found = MoreData(
                factor=factor if settled else None,
                outcome=outcome,
                probability_above=above,
                largest_factor=found.largest_factor if found else factor,
            )
        if not settled:
            break
    return found
