"""Explanations for readers who have not read the paper: the verdict, epsilon, the assumptions."""

from __future__ import annotations

from epsilometer._text import capital, digits_of, probability_text
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.objections import PRIOR_DECIDES
from epsilometer.judgement.result import Origin, Result
from epsilometer.judgement.units import assumptions, units_of
from epsilometer.judgement.verdict import Grounds, Outcome, Verdict
from epsilometer.model import region
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.priors import Beta
from epsilometer.proofs.proof import rounded_down

FALSE_ALARMS = 0.01
"""False-positive rate at which the meaning of epsilon is explained."""

CAVEATS = {
    (Outcome.FAIL, Grounds.JUDGED): "This is a judgement, not a proof: it depends on the model.",
    (Outcome.PASS, Grounds.JUDGED): (
        "This is not a proof of privacy. The posterior allows for attacks that were not the best "
        "possible, but it cannot account for attacks that nobody tried."
    ),
}
"""What to keep in mind about a judgement."""

NEIGHBOURS = {
    "include": "Neighbouring datasets differ in one record: with or without the challenge point.",
    "replace": "Neighbouring datasets have the same size: the challenge point replaces another record.",
}
UNKNOWN_NEIGHBOURS = (
    "The {what} do not say which datasets are neighbours (a record added, or one replaced). Epsilon "
    "refers to the definition under which the attacks were made."
)


# --- after the verdict ------------------------------------------------------------------------------


def after_verdict(result: Result) -> list[str]:
    """What to keep in mind about the verdict."""
    verdict = result.verdict
    if verdict is None or verdict.outcome is Outcome.NO_PROMISE:
        return []
    if not (verdict.trustworthy or verdict.grounds is Grounds.PROVEN):
        return []
    caveat = CAVEATS.get((verdict.outcome, verdict.grounds))
    said = [*([] if caveat is None else [caveat]), *_other_priors(result, verdict)]
    if isinstance(result, CurveResult) and verdict.outcome is Outcome.FAIL:
        above = probability_text(result.posterior.probability_above("shown", verdict.claim))
        worst = units_of(result.scores).worst
        said.append(f"The {worst} alone exceeds the claim with probability {above}.")
    return said


def _other_priors(result: Result, verdict: Verdict) -> list[str]:
    """How the verdict depends on the prior; empty for a proof or a contradicted posterior."""
    if verdict.grounds is Grounds.PROVEN or result.contradiction is not None:
        return []
    said = []
    if verdict.prior_alone:
        said.append(
            f"The prior alone gives the verdict {verdict.outcome}: these attacks added little, so do "
            "not quote it as their result."
        )
    if len(verdict.by_delta) > 1:  # other priors were estimated at one delta
        return said
    assert isinstance(result, CountResult | CurveResult)
    parts, outcomes = [], {verdict.leaning}
    for other in result.other_priors:
        above = other.epsilon.probability_above(verdict.claim)
        outcome = verdict.thresholds.outcome(above)
        outcomes.add(outcome)
        parts.append(f"{probability_text(above)} ({outcome}) with {other.factor:g} times the scale")
    if parts:
        start = "With" if len(outcomes) == 1 else f"{capital(PRIOR_DECIDES)}: with"
        said.append(f"{start} other priors the probability would be {' and '.join(parts)}.")
    return said


# --- epsilon ------------------------------------------------------------------------------------------


def best_detection(epsilon: float, delta: float, false_alarms: float = FALSE_ALARMS) -> float:
    """Largest true-positive rate that (epsilon, delta)-DP allows at a false-positive rate."""
    least_beta, _ = region.beta_limits(false_alarms, epsilon, delta)
    return 1 - float(least_beta)


