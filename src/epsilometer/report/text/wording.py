"""Sentences of the report, for readers who have not read the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epsilometer._text import digits_of, probability_text
from epsilometer.checks.roc_curves import AlternativeProfilePrior
from epsilometer.checks.sensitivity import AlternativePrior
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.curve_result import ProfileResult
from epsilometer.judgement.objections import PRIOR_DECIDES
from epsilometer.judgement.result import JudgedResult, Origin, Result
from epsilometer.judgement.verdict import Grounds, Outcome, Thresholds, Verdict
from epsilometer.model import region
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.trees import values_of
from epsilometer.proofs.proof import rounded_down
from epsilometer.report.text.summary import finding, plain_assumptions
from epsilometer.report.text.verdict_words import proven_fact

FALSE_ALARMS = 0.01
"""False-positive rate at which the meaning of epsilon is explained."""


CAVEATS = {
    (Outcome.FAIL, Grounds.JUDGED): "This is a judgement, not a proof: it depends on the model.",
    (
        Outcome.PASS,
        Grounds.JUDGED,
    ): "This is not a proof of privacy. The posterior allows for attacks "
    "that were not the best possible, but it cannot account for attacks that nobody tried.",
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


def headline(result: Result) -> str:
    """The result without the verdict's label, which the page shows separately."""
    text = finding(result)
    if result.verdict is not None:
        text = text.removeprefix(f"{result.verdict.label}: ")
    return f"{text[0].upper()}{text[1:]}"


def caveats(result: Result | ProfileResult) -> list[str]:
    """What to keep in mind about the verdict: its grounds, and what other priors say."""
    verdict = result.verdict
    if verdict is None or not (verdict.trustworthy or verdict.grounds is Grounds.PROVEN):
        return []
    own = CAVEATS.get((verdict.outcome, verdict.grounds))
    return [*([] if own is None else [own]), *with_other_priors(result, verdict)]


def after_verdict(result: Result) -> list[str]:
    """What to keep in mind about the verdict, and what would settle an inconclusive one."""
    verdict, found = result.verdict, caveats(result)
    if verdict is None or not verdict.trustworthy or verdict.outcome is not Outcome.INCONCLUSIVE:
        return found
    return [*found, *outlook_sentences(result)]


def with_other_priors(result: Result | ProfileResult, verdict: Verdict) -> list[str]:
    """How the verdict depends on the prior; empty for a proof or a contradicted posterior."""
    found: list[str] = []
    if verdict.grounds is Grounds.PROVEN or result.contradiction is not None:
        return found
    others: Sequence[AlternativePrior | AlternativeProfilePrior] = result.other_priors
    if verdict.prior_alone:
        found.append(
            f"The prior alone gives the verdict {verdict.outcome}: these attacks added little, so do "
            "not quote it as their result."
        )
    if others:
        said, outcomes = [], {verdict.thresholds.outcome(verdict.probability_above)}
        for other in others:
            above = other.epsilon.probability_above(verdict.claim)
            outcome = verdict.thresholds.outcome(above)
            outcomes.add(outcome)
            said.append(
                f"{probability_text(above)} ({outcome}) with {other.factor:g} times the scale"
            )
        start = (
            "With"
            if len(outcomes) == 1
            else f"{PRIOR_DECIDES[:1].upper()}{PRIOR_DECIDES[1:]}: with"
        )
        found.append(f"{start} other priors the probability would be {' and '.join(said)}.")
    return found


def outlook_sentences(result: Result) -> list[str]:
    """How much more data would settle an inconclusive verdict."""
    outlook = result.outlook
    if outlook is None or (outlook.bases is None and outlook.challenges is None):
        return [
            "There are too many different counts to compute how much more data would settle this."
        ]
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
            "These forecasts assume the model, which fails the posterior predictive check below."
        )
    if all(more is None or more.factor is None for more in (outlook.bases, outlook.challenges)):
        found.append(
            "Stronger attacks, or challenge points closer to the worst case, would help more than more "
            "data of the same kind."
        )
    return found


