"""How much more data would settle an inconclusive verdict, assuming the same error rates.

A forecast, not a guarantee: it assumes that new data have the error rates observed so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsilometer._arrays import OnMessage
from epsilometer.engines.exact.engine import estimate_exact
from epsilometer.errors import ContradictionError, InputError
from epsilometer.judgement.verdict import Outcome, Verdict
from epsilometer.model.count_model import CountModel
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors.posterior import CountPosterior

FACTORS = (2, 4, 10)
"""Multiples of the data to try."""

MOST_DISTINCT = {True: 1000, False: 60}
"""Most distinct counts for which trying takes seconds, by whether the likelihood is bounded."""


@dataclass(frozen=True, kw_only=True)
class MoreData:
    """The effect of one way of adding data.

    Attributes
    ----------
    factor, largest_factor
        The smallest factor tried that would settle the verdict, None if none would; the largest tried.
    outcome, probability_above
        The verdict at that factor, or at the largest one tried.
    """

    factor: int | None
    outcome: Outcome
    probability_above: float
    largest_factor: int


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """More challenges per base, or more bases; None if not computed."""

    challenges: MoreData | None
    bases: MoreData | None


def look_ahead(
    posterior: CountPosterior, verdict: Verdict, *, on_message: OnMessage | None = None
) -> Outlook:
    """Find how much more data would settle the verdict, by estimating from multiplied counts.

    Uses the exact engine, whichever engine made the posterior.  Nothing is computed for more distinct
    counts than `MOST_DISTINCT`, where it would take minutes.
    """
    counts, model = posterior.counts, posterior.model
    # Groups are too slow for the exact engine to try.
    if model.scatters(counts) or not is_quick(counts, model):
        return Outlook(challenges=None, bases=None)
    return Outlook(
        challenges=_more(posterior, verdict, with_more_challenges, on_message),
        bases=_more(posterior, verdict, with_more_bases, on_message),
    )


def is_quick(counts: AttackCounts, model: CountModel) -> bool:
    """Whether the exact engine takes seconds, so that it can run as a side computation."""
    return len(counts.distinct()[0]) <= MOST_DISTINCT[model.likelihood.bounded]


def with_more_challenges(counts: AttackCounts, factor: int) -> AttackCounts:
    """The same error rates from ``factor`` times as many challenges."""
    return replace(counts, **{column: factor * getattr(counts, column) for column in COLUMNS})


def with_more_bases(counts: AttackCounts, factor: int) -> AttackCounts:
    """Every base repeated ``factor`` times."""
    columns: dict[str, Any] = {c: np.tile(getattr(counts, c), factor) for c in COLUMNS}
    return AttackCounts(**columns)


def _more(
    posterior: CountPosterior,
    verdict: Verdict,
    grow: Callable[[AttackCounts, int], AttackCounts],
    on_message: OnMessage | None,
) -> MoreData | None:
    """Try the largest factor first: if that does not settle it, a smaller one would not either."""
    more_data: MoreData | None = None
    for factor in reversed(FACTORS):
        if on_message:
            on_message(f"outlook with {factor} times as much data")
        try:
            grown = grow(posterior.counts, factor)
        except InputError:
            continue  # more trials than can be counted exactly
        try:
            ahead = estimate_exact(grown, posterior.model)
        except ContradictionError:
            return more_data
        if not ahead.trustworthy:
            return more_data
        above = ahead.probability_above("epsilon", verdict.claim)
        outcome = verdict.thresholds.outcome(above)
        settled = outcome is not Outcome.INCONCLUSIVE
        if settled or more_data is None:
            more_data = MoreData(
                factor=factor if settled else None,
                outcome=outcome,
                probability_above=above,
                largest_factor=more_data.largest_factor if more_data else factor,
            )
        if not settled:
            break
    return more_data
