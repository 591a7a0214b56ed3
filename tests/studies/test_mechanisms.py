"""Known mechanisms: their privacy compared with integrals, their attacks with simulated scores."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from epsilometer.baselines.intervals import separation
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

EVERY = pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: f"{m.name} {m!r}".split("(")[0]
)


def hockey_stick(mechanism: Mechanism, epsilon: float) -> float:
    """Smallest delta at epsilon, from the densities alone."""
    grow = math.exp(epsilon)
    if isinstance(mechanism, RandomisedResponse):
        true = math.exp(mechanism.pure_epsilon) / (1 + math.exp(mechanism.pure_epsilon))
        return max(0.0, true - grow * (1 - true))
    if isinstance(mechanism, LaplaceMechanism):
        densities = [laplace(0).pdf, laplace(mechanism.pure_epsilon).pdf]
        kinks = [0.0, mechanism.pure_epsilon]
    elif isinstance(mechanism, GaussianMechanism):
        densities, kinks = [norm(0).pdf, norm(mechanism.mu).pdf], []
    else:
        assert isinstance(mechanism, SubsampledGaussian)
        mu, rate = mechanism.mu, mechanism.rate
        densities = [norm(0).pdf, lambda x: rate * norm.pdf(x - mu) + (1 - rate) * norm.pdf(x)]
        kinks = []
    values = []
    for p, q in (densities, densities[::-1]):
        grid = [-40, *sorted([*np.linspace(-12, 15, 28), *kinks]), 40]
        values.append(
            sum(
                quad(lambda x, p=p, q=q: max(0.0, p(x) - grow * q(x)), a, b, limit=200)[0]
                for a, b in pairwise(grid)
            )
        )
    return max(values)


@pytest.mark.parametrize("delta", [1e-3, 0.05])
@pytest.mark.parametrize("mechanism", MECHANISMS[1:], ids=repr)
def test_epsilon_is_where_the_divergence_falls_to_delta(mechanism: Mechanism, delta: float) -> None:
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
