"""Both one-run bounds against their definitions, on guesses and on error counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom, binomtest

from epsilometer.baselines.one_run import (
    ApproximateDP,
    Family,
    GaussianDP,
    OneRunBound,
    OneRunFdpBound,
    check_fair_coin,
    epsilon_one_run,
    epsilon_one_run_fdp,
    fair_coin,
    one_run_p_value,
)
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.counts import counts_of
from epsilometer.model.gaussian_mechanism import gaussian_epsilon
from tests.baselines import oracles
from tests.baselines.oracles import base, confusion, fdp_refuted, largest_refuted
from tests.golden import peers

FIXED = settings(derandomize=True, max_examples=100, deadline=None)
guesses_right = st.integers(1, 300).flatmap(
    lambda r: st.tuples(st.just(r), st.integers(0, r), st.integers(0, 700))
)


@pytest.mark.parametrize("case", list(peers.ONE_RUN_P_VALUES))
def test_peer_p_values(case: tuple[int, int, int, float, float]) -> None:
    found = float(one_run_p_value(*case))
    assert found == pytest.approx(peers.ONE_RUN_P_VALUES[case], rel=peers.TOLERANCE["eight digits"])


@pytest.mark.parametrize("case", list(peers.ONE_RUN_EPSILONS))
def test_peer_epsilons(case: tuple[int, int, int]) -> None:
    found = float(epsilon_one_run(*case, delta=1e-5))
    assert found == pytest.approx(
        peers.ONE_RUN_EPSILONS[case][0], abs=peers.TOLERANCE["solved to 1e-6"]
    )


@FIXED
@given(
    case=guesses_right,
    epsilon=st.floats(0, 8),
    delta=st.sampled_from([0.0, 1e-9, 1e-5, 1e-3, 0.05, 0.4]),
)
def test_p_value_is_that_of_the_loop(
    case: tuple[int, int, int], epsilon: float, delta: float
) -> None:
    r, v, unguessed = case
    m = r + unguessed
    found = float(one_run_p_value(m, r, v, epsilon, delta))
    # A sum of up to 300 terms against incomplete beta functions and their differences.
    expected = oracles.one_run_p_value(m, r, v, epsilon, delta)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_epsilon_of_very_many_right_guesses() -> None:
    # All of m = r guesses right: p is about 2 delta / (1 - q), so q is near .6.
    found = float(epsilon_one_run(100_000, 100_000, 100_000, 0.01))
    p_value = oracles.one_run_p_value(100_000, 100_000, 100_000, found, 0.01)
    assert p_value == pytest.approx(0.05, rel=1e-6)
    assert found == pytest.approx(math.log(0.6 / 0.4), abs=0.05)


def test_a_term_left_out_fails_the_same_check() -> None:
    m, r, v, epsilon, delta = 1000, 100, 90, 1.0, 1e-5
    without = float(binom.sf(v - 1, r, expit(epsilon)))
    expected = oracles.one_run_p_value(m, r, v, epsilon, delta)
    assert abs(without - expected) > 0.5 * expected


@pytest.mark.parametrize("significance", [1e-6, 0.05, 0.3])
@pytest.mark.parametrize("r", [10, 1000])
def test_all_right_without_delta_in_closed_form(r: int, significance: float) -> None:
    q = significance ** (1 / r)
    expected = max(0.0, math.log(q / (1 - q)))
    found = float(epsilon_one_run(5 * r, r, r, 0.0, significance))
    assert found == pytest.approx(expected, abs=1e-8)


@FIXED
@given(case=guesses_right, delta=st.sampled_from([0.0, 1e-5, 0.01]), level=st.floats(1e-6, 0.6))
def test_epsilon_inverts_the_p_value(
    case: tuple[int, int, int], delta: float, level: float
) -> None:
    r, v, unguessed = case
    m = r + unguessed
    epsilon = float(epsilon_one_run(m, r, v, delta, level))
    assert epsilon >= 0
    if epsilon == 0:
        assert oracles.one_run_p_value(m, r, v, 0.0, delta) >= level * (1 - 1e-9)
    else:
        # Epsilon to 1e-9; the logarithm of p grows by at most r per unit of epsilon.
        assert oracles.one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(level, rel=1e-6)


@FIXED
@given(
    case=guesses_right,
    deltas=st.lists(st.floats(0, 0.3), min_size=2, max_size=2).map(sorted),
    levels=st.lists(st.floats(1e-6, 0.9), min_size=2, max_size=2).map(sorted),
)
def test_monotone(case: tuple[int, int, int], deltas: list[float], levels: list[float]) -> None:
    r, v, unguessed = case
    m = r + unguessed
    by_level = epsilon_one_run(m, r, v, deltas[0], levels)
    assert by_level[0] <= by_level[1] + 1e-8
    by_delta = [float(epsilon_one_run(m, r, v, d, levels[0])) for d in deltas]
    assert by_delta[0] >= by_delta[1] - 1e-8
    if v < r:
        better = float(epsilon_one_run(m, r, v + 1, deltas[0], levels[0]))
        assert better >= by_level[0] - 1e-8
    # More canaries without guesses cost delta only.
    more = float(epsilon_one_run(m + 100, r, v, 0.0, levels[0]))
    assert more == pytest.approx(float(epsilon_one_run(m, r, v, 0.0, levels[0])), abs=1e-8)


def test_edges() -> None:
    assert float(one_run_p_value(5, 0, 0, 1.0, 0.1)) == 1.0
    assert float(epsilon_one_run(5, 0, 0, 1e-5)) == 0.0
    assert float(epsilon_one_run(5, 5, 0, 1e-5)) == 0.0
    assert float(epsilon_one_run(1, 1, 1, 0.0)) == 0.0
    # One guess, right, at a level above one half: q = .8.
    assert float(epsilon_one_run(1, 1, 1, 0.0, 0.8)) == pytest.approx(math.log(4), abs=1e-8)
    assert float(one_run_p_value(10, 10, 10, 0.0, 0.9)) == 1.0


@pytest.mark.parametrize(
    ("m", "r", "v"), [(10, 5, 6), (10, 11, 5), (0, 0, 0), (10, 5, -1), (10, -1, -1)]
)
def test_impossible_guesses(m: int, r: int, v: int) -> None:
    with pytest.raises(InputError, match=f"canaries={m}, guesses={r}, correct={v}"):
        epsilon_one_run(m, r, v, 1e-5)
    with pytest.raises(InputError, match="0 <= correct <= guesses <= canaries"):
        one_run_p_value([100, m], [50, r], [25, v], 1.0, 1e-5)


@pytest.mark.parametrize(
    ("num_in", "num_out", "fair"),
    [(100, 100, True), (120, 100, True), (150, 100, False), (100, 1000, False), (3, 0, True)],
)
def test_coins_that_cannot_be_fair(num_in: int, num_out: int, fair: bool) -> None:
    expected = binomtest(num_in, num_in + num_out).pvalue >= 0.005
    assert bool(fair_coin(num_in, num_out)) == fair == expected
    if not fair:
        with pytest.raises(InputError, match=f"got {num_in} included and {num_out} excluded"):
            check_fair_coin(num_in, num_out)


def test_uneven_groups_get_no_bound_from_one_run() -> None:
    # Null scores: guessing "member" is correct two times out of three, which is not a leak.
    rng = np.random.default_rng(8)
    auditor = CanaryScoreAuditor(rng.standard_normal(200), rng.standard_normal(100))
    for bound in (auditor.epsilon_one_run, auditor.epsilon_one_run_fdp):
        with pytest.raises(InputError, match="fair coin each, about as many included as excluded"):
            bound(0.05, 1e-5)
    uneven = counts_of([50, 50], [100, 100], [500, 20], [1000, 100])
    low = OneRunBound().lower(uneven, 1e-5)
    assert low[0] == 0.0
    assert low[1] == OneRunBound().lower(oracles.base(50, 100, 20, 100), 1e-5)[0] > 0


# --- mahloujifar's bound: the paper's own numbers, the recursion in plain Python, the edges -------


FEW = settings(derandomize=True, max_examples=25, deadline=None)
FAMILIES: list[Family] = [ApproximateDP(), GaussianDP()]
# m, r, v: all right, most, hardly more than half, one guess, all canaries guessed.
CASES = [(200, 40, 40), (200, 100, 80), (300, 300, 165), (9, 1, 1), (120, 120, 110), (50, 20, 0)]


def gaussian_curve(tpr: float, mu: float) -> float:
    return float(ndtr(ndtri(tpr) - mu))


def approximate_curve(tpr: float, epsilon: float, delta: float) -> float:
    return max(0.0, math.exp(-epsilon) * (tpr - delta), 1 - delta - math.exp(epsilon) * (1 - tpr))


@pytest.mark.parametrize("case", list(peers.ONE_RUN_EPSILONS))
def test_peer_epsilons_of_f_dp(case: tuple[int, int, int]) -> None:
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


def test_edges_of_f_dp() -> None:
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


# --- the one-run bounds on error counts equal those on the corresponding guesses ------------------


COUNTS = confusion(tp=90, fn=410, fp=10, tn=490)


def test_members_only() -> None:
    # 100 guesses, 90 of them right, among 1,000 canaries.
    assert OneRunBound().lower(COUNTS, 1e-5)[0] == float(epsilon_one_run(1000, 100, 90, 1e-5))
    assert OneRunFdpBound().lower(COUNTS, 1e-5)[0] == float(
        epsilon_one_run_fdp(1000, 100, 90, 1e-5)
    )


def test_family() -> None:
    bound = OneRunFdpBound(family=GaussianDP()).lower(COUNTS, 1e-5)[0]
    assert bound == float(epsilon_one_run_fdp(1000, 100, 90, 1e-5, family=GaussianDP()))
    assert bound > OneRunFdpBound().lower(COUNTS, 1e-5)[0]
    with pytest.raises(InputError, match="GaussianDP"):
        OneRunFdpBound(family=GaussianDP()).lower(COUNTS, 0.0)


@pytest.mark.parametrize("estimator", [OneRunBound(), OneRunFdpBound()], ids=lambda e: e.label)
def test_counts_at_the_ends(estimator: OneRunBound | OneRunFdpBound) -> None:
    assert estimator.lower(base(0, 50, 50, 50), 1e-5)[0] == 0.0  # no guess at all
    assert estimator.lower(base(50, 50, 0, 50), 1e-5)[0] == 0.0  # every guess, half of them right
    assert estimator.lower(base(0, 50, 0, 50), 1e-5)[0] > 2  # all right
    assert estimator.lower(base(0, 1, 0, 1), 1e-5)[0] == 0.0
