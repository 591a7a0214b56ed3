"""Mahloujifar's bound: the paper's own numbers, the recursion in plain Python, the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import settings
from scipy.special import ndtr, ndtri

from epsilometer.baselines.one_run import epsilon_one_run
from epsilometer.baselines.one_run_fdp import ApproximateDP, Family, GaussianDP, epsilon_one_run_fdp
from epsilometer.model.gaussian_mechanism import gaussian_epsilon
from tests.baselines.oracles import fdp_refuted, largest_refuted
from tests.golden import peers

FIXED = settings(derandomize=True, max_examples=25, deadline=None)
FAMILIES: list[Family] = [ApproximateDP(), GaussianDP()]
# m, r, v: all right, most, hardly more than half, one guess, all canaries guessed.
CASES = [(200, 40, 40), (200, 100, 80), (300, 300, 165), (9, 1, 1), (120, 120, 110), (50, 20, 0)]


def gaussian_curve(tpr: float, mu: float) -> float:
    return float(ndtr(ndtri(tpr) - mu))


def approximate_curve(tpr: float, epsilon: float, delta: float) -> float:
    return max(0.0, math.exp(-epsilon) * (tpr - delta), 1 - delta - math.exp(epsilon) * (1 - tpr))


@pytest.mark.parametrize("case", list(peers.ONE_RUN_EPSILONS))
def test_peer_epsilons(case: tuple[int, int, int]) -> None:
    found = float(epsilon_one_run_fdp(*case, delta=1e-5, family=GaussianDP()))
    assert found == pytest.approx(
        peers.ONE_RUN_EPSILONS[case][1], abs=peers.TOLERANCE["solved to 1e-6"]
    )


@pytest.mark.parametrize("significance", [0.001, 0.05])
@pytest.mark.parametrize(("m", "r", "v"), CASES)
def test_gaussian_is_the_plain_recursion(m: int, r: int, v: int, significance: float) -> None:
    mu = largest_refuted(
        lambda mu: fdp_refuted(lambda tpr: gaussian_curve(tpr, mu), m, r, v, significance)
    )
    expected = gaussian_epsilon(1e-4, sensitivity=mu, noise=1.0) if mu > 0 else 0.0
    found = float(epsilon_one_run_fdp(m, r, v, 1e-4, significance, family=GaussianDP()))
    # mu to 1e-9, and epsilon grows less than tenfold as fast.
    assert found == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.02])
@pytest.mark.parametrize(("m", "r", "v"), CASES)
def test_approximate_is_the_plain_recursion(m: int, r: int, v: int, delta: float) -> None:
    expected = largest_refuted(
        lambda epsilon: fdp_refuted(
            lambda tpr: approximate_curve(tpr, epsilon, delta), m, r, v, 0.05
        )
    )
    found = float(epsilon_one_run_fdp(m, r, v, delta))
    assert found == pytest.approx(expected, abs=1e-7)


def test_a_recursion_that_starts_wrongly_fails_the_same_check() -> None:
    # The whole level assigned to correct guesses, as if none of the r could be wrong.
    def refuted(mu: float) -> bool:
        right, wrong = 0.05 * 100 / 200, 0.0
        for i in range(79, -1, -1):
            raised = max(wrong, gaussian_curve(right, mu))
            right, wrong = min(1.0, right + i / (100 - i) * (raised - wrong)), raised
        return right + wrong > 100 / 200

    wrong = gaussian_epsilon(1e-4, sensitivity=largest_refuted(refuted), noise=1.0)
    found = float(epsilon_one_run_fdp(200, 100, 80, 1e-4, family=GaussianDP()))
    assert abs(found - wrong) > 1e-3


def test_near_steinke_without_delta() -> None:
    # Both bound pure epsilon from the same guesses; neither can be far below the other.
    for case in ((1000, 100, 90), (1000, 1000, 700), (500, 50, 50)):
        one = float(epsilon_one_run(*case, delta=0.0))
        other = float(epsilon_one_run_fdp(*case, delta=0.0))
        assert 0.85 < other / one < 1.05


def test_edges() -> None:
    for family in FAMILIES:
        for m, r, v in ((5, 0, 0), (5, 5, 0), (1, 1, 1), (2, 1, 1)):
            assert float(epsilon_one_run_fdp(m, r, v, 1e-5, family=family)) == 0.0
        strong = float(epsilon_one_run_fdp(3000, 3000, 3000, 1e-5, family=family))
        assert 5 < strong < 30
    # A delta above what the level leaves for correct guesses: nothing is refuted.
    assert float(epsilon_one_run_fdp(1000, 10, 10, 0.01)) == 0.0


def test_many_at_once_are_one_by_one() -> None:
    r, v = np.array([[100], [200]]), np.array([60, 90, 100])
    levels = np.array([0.01, 0.05, 0.2])
    for family in FAMILIES:
        many = epsilon_one_run_fdp(400, r, v, 1e-5, levels, family=family)
        assert many.shape == (2, 3)
        for i in range(2):
            for j in range(3):
                alone = epsilon_one_run_fdp(
                    400, int(r[i, 0]), int(v[j]), 1e-5, levels[j], family=family
                )
                assert many[i, j] == pytest.approx(float(alone), abs=1e-7)
