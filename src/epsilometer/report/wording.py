"""The sentences of a report, for a reader who has not read the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epsilometer.inference.checks.sensitivity import AlternativePrior
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.profile.checks import AlternativeProfilePrior
from epsilometer.inference.profile.posterior import ProfilePosterior
from epsilometer.inference.profile.result import ProfileResult
from epsilometer.inference.result import JudgedResult, Origin, Result
from epsilometer.inference.trees import values_of
from epsilometer.inference.verdict import Grounds, Outcome, Thresholds, Verdict
from epsilometer.model import region
from epsilometer.proofs.proof import rounded_down
from epsilometer.report.summary import finding, plain_assumptions
from epsilometer.report.text import digits_of, probability_text
from epsilometer.report.verdict_words import proven_fact

FALSE_ALARMS = 0.01
"""The false-positive rate at which epsilon is put into words."""


MISTAKE = (
    "Look for a mistake in the algorithm or in its accounting, and check that the claim is one about "
    "this training, these neighbours and this delta."
)
ADVICE = {
    (Outcome.FAIL, Grounds.PROVEN): MISTAKE,
    (
        Outcome.FAIL,
        Grounds.JUDGED,
    ): f"A judgement, not a proof: it rests on the model. {MISTAKE} More "
    "models of the worst base may prove it.",
    (
        Outcome.PASS,
        Grounds.JUDGED,
    ): "That is not a proof of privacy. The posterior allows for attacks "
    "that were not the best possible, but it cannot know of attacks that nobody tried.",
}
"""What to do about a verdict that takes sides."""

NEIGHBOURS = {
    "include": "Neighbouring data sets differ in one record: with the challenge point, or without it.",
    "replace": "Neighbouring data sets have the same size: the challenge point takes the place of "
    "another record.",
}
UNKNOWN_NEIGHBOURS = (
    "The {what} do not say which data sets were neighbours: a record added, or one replaced. "
    "Epsilon is of that kind of neighbours for which the attacks were made."
)


def headline(result: Result) -> str:
    """What was found, without the verdict's word, which stands beside it."""
    text = finding(result)
    if result.verdict is not None:
        text = text.removeprefix(f"{result.verdict.label}: ")
    return f"{text[0].upper()}{text[1:]}"


def advice(verdict: Verdict) -> str:
    """What to do about a verdict; empty where it is open."""
    return ADVICE.get((verdict.outcome, verdict.grounds), "")


def after_verdict(result: Result) -> list[str]:
    """What to make of the verdict, and what would settle it."""
    verdict = result.verdict
    if verdict is None:
        return []
    if not verdict.trustworthy and verdict.grounds is not Grounds.PROVEN:
        return ["Estimate again, with more levels, more draws or more chains, before judging."]
    priors = with_other_priors(result, verdict)
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return [*priors, *outlook_sentences(result)]
    return [advice(verdict), *priors]


def with_other_priors(result: Result | ProfileResult, verdict: Verdict) -> list[str]:
    """Whether the verdict is the prior's; a proof has none, and a refuted posterior does not matter."""
    found: list[str] = []
    if verdict.grounds is Grounds.PROVEN or result.contradiction is not None:
        return found
    others: Sequence[AlternativePrior | AlternativeProfilePrior] = result.other_priors
    if verdict.prior_alone:
        found.append(
            f"The prior alone would have had the verdict {verdict.outcome}: these attacks added little "
            "to it, and it should not be quoted as what they found."
        )
    if others:
        said = []
        for other in others:
            above = other.epsilon.probability_above(verdict.claim)
            outcome = verdict.thresholds.outcome(above)
            said.append(f"{probability_text(above)} ({outcome}) with the scale x {other.factor:g}")
        found.append(f"With another prior the probability would be {' and '.join(said)}.")
    return found


def outlook_sentences(result: Result) -> list[str]:
    """What more data would settle an inconclusive verdict."""
    outlook = result.outlook
    if outlook is None or (outlook.bases is None and outlook.challenges is None):
        return ["What more data would settle this was not worked out for so many different counts."]
    bases, challenges = len(result.counts), int(result.counts.trials_h0.max())
    found = []
    for more, what, amount, now in (
        (outlook.bases, "challenge bases", "{:,} in all", bases),
        (outlook.challenges, "challenges on each base", "up to {:,}", challenges),
    ):
        if more is None:
            continue
        factor, above = more.factor or more.largest_factor, probability_text(more.probability_above)
        effect = "still leave it open" if more.factor is None else f"settle it as {more.outcome}"
        found.append(
            f"{factor} times as many {what} ({amount.format(factor * now)}) with the same error rates "
            f"would {effect}: epsilon would exceed the claim with probability {above}."
        )
    if any(item.surprising for item in result.predictive.statistics):
        found.append(
            "These forecasts take the model at its word, which the check of its predictions, below, "
            "does not bear out."
        )
    if all(more is None or more.factor is None for more in (outlook.bases, outlook.challenges)):
        found.append(
            "Stronger attacks, or challenge points nearer to the worst case, would say more than "
            "more of the same."
        )
    return found


def best_detection(epsilon: float, delta: float, false_alarms: float = FALSE_ALARMS) -> float:
    """Largest true-positive rate that (epsilon, delta)-DP allows at a false-positive rate."""
    least_beta, _ = region.beta_limits(false_alarms, epsilon, delta)
    return 1 - float(least_beta)


