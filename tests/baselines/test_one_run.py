"""Steinke's bound: the paper's own numbers, a loop over every i, the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom, binomtest

from epsilometer.baselines.one_run import (
    OneRunBound,
    check_fair_coin,
    epsilon_one_run,
    fair_coin,
    one_run_p_value,
)
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from tests.baselines import oracles
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
    uneven = AttackCounts(
        false_positives=[50, 50],
        trials_h0=[100, 100],
        false_negatives=[500, 20],
        trials_h1=[1000, 100],
    )
    low = OneRunBound().lower(uneven, 1e-5)
    assert low[0] == 0.0
    assert low[1] == OneRunBound().lower(oracles.base(50, 100, 20, 100), 1e-5)[0] > 0
