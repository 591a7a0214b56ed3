"""Large-sample limits of a ratio: TensorFlow Privacy's numbers, textbook forms, the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from epsilometer.baselines.log_ratio import AdjustedLog, Bailey, InverseSinh, Katz
from tests.baselines.oracles import base, confusion
from tests.golden import peers

FIXED = settings(derandomize=True, max_examples=100, deadline=None)
Limit = Katz | AdjustedLog | Bailey | InverseSinh
ALL: list[Limit] = [Katz(), AdjustedLog(), Bailey(), InverseSinh()]


@pytest.mark.parametrize("cells", list(peers.RATIO_LIMITS))
def test_peer_limits(cells: tuple[int, int, int, int]) -> None:
    tp, fn, fp, tn = cells
    for estimator, expected in zip(ALL, peers.RATIO_LIMITS[cells], strict=True):
        limit = float(estimator.ratio_lower(tp, tp + fn, fp, fp + tn))
        assert limit == pytest.approx(expected, abs=peers.TOLERANCE["eight decimals"])


def textbook(name: str, x1: float, n1: float, x2: float, n2: float, z: float) -> float:
    """The forms of Price and Bonett (2008) at delta = 0, in plain numbers."""
    if name == AdjustedLog.label:
        x1, n1, x2, n2 = x1 + 0.5, n1 + 0.5, x2 + 0.5, n2 + 0.5
    ratio = (x1 / n1) / (x2 / n2)
    if name == Bailey.label:
        q1, q2 = 1 - x1 / n1, 1 - x2 / n2
        inner = q1 / x1 + q2 / x2 - z**2 * q1 * q2 / (9 * x1 * x2)
        return float(ratio * ((1 - z * math.sqrt(inner) / 3) / (1 - z**2 * q2 / (9 * x2))) ** 3)
    spread = math.sqrt(1 / x1 - 1 / n1 + 1 / x2 - 1 / n2)
    if name == InverseSinh.label:
        return ratio * math.exp(-2 * math.asinh(z * spread / 2))
    return ratio * math.exp(-z * spread)


@pytest.mark.parametrize("estimator", ALL, ids=lambda e: e.label)
@pytest.mark.parametrize("significance", [0.001, 0.05, 0.4])
@pytest.mark.parametrize("cells", [(30, 40, 12, 90), (500, 500, 5, 400), (7, 900, 800, 1000)])
def test_textbook_form_without_delta(
    cells: tuple[int, int, int, int], significance: float, estimator: Limit
) -> None:
    expected = textbook(estimator.label, *cells, z=float(norm.isf(significance)))
    limit = float(estimator.ratio_lower(*cells, significance=significance))
    assert limit == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("estimator", ALL, ids=lambda e: e.label)
def test_delta_is_paid_at_first_order(estimator: Limit) -> None:
    # With very many trials the limit is the ratio itself: (p1 - delta) / p2.
    limit = float(estimator.ratio_lower(6e13, 1e14, 2e13, 1e14, delta=0.1))
    assert limit == pytest.approx((0.6 - 0.1) / 0.2, rel=1e-5)
    assert limit < 2.5


def test_delta_variance_is_that_of_the_difference() -> None:
    # Katz with delta is the delta method on log(p1 - delta): compared with a simulated spread.
    rng = np.random.default_rng(7)
    n, p1, p2, delta = 20_000, 0.5, 0.3, 0.2
    draws = np.log(rng.binomial(n, p1, 40_000) / n - delta)
    draws -= np.log(rng.binomial(n, p2, 40_000) / n)
    limit = float(Katz().ratio_lower(n * p1, n, n * p2, n, delta=delta, significance=0.05))
    spread = (math.log((p1 - delta) / p2) - math.log(limit)) / float(norm.isf(0.05))
    # A standard deviation of 40,000 draws has a relative error of 1/sqrt(80,000) = .35 %; 4 of them.
    assert spread == pytest.approx(float(draws.std()), rel=0.015)


@pytest.mark.parametrize("estimator", ALL, ids=lambda e: e.label)
def test_bound_takes_the_better_direction(estimator: Limit) -> None:
    # (473, 511, 755, 950) and the same with the hypotheses exchanged.
    counts = confusion(tp=90, tn=400, fp=100, fn=10)
    ratios = [
        float(estimator.ratio_lower(90, 100, 100, 500, delta=0.01, significance=0.01)),
        float(estimator.ratio_lower(400, 500, 10, 100, delta=0.01, significance=0.01)),
    ]
    bound = estimator.lower(counts, 0.01, 0.02)[0]
    assert bound == pytest.approx(math.log(max(ratios)), rel=1e-12)
    assert bound == pytest.approx(estimator.lower(base(10, 100, 100, 500), 0.01, 0.02)[0])


@pytest.mark.parametrize("estimator", ALL, ids=lambda e: e.label)
def test_counts_at_the_ends(estimator: Limit) -> None:
    for cells in [(50, 0, 0, 50), (0, 50, 50, 0), (0, 50, 0, 50), (50, 0, 50, 0), (1, 0, 0, 1)]:
        tp, fn, fp, tn = cells
        low, high = estimator.interval(confusion(tp=tp, tn=tn, fp=fp, fn=fn), 1e-5)
        assert 0 <= low[0] < math.inf
        assert high[0] == math.inf
    # Without a false positive three of them have no limit; adding half an event gives one.
    perfect = estimator.lower(confusion(tp=500, tn=500, fp=0, fn=0), 0.0)[0]
    assert (perfect > 0) == isinstance(estimator, AdjustedLog)
    # The rate is not above delta.
    assert float(estimator.ratio_lower(10, 100, 1, 100, delta=0.1)) >= 0.0
    assert float(estimator.ratio_lower(10, 100, 1, 100, delta=0.2)) == 0.0


@FIXED
@given(
    x1=st.integers(0, 60),
    x2=st.integers(0, 45),
    delta=st.floats(0, 0.9),
    level=st.floats(1e-4, 0.5),
)
def test_limit_is_below_the_ratio(x1: int, x2: int, delta: float, level: float) -> None:
    for estimator in (Katz(), Bailey(), InverseSinh()):
        limit = float(estimator.ratio_lower(x1, 60, x2, 45, delta=delta, significance=level))
        assert limit <= ((x1 / 60) / (x2 / 45) if x2 else math.inf) + 1e-12
