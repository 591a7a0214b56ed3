"""Running an audit: train, attack, estimate and judge every variant of the models."""

import textwrap
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from epsilometer._arrays import OnMessage
from epsilometer._warnings import tell
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.repeats import repeats
from epsilometer.attacks.result import AttackResult
from epsilometer.auditing.config import AuditConfig
from epsilometer.auditing.stopping import Goal, InterimAnalysis, Stopping, interim_sizes
from epsilometer.engines import estimate as engines
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.inputs.recorded import CANARIES, COUNTS, CURVES, LOSSES, POINTS
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.origin import Origin
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import FAIL_ON
from epsilometer.measurement.duplicates import base_warnings
from epsilometer.measurement.engine import Measurement
from epsilometer.model.counts import AttackCounts, failure_flaws
from epsilometer.model.scores import Scores
from epsilometer.posteriors.posterior import CountPosterior

#: Counts and a count model, or scores and a curve model, in; the posterior out.
Estimate = Callable[[Any, Any], Any]

#: Labels of verdicts, the most severe first.
SEVERITY = FAIL_ON["inconclusive"]

#: Different error messages that are named; `status` has them all.
MOST_FAILURES = 10

#: Characters of one error message.
LONGEST_MESSAGE = 160


class Estimated(NamedTuple):
    """The measurements and estimates of one variant.

    ``curve`` is the posterior of the curve model, if asked; the part of the count model (the attack, its
    counts, and what estimates from them) is None for canaries and pools.
    """

    variant: str
    losses: Losses | PoolLosses
    scores: Scores
    curve: CurvePosterior | None = None
    attacked: AttackResult | None = None
    counts: AttackCounts | None = None
    counted: Callable[[], CountPosterior] | None = None

    @property
    def answer(self) -> Any:
        """The posterior that answers: that of the curve model, where there is one."""
        if self.curve is None and self.counted is not None:
            return self.counted()
        return self.curve


def run_audit(
    config: AuditConfig,
    question: Question,
    *,
    goal: Goal | None = None,
    on_message: OnMessage | None = None,
) -> Result:
    """Train, attack, estimate and judge; of several variants the most severe result, with all of them.

    ``question`` is completed by the deltas and the claim of the audit.
    """
    tell([*config.warnings, *config.beyond_reach(question)])
    estimate: Any = partial(engines.estimate, on_message=on_message)
    config, measurement, estimated, stopping = _measure_until(config, goal, estimate)
    tell(failure_sentences(measurement))
    asked = config.asked(question)
    results = [
        result_of(
            variant.answer,
            asked,
            scores=variant.scores,
            beside=variant.counted if variant.curve else None,
            origin=origin_of(config, measurement, variant, stopping),
            on_message=on_message,
        )
        for variant in estimated
    ]
    return most_severe(results)


def most_severe(results: Sequence[Result]) -> Result:
    """The result with the most severe verdict, else the largest epsilon; it has all as ``variants``."""
    if len(results) == 1:
        return results[0]

    def severity(result: Result) -> tuple[int, float]:
        label = "" if result.verdict is None else result.verdict.label
        rank = SEVERITY.index(label) if label in SEVERITY else len(SEVERITY)
        return rank, -result.posterior.median("epsilon")

    worst = copy(min(results, key=severity))
    named = {str(result.origin.variant): result for result in results}
    object.__setattr__(worst, "variants", named)
    return worst


def speak_to(result: Result, on_message: OnMessage | None) -> None:
    """From now on a result and its variants report their work to somebody else."""
    for part in (result, *result.variants.values()):
        object.__setattr__(part, "on_message", on_message)


def _estimate_variants(
    config: AuditConfig, measurement: Measurement, estimate: Estimate
) -> list[Estimated]:
    """Attack and estimate every variant."""
    estimated = []
    flaws = failure_flaws(len(measurement.failures))
    for variant, measured in measurement.losses.items():
        losses = config.plan.with_records(measured)
        count: tuple[Any, ...] = ()
        if config.model is not None:
            attacked = config.plan.design.attack(losses, config.attack, statistic=config.statistic)
            counts = attacked.counts(config.target_alpha).with_flaws(flaws)
            # Beside the curve model it is estimated when somebody looks at it.
            count = attacked, counts, cache(partial(estimate, counts, config.model))
        scores = _scores(config, losses).with_flaws(flaws)
        curve = None if config.curve is None else estimate(scores, config.curve)
        estimated.append(Estimated(variant, losses, scores, curve, *count))
    return estimated


