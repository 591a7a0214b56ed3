"""One sentence: what to do next with a result, with a claim or without one."""

from __future__ import annotations

from epsilometer.inference.profile.result import ProfileResult
from epsilometer.inference.result import JudgedResult, Result
from epsilometer.inference.verdict import Grounds, Outcome
from epsilometer.report.text import pair_text
from epsilometer.report.units import MODELS, units_of

FIX = (
    "Look for a mistake in the algorithm or in its privacy accounting, and check that the claim is about "
    "this training, these neighbouring datasets and this delta."
)
REFUTED = (
    "Do not quote the estimate: quote the proven bound, and repeat the audit with another likelihood or "
    "--model."
)
STATE_A_CLAIM = "State the epsilon you claim with --claim to get a verdict"
MORE = 4
"""Suggested multiple of the models: intervals of rates shrink with the square root of their number."""


def next_step(result: JudgedResult) -> str:
    """What to do next, in one sentence."""
    verdict = result.verdict
    if verdict is not None and verdict.grounds is Grounds.PROVEN:
        return FIX
    if not result.posterior.trustworthy:
        return _estimate_again(result)
    if result.contradiction is not None:
        return REFUTED
    if verdict is None:
        return _without_claim(result)
    if verdict.outcome is Outcome.FAIL:
        return f"{FIX} {_to_prove(result)}"
    if verdict.outcome is Outcome.PASS:
        return _after_pass(result)
    return _to_settle(result)


def _estimate_again(result: JudgedResult) -> str:
    """What makes the engine reach its accuracy."""
    posterior = result.posterior
    if isinstance(result, Result) and result.posterior.chains is not None:
        return (
            "Run the sampler for longer before you quote this: raise --num-iterations or --num-chains, "
            "or use --engine exact."
        )
    return (
        "Do not quote this yet: the engine did not reach its accuracy "
        f"({posterior.engine_description.rpartition('; ')[2]}); estimate again with fewer bases or "
        "a simpler model, or raise the tolerance in Python."
    )


def _without_claim(result: JudgedResult) -> str:
    if isinstance(result, ProfileResult) and _extrapolated(result):
        return f"{STATE_A_CLAIM}, and {_at_larger_delta(result)}."
    if isinstance(result, ProfileResult) and _is_wide(result):
        return f"{STATE_A_CLAIM}; to narrow the interval first, {_narrow(result)}."
    return f"{STATE_A_CLAIM}."


def _extrapolated(result: ProfileResult) -> bool:
    return result.model.delta < result.posterior.extrapolated_below_delta


def _at_larger_delta(result: ProfileResult) -> str:
    below, units = result.posterior.extrapolated_below_delta, units_of(result.scores)
    return (
        f"either ask for a delta of at least {below:.1g} or score more {units.scored} per {units.base}: "
        f"epsilon at delta = {result.model.delta:g} is extrapolated"
    )


def _is_wide(result: ProfileResult) -> bool:
    low, high = result.posterior.credible_interval("epsilon", result.level)
    return high > 2 * low


def _narrow(result: ProfileResult) -> str:
    """Which data narrow the interval: more of each base, or more and better attacks."""
    posterior, units, scores = result.posterior, units_of(result.scores), result.scores
    low, high = posterior.credible_interval("epsilon", result.level)
    shown = posterior.credible_interval("shown", result.level)
    if shown[1] - shown[0] > (high - low) / 2:
        now = int(scores.trials_h0.max() + scores.trials_h1.max())
        what = "put in" if scores.one_run else "train"
        return (
            f"{what} more {units.scored} per {units.base} ({MORE * now:,} instead of {now:,}): the "
            f"{units.worst} alone is known only to be {pair_text(*shown)}"
        )
    return (
        f"use stronger attacks or more {units.base}s: the {units.worst} is already known to be "
        f"{pair_text(*shown)}, so more {units.scored} per {units.base} would change little"
    )


def _to_prove(result: JudgedResult) -> str:
    units = units_of(result.scores) if isinstance(result, ProfileResult) else MODELS
    return f"More {units.scored} of the {units.worst} may turn this judgement into a proof."


def _after_pass(result: JudgedResult) -> str:
    if isinstance(result, ProfileResult) and _extrapolated(result):
        return f"Before you rely on this, {_at_larger_delta(result)}."
    if _weak(result):
        return (
            "Before you rely on this, repeat the audit with stronger attacks or worse-case records: these "
            "attacks show less than half of the claim."
        )
    return (
        "Report this as a judgement, not as a proof of privacy, and name the attacks that were tried: "
        "stronger ones may show more."
    )


def _weak(result: JudgedResult) -> bool:
    """Whether the attacks show less than half of the claim."""
    claim = result.question.claim
    if not isinstance(result, ProfileResult) or claim is None:
        return False
    return result.posterior.credible_interval("shown", result.level)[1] < claim / 2


def _to_settle(result: JudgedResult) -> str:
    """What would settle an open verdict."""
    if isinstance(result, ProfileResult):
        if result.scores.models is not None:
            return (
                "Train models for each point separately (design many-models) to get a judgement: points "
                "that share models only support what is proven."
            )
        if _extrapolated(result):
            return f"To settle this, {_at_larger_delta(result)}."
        return f"To settle this, {_narrow(result)}."
    assert isinstance(result, Result)
    outlook = result.outlook
    for more, now, what in () if outlook is None else (
        (outlook.challenges, int(result.counts.trials_h0.max()), "challenges per base"),
        (outlook.bases, len(result.counts), "challenge bases"),
    ):  # fmt: skip
        if more is not None and more.factor is not None:
            return (
                f"Measure {more.factor * now:,} {what} instead of {now:,}: with the same error rates that "
                f"would settle it as {more.outcome}."
            )
    return (
        "Use stronger attacks or worse-case challenge points: more data of the same kind would not "
        "settle this."
        if outlook is not None
        else "Use `epsilometer plan` to find how many bases and challenges would settle this."
    )
