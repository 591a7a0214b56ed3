"""The interval that is left when every error rate is known."""

from __future__ import annotations

import numpy as np
import pytest

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.model.region import log_ring_area, ring_contains, sample_rings
from epsilometer.planning.floor import known_rates_interval


def rates(bases: int, delta: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return sample_rings(2.0, delta, 0.5, size=(bases,), rng=rng)


def plain(
    alpha: np.ndarray, beta: np.ndarray, model: em.CountModel, *, area: bool = True
) -> tuple[float, float]:
    """The slow obvious twin: prior times likelihood at every point of a fine mesh."""
    epsilon = np.linspace(1e-3, 14, 1800)[:, None]
    strength = ((np.arange(400) + 0.5) / 400)[None]
    if isinstance(model.strength, em.priors.Fixed):
        strength = np.array([[model.strength.value]])
    assert not isinstance(model.epsilon, em.priors.Fixed)
    logs = model.epsilon.log_density(epsilon) + np.zeros_like(strength)
    if not isinstance(model.strength, em.priors.Fixed):
        logs = logs + model.strength.log_density(strength)
    if area:
        logs = logs - len(alpha) * log_ring_area(epsilon, model.delta, strength)
    inside = np.ones(logs.shape, dtype=bool)
    for a, b in zip(alpha, beta, strict=True):
        inside &= ring_contains(a, b, epsilon, model.delta, strength)
    density = np.where(inside, np.exp(logs - logs[inside].max()), 0.0).sum(axis=1)
    cumulative = np.cumsum(density)
    low, high = np.interp([0.05, 0.95], cumulative / cumulative[-1], epsilon[:, 0])
    return float(low), float(high)


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
@pytest.mark.parametrize(
    "strength", [em.priors.Beta(), em.priors.Beta(a=2.0, b=3.0), em.priors.Fixed(value=0.3)]
)
def test_equals_the_mesh(delta: float, strength: em.priors.Beta | em.priors.Fixed) -> None:
    model = em.CountModel(delta=delta, strength=strength)
    alpha, beta = rates(4, delta)
    found = known_rates_interval(alpha, beta, model)
    # The mesh steps by 0.008 in epsilon and by 1/400 in the strength: quantiles to about two steps.
    assert found == pytest.approx(plain(alpha, beta, model), abs=0.02)


def test_a_likelihood_without_its_area_is_told_apart() -> None:
    model = em.CountModel(delta=0.01)
    alpha, beta = rates(4, 0.01)
    found = known_rates_interval(alpha, beta, model)
    assert abs(found[1] - plain(alpha, beta, model, area=False)[1]) > 0.5


@pytest.mark.parametrize(
    "prior", [em.priors.HalfNormal(), em.priors.Uniform(upper=4.0), em.priors.LogNormal()]
)
def test_is_the_limit_of_many_challenges(
    prior: em.priors.HalfNormal | em.priors.Uniform | em.priors.LogNormal,
) -> None:
    model = em.CountModel(delta=1e-3, epsilon=prior)
    alpha, beta = rates(3, 1e-3)
    many = 10**7
    counts = em.AttackCounts(
        false_positives=np.rint(many * alpha),
        trials_h0=many,
        false_negatives=np.rint(many * beta),
        trials_h1=many,
    )
    low, high = estimate(counts, model).credible_interval("epsilon")
    # Rates are then known to 2e-4, critical levels to about 1e-3.
    assert known_rates_interval(alpha, beta, model) == pytest.approx((low, high), abs=5e-3)


def test_reflected_attacks_say_the_same() -> None:
    model = em.CountModel(delta=0.01)
    alpha, beta = rates(5, 0.01)
    flip = np.array([True, False, True, False, True])
    other = np.where(flip, 1 - alpha, alpha), np.where(flip, 1 - beta, beta)
    assert known_rates_interval(*other, model) == pytest.approx(
        known_rates_interval(alpha, beta, model)
    )


def test_the_best_possible_attack_leaves_nothing_open() -> None:
    alpha, beta = sample_rings(2.0, 0.01, 1.0, size=(3,), rng=np.random.default_rng(1))
    model = em.CountModel(delta=0.01, strength=em.priors.Fixed(value=1.0))
    assert known_rates_interval(alpha, beta, model) == pytest.approx((2.0, 2.0))


def test_a_fixed_epsilon_is_refused() -> None:
    model = em.CountModel(delta=0.01, epsilon=em.priors.Fixed(value=1.0))
    with pytest.raises(em.InputError, match="nothing to plan"):
        known_rates_interval(*rates(2, 0.01), model)
