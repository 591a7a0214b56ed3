"""Small results of the count model for the tests of reports."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import epsilometer as em
from epsilometer.attacks.result import ErrorCurves
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.judgement.claims import Claim
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.origin import Origin
from epsilometer.judgement.question import OtherModels, Question
from epsilometer.posteriors.posterior import CountPosterior
from tests.drawn import error_counts, posterior_of_draws

counts = error_counts
TWO = counts([10, 30], [20, 30], 100)


def exact(observed: em.AttackCounts = TWO, **model: object) -> CountPosterior:
    return em.estimate(observed, em.CountModel(delta=0.01, **model))  # type: ignore[arg-type]


def sampled(
    observed: em.AttackCounts = TWO,
    *,
    chains: int = 3,
    scale: float = 1.0,
    centre: float = 0.5,
    **model: object,
) -> SamplePosterior:
    """Draws that no sampler made: what figures of chains show does not depend on it."""
    audit = em.CountModel(delta=0.01, **model)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    samples = {
        name: np.clip(centre + scale * (rng.random((chains, 400)) - 0.5), 0, 1)
        for name in audit.parameters_of(observed)
    }
    return posterior_of_draws(observed, audit, samples)


def small_plan(population: em.Population | None = None, **changed: Any) -> em.Plan:
    """Models of an algorithm that ships, trained in no time."""
    small: dict[str, Any] = {"challenge_bases": 2, "dataset_size": 19, "seed": 1}
    records = changed.get("dataset_size", 19) + 1
    return em.Plan(
        population=population or em.datasets.load_population("directions"),
        algorithm=em.training.ClippedMean(noise=changed.pop("noise", 0.05), records=records),
        design=em.CrossFed(replicates=changed.pop("replicates", 8)),
        **small | changed,
    )


@cache
def attack() -> em.attacks.AttackResult:
    """A real attack on real models."""
    plan = small_plan(noise=0.02, replicates=20, challenge_bases=4, dataset_size=49)
    losses = em.measure(plan).only
    return plan.design.attack(losses, em.attacks.LikelihoodRatio(), statistic=em.attacks.Loss())


def curves() -> tuple[ErrorCurves, em.AttackCounts]:
    return attack().sweep(), attack().counts(0.1)


def gather(
    posterior: CountPosterior,
    *,
    level: float = 0.9,
    claim: Claim | None = None,
    deltas: tuple[float, ...] = (),
    origin: Origin | None = None,
    compare: bool = True,
) -> CountResult:
    """The result that a report shows, without other assumptions where these take too long."""
    tried = OtherModels.QUICK if compare else OtherModels.NONE
    question = Question(level=level, claim=claim, deltas=deltas, other_models=tried)
    result = result_of(posterior, question, origin=origin or Origin())
    assert isinstance(result, CountResult)
    return result