def meaning_of_epsilon(result: Result) -> str:
    """What the answers mean for a person whose record is in the data."""
    posterior, level = result.posterior, result.level
    if isinstance(result, CurveResult):
        tails = [0.5 + level / 2, 0.5, 0.5 - level / 2]
        low, median, high = (1 - result.posterior.trade_off(FALSE_ALARMS, tails)[:, 0]).tolist()
        return (
            f"{units_of(result.scores).about_shown} Estimated is the epsilon of the algorithm, "
            "including what they may have missed. At a false-positive rate of 1 %, the best attack on "
            f"the worst record would find {_percents(median)} of the members (between "
            f"{_percents(low)} and {_percents(high)} with probability {level:g}); guessing finds 1 %."
        )
    low, high = posterior.credible_interval("epsilon", level)
    shares = [
        _percents(best_detection(value, result.delta))
        for value in (low, posterior.median("epsilon"), high)
    ]
    return (
        "Epsilon bounds how well anyone can tell from the trained model whether one record was in the "
        "training data. At a false-positive rate of 1 %, an attacker would find at most "
        f"{shares[1]} of the members at the median epsilon, {shares[0]} at the lower end of the "
        f"interval and {shares[2]} at the upper end; guessing finds 1 %."
    )


def _percents(share: float) -> str:
    return f"{100 * share:.3g} %"


def settled_claims(result: Result) -> str:
    """Which claims are refuted, and from which epsilon upwards the posterior lets a claim pass."""
    if "epsilon" not in result.posterior.parameters:
        return ""
    proof, said = result.proof, []
    if proof is not None and proof.at_least > 0:
        said.append(f"Claims below {rounded_down(proof.at_least)} are refuted.")
    if result.contradiction is None:
        thresholds = result.question.thresholds
        tails = [1 - thresholds.fail_at_least, 1 - thresholds.pass_at_most]
        fails, passes = result.posterior.quantile("epsilon", tails).tolist()
        digits = digits_of(fails, passes)
        failing = f", and one of {fails:.{digits}f} or less would fail" if fails > 0 else ""
        passing = f"By the posterior alone a claim of {passes:.{digits}f} or more would pass"
        said.append(f"{passing}{failing}.")
    return " ".join(said)


# --- assumptions --------------------------------------------------------------------------------------


def assumed(result: Result) -> list[str]:
    """The assumptions of the model, one sentence each."""
    if isinstance(result, CurveResult):
        return assumptions(result)
    assert isinstance(result, CountResult)
    return count_assumptions(result.model, result.counts)


def all_assumptions(result: Result) -> list[str]:
    """The same with which datasets are neighbours, and what the count model does not assume."""
    if isinstance(result, CurveResult):
        return [neighbours(result.origin, "scores"), *assumed(result)]
    estimated = "strength" in result.posterior.parameters
    chosen = "estimated together with epsilon" if estimated else "fixed here"
    return [
        neighbours(result.origin, "counts"),
        *assumed(result),
        "Attacks are not assumed to be the best possible, nor a base to be the worst case: how close "
        f"they came is the attack strength, which is {chosen}.",
        "Challenge bases are exchangeable: none is known in advance to be harder to attack.",
    ]


def neighbours(origin: Origin, what: str) -> str:
    """Which datasets are neighbours; ``what`` names the input, which may not state it."""
    return NEIGHBOURS.get(origin.plan.get("adjacency", ""), UNKNOWN_NEIGHBOURS.format(what=what))


def count_assumptions(model: CountModel, counts: AttackCounts) -> list[str]:
    """Assumptions of the count model, one sentence each."""
    epsilon, strength = model.epsilon, model.strength
    before = "" if epsilon.fixed_value is not None else "Before the data, "
    sentences = [
        f"The algorithm is (epsilon, delta)-DP at delta = {model.delta:g} for some epsilon, which is "
        "estimated.",
        f"{before}epsilon is {epsilon.description}.",
    ]
    if strength.fixed_value is not None:
        sentences.append(f"The attack strength is {strength.description}.")
    elif strength == Beta():
        sentences.append("Before the data, every attack strength from 0 to 1 is equally likely.")
    else:
        sentences.append(f"Before the data, the attack strength is {strength.description}.")
    grouped = model.scatters(counts)
    whose = "The average error rates of each group" if grouped else "Each attack's error rates"
    other = "groups" if grouped else "attacks"
    sentences += [
        *([] if counts.measured is None else [counts.measured.description]),
        *model.likelihood.description,
        f"{whose} are uniformly distributed over the region that epsilon and the strength allow, "
        f"independently of the other {other}.",
    ]
    return sentences + (list(model.dependence.description) if counts.dependent else [])
