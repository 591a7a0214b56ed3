"""Running an audit: every variant of the trained models is attacked and estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.repeats import repeats
from epsilometer.attacks.result import AttackResult
from epsilometer.auditing.config import AuditConfig
from epsilometer.auditing.stopping import Goal, InterimAnalysis, Stopping, interim_sizes
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.result import Origin
from epsilometer.measurement.duplicates import base_warnings
from epsilometer.measurement.engine import Measurement
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.pool_records import records_of
from epsilometer.model.scores import Scores
from epsilometer.posteriors.posterior import CountPosterior

Measure = Callable[[Plan], Measurement]
Estimate = Callable[[Any, Any], Any]
"""Counts and a published model, or scores and a whole-curve model, in; the posterior out."""


class Published(NamedTuple):
    """The published model's part: how models were attacked, and the posterior from its counts."""

    attacked: AttackResult
    posterior: CountPosterior


class Estimated(NamedTuple):
    """The measurements and estimates of one variant.

    ``profile`` is of the whole curve, if asked; ``published`` is None for canaries.
    """

    variant: str
    losses: Losses | PoolLosses
    scores: Scores
    profile: CurvePosterior | None
    published: Published | None

    @property
    def answer(self) -> CountPosterior | CurvePosterior:
        """The posterior that answers: that of the whole curve, where there is one."""
        if self.profile is not None:
            return self.profile
        assert self.published is not None
        return self.published.posterior


def estimate_variants(
    settings: AuditConfig, measurement: Measurement, estimate: Estimate
) -> list[Estimated]:
    """Attack and estimate every variant."""
    found = []
    for variant, measured in measurement.losses.items():
        losses = records_of(settings.plan, measured)
        published = None
        if settings.model is not None:
            attacked = settings.plan.design.attack(
                losses, settings.attack, statistic=settings.statistic
            )
            counts = attacked.counts(settings.file.attack.target_alpha)
            published = Published(attacked, estimate(counts, settings.model))
        scores = settings.plan.design.scores(losses, settings.statistic, skip=True)
        profile = None if settings.profile is None else estimate(scores, settings.profile)
        found.append(Estimated(variant, losses, scores, profile, published))
    return found


def measure_until(
    settings: AuditConfig,
    goal: Goal | None,
    *,
    measure: Measure,
    estimate: Estimate,
    say: Callable[[str], None],
) -> tuple[AuditConfig, Measurement, list[Estimated], Stopping | None]:
    """Measure and estimate, in steps until the goal is reached for every variant.

    Returns the configuration with the plan that was carried out, all that it led to, and how it ended;
    without a goal there is one step, and nothing to say of its end.
    """
    if goal is None:
        measurement = measure(settings.plan)
        return settings, measurement, estimate_variants(settings, measurement, estimate), None
    most = len(settings.plan.bases)
    analyses: list[InterimAnalysis] = []
    trained = 0
    for size in interim_sizes(most, goal.first_size):
        now = replace(settings, plan=settings.plan.first(size))
        step = measure(now.plan)
        trained += step.trained
        measurement = replace(step, trained=trained, reused=step.reused + step.trained - trained)
        # Estimates that a goal does not need are computed once, at the end.
        found = cache(partial(estimate_variants, now, measurement, estimate))
        analyses.append(
            goal.analyse(
                size,
                partial(_scores, now, measurement),
                lambda found=found: [each.answer for each in found()],  # type: ignore[misc]
            )
        )
        say(f"{size:,} of {most:,} bases: {goal.progress(analyses[-1])}")
        if analyses[-1].reached:
            break
    stopping = Stopping(goal=goal, analyses=tuple(analyses), most_bases=most)
    return now, measurement, found(), stopping


def _scores(settings: AuditConfig, measurement: Measurement) -> list[Scores]:
    """The scores of every variant."""
    scores = settings.plan.design.scores
    return [scores(losses, settings.statistic, skip=True) for losses in measurement.losses.values()]


def origin_of(
    settings: AuditConfig, measurement: Measurement, found: Estimated, stopping: Stopping | None
) -> Origin:
    """Where the counts of a variant came from."""
    plan = settings.plan
    attack: dict[str, Any] = plan.design.attack_description(settings.statistic.name)
    if found.published is not None:
        attack = describe(found.published.attacked, settings.file.attack.target_alpha)
    shared = measurement.shares_models
    # With the counts, so that they are read back with them.
    attack["warnings"] = [
        *settings.warnings,
        *repeats(found.losses),
        *attack.get("warnings", ()),
        *base_warnings(plan.all_records, plan.names, plan.bases),
    ]
    return Origin(
        plan={
            "hash": plan.content_hash,
            "population": plan.population.name,
            "adjacency": settings.file.audit.adjacency,
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
        curves=None if found.published is None else found.published.attacked.sweep(),
        variant=found.variant if shared else None,
        siblings=tuple(n for n in measurement.losses if n != found.variant) if shared else (),
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
