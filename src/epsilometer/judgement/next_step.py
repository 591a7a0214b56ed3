"""One sentence: what to do next with a result, with a claim or without one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from epsilometer._text import capital, pair_text
from epsilometer.judgement.units import more, units_of
from epsilometer.judgement.verdict import Grounds, Outcome

if TYPE_CHECKING:
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

#: Suggested multiple of the models: intervals of rates shrink with the square root of their number.
MORE = 4

#: A proof below this share of the most that could be proven leaves room for stronger attacks.
FAR = 0.8

#: Multiples of the models that are tried where epsilon is extrapolated.
FEASIBLE = (2, 4, 10)


def after(result: Result) -> str:
    """What to do next with a result, in one sentence."""
    verdict, units = result.verdict, units_of(result.data)
    known = _whatever_the_model(result)
    if known is not None:
        return known
    if verdict is not None and verdict.outcome is Outcome.FAIL:
        proof, larger = result.proof, f"more {units.scored} of the {units.worst}"
        if proof and max(verdict.claim, proof.at_least / FAR) < proof.most_provable:
            larger = f"a stronger attack, or {larger},"
        return f"{FIX}; {larger} may prove it."
    if result.kind == "curve":
        return _after_curves(cast("CurveResult", result))
    if verdict is None:
        return f"{STATE_A_CLAIM}."
    if verdict.outcome is Outcome.PASS:
        return REPORT_PASS
    return PLAN if result.predictive.fits else OTHER_MODEL


def _whatever_the_model(result: Result) -> str | None:
    """The step after a proof, and where the estimate cannot be used; None otherwise."""
    verdict = result.verdict
    if verdict is not None and verdict.outcome is Outcome.NO_PROMISE:
        return PROMISE
    if verdict is not None and verdict.grounds is Grounds.PROVEN:
        return f"{FIX}."
    if result.flaws:
        return MEND
    if not result.accurate:
        return ENGINE if getattr(result.posterior, "chains", None) is None else SAMPLER
    if result.shares_models and verdict is not None:
        return SEPARATE_MODELS
    return None if result.contradiction is None else REFUTED


def _after_curves(result: CurveResult) -> str:
    """Where the curve model passed a claim, left it open, or was not asked for one."""
    posterior, verdict = result.posterior, result.verdict
    if verdict is None:
        return _without_claim(result)
    if verdict.outcome is Outcome.INCONCLUSIVE and not result.predictive.fits:
        return OTHER_FAMILIES
    if posterior.saturated:
        return capital(_raise_limit(result))
    if posterior.extrapolated:
        passed = verdict.outcome is Outcome.PASS
        lead = "Before you report this as a judgement, " if passed else SETTLE
        return _where_extrapolated(result, lead)
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return f"{SETTLE}{_narrow(result)}."
    return STRONGER if result.shown[1] < verdict.claim / 2 else REPORT_PASS


def _without_claim(result: CurveResult) -> str:
    if result.posterior.saturated:
        return f"{STATE_A_CLAIM}; {_raise_limit(result)}"
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
            return f"{lead}{more(result.scores, factor)}: with fewer, {at} is extrapolated."
    only = "rely on the proven bound, or " if result.proof is not None else ""
    advice = (
        f"{only}fix the family of curves, if you can justify one: {at} depends on it, and even "
        f"{FEASIBLE[-1]} times as many {units.scored} per {units.base} would not show enough."
    )
    return f"{lead}{advice}" if lead != SETTLE else f"{advice[0].upper()}{advice[1:]}"


def _raise_limit(result: CurveResult) -> str:
    """How much more models would raise what can be shown at all."""
    most = result.posterior.most_shown
    return (
        f"{more(result.scores, MORE)} to raise what they can show from {most:.2f} to "
        f"{most + math.log(MORE):.2f}: these data set no upper limit."
    )


def _narrow(result: CurveResult) -> str:
    """Which data narrow the interval: more of each base, or more and better attacks."""
    posterior, units = result.posterior, units_of(result.scores)
    low, high = posterior.credible_interval("epsilon", result.level)
    shown = result.shown
    if shown[1] > 2 * shown[0] or shown[1] - shown[0] > (high - low) / 2:
        return (
            f"{more(result.scores, MORE)}: the {units.worst} alone is only known to show between "
            f"{_range(shown)}"
        )
    return (
        f"use stronger attacks or more {units.base}s: the {units.worst} is known to show between "
        f"{_range(shown)}, so more {units.scored} per {units.base} would change little"
    )


def _range(ends: tuple[float, float]) -> str:
    return pair_text(*ends).replace(" to ", " and ")