def _measure_until(
    config: AuditConfig, goal: Goal | None, estimate: Estimate
) -> tuple[AuditConfig, Measurement, list[Estimated], Stopping | None]:
    """Measure and estimate, in steps until the goal is reached for every variant.

    Returns the configuration with the plan that was carried out, all that it led to, and how it ended;
    without a goal there is one step, and nothing to say of its end.
    """
    if goal is None:
        measurement = config.measure(config.plan)
        return config, measurement, _estimate_variants(config, measurement, estimate), None
    most = len(config.plan.bases)
    analyses: list[InterimAnalysis] = []
    trained = 0
    for size in interim_sizes(most, goal.first_size):
        now = replace(config, plan=config.plan.first(size))
        step = now.measure(now.plan)
        trained += step.trained
        measurement = replace(step, trained=trained, reused=step.reused + step.trained - trained)
        # Estimates that a goal does not need are computed once, at the end.
        estimated = cache(partial(_estimate_variants, now, measurement, estimate))
        analyses.append(
            goal.analyse(
                size,
                lambda now=now, step=step: [_scores(now, each) for each in step.losses.values()],  # type: ignore[misc]
                lambda estimated=estimated: [variant.answer for variant in estimated()],  # type: ignore[misc]
            )
        )
        config.say(f"{size:,} of {most:,} bases: {goal.progress(analyses[-1])}")
        if analyses[-1].reached:
            break
    stopping = Stopping(goal=goal, analyses=tuple(analyses), most_bases=most)
    return now, measurement, estimated(), stopping


def _scores(config: AuditConfig, losses: Losses | PoolLosses) -> Scores:
    """The scores of a variant."""
    how: Any = {"skip": True, "failures": config.failures}
    return config.plan.design.scores(losses, config.statistic, **how)


def origin_of(
    config: AuditConfig, measurement: Measurement, estimated: Estimated, stopping: Stopping | None
) -> Origin:
    """Where the data of a variant came from."""
    plan, attacked = config.plan, estimated.attacked
    attack: dict[str, Any] = plan.design.attack_description(config.statistic.name)
    if attacked is not None:
        attack = describe(attacked, config.target_alpha)
    # Bases and warnings come last, as when a folder is read.
    last = {name: attack.pop(name) for name in ("bases",) if name in attack}
    order = estimated.scores.planned_order
    attack |= {"failures": config.failures, "planned": order and order.whole, **last}
    shared = measurement.shares_models
    # With the counts, so that they are read back with them.
    attack["warnings"] = [
        *config.warnings,
        *repeats(estimated.losses),
        *attack.pop("warnings", ()),
        *base_warnings(plan.all_records, plan.names, plan.bases),
    ]
    tables: dict[str, Any] = {CANARIES if estimated.scores.one_run else POINTS: estimated.scores}
    if attacked is not None:
        tables = {LOSSES: estimated.losses, COUNTS: estimated.counts, CURVES: attacked.sweep()}
    return Origin(
        plan={
            "hash": plan.content_hash,
            "population": plan.population.name,
            "adjacency": plan.adjacency.name,
            "design": plan.design.identity()["name"],
            "dataset_size": plan.dataset_size,
            "seed": plan.seed,
            **({} if plan.challenge_kind.random else {"challenge": plan.challenge_kind.name}),
            **plan.design.facts,
        },
        attack=attack,
        models={
            "trained": measurement.trained,
            "reused": measurement.reused,
            "failed": len(measurement.failures),
        },
        failures=tuple(failure.described() for failure in measurement.failures),
        warnings=tuple(attack["warnings"]),
        curves=tables.get(CURVES),
        tables=tables,
        variant=estimated.variant if shared else None,
        siblings=tuple(n for n in measurement.losses if n != estimated.variant) if shared else (),
        stopping={} if stopping is None else stopping.described(),
    )


def describe(attacked: AttackResult, target_alpha: float) -> dict[str, Any]:
    """An attack and its counts as plain values for JSON."""
    return {
        "target_alpha": target_alpha,
        "statistic": attacked.statistic,
        "attack": attacked.attack,
        "bases": attacked.counts(target_alpha).rows(),
        "warnings": attacked.warnings(target_alpha),
    }


def failure_sentences(measurement: Measurement) -> list[str]:
    """Models that failed, by error message."""
    by_message: dict[str, list[Any]] = {}
    for failure in measurement.failures:
        by_message.setdefault(failure.message, []).append(failure)
    sentences = []
    for message, alike in list(by_message.items())[:MOST_FAILURES]:
        others = f" (and {len(alike) - 1} more alike)" if len(alike) > 1 else ""
        model = measurement.plan.sizes.named(alike[0].task)
        times = f"{alike[0].attempts} times" if alike[0].attempts > 1 else "once"
        sentences.append(
            f"{model}{others} failed {times}: {textwrap.shorten(message, LONGEST_MESSAGE)}"
        )
    return sentences
