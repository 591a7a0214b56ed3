"""Epsilon from limits of both rates: other tools' numbers, a search of the rectangle, the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from epsilometer.baselines.intervals import ClopperPearson, Jeffreys
from epsilometer.model.region import critical_epsilon
from tests.baselines.oracles import base, confusion
from tests.golden import peers

FIXED = settings(derandomize=True, max_examples=60, deadline=None)
SEVEN = peers.TOLERANCE["seven decimals"]


@pytest.mark.parametrize("cells", list(peers.RATE_INTERVALS))
def test_peer_intervals(cells: tuple[int, int, int, int, float]) -> None:
    tp, tn, fp, fn, delta = cells
    counts = confusion(tp=tp, tn=tn, fp=fp, fn=fn)
    for estimator, expected in zip(
        (ClopperPearson(), Jeffreys()), peers.RATE_INTERVALS[cells], strict=True
    ):
        low, high = estimator.interval(counts, delta, significance=0.1)
        assert (low[0], high[0]) == pytest.approx(expected, abs=SEVEN)


def test_peer_lower_bound_of_a_perfect_attack() -> None:
    counts = confusion(tp=500, fn=0, fp=0, tn=500)
    bound = ClopperPearson().lower(counts, 0.0, 0.01)[0]
    assert bound == pytest.approx(peers.CLOPPER_PEARSON_PERFECT, abs=SEVEN)
    # In closed form: the limit for no event in 500, half of 1 % each.
    limit = 1 - 0.005 ** (1 / 500)
    assert bound == pytest.approx(math.log((1 - limit) / limit), rel=1e-12)


def slow_ends(
    x: int, n0: int, y: int, n1: int, delta: float, tail: float, *, one_sided: bool
) -> tuple[float, float]:
    """Every point of a lattice on the rectangle of limits, by `scipy.stats.beta`."""
    low_a, high_a = (beta.ppf(tail, x, n0 - x + 1), beta.isf(tail, x + 1, n0 - x))
    low_b, high_b = (beta.ppf(tail, y, n1 - y + 1), beta.isf(tail, y + 1, n1 - y))
    alphas, betas = np.meshgrid(np.linspace(low_a, high_a, 301), np.linspace(low_b, high_b, 301))
    if one_sided:
        values = np.log(np.maximum((1 - delta - betas) / alphas, 1.0))
    else:
        values = critical_epsilon(alphas, betas, delta)
    return float(values.min()), float(values.max())


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("delta", [0.0, 0.01, 0.3])
@pytest.mark.parametrize(
    ("x", "n0", "y", "n1"),
    [(20, 100, 20, 100), (1, 10, 3, 2000), (90, 100, 80, 90), (40, 100, 60, 100), (700, 990, 1, 9)],
)
def test_ends_are_those_of_the_rectangle(
    x: int, n0: int, y: int, n1: int, delta: float, *, one_sided: bool
) -> None:
    low, high = ClopperPearson(one_sided=one_sided).interval(base(x, n0, y, n1), delta, 0.1)
    expected = slow_ends(x, n0, y, n1, delta, 0.025, one_sided=one_sided)
    assert high[0] == pytest.approx(expected[1], abs=1e-9)
    # The lattice includes the corners but not the line alpha + beta = 1 within the rectangle, where
    # epsilon is 0: it is off by at most a cell there.
    crossed = expected[0] < 0.02
    assert low[0] == pytest.approx(0.0 if crossed else expected[0], abs=1e-9)


@pytest.mark.parametrize("estimator", [ClopperPearson(), Jeffreys()], ids=lambda e: e.label)
def test_counts_at_the_ends(estimator: ClopperPearson | Jeffreys) -> None:
    low, high = estimator.interval(confusion(tp=50, tn=50, fp=0, fn=0), 0.0)
    assert 0 < low[0] < high[0] == math.inf
    # Always wrong is as informative as always right.
    wrong_low, wrong_high = estimator.interval(confusion(tp=0, tn=0, fp=50, fn=50), 0.0)
    assert wrong_low[0] == pytest.approx(low[0], rel=1e-9)
    assert wrong_high[0] == math.inf
    # Calling everything a member is uninformative.
    assert estimator.lower(confusion(tp=50, tn=0, fp=50, fn=0), 0.0)[0] == 0.0
    # One trial of each.
    low, high = estimator.interval(confusion(tp=1, tn=1, fp=0, fn=0), 0.0)
    assert low[0] == 0.0
    assert high[0] == math.inf


def test_one_sided_at_the_ends() -> None:
    estimator = ClopperPearson(one_sided=True)
    low, high = estimator.interval(confusion(tp=0, tn=50, fp=0, fn=50), 0.0)
    assert (low[0], high[0]) == (0.0, math.inf)  # 0 / 0 below, something over 0 above
    low, high = estimator.interval(confusion(tp=0, tn=0, fp=50, fn=50), 0.0)
    assert low[0] == 0.0  # always wrong: only the reflected decision is informative
    assert estimator.lower(confusion(tp=40, tn=50, fp=0, fn=10), 0.999)[0] == 0.0


@FIXED
@given(
    x=st.integers(0, 40), y=st.integers(0, 60), delta=st.floats(0, 0.9), level=st.floats(0.01, 0.9)
)
def test_one_sided_is_never_above_two_sided(x: int, y: int, delta: float, level: float) -> None:
    counts = base(x, 40, y, 60)
    for kind in (ClopperPearson, Jeffreys):
        one = kind(one_sided=True).lower(counts, delta, level)[0]
        assert one <= kind().lower(counts, delta, level)[0] + 1e-12
