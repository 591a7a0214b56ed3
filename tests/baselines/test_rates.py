"""Limits of a rate compared with the tail that defines them."""

from __future__ import annotations

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from epsilometer.baselines import intervals as rates

FIXED = settings(derandomize=True, max_examples=100, deadline=None)

CASES = [(1, 1), (3, 10), (9, 10), (200, 500), (1, 100_000), (99_999, 100_000), (7, 1_000_000)]


@pytest.mark.parametrize(("count", "trials"), CASES)
@pytest.mark.parametrize("tail", [1e-12, 0.0125, 0.05, 0.5, 0.9])
def test_clopper_pearson_is_where_the_binomial_tail_is(
    count: int, trials: int, tail: float
) -> None:
    low, high = map(float, rates.clopper_pearson(count, trials, tail))
    # 1e-9: limited by the binomial's own functions, not by the inverse.
    assert binom.sf(count - 1, trials, low) == pytest.approx(tail, rel=1e-9)
    if count < trials:
        assert binom.cdf(count, trials, high) == pytest.approx(tail, rel=1e-9)


def test_clopper_pearson_at_the_ends() -> None:
    low, high = rates.clopper_pearson([0, 50], 50, 0.05)
    assert (low[0], high[1]) == (0.0, 1.0)
    # All or none of n: the closed forms.
    assert high[0] == pytest.approx(1 - 0.05 ** (1 / 50), rel=1e-12)
    assert low[1] == pytest.approx(0.05 ** (1 / 50), rel=1e-12)


@pytest.mark.parametrize(("count", "trials"), [(1, 2), (3, 10), (200, 500), (1, 5000)])
@pytest.mark.parametrize("tail", [1e-6, 0.025, 0.3])
def test_jeffreys_leaves_its_tail(count: int, trials: int, tail: float) -> None:
    low, high = map(float, rates.jeffreys(count, trials, tail))
    a, b = count + 0.5, trials - count + 0.5
    with mpmath.workdps(30):
        below = float(mpmath.betainc(a, b, 0, low, regularized=True))
        above = float(mpmath.betainc(a, b, high, 1, regularized=True))
    assert below == pytest.approx(tail, rel=1e-9)
    assert above == pytest.approx(tail, rel=1e-9)


def test_jeffreys_at_the_ends() -> None:
    low, high = rates.jeffreys([0, 7], 7, 0.05)
    assert (low[0], high[1]) == (0.0, 1.0)
    assert high[0] < 1.0
    assert low[1] > 0.0


@FIXED
@given(
    trials=st.integers(1, 10_000),
    share=st.floats(0, 1),
    tails=st.lists(st.floats(1e-9, 0.49), min_size=2, max_size=2).map(sorted),
)
def test_limits_nest_and_mirror(trials: int, share: float, tails: list[float]) -> None:
    count = round(share * trials)
    for limits in (rates.clopper_pearson, rates.jeffreys):
        (lowest, highest), (low, high) = (map(float, limits(count, trials, t)) for t in tails)
        assert 0 <= lowest <= low <= high <= highest <= 1
        if (
            limits is rates.clopper_pearson
        ):  # the Jeffreys interval may miss it at tails near one half
            assert low <= count / trials <= high
        mirrored, _ = limits(trials - count, trials, tails[1])
        assert high == pytest.approx(1 - float(mirrored), abs=1e-9)
