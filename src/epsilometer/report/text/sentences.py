"""The answer in sentences, and explanations for readers who have not read the paper.

Every view starts with the verdict, what is proven, what is shown and what is estimated; each sentence
explains its own first word.
"""

from typing import NamedTuple

from epsilometer._text import digits_of, estimate_text, pair_text, percent, probability_text
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.objections import PRIOR_DECIDES
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import assumptions, units_of
from epsilometer.judgement.verdict import Grounds, Outcome, Verdict
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Beta
from epsilometer.proofs.independent_noise import CONDITION
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
    own = result.question.claim_source == "algorithm"
    who = "The algorithm's own claim" if own else "The claim"
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
        return [_proven(result), *_if_independent(result), _shown(result), _estimated(result)]
    return [_proven(result), _estimated(result), _strength(result)]


def finding(result: Result) -> str:
    """The verdict and the answers as one text."""
    return " ".join(filter(None, [verdict_sentence(result), *map(str, answers(result))]))


def _proven(result: Result) -> Answer:
    proof, at = result.proof, f"at delta = {result.delta:g}"
    if proof is None:
        return Answer("Proven", f"nothing {at}: {NOT_TRIED}.")
    error = f"error at most {percent(proof.error)}"
    most, scored = rounded_down(proof.most_provable), units_of(result.data).scored
    of = f"(of at most {most} with this many {scored})"
    if not proof.at_least > 0:
        would = f"A proof would hold for any algorithm and any attack; {error}"
        return Answer("Proven", f"nothing {of} {at}. {would}.")
    least = f"epsilon is at least {rounded_down(proof.at_least)} {of} {at}"
    return Answer("Proven", f"{least}, for any algorithm and any attack; {error}.")


def _if_independent(result: Result) -> list[Answer]:
    """What is proven if the noise of canaries is independent, if that is assumed of them."""
    known = None if result.proof is None else result.proof.conditional
    said = "" if known is None else f"{known.finding}. Assumed: {CONDITION}."
    return [Answer(Grounds.CONDITIONAL.capitalize(), said)] if said else []


def _shown(result: Result) -> Answer:
    units = units_of(result.scores)  # type: ignore[attr-defined]  # of the curve model only
    where = "in" if units.base == "run" else "on"
    if result.contradiction is not None:
        return Answer("Shown", "not known reliably, for the same reason as the estimate.")
    (low, high), most = result.shown, result.posterior.most_shown  # type: ignore[attr-defined]
    models = f"{round(1 / result.posterior.finest_rate):,} {units.scored} per {units.base}"
    if low > AT_THE_MOST * most:
        said = f"at least {rounded_down(low)} at delta = {result.delta:g}, "
        if low > most:
            said += f"as proven; {models} alone can show at most {most:.2f}."
        else:
            said += f"the most that {models} can show."
    else:
        said = (
            f"{pair_text(low, high)} {where} the {units.worst}, of at most {most:.2f} that {models} "
            "can show: what is seen, without extrapolation."
        )
    return Answer("Shown", said)


def _estimated(result: Result) -> Answer:
    posterior = result.posterior
    if result.model.epsilon.fixed_value is not None:
        said = f"nothing: the model holds epsilon fixed at {posterior.median('epsilon'):g}."
        return Answer("Estimated", said)
    if result.contradiction is not None:  # never print an estimate that the same data refute
        said = "not reliably: the same data refute the posterior (see the warnings)."
        return Answer("Estimated", said)
    doubt = "" if result.trustworthy else " Do not quote it: see the warnings."
    if getattr(posterior, "saturated", False):
        low = posterior.credible_interval("epsilon", result.level)[0]
        least = rounded_down(max(low, 0.0 if result.proof is None else result.proof.at_least))
        said = (
            f"no upper limit: epsilon of the algorithm is probably at least {least} at delta = "
            f"{result.delta:g}, and these data cannot say how much larger.{doubt}"
        )
        return Answer("Estimated", said)
    said = f"{_interval(result, 'epsilon')} at delta = {result.delta:g}"
    if getattr(posterior, "extrapolated", False):
        said += ", extrapolated beyond the data"
    whose = "of the algorithm, including what these attacks may have missed"
    return Answer("Estimated", f"{said}: epsilon {whose}.{doubt}")


