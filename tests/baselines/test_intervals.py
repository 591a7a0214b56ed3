"""Epsilon from limits of rates and of ratios: definitions, ends, other tools' numbers."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import beta, binom, norm

from epsilometer.baselines import intervals as rates
from epsilometer.baselines.intervals import (
    AdjustedLog,
    Bailey,
    ClopperPearson,
    GaussianRates,
    InverseSinh,
    Jeffreys,
    Katz,
    separation,
)
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian, gaussian_epsilon
from epsilometer.model.region import critical_epsilon
from tests.baselines.oracles import base, confusion
from tests.golden import peers

FIXED = settings(derandomize=True, max_examples=100, deadline=None)
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


# --- limits of a rate compared with the tail that defines them ------------------------------------


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


def test_counts_at_the_ends_of_gaussian() -> None:
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


# --- large-sample limits of a ratio: TensorFlow Privacy's numbers, textbook forms, the edges ------


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
def test_counts_at_the_ends_of_log_ratio(estimator: Limit) -> None:
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