def meaning_of_epsilon(result: Result) -> str:
    """What the estimate means to somebody whose record is in the data."""
    posterior, delta = result.posterior, result.model.delta
    low, high = posterior.credible_interval("epsilon", result.level)
    shares = [
        f"{100 * best_detection(value, delta):.3g} %"
        for value in (low, posterior.median("epsilon"), high)
    ]
    return (
        "Epsilon bounds how well anybody can tell from the trained model whether one record was in "
        "the training data. An attacker who accepts a false alarm in one of a hundred cases would "
        f"find at most {shares[1]} of the members at the median epsilon, {shares[0]} at the lower end "
        f"of the interval and {shares[2]} at the upper end; guessing finds 1 %."
    )


def claims_either_way(result: Result) -> str:
    """Which claims would pass and which fail; empty for a fixed epsilon."""
    if "epsilon" not in result.posterior.parameters:
        return ""
    return (
        f"{settled_claims(result)} The attack strength says how near the attacks came to the best "
        "possible ones on the worst base: 0 is guessing, 1 is that limit."
    )


def settled_claims(result: JudgedResult) -> str:
    """Which claims are refuted, and from which epsilon on the posterior would let them pass."""
    proof, found = result.proof, []
    if proof is not None and proof.at_least > 0:
        found.append(f"Claims below {rounded_down(proof.at_least)} are refuted.")
    if result.contradiction is None:
        found.append(_by_the_posterior(result.posterior, result.question.thresholds))
    return " ".join(found)


def _by_the_posterior(posterior: Posterior | ProfilePosterior, thresholds: Thresholds) -> str:
    fails, passes = posterior.quantile(
        "epsilon", [1 - thresholds.fail_at_least, 1 - thresholds.pass_at_most]
    )
    digits = digits_of(float(fails), float(passes))
    if not fails > 0:
        return f"By the posterior alone a claim of {passes:.{digits}f} or more would pass."
    return (
        f"By the posterior alone a claim of {passes:.{digits}f} or more would pass, and one of "
        f"{fails:.{digits}f} or less would fail."
    )


def neighbours(origin: Origin, what: str) -> str:
    """Which data sets are neighbours; ``what`` was brought by somebody who may not have said."""
    return NEIGHBOURS.get(origin.plan.get("adjacency", ""), UNKNOWN_NEIGHBOURS.format(what=what))


def assumptions(result: Result) -> list[str]:
    """What was taken for granted, one sentence each."""
    estimated = "strength" in result.posterior.parameters
    return [
        neighbours(result.origin, "counts"),
        *plain_assumptions(result.model, result.counts),
        "Attacks are not assumed to be the best possible, nor a base to be the worst case: how near "
        "they came is the attack strength, which is estimated along with epsilon"
        f"{'' if estimated else ' unless, as here, somebody holds it fixed'}.",
        "Challenge bases are taken to be alike: none is known in advance to be harder to attack.",
    ]


def facts(result: Result) -> list[tuple[str, str]]:
    """Where the result came from: label and text."""
    model = result.model
    found = [
        ("proven", proven_fact(result)),
        ("challenge bases", f"{len(result.counts):,}"),
        ("delta", f"{model.delta:g}"),
    ]
    chosen = {"likelihood": "likelihood"}
    if result.counts.dependent:
        chosen["dependence"] = "dependence"
    chosen |= {"epsilon": "prior of epsilon", "strength": "prior of the strength"}
    values: dict[str, Any] = values_of(model)
    found += [(label, choice_text(values[name])) for name, label in chosen.items()]
    return [*found, *origin_facts(result.origin), *engine_facts(result.posterior)]


def origin_facts(origin: Origin) -> list[tuple[str, str]]:
    """What is known of how counts or scores came about."""
    labels = {
        "population": "population",
        "adjacency": "adjacency",
        "dataset_size": "records in a data set",
        "design": "design",
        "challenge": "challenge points",
        "canaries": "canaries of each run",
        "canary_kind": "kind of canaries",
        "compare_with": "losses compared with",
        "seed": "seed of the measurement",
        "hash": "hash of the plan",
    }
    found = [(label, str(origin.plan[key])) for key, label in labels.items() if key in origin.plan]
    if origin.variant is not None:
        found.append(("variant", f"{origin.variant} (made from the same models as the others)"))
    attack = origin.attack
    if attack:
        words = {"attack": "{}", "statistic": "statistic {}"}
        parts = [text.format(attack[key]) for key, text in words.items() if key in attack]
        # Scores have no target rate.
        if origin.target_alpha is not None:
            parts.append(f"target false-positive rate {origin.target_alpha:g}")
        found.append(("attack", ", ".join(parts)))
    if origin.models:
        text = ", ".join(f"{number:,} {word}" for word, number in origin.models.items())
        found.append(("models", text))
    if origin.stopping:
        found.append(("stopping", str(origin.stopping["sentence"])))
    return found


def engine_facts(posterior: Posterior | ProfilePosterior) -> list[tuple[str, str]]:
    """How it was computed."""
    provenance = posterior.provenance
    found = [("engine", f"{posterior.engine_description}; {provenance.seconds:.2f} s")]
    if provenance.seed is not None:
        found.append(("seed of the engine", str(provenance.seed)))
    found.append(("settings", _settings(dict(provenance.settings))))
    versions = ", ".join(f"{name} {value}" for name, value in provenance.versions.items())
    return [*found, ("versions", versions)]


def choice_text(described: dict[str, Any]) -> str:
    """A choice with its values, such as ``HalfNormal(scale=3.162)``."""

    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return choice_text(value)
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    name, *values = described.items()
    return f"{name[1]}({', '.join(f'{key}={shown(value)}' for key, value in values)})"


def _settings(settings: dict[str, Any]) -> str:
    shown = {
        name: value["name"] if isinstance(value, dict) and "name" in value else value
        for name, value in settings.items()
    }
    return ", ".join(f"{name}={value}" for name, value in shown.items()) or "none"
