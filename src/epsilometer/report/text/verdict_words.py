"""The verdict and the proven bound, as text and as plain values, for every kind of result."""

from __future__ import annotations

from typing import Any

from epsilometer._text import probability_text
from epsilometer.judgement.result import JudgedResult
from epsilometer.judgement.verdict import Grounds, Verdict
from epsilometer.proofs.proof import rounded_down

NOT_TRIED = (
    "no proof is possible: the decisions or scores of one base depend on each other (cross-fed counts, "
    "a statistic of several models), or canaries were not included by fair coin flips"
)


def verdict_data(result: JudgedResult) -> dict[str, Any]:
    """The proof, any contradiction of the estimate, and the verdict if there is a claim."""
    proof, verdict = result.proof, result.verdict
    asked = result.question
    found: dict[str, Any] = {
        "asked": {
            "error": asked.error,
            "pass_at_most": asked.thresholds.pass_at_most,
            "fail_at_least": asked.thresholds.fail_at_least,
            "shared_models": not asked.independent,
        },
        "proof": None if proof is None else proof.described(),
        "bounds": [bound._asdict() for bound in result.bounds],
        "contradiction": result.contradiction,
    }
    if verdict is None:
        return found
    claim: dict[str, Any] = {
        "epsilon": verdict.claim,
        "probability_above": verdict.probability_above,
        "prior_probability_above": verdict.prior_probability_above,
    }
    if result.claim_source is not None:
        claim["source"] = result.claim_source
    return found | {"claim": claim, "verdict": judged_data(verdict)}


def judged_data(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain values."""
    return {
        "outcome": str(verdict.outcome),
        "grounds": str(verdict.grounds),
        "reasons": list(verdict.reasons),
        "meaning": verdict.meaning,
        "pass_at_most": verdict.thresholds.pass_at_most,
        "fail_at_least": verdict.thresholds.fail_at_least,
    }


def headline(result: JudgedResult, found: str) -> str:
    """The result in one or two sentences; with a claim the verdict comes first.

    ``found`` continues "epsilon is", such as "estimated at 2.1 (1.2 to 3.4 with probability 0.9)".  If
    a proof contradicts the estimate, the contradiction replaces it.
    """
    verdict, at = result.verdict, f"at delta = {result.posterior.model.delta:g}"
    warned = "" if result.contradiction is None else f"{result.contradiction} "
    if warned:  # never print an estimate that the same data refute
        found = "not estimated reliably"
    if verdict is None:
        return f"{warned}{_capital(at)}, epsilon is {proven_words(result)}; {found}."
    own = result.claim_source == "algorithm"
    whose = f"the algorithm's own claim of {verdict.claim:.4g}" if own else f"{verdict.claim:.4g}"
    said = f"{verdict.label}: {warned}{_capital(verdict.meaning, bool(warned))}."
    if verdict.grounds is Grounds.PROVEN:
        return f"{said} The claim is {whose}; {at}, epsilon is {found}."
    return (
        f"{said} {_capital(at)}, epsilon exceeds {whose} with probability "
        f"{probability_text(verdict.probability_above)} "
        f"({probability_text(verdict.prior_probability_above)} before the data); it is "
        f"{proven_words(result)}; {found}."
    )


def proven_words(result: JudgedResult) -> str:
    """The proven bound, to follow "epsilon is"."""
    proof = result.proof
    if proof is None or not proof.at_least > 0:
        return "not proven to be above 0"
    return f"proven to be at least {rounded_down(proof.at_least)}"


def proven_fact(result: JudgedResult) -> str:
    """The proven bound with its error and its assumptions."""
    proof = result.proof
    if proof is None:
        return NOT_TRIED
    said = f"at least {rounded_down(proof.at_least)}" if proof.at_least > 0 else "nothing"
    when = "valid at any time" if proof.any_time else "valid for one planned analysis"
    assumes = proof.assumes.removesuffix(f"; {when}")  # some proofs say it themselves
    found = f"{said}, error {100 * proof.error:g} %, {when}; assumes {assumes}"
    if proof.claim is not None and proof.e_value is not None:
        found += f"; e-value against the claim {e_value_text(proof.e_value)}"
        found += f" (refuted at {1 / proof.error:g} or more)"
    return found if proof.hopeless is None else f"{found}; {proof.hopeless}"


def e_value_text(value: float) -> str:
    """An e-value with three significant digits, two if it is large."""
    return f"{value:.3g}" if value < 1e4 else f"{value:.1e}"


def proven_row(result: JudgedResult) -> tuple[str, str, str, str]:
    """Row of the proven bound: label, median, interval, mean."""
    proof = result.proof
    said = "" if proof is None else f"at least {rounded_down(proof.at_least)}"
    return ("proven", "", said or "-", "")


def _capital(text: str, wanted: bool = True) -> str:
    return f"{text[:1].upper()}{text[1:]}" if wanted else text
