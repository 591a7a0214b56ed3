"""Gaussian trade-off curves from two rates: the definition, the ends, the covering of Laplace."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import beta, norm

from epsilometer.baselines.intervals import GaussianRates, separation
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian, gaussian_epsilon
from tests.baselines.oracles import base, confusion


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("alpha", [1e-6, 0.2, 0.9])
def test_separation_inverts_the_trade_off_curve(alpha: float, mu: float) -> None:
    missed = norm.cdf(norm.isf(alpha) - mu)
    assert float(separation(alpha, missed)) == pytest.approx(mu, rel=1e-9)


def test_separation_at_the_ends() -> None:
    found = separation([0.5, 0.7, 0.0, 0.2], [0.5, 0.6, 0.2, 0.0])
    assert found.tolist() == [0.0, 0.0, math.inf, math.inf]


def test_laplace_is_covered_by_the_separation_that_the_other_tests_use() -> None:
    # The largest separation of any threshold on Laplace(1, 1) against Laplace(0, 1), by search.
    def minus(threshold: float) -> float:
        false_positives = 0.5 * math.exp(-threshold)
        missed = 0.5 * math.exp(threshold - 1)
        return -float(separation(false_positives, missed))

    best = minimize_scalar(minus, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10})
    assert -best.fun == pytest.approx(1.0300640, abs=1e-6)
    assert float(epsilon_of_gaussian(-best.fun, 1e-5)) == pytest.approx(4.5, abs=0.05)


@pytest.mark.parametrize("delta", [1e-5, 0.01])
@pytest.mark.parametrize(("x", "n0", "y", "n1"), [(10, 100, 10, 100), (3, 900, 12, 40)])
def test_ends_are_those_of_the_limits(x: int, n0: int, y: int, n1: int, delta: float) -> None:
    low, high = GaussianRates().interval(base(x, n0, y, n1), delta, significance=0.1)
    most = beta.isf(0.025, [x + 1, y + 1], [n0 - x, n1 - y])
    least = beta.ppf(0.025, [x, y], [n0 - x + 1, n1 - y + 1])
    for end, limits in ((low, most), (high, least)):
        mu = float(-np.sum(norm.ppf(limits)))
        assert end[0] == pytest.approx(gaussian_epsilon(delta, sensitivity=mu, noise=1), abs=1e-8)
    assert GaussianRates().lower(base(x, n0, y, n1), delta, 0.05)[0] == low[0]


def test_counts_at_the_ends() -> None:
    low, high = GaussianRates().interval(confusion(tp=50, tn=50, fp=0, fn=0), 1e-5)
    assert 0 < low[0] < high[0] == math.inf
    low, high = GaussianRates().interval(confusion(tp=1, tn=1, fp=0, fn=0), 1e-5)
    assert (low[0], high[0]) == (0.0, math.inf)
    reflected = GaussianRates().interval(confusion(tp=0, tn=0, fp=50, fn=50), 1e-5)
    straight = GaussianRates().interval(confusion(tp=50, tn=50, fp=0, fn=0), 1e-5)
    np.testing.assert_allclose(reflected, straight, rtol=1e-9)
    for cells in ((50, 0, 50, 0), (0, 50, 0, 50)):
        tp, tn, fp, fn = cells
        assert GaussianRates().lower(confusion(tp=tp, tn=tn, fp=fp, fn=fn), 1e-5)[0] == 0.0
