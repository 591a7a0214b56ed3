"""One sentence: what to do next with a result, with a claim or without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilometer._text import pair_text
from epsilometer.judgement.units import MODELS, units_of
from epsilometer.judgement.verdict import Grounds, Outcome

if TYPE_CHECKING:
    from epsilometer.judgement.count_result import CountResult
    from epsilometer.judgement.curve_result import CurveResult
    from epsilometer.judgement.result import Result

PROMISE = (
    "Train with noise and an accountant that states a finite epsilon, or state the epsilon that you "
    "claim yourself: as it is, this training promises nothing."
)
MEND = (
    "Mend the data before you read any number here: the first warning says what is wrong with them."
)
FIX = (
    "Look for a mistake in the algorithm or in its privacy accounting, and check that the claim is for "
    "this training, these neighbouring datasets and this delta"
)
REFUTED = (
    "Do not quote the estimate, which the same data refute: quote the proven bound, and estimate again "
    "with another model."
)
STATE_A_CLAIM = "State the epsilon you claim with `claim=` to get a verdict"
REPORT_PASS = (
    "Report this as a judgement, not as a proof of privacy, and name the attacks that were tried: "
    "stronger ones may show more."
)
STRONGER = (
    "Before you rely on this, repeat the audit with stronger attacks or worse-case records: these "
    "attacks show less than half of the claim."
)
SEPARATE_MODELS = (
    "Train models for each point separately (a design other than pool) to get a judgement: points that "
    "share models only support what is proven."
)
OTHER_MODEL = (
    "Estimate from scores or losses instead of counts, or compare other likelihoods: "
    "this model does not fit the counts."
)
OTHER_FAMILIES = (
    "Compare the ROC curves below with the model's, and rely on the proven bound only: this model does "
    "not fit the scores."
)
SAMPLER = (
    "Run the sampler for longer before you quote this: raise `num_iterations=` or `num_chains=`, or "
    "use the exact engine."
)
ENGINE = (
    "Do not quote this: the engine did not reach its accuracy; estimate again with fewer bases, with a "
    "simpler model, or in Python with a larger tolerance or more refinement steps."
)
SETTLE = "To settle this, "
PLAN = "Use `epsilometer plan` to find how many bases and challenges would settle this."

MORE = 4
"""Suggested multiple of the models: intervals of rates shrink with the square root of their number."""

FEASIBLE = (2, 4, 10)
"""Multiples of the models that are tried where epsilon is extrapolated."""


def after_curves(result: CurveResult) -> str:
    """What to do next with a result of the curve model, in one sentence."""
    known = _whatever_the_model(result, ENGINE)
    if known is not None:
        return known
    verdict, units = result.verdict, units_of(result.scores)
    if verdict is None:
        return _without_claim(result)
    if verdict.outcome is Outcome.FAIL:
        return f"{FIX}; more {units.scored} of the {units.worst} may prove it."
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return _to_settle(result)
    if result.posterior.extrapolated:
        return _where_extrapolated(result, "Before you report this as a judgement, ")
    return STRONGER if _weak(result, verdict.claim) else REPORT_PASS


def after_counts(result: CountResult) -> str:
    """What to do next with a result of the count model, in one sentence."""
    known = _whatever_the_model(result, ENGINE if result.posterior.chains is None else SAMPLER)
    if known is not None:
        return known
    if result.verdict is None:
        return f"{STATE_A_CLAIM}."
    if result.verdict.outcome is Outcome.FAIL:
        return f"{FIX}; more {MODELS.scored} of the {MODELS.worst} may prove it."
    return REPORT_PASS if result.verdict.outcome is Outcome.PASS else _to_settle_counts(result)


def _whatever_the_model(result: Result, inaccurate: str) -> str | None:
    """The step after a proof, and where the estimate cannot be used; None otherwise."""
    verdict = result.verdict
    if verdict is not None and verdict.outcome is Outcome.NO_PROMISE:
        return PROMISE
    if verdict is not None and verdict.grounds is Grounds.PROVEN:
        return f"{FIX}."
    if result.flaws:
        return MEND
    if not result.accurate:
        return inaccurate
    if result.shares_models and verdict is not None:
        return SEPARATE_MODELS
    return None if result.contradiction is None else REFUTED


def _without_claim(result: CurveResult) -> str:
    if result.posterior.extrapolated:
        return _where_extrapolated(result, f"{STATE_A_CLAIM}; before you quote the estimate, ")
    low, high = result.posterior.credible_interval("epsilon", result.level)
    if high > 2 * low:
        return f"{STATE_A_CLAIM}; to narrow the interval first, {_narrow(result)}."
    return f"{STATE_A_CLAIM}."


def _where_extrapolated(result: CurveResult, lead: str) -> str:
    """How to show the rates that determine epsilon, or what to rely on if that is not feasible.

    Never a larger delta: delta is part of the claim, and a large one is no privacy.
    """
    posterior, units = result.posterior, units_of(result.scores)
    at = f"epsilon at delta = {result.model.delta:g}"
    for factor in FEASIBLE:
        if posterior.delta_at_rate(posterior.finest_rate / factor) <= result.model.delta:
            return f"{lead}{_more(result, factor)}: with fewer, {at} is extrapolated."
    only = "rely on the proven bound, or " if result.proof is not None else ""
    advice = (
        f"{only}fix the family of curves, if you can justify one: {at} depends on it, and even "
        f"{FEASIBLE[-1]} times as many {units.scored} per {units.base} would not show enough."
    )
    return f"{lead}{advice}" if lead != SETTLE else f"{advice[0].upper()}{advice[1:]}"


def _more(result: CurveResult, factor: int) -> str:
    """The advice to measure ``factor`` times as many models or canaries."""
    units, scores = units_of(result.scores), result.scores
    now = int((scores.trials_h0 + scores.trials_h1).max())
    verb = "use" if scores.one_run else "train"
    return f"{verb} more {units.scored} per {units.base} ({factor * now:,} instead of {now:,})"


def _narrow(result: CurveResult) -> str:
    """Which data narrow the interval: more of each base, or more and better attacks."""
    posterior, units = result.posterior, units_of(result.scores)
    low, high = posterior.credible_interval("epsilon", result.level)
    shown = posterior.credible_interval("shown", result.level)
    if shown[1] > 2 * shown[0] or shown[1] - shown[0] > (high - low) / 2:
        return (
            f"{_more(result, MORE)}: the {units.worst} alone is only known to be between "
            f"{_range(shown)}"
        )
    return (
        f"use stronger attacks or more {units.base}s: the {units.worst} is already known to be between "
        f"{_range(shown)}, so more {units.scored} per {units.base} would change little"
    )


def _range(ends: tuple[float, float]) -> str:
    return pair_text(*ends).replace(" to ", " and ")


def _weak(result: CurveResult, claim: float) -> bool:
    """Whether the attacks show less than half of the claim."""
    return result.posterior.credible_interval("shown", result.level)[1] < claim / 2


def _to_settle(result: CurveResult) -> str:
    """What would settle an open verdict."""
    if not result.predictive.fits:
        return OTHER_FAMILIES
    if result.posterior.extrapolated:
        return _where_extrapolated(result, SETTLE)
    return f"{SETTLE}{_narrow(result)}."


def _to_settle_counts(result: CountResult) -> str:
    """What would settle an open verdict of the count model."""
    if any(item.surprising for item in result.predictive.statistics):
        return OTHER_MODEL
    return PLAN
