"""Mechanisms with known epsilon, alone and interfering, against their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, norm

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.baselines.intervals import separation
from epsilometer.errors import InputError
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from studies import interference
from studies.draws import draw_counts, draw_scores
from studies.mechanisms import (
    MECHANISMS,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    Null,
    RandomisedResponse,
    SubsampledGaussian,
)
from studies.one_run import OneRunBoundCell

EVERY = pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: f"{m.name} {m!r}".split("(")[0]
)


def hockey_stick(mechanism: SubsampledGaussian, epsilon: float) -> float:
    """Smallest delta at epsilon."""
    mu, rate, grow = mechanism.mu, mechanism.rate, math.exp(epsilon)
    densities = [norm(0).pdf, lambda x: rate * norm.pdf(x - mu) + (1 - rate) * norm.pdf(x)]
    return max(
        sum(
            quad(lambda x, p=p, q=q: max(0.0, p(x) - grow * q(x)), a, b, limit=200)[0]
            for a, b in pairwise([-40, *np.linspace(-12, 15, 28), 40])
        )
        for p, q in (densities, densities[::-1])
    )


def test_epsilon_of_a_subsampled_gaussian_is_where_the_divergence_falls_to_delta() -> None:
    """From the densities alone; the others are compared with families of curves."""
    for mechanism, delta in product(MECHANISMS, (1e-3, 0.05)):
        if isinstance(mechanism, SubsampledGaussian):
            epsilon = mechanism.epsilon(delta)
            # Integrals of integrands with kinks: accurate to about 1e-7.
            assert hockey_stick(mechanism, epsilon) == pytest.approx(delta, abs=2e-6)
            assert hockey_stick(mechanism, 0.9 * epsilon) > 1.05 * delta


@EVERY
def test_scores_make_the_trade_off_curve(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(3)
    size = 40_000
    members = mechanism.scores(np.ones(size, dtype=bool), rng)
    others = np.sort(mechanism.scores(np.zeros(size, dtype=bool), rng))
    for threshold in np.unique(np.quantile(others, [0.02, 0.1, 0.5, 0.9, 0.98]))[-3:]:
        alpha, beta = np.mean(others >= threshold), np.mean(members < threshold)
        # Both rates have a standard error of at most 0.0025, alpha's times the curve's slope.
        slope = abs(
            float(mechanism.least_beta(alpha) - mechanism.least_beta(min(alpha + 0.01, 1.0)))
        )
        assert beta == pytest.approx(
            float(mechanism.least_beta(alpha)), abs=0.0125 + 1.25 * slope
        ), threshold


@EVERY
def test_no_point_of_the_curve_needs_more_than_is_claimed(mechanism: Mechanism) -> None:
    alpha = np.linspace(1e-6, 1 - 1e-6, 20_001)
    beta = mechanism.least_beta(alpha)
    assert np.all(np.diff(beta) <= 1e-12)
    needed = separation(alpha, np.clip(beta, 1e-300, 1)).max()
    assert needed <= mechanism.separation() + 1e-6  # ndtri of rates near 1
    # And the claim is not loose: the curve comes close to it, for small alpha at least.
    tiny = np.logspace(-13, -1, 2000)
    close = max(needed, separation(tiny, mechanism.least_beta(tiny)).max())
    if not isinstance(mechanism, SubsampledGaussian):  # approached like 1 / sqrt(-log alpha)
        assert close == pytest.approx(mechanism.separation(), abs=1e-3)
    else:
        assert close > 0.75 * mechanism.separation()


def test_pure_epsilon_bounds_every_ratio() -> None:
    for mechanism in (LaplaceMechanism(1.0), RandomisedResponse(1.0)):
        alpha = np.linspace(1e-6, 0.5, 5001)
        ratio = (1 - mechanism.least_beta(alpha)) / alpha
        assert ratio.max() == pytest.approx(math.e, rel=1e-6)
        assert mechanism.epsilon(0.0) == 1.0


def test_power_moves_rates_towards_guessing() -> None:
    rng = np.random.default_rng(5)
    shape = (4000, 1)
    for power in (0.0, 0.5, 1.0):
        x, y = draw_counts(
            LaplaceMechanism(1.0), 0.1, power=power, trials=100, shape=shape, rng=rng
        )
        best = 1 - math.e * 0.1
        expected = power * best + (1 - power) * 0.9
        assert x.mean() / 100 == pytest.approx(0.1, abs=5 * 0.3 / np.sqrt(400_000))
        assert y.mean() / 100 == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(400_000))
    members, others = draw_scores(GaussianMechanism(3.0), power=0.5, canaries=40_000, rng=rng)
    assert len(members) + len(others) == 40_000
    assert abs(len(members) - 20_000) < 5 * 100
    assert members.mean() == pytest.approx(1.5, abs=0.08)
    assert others.mean() == pytest.approx(0.0, abs=0.05)


def test_any_rate_is_any() -> None:
    counts = draw_counts(
        Null(), None, power=1.0, trials=1000, shape=(1000, 3), rng=np.random.default_rng(1)
    )
    for rates in (x / 1000 for x in counts):
        assert rates.shape == (1000, 3)
        assert 0.4 < rates.mean() < 0.6
        assert rates.std() == pytest.approx(12**-0.5, abs=0.02)  # uniform on (0, 1)


#: Densities of scores (one row per run) given the coins, written out without regard to speed.
LogDensity = Callable[[FloatArray, BoolArray], FloatArray]


def linear(transfer: FloatArray, covariance: FloatArray) -> LogDensity:
    """A normal around ``transfer`` times the coins."""

    def log_density(scores: FloatArray, coins: BoolArray) -> FloatArray:
        return np.asarray(multivariate_normal(transfer @ coins, covariance).logpdf(scores))

    return log_density


def capacity(mu: float, room: int) -> LogDensity:
    def log_density(scores: FloatArray, coins: BoolArray) -> FloatArray:
        mean = [mu * min(1.0, room / coins.sum()) if coin else 0.0 for coin in coins]
        return np.asarray(norm.logpdf(scores - np.array(mean)).sum(axis=1))

    return log_density


def scale(strong: float, weak: float, share: float) -> LogDensity:
    def log_density(scores: FloatArray, coins: BoolArray) -> FloatArray:
        parts = [
            np.log(weight) + norm.logpdf(scores - mu * coins).sum(axis=1)
            for mu, weight in ((strong, share), (weak, 1 - share))
        ]
        return np.asarray(logsumexp(parts, axis=0))

    return log_density


def luck(mu: float) -> LogDensity:
    def log_density(scores: FloatArray, coins: BoolArray) -> FloatArray:
        size = np.abs(scores)
        assert np.all(size == size[:, :1])  # one for the whole cluster
        true = (scores > 0) == coins
        signs = np.log(np.where(true, expit(mu * size), expit(-mu * size))).sum(axis=1)
        return np.asarray(
            np.log(norm.pdf(size[:, 0] - mu / 2) + norm.pdf(size[:, 0] + mu / 2)) + signs
        )

    return log_density


def release(probability: float, share: float) -> LogDensity:
    def log_density(scores: FloatArray, coins: BoolArray) -> FloatArray:
        nothing = np.where(np.abs(scores) <= 1, 0.5, 0.0)
        told = np.where(coins, (scores > 1) & (scores <= 2), (scores < -1) & (scores >= -2))
        run = np.prod(share * told + (1 - share) * nothing, axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(probability * run + (1 - probability) * np.prod(nothing, axis=1))
            )

    return log_density


def covariance(size: int, correlation: float) -> FloatArray:
    return np.array([[1.0 if i == j else correlation for j in range(size)] for i in range(size)])


def spilling(mu: float, size: int, spill: float) -> FloatArray:
    return np.array([[mu if i == j else spill * mu for j in range(size)] for i in range(size)])


def delta_of(
    mechanism: interference.Interference,
    log_density: LogDensity,
    others: BoolArray,
    epsilon: float,
    draws: int = 4000,
) -> tuple[float, float]:
    """Smallest delta of flipping the first coin at epsilon, larger direction, and its standard error.

    E[(1 - e^(epsilon - L))+] over runs of one side, L the log ratio of both densities.
    """
    rng = np.random.default_rng(11)
    sides = [np.append(coin, others) for coin in (True, False)]
    found = []
    for own, other in (sides, sides[::-1]):
        scores = np.array([mechanism.scores(own, rng) for _ in range(draws)])
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = log_density(scores, own) - log_density(scores, other)
            values = np.maximum(0.0, -np.expm1(epsilon - ratio))
        found.append((float(values.mean()), float(values.std() / np.sqrt(draws))))
    return max(found)


def far(
    mechanism: interference.Interference,
    log_density: LogDensity,
    others: BoolArray,
    epsilon: float,
    delta: float,
) -> float:
    """Standard errors between the delta of an epsilon and the claimed one."""
    found, error = delta_of(mechanism, log_density, others, epsilon)
    return abs(found - delta) / error


def all_in(size: int) -> BoolArray:
    return np.ones(size, dtype=bool)


def all_out(size: int) -> BoolArray:
    return np.zeros(size, dtype=bool)


def gaussian(mu: float) -> float:
    """Epsilon of the Gaussian mechanism at the delta of these tests."""
    return float(epsilon_of_gaussian(mu, 0.05))


NOISE, SPILL = (
    interference.SharedNoise(mu=1.0, group=5, correlation=0.8),
    interference.SpillOver(mu=1.0, group=5, spill=0.5),
)
ROOM, SCALE = (
    interference.SharedCapacity(mu=2.0, group=5, room=2),
    interference.SharedScale(strong=2.0, weak=0.4, share=0.3),
)
CASES: list[tuple[interference.Interference, LogDensity, BoolArray, float]] = [
    (interference.Separate(mu=1.5), linear(1.5 * np.eye(3), np.eye(3)), all_in(2), gaussian(0.7)),
    # Deliberately wrong: what a single score shows.
    (NOISE, linear(np.eye(5), covariance(5, 0.8)), all_in(4), gaussian(1.0)),
    (SPILL, linear(spilling(1.0, 5, 0.5), np.eye(5)), all_out(4), gaussian(1.0)),
    # The typical number of others instead of the worst; the mean scale; the typical luck.
    (ROOM, capacity(2.0, 2), all_out(4), gaussian(float(ROOM.separations()[2]))),
    (SCALE, scale(2.0, 0.4, 0.3), all_in(59), gaussian(0.3 * 2 + 0.7 * 0.4)),
    (interference.SharedLuck(mu=1.0, group=6), luck(1.0), all_in(5), 1.0),
]


@pytest.mark.parametrize(
    ("mechanism", "log_density", "others", "wrong"),
    CASES,
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_truth_is_that_of_the_densities(
    mechanism: interference.Interference, log_density: LogDensity, others: BoolArray, wrong: float
) -> None:
    """Within five standard errors; a truth that ignores the dependence is not."""
    truth = mechanism.epsilon(0.05)
    assert far(mechanism, log_density, others, truth, 0.05) < 5
    assert far(mechanism, log_density, others, wrong, 0.05) > 8


@pytest.mark.parametrize(("probability", "share"), [(0.2, 1.0), (0.5, 0.4), (1.0, 0.2)])
def test_a_release_has_a_delta_and_no_epsilon(probability: float, share: float) -> None:
    mechanism = interference.Release(probability=probability, share=share)
    assert mechanism.epsilon(0.2) == 0.0
    assert mechanism.epsilon(0.19) == float("inf")
    log_density = release(probability, share)
    for epsilon in (0.0, 10.0):
        assert far(mechanism, log_density, all_in(2), epsilon, 0.2) < 5
        assert (
            far(mechanism, log_density, all_in(2), epsilon, 0.2 * 0.8) > 5
        )  # too private to be true


def test_shared_noise_against_the_inverse_of_its_covariance() -> None:
    for group, correlation in ((2, 0.5), (10, 0.9), (100, 0.5)):
        mechanism = interference.SharedNoise(mu=1.3, group=group, correlation=correlation)
        inverse = np.linalg.inv(covariance(group, correlation))
        assert mechanism.separation() == pytest.approx(1.3 * np.sqrt(inverse[0, 0]), rel=1e-12)
        assert mechanism.separation() > 1.3
    column = spilling(1.3, 10, 0.3)[:, 0]
    assert interference.SpillOver(mu=1.3, group=10, spill=0.3).separation() == pytest.approx(
        float(np.linalg.norm(column)), rel=1e-12
    )


def test_the_worst_case_of_capacity_is_found_by_trying_all_coins() -> None:
    for room in (1, 2, 4):
        mechanism = interference.SharedCapacity(mu=2.0, group=6, room=room)
        apart = []
        for others in product([False, True], repeat=5):
            means = []
            for coin in (False, True):
                coins = np.array([coin, *others])
                means.append(coins * 2.0 * min(1.0, room / max(1, coins.sum())))
            apart.append(float(np.linalg.norm(means[1] - means[0])))
        assert max(apart) == pytest.approx(float(mechanism.separations().max()), rel=1e-12)
        assert min(apart) == pytest.approx(float(mechanism.separations().min()), rel=1e-12)


def test_scores_have_the_means_and_covariances_they_should() -> None:
    """Of two clusters, the second of which must not be affected by the first."""
    rng = np.random.default_rng(4)
    coins = np.array([1, 0, 1, 0, 0, 0], dtype=bool)
    drawn = {
        each: np.array([each.scores(coins, rng) for _ in range(20_000)])
        for each in (
            interference.SharedNoise(mu=1.0, group=3, correlation=0.8),
            interference.SpillOver(mu=1.0, group=3, spill=0.5),
            interference.SharedCapacity(mu=2.0, group=3, room=1),
        )
    }
    means = ([1, 0, 1, 0, 0, 0], [1.5, 1, 1.5, 0, 0, 0], [1, 0, 1, 0, 0, 0])
    for scores, mean in zip(drawn.values(), means, strict=True):
        # Standard errors are 0.007 (means) and at most 0.01 (covariances).
        assert scores.mean(axis=0) == pytest.approx(np.array(mean, dtype=float), abs=0.035)
    inside = np.kron(np.eye(2), covariance(3, 0.8))
    found = [np.cov(scores.T) for scores in drawn.values()]
    assert np.abs(found[0] - inside).max() < 0.05
    assert np.abs(found[0] - np.eye(6)).max() > 0.5  # the same check with independent noise
    assert all(np.abs(each - np.eye(6)).max() < 0.05 for each in found[1:])


def test_a_run_has_one_scale_and_one_luck() -> None:
    rng = np.random.default_rng(5)
    members = np.ones(2000, dtype=bool)
    means = [SCALE.scores(members, rng).mean() for _ in range(200)]
    assert {round(mean / 0.8) for mean in map(float, means)} <= {0, 1, 2, 3}
    assert 30 < sum(mean > 1.2 for mean in means) < 90  # 60 expected
    lucky = interference.SharedLuck(mu=1.0, group=500).scores(members, rng)
    assert len(np.unique(np.abs(lucky))) == 4
    # Over many clusters every score is that of the Gaussian mechanism around -1/2 and 1/2.
    many = interference.SharedLuck(mu=1.0, group=2).scores(np.ones(40_000, dtype=bool), rng)
    assert many.mean() == pytest.approx(0.5, abs=0.04)
    assert many.std() == pytest.approx(1.0, abs=0.03)


def test_clusters_are_next_to_each_other() -> None:
    assert interference.clusters(7, 3).tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_clusters_are_whole() -> None:
    with pytest.raises(InputError, match="whole clusters of 5, got canaries=12"):
        OneRunBoundCell(mechanism=NOISE, canaries=12, runs=1)
