"""The answer in sentences: the verdict, what is proven, what is shown, what is estimated.

Every view starts with these; each sentence explains its own first word.
"""

from __future__ import annotations

from typing import NamedTuple

from epsilometer._text import estimate_text, percent, probability_text
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.judgement.verdict import Grounds, Outcome, Verdict
from epsilometer.proofs.proof import rounded_down

NOT_TRIED = (
    "no proof is possible: the decisions or scores of one base depend on each other (cross-fed counts, "
    "a statistic of several models), or canaries were not included by fair coin flips"
)


class Answer(NamedTuple):
    """A sentence and the word it explains, such as Proven."""

    word: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.word}: {self.sentence}"


# --- the verdict --------------------------------------------------------------------------------


def verdict_sentence(result: Result, most_reasons: int | None = None) -> str:
    """The verdict with its reasons and the claim; empty without a claim.

    ``most_reasons`` are named, the others counted.
    """
    verdict = result.verdict
    if verdict is None:
        return ""
    reasons = list(verdict.reasons[:most_reasons])
    left = len(verdict.reasons) - len(reasons)
    if left:
        reasons.append(f"and {left} more reason{'s' if left > 1 else ''}, see --details")
    said = f"{verdict.label}: {'; '.join(reasons)}."
    return said if verdict.outcome is Outcome.NO_PROMISE else f"{said} {claim_sentence(result)}"


def claim_sentence(result: Result) -> str:
    """What is claimed, and how probable it is that epsilon exceeds it."""
    verdict = result.verdict
    assert verdict is not None
    who = "The algorithm's own claim" if result.claim_source == "algorithm" else "The claim"
    said = f"{who}: epsilon at most {claim_words(verdict)} at {where_claimed(verdict)}"
    if verdict.grounds is Grounds.PROVEN or not verdict.trustworthy:
        return f"{said}."
    above = probability_text(verdict.probability_above)
    if len(verdict.by_delta) > 1:
        return f"{said}; exceeded at one or more of them with probability {above}."
    before = probability_text(verdict.prior_probability_above)
    return f"{said}; exceeded with probability {above} ({before} before the data)."


def claim_words(verdict: Verdict) -> str:
    """The claimed epsilon, or its range over several deltas."""
    claims = [row.claim for row in verdict.by_delta] or [verdict.claim]
    if min(claims) == max(claims):
        return f"{verdict.claim:.4g}"
    return f"{min(claims):.4g} to {max(claims):.4g}"


def where_claimed(verdict: Verdict) -> str:
    """The delta of the claim, or the range of several."""
    deltas = [row.delta for row in verdict.by_delta]
    if len(deltas) == 1:
        return f"delta = {deltas[0]:g}"
    return f"{len(deltas)} deltas from {min(deltas):g} to {max(deltas):g}"


# --- proven, shown, estimated -------------------------------------------------------------------


def answers(result: Result) -> list[Answer]:
    """What is proven, what the attacks show, and what is estimated, in a sentence each."""
    if result.kind == "curve":
        return [_proven(result), _shown(result), _estimated(result)]
    return [_proven(result), _estimated(result), _strength(result)]


def finding(result: Result) -> str:
    """The verdict and the answers as one text."""
    return " ".join(filter(None, [verdict_sentence(result), *map(str, answers(result))]))


def _proven(result: Result) -> Answer:
    proof, at = result.proof, f"at delta = {result.delta:g}"
    if proof is None:
        return Answer("Proven", f"nothing {at}: {NOT_TRIED}.")
    sure = f"wrong with probability at most {percent(proof.error)}"
    if not proof.at_least > 0:
        return Answer(
            "Proven",
            f"nothing {at}. A proof would hold for any algorithm and any attack, and be {sure}.",
        )
    return Answer(
        "Proven",
        f"epsilon is at least {rounded_down(proof.at_least)} {at}. This holds for any algorithm and "
        f"any attack, and is {sure}.",
    )


def _shown(result: Result) -> Answer:
    units = units_of(result.scores)  # type: ignore[attr-defined]  # of the curve model only
    where = "in" if units.base == "run" else "on"
    if result.contradiction is not None:
        return Answer("Shown", "not known reliably, for the same reason as the estimate.")
    return Answer(
        "Shown",
        f"{_interval(result, 'shown')} {where} the {units.worst}: what these attacks themselves "
        "reveal.",
    )


def _estimated(result: Result) -> Answer:
    posterior = result.posterior
    if result.model.epsilon.fixed_value is not None:
        said = f"nothing: the model holds epsilon fixed at {posterior.median('epsilon'):g}."
        return Answer("Estimated", said)
    if result.contradiction is not None:  # never print an estimate that the same data refute
        return Answer(
            "Estimated", "not reliably: the same data refute the posterior (see the warnings)."
        )
    said = f"{_interval(result, 'epsilon')} at delta = {result.delta:g}"
    if getattr(posterior, "extrapolated", False):
        said += ", extrapolated beyond the data"
    whose = "of the algorithm, including what these attacks may have missed"
    doubt = "" if result.trustworthy else " Do not quote it: see the warnings."
    return Answer("Estimated", f"{said}: epsilon {whose}.{doubt}")


def _strength(result: Result) -> Answer:
    posterior = result.posterior
    meaning = "how close the attacks came to the best possible ones (0: guessing, 1: the best)"
    if "strength" not in posterior.parameters:
        return Answer("Attack strength", f"fixed at {posterior.median('strength'):g}: {meaning}.")
    return Answer("Attack strength", f"{_interval(result, 'strength')}: {meaning}.")


def _interval(result: Result, name: str) -> str:
    low, high = result.posterior.credible_interval(name, result.level)
    said = estimate_text(result.posterior.median(name), low, high)
    return f"{said[:-1]} with probability {result.level:g})"


# --- the proof ----------------------------------------------------------------------------------


def proven_fact(result: Result) -> str:
    """The proven bound with its error and its assumptions."""
    proof = result.proof
    if proof is None:
        return NOT_TRIED
    said = f"at least {rounded_down(proof.at_least)}" if proof.at_least > 0 else "nothing"
    when = "valid at any time" if proof.any_time else "valid for one planned analysis"
    assumes = proof.assumes.removesuffix(f"; {when}")  # some proofs say it themselves
    said += f", error {100 * proof.error:g} %, {when}; assumes {assumes}"
    if proof.claim is not None and proof.e_value is not None:
        said += f"; e-value against the claim {e_value_text(proof.e_value)}"
        said += f" (refuted at {1 / proof.error:g} or more)"
    return said if proof.hopeless is None else f"{said}; {proof.hopeless}"


def e_value_text(value: float) -> str:
    """An e-value with three significant digits, two if it is large."""
    return f"{value:.3g}" if value < 1e4 else f"{value:.1e}"
