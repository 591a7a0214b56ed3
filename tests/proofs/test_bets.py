"""Bets: thresholds from the past only, and capital that does not grow under a true claim."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.proofs import bets

FloatArray = NDArray[np.float64]


def obvious_outcomes(without: FloatArray, with_point: FloatArray) -> FloatArray:
    """The same by sorting the past again for every pair."""
    pairs = min(len(without), len(with_point))
    found = np.full((pairs, len(bets.TARGET_RATES), 4), np.nan)
    sides = without, with_point
    for pair in range(bets.PAIRS_BEFORE_BETS, pairs):
        for number, rate in enumerate(bets.TARGET_RATES):
            for direction in (0, 1):
                sign = 1 - 2 * direction
                rare = np.sort(sign * sides[direction][:pair])[::-1]
                wanted = rate * (pair + 1)
                if wanted < 0.5:
                    continue
                threshold = rare[max(round(wanted) - 1, 0)]
                common = sign * sides[1 - direction][pair] > threshold
                own = sign * sides[direction][pair] > threshold
                found[pair, number, 2 * direction : 2 * direction + 2] = common, own
    return found


@pytest.mark.parametrize(("n0", "n1"), [(30, 30), (20, 60), (45, 20), (5, 5), (3, 3)])
def test_outcomes_equal_those_of_a_simple_loop(n0: int, n1: int) -> None:
    rng = np.random.default_rng(n0)
    # Few values: ties are frequent.
    without = rng.integers(0, 9, n0).astype(np.float64)
    with_point = rng.integers(2, 11, n1).astype(np.float64)
    found, expected = (f(without, with_point) for f in (bets.outcomes, obvious_outcomes))
    np.testing.assert_array_equal(found, expected)


def test_more_models_do_not_change_earlier_outcomes() -> None:
    """Checking while models are still being trained shows a prefix of the later outcomes."""
    rng = np.random.default_rng(4)
    without, with_point = rng.normal(size=30), rng.normal(size=70)
    whole = bets.outcomes(without, with_point)
    for n0, n1 in ((10, 10), (9, 70), (30, 12), (30, 31)):
        part = bets.outcomes(without[:n0], with_point[:n1])
        np.testing.assert_array_equal(part, whole[: len(part)])


def test_a_pair_is_judged_by_its_past_alone() -> None:
    rng = np.random.default_rng(3)
    without, with_point = rng.normal(size=20), rng.normal(size=20)
    before = bets.outcomes(without, with_point)
    without[12:], with_point[12:] = 50.0, -50.0
    np.testing.assert_array_equal(bets.outcomes(without, with_point)[:12], before[:12])


def mean_capital(epsilon: float, claim: float, delta: float, blocks: int, *, peek: bool) -> float:
    """Exact mean of the mixture for randomised response, over all possible outcomes.

    ``peek`` is the sabotaged version: thresholds that use the block they are applied to.
    """
    lie = 1 / (1 + np.exp(epsilon))
    total = 0.0
    for bits in product((0, 1), repeat=2 * blocks):
        without, with_point = np.array(bits[:blocks]), np.array(bits[blocks:])
        wrong = without.sum() + (1 - with_point).sum()
        chance = lie**wrong * (1 - lie) ** (2 * blocks - wrong)
        met = bets.outcomes(without * 1.0, with_point * 1.0)
        if peek:
            met[bets.PAIRS_BEFORE_BETS :, :, 0] = np.maximum(
                met[bets.PAIRS_BEFORE_BETS :, :, 0], 0.8
            )
        growth = bets.log_growth(bets.returns(met, claim, delta)).sum(axis=0)
        total += chance * np.exp(bets.mixed(growth.reshape(1, -1)))
    return float(total)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.1), (2.0, 0.01)])
def test_a_true_claim_does_not_let_capital_grow(epsilon: float, delta: float) -> None:
    assert mean_capital(epsilon, epsilon, delta, 5, peek=False) <= 1 + 1e-12


def test_a_false_claim_does_and_so_do_thresholds_that_know_too_much() -> None:
    """The controls of the test above."""
    assert mean_capital(2.5, 1.0, 0.0, 5, peek=False) > 1
    assert mean_capital(1.0, 1.0, 0.0, 5, peek=True) > 1


def test_no_bettor_is_ruined_or_wins_without_a_bet() -> None:
    nothing = np.full((2, len(bets.TARGET_RATES), bets.OUTCOMES), np.nan)
    assert (bets.returns(nothing, 1.0, 0.1) == 0).all()
    worst = np.array([0.0, 1.0, 0.0, 1.0])
    assert bets.returns(worst, 3.0, 0.2).min() == pytest.approx(-1.0)
    assert np.isfinite(bets.log_growth(bets.returns(worst, 3.0, 0.2))).all()
    with np.errstate(over="raise", invalid="raise"):
        assert (bets.returns(worst, 5000.0, 0.2) <= 0).all()


def test_returns_are_the_formula() -> None:
    gain, loss, odds, delta = 0.7, 0.2, np.exp(1.3), 0.05
    expected = (gain - odds * loss - delta) / (odds + delta)
    found = bets.returns(np.array([gain, loss, 0.0, 0.0]), 1.3, delta)
    assert found[0] == pytest.approx(expected)
    assert found[2] == pytest.approx((expected + found[1]) / 2)


def test_bases_are_multiplied_or_averaged() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(4, 7))
    capital = np.exp(logs)
    shares = [
        weight * np.mean(np.prod(1 - share + share * capital, axis=0))
        for share, weight in bets.SHARES
    ]
    assert float(bets.mixed(logs)) == pytest.approx(np.log(sum(shares)))
    assert float(bets.mixed(logs, independent=False)) == pytest.approx(np.log(capital.mean()))
    assert sum(weight for _, weight in bets.SHARES) == pytest.approx(1.0)


def test_one_base_that_leaks_is_not_eaten_up_by_others() -> None:
    logs = np.full((20, 3), -2.0)
    logs[0] = 12.0
    assert float(bets.mixed(logs)) > np.log(20)
    assert logs.sum(axis=0).max() < 0  # without shares it would be