def best_detection(epsilon: float, delta: float, false_alarms: float = FALSE_ALARMS) -> float:
    """Largest true-positive rate that (epsilon, delta)-DP allows at a false-positive rate."""
    least_beta, _ = region.beta_limits(false_alarms, epsilon, delta)
    return 1 - float(least_beta)


def meaning_of_epsilon(result: Result) -> str:
    """What the estimate means for a person whose record is in the data."""
    posterior, delta = result.posterior, result.model.delta
    low, high = posterior.credible_interval("epsilon", result.level)
    shares = [
        f"{100 * best_detection(value, delta):.3g} %"
        for value in (low, posterior.median("epsilon"), high)
    ]
    return (
        "Epsilon bounds how well anyone can tell from the trained model whether one record was in the "
        "training data. At a false-positive rate of 1 %, an attacker would find at most "
        f"{shares[1]} of the members at the median epsilon, {shares[0]} at the lower end of the "
        f"interval and {shares[2]} at the upper end; guessing finds 1 %."
    )


def claims_either_way(result: Result) -> str:
    """Which claims would pass and which would fail; empty for a fixed epsilon."""
    if "epsilon" not in result.posterior.parameters:
        return ""
    return (
        f"{settled_claims(result)} The attack strength measures how close the attacks came to the best "
        "possible ones on the worst base: 0 is guessing, 1 is the best possible."
    )


def settled_claims(result: JudgedResult) -> str:
    """Which claims are refuted, and from which epsilon upwards the posterior lets a claim pass."""
    proof, found = result.proof, []
    if proof is not None and proof.at_least > 0:
        found.append(f"Claims below {rounded_down(proof.at_least)} are refuted.")
    if result.contradiction is None:
        found.append(_by_the_posterior(result.posterior, result.question.thresholds))
    return " ".join(found)


def _by_the_posterior(posterior: CountPosterior | CurvePosterior, thresholds: Thresholds) -> str:
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
    """Which datasets are neighbours; ``what`` names the input, which may not state it."""
    return NEIGHBOURS.get(origin.plan.get("adjacency", ""), UNKNOWN_NEIGHBOURS.format(what=what))


def assumptions(result: Result) -> list[str]:
    """The assumptions, one sentence each."""
    estimated = "strength" in result.posterior.parameters
    chosen = "estimated together with epsilon" if estimated else "fixed here"
    return [
        neighbours(result.origin, "counts"),
        *plain_assumptions(result.model, result.counts),
        "Attacks are not assumed to be the best possible, nor a base to be the worst case: how close "
        f"they came is the attack strength, which is {chosen}.",
        "Challenge bases are exchangeable: none is known in advance to be harder to attack.",
    ]


def facts(result: Result) -> list[tuple[str, str]]:
    """Model, origin and engine of the result, as pairs of label and text."""
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
    """Origin of the counts or scores, as pairs of label and text."""
    labels = {
        "population": "population",
        "adjacency": "adjacency",
        "dataset_size": "records per dataset",
        "design": "design",
        "challenge": "challenge points",
        "canaries": "canaries per run",
        "canary_kind": "canary kind",
        "compare_with": "losses compared with",
        "seed": "seed of the measurement",
        "hash": "hash of the plan",
    }
    found = [(label, str(origin.plan[key])) for key, label in labels.items() if key in origin.plan]
    if origin.variant is not None:
        found.append(("variant", f"{origin.variant} (derived from the same models as the others)"))
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


def engine_facts(posterior: CountPosterior | CurvePosterior) -> list[tuple[str, str]]:
    """Engine, settings and versions, as pairs of label and text."""
    provenance = posterior.provenance
    found = [("engine", f"{posterior.engine_description}; {provenance.seconds:.2f} s")]
    if provenance.seed is not None:
        found.append(("seed of the engine", str(provenance.seed)))
    found.append(("settings", _settings(dict(provenance.settings))))
    versions = ", ".join(f"{name} {value}" for name, value in provenance.versions.items())
    return [*found, ("versions", versions)]


def choice_text(described: dict[str, Any]) -> str:
    """An object with its values, such as ``HalfNormal(scale=3.162)``."""

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