def _strength(result: Result) -> Answer:
    posterior = result.posterior
    meaning = "how close the attacks came to the best possible ones (0: guessing, 1: the best)"
    if "strength" not in posterior.parameters:
        return Answer("Attack strength", f"fixed at {posterior.median('strength'):g}: {meaning}.")
    return Answer("Attack strength", f"{_interval(result, 'strength')}: {meaning}.")


def _interval(result: Result, name: str) -> str:
    low, high = result.posterior.credible_interval(name, result.level)
    return estimate_text(result.posterior.median(name), low, high, result.level)


# --- the proof ----------------------------------------------------------------------------------


def proven_fact(result: Result) -> str:
    """The proven bound with its error and its assumptions."""
    proof = result.proof
    if proof is None:
        return NOT_TRIED
    said = f"at least {rounded_down(proof.at_least)}" if proof.at_least > 0 else "nothing"
    said += f" of at most {rounded_down(proof.most_provable)}"
    when = "valid at any time" if proof.any_time else "valid for one planned analysis"
    assumes = proof.assumes.removesuffix(f"; {when}")  # some proofs say it themselves
    said += f", error {100 * proof.error:g} %, {when}; assumes {assumes}"
    if proof.claim is not None and proof.e_value is not None:
        said += f"; e-value against the claim {e_value_text(proof.e_value)}"
        said += f" (refuted at {1 / proof.error:g} or more)"
    if proof.evidence is not None:
        said += f"; {proof.source}"
    return said if proof.hopeless is None else f"{said}; {proof.hopeless}"


def e_value_text(value: float) -> str:
    """An e-value with three significant digits, two if it is large."""
    return f"{value:.3g}" if value < 1e4 else f"{value:.1e}"


#: What is shown is at its limit if its lower end exceeds this share of it.
AT_THE_MOST = 0.95

#: False-positive rate at which the meaning of epsilon is explained.
FALSE_ALARMS = 0.01

#: What to keep in mind about a judgement.
CAVEATS = {
    (Outcome.FAIL, Grounds.JUDGED): "This is a judgement, not a proof: it depends on the model.",
    (Outcome.FAIL, Grounds.CONDITIONAL): (
        "This is a proof only if the noise of canaries is independent. Luck that the whole run shares "
        "would not be seen."
    ),
    (Outcome.PASS, Grounds.JUDGED): (
        "This is not a proof of privacy. The posterior allows for attacks that were not the best "
        "possible, but it cannot account for attacks that nobody tried."
    ),
}

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
    if not (verdict.trustworthy or verdict.grounds.without_engine):
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
    if verdict.grounds.without_engine or result.contradiction is not None:
        return []
    said = []
    if verdict.prior_alone:
        said.append(
            f"The prior alone gives the verdict {verdict.outcome}: these attacks added little, so do "
            "not quote it as their result."
        )
    if len(verdict.by_delta) > 1:  # other priors were estimated at one delta
        return said
    parts, outcomes = [], {verdict.leaning}
    for other in result.other_priors:
        above = other.epsilon.probability_above(verdict.claim)
        outcome = verdict.thresholds.outcome(above)
        outcomes.add(outcome)
        parts.append(f"{probability_text(above)} ({outcome}) with {other.factor:g} times the scale")
    if parts:
        start = "With" if len(outcomes) == 1 else f"{PRIOR_DECIDES.capitalize()}: with"
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
    epsilons = low, posterior.median("epsilon"), high
    shares = [_percents(best_detection(epsilon, result.delta)) for epsilon in epsilons]
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
    if getattr(result.posterior, "saturated", False):
        said.append("No claim passes: these data set no upper limit of epsilon.")
    elif result.contradiction is None:
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
    unknown = UNKNOWN_NEIGHBOURS.format(what=result.made_from)
    said = [NEIGHBOURS.get(result.origin.plan.get("adjacency", ""), unknown), *assumed(result)]
    if isinstance(result, CurveResult):
        return said
    estimated = "strength" in result.posterior.parameters
    chosen = "estimated together with epsilon" if estimated else "fixed here"
    return [
        *said,
        "Attacks are not assumed to be the best possible, nor a base to be the worst case: how close "
        f"they came is the attack strength, which is {chosen}.",
        "Challenge bases are exchangeable: none is known in advance to be harder to attack.",
    ]


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
