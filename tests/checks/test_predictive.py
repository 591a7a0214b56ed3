"""Predictive checks: the distribution on the rings in closed form, then p-values that must be uniform.

Kolmogorov-Smirnov and binomial checks are at level 1e-4 each, as in `test_sbc.py`; every kind of
check has a twin with a fault that it must catch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chisquare, kstest, norm

from epsilometer.checks import predictive
from epsilometer.checks.predictive import (
    CheckedStatistic,
    PredictiveCheck,
    check_predictions,
    fold,
    two_sided_p_value,
)
from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
from epsilometer.engines.mcmc.diagnostics import Diagnostics
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial
from epsilometer.model.priors import Beta, Fixed, HalfNormal
from epsilometer.model.region import sample_rings
from epsilometer.posteriors.provenance import Provenance
from tests.drawn import binomial_counts
from tests.engines.oracles import ring_area

FloatArray = NDArray[np.float64]
Points = tuple[FloatArray, FloatArray]

LEVEL = 1e-4
WORST_Z = 4.5
"""About 40 comparisons of shares: a false alarm in one of them has probability 3e-4."""

# --- the distribution on the rings ------------------------------------------------------------

SIZE = 20_000
RINGS = [
    (0.05, 0.0, 0.0),
    (2.0, 0.0, 0.0),
    (2.0, 0.1, 0.0),
    (0.5, 0.0, 0.6),
    (3.0, 0.02, 0.6),
    (0.0, 0.2, 0.5),
    (6.0, 0.3, 0.9),
]
BOUNDARIES = [(1.5, 0.0, 1.0), (3.0, 0.05, 1.0), (0.0, 0.2, 1.0)]


def quarter(alpha: FloatArray, beta: FloatArray) -> Points:
    """Every point moved by the two symmetries to beta <= alpha, alpha + beta <= 1."""
    alpha, beta = fold(alpha, beta)
    return np.maximum(alpha, beta), np.minimum(alpha, beta)


def share_within(points: Points, epsilon: float, delta: float, strength: float) -> FloatArray:
    """Share of the ring within the curve through each point: its area over that of the ring.

    The curve is the boundary of R(u epsilon, u delta), with u found by bisection.
    """
    alpha, beta = quarter(*points)
    low, high = np.zeros(alpha.shape), np.ones(alpha.shape)
    for _ in range(50):
        level = (low + high) / 2
        inside = beta >= np.exp(-level * epsilon) * (1 - level * delta - alpha)
        low, high = np.where(inside, low, level), np.where(inside, level, high)
    whole = ring_area(np.asarray(epsilon), delta, np.asarray(strength))
    return 1 - ring_area(np.asarray(epsilon), delta, high) / whole


def share_below_slope(points: Points, epsilon: float, delta: float, strength: float) -> FloatArray:
    """Share of the quarter ring below the line from (0, 0) through each point.

    Below slope k, the part of the quarter outside R(t, d) is a triangle of area
    (1 - d)^2 k / (1 + k e^t) / 2; the ring is the difference of two, or the derivative at s = 1.
    """
    alpha, beta = quarter(*points)

    def area(slope: FloatArray) -> FloatArray:
        if strength < 1:
            inner = (1 - strength * delta) ** 2 * slope / (1 + slope * np.exp(strength * epsilon))
            return np.asarray(inner - (1 - delta) ** 2 * slope / (1 + slope * np.exp(epsilon)))
        bend = 1 + slope * np.exp(epsilon)
        shift = 2 * delta * (1 - delta) * slope / bend
        return np.asarray(shift + (1 - delta) ** 2 * slope**2 * epsilon * np.exp(epsilon) / bend**2)

    return area(beta / alpha) / area(np.asarray(1.0))


@pytest.mark.parametrize(("epsilon", "delta", "strength"), RINGS + BOUNDARIES)
def test_points_fill_each_ring_evenly(epsilon: float, delta: float, strength: float) -> None:
    rng = np.random.default_rng(3)
    points = sample_rings(epsilon, delta, strength, size=(SIZE,), rng=rng)
    if strength < 1:
        shares = share_within(points, epsilon, delta, strength)
        assert kstest(shares, "uniform").pvalue > LEVEL
    elif epsilon > 0:
        # On the boundary up to rounding, which the logarithm enlarges where a rate is near 0.
        levels = region.critical_epsilon(*points, delta)
        np.testing.assert_allclose(levels, epsilon, rtol=1e-9)
    slopes = share_below_slope(points, epsilon, delta, strength)
    assert kstest(slopes, "uniform").pvalue > LEVEL
    alpha, beta = points
    cells = 2 * (alpha > beta).astype(int) + (alpha + beta > 1)
    assert chisquare(np.bincount(cells, minlength=4)).pvalue > LEVEL


def test_each_point_has_its_own_ring() -> None:
    """Rings of different sizes drawn in one call: all shares together are uniform, each in turn."""
    rng = np.random.default_rng(6)
    epsilon, strength = np.array([[0.3], [2.0], [5.0]]), np.array([[0.0], [0.7], [0.2]])
    alpha, beta = sample_rings(epsilon, 0.05, strength, size=(3, SIZE), rng=rng)
    for row in range(3):
        ring = (float(epsilon[row, 0]), 0.05, float(strength[row, 0]))
        assert kstest(share_within((alpha[row], beta[row]), *ring), "uniform").pvalue > LEVEL
    # Control: the same points read with the ring of the next row.
    wrong = share_within((alpha[0], beta[0]), 2.0, 0.05, 0.0)
    assert kstest(wrong, "uniform").pvalue < LEVEL


def _uniform_in_alpha_only(rng: np.random.Generator) -> Points:
    """Sabotage: alpha uniform on [0, 1], then beta uniform in the region R(2, .1) above it."""
    alpha = rng.random(SIZE)

    def lower(rate: FloatArray) -> FloatArray:
        edges = 0.9 - np.exp(2.0) * rate, np.exp(-2.0) * (0.9 - rate)
        return np.asarray(np.clip(np.maximum(*edges), 0.0, 1.0))

    low, high = lower(alpha), 1 - lower(1 - alpha)
    return alpha, low + (high - low) * rng.random(SIZE)


def test_uniform_in_alpha_only_is_caught() -> None:
    points = _uniform_in_alpha_only(np.random.default_rng(7))
    assert kstest(share_within(points, 2.0, 0.1, 0.0), "uniform").pvalue < LEVEL
    assert kstest(share_below_slope(points, 2.0, 0.1, 0.0), "uniform").pvalue < LEVEL


def test_boundary_by_arc_length_is_caught() -> None:
    rng = np.random.default_rng(8)
    reach = (1 - 0.05) / (1 + np.exp(-3.0)) * rng.random(SIZE)
    points = 1 - 0.05 - reach, np.exp(-3.0) * reach
    assert kstest(share_below_slope(points, 3.0, 0.05, 1.0), "uniform").pvalue < LEVEL


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1.0, 800.0])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.9])
@pytest.mark.parametrize("strength", [0.0, 0.99, 1 - 1e-15, 1.0])
def test_rings_at_the_limits(epsilon: float, delta: float, strength: float) -> None:
    rng = np.random.default_rng(9)
    alpha, beta = sample_rings(epsilon, delta, strength, size=(500,), rng=rng)
    assert np.all((alpha >= 0) & (alpha <= 1) & (beta >= 0) & (beta <= 1))
    # In the region, up to a rounding error of a rate next to 1.
    alpha, beta = fold(alpha, beta)
    for one, other in ((alpha, beta), (beta, alpha)):
        assert np.all(one + np.exp(-epsilon) * other >= np.exp(-epsilon) * (1 - delta) - 1e-15)


def test_bad_rings_are_refused() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match=r"epsilon >= 0, got epsilon=-1\.0"):
        sample_rings([1.0, -1.0], 0.0, 0.5, rng=rng)
    with pytest.raises(InputError, match="got epsilon=inf"):
        sample_rings(np.inf, 0.0, 0.5, rng=rng)
    with pytest.raises(InputError, match="got strength=nan"):
        sample_rings(1.0, 0.0, np.nan, rng=rng)
    with pytest.raises(InputError, match="delta"):
        sample_rings(1.0, 1.0, 0.5, rng=rng)


# --- p-values ---------------------------------------------------------------------------------


def known(counts: AttackCounts, model: CountModel, **samples: FloatArray) -> SamplePosterior:
    """A posterior defined by the given draws."""
    return SamplePosterior(
        counts=counts,
        model=model,
        provenance=Provenance(engine="given", settings={}, seconds=0.0),
        samples={name: np.reshape(draws, (1, -1)) for name, draws in samples.items()},
        diagnostics=Diagnostics(parameters={}, acceptance_rate=1.0),
    )


def simulated(model: CountModel, bases: int, trials: int, rng: np.random.Generator) -> AttackCounts:
    """Binomial counts from the prior, by the sampler of one ring: independent of the check."""
    assert isinstance(model.epsilon, HalfNormal)
    assert isinstance(model.strength, Beta)
    assert isinstance(model.likelihood, IndependentBinomial)
    epsilon = float(model.epsilon.sample(1, rng=rng)[0])
    strength = float(model.strength.sample(1, rng=rng)[0])
    alpha, beta = region.sample_ring(bases, epsilon, model.delta, strength, rng=rng)
    return binomial_counts(alpha, beta, trials, 2 * trials, rng)


def p_values(
    make: Callable[[], AttackCounts],
    judge: Callable[[AttackCounts], PredictiveCheck],
    times: int,
) -> dict[str, FloatArray]:
    checks = [judge(make()) for _ in range(times)]
    return {
        statistic.name: np.array([check.statistics[i].p_value for check in checks])
        for i, statistic in enumerate(checks[0].statistics)
    }


PRIOR = CountModel(delta=0.02, epsilon=HalfNormal(scale=1.5), strength=Beta(a=2.0, b=2.0))
AT_ENDS = "share of counts that are 0 or all trials"


def test_p_values_are_uniform_where_replicates_are_drawn_like_the_counts() -> None:
    """With the prior in place of the posterior, counts and replicates are exchangeable."""
    rng = np.random.default_rng(11)
    assert isinstance(PRIOR.epsilon, HalfNormal)
    assert isinstance(PRIOR.strength, Beta)
    draws = {
        "epsilon": PRIOR.epsilon.sample(100_000, rng=rng),
        "strength": PRIOR.strength.sample(100_000, rng=rng),
    }

    def judge(counts: AttackCounts) -> PredictiveCheck:
        return check_predictions(known(counts, PRIOR, **draws), rng=rng, replicates=200)

    found = p_values(lambda: simulated(PRIOR, 5, 1000, rng), judge, 400)
    assert len(found) == 7
    for name, values in found.items():
        if name == AT_ENDS:
            # Mostly ties: not uniform, but small values must not be frequent.
            assert np.sum(values <= 0.1) <= binom.isf(LEVEL, len(values), 0.1)
        else:
            assert kstest(values, "uniform").pvalue > LEVEL, name
    # Control: attacks on a more private algorithm than the replicates assume.
    other = CountModel(delta=0.02, epsilon=HalfNormal(scale=0.3), strength=PRIOR.strength)
    wrong = p_values(lambda: simulated(other, 5, 1000, rng), judge, 100)
    assert kstest(wrong["mean advantage"], "uniform").pvalue < LEVEL


@pytest.mark.slow
def test_small_p_values_are_not_more_frequent_than_they_should_be() -> None:
    """The posterior has seen the counts, so p-values may be too large but not too small."""
    rng = np.random.default_rng(12)

    def judge(counts: AttackCounts) -> PredictiveCheck:
        posterior = estimate_exact(counts, PRIOR, ExactSettings(tolerance=0.02))
        return check_predictions(posterior, rng=rng, replicates=400)

    def alike() -> AttackCounts:
        """Control: attacks that differ only by chance."""
        return AttackCounts(
            false_positives=rng.binomial(300, 0.2, 8),
            trials_h0=300,
            false_negatives=rng.binomial(600, 0.5, 8),
            trials_h1=600,
        )

    for name, values in p_values(lambda: simulated(PRIOR, 8, 40, rng), judge, 12).items():
        for level in (0.02, 0.1, 0.25):
            assert np.sum(values <= level) <= binom.isf(LEVEL, len(values), level), (name, level)
    wrong = p_values(alike, judge, 6)["standard deviation of false-negative rates"]
    assert np.sum(wrong <= 0.02) > binom.isf(LEVEL, len(wrong), 0.02)


@pytest.mark.parametrize(
    ("observed", "replicates", "expected"),
    [
        (9.0, np.arange(9.0), 0.2),  # Beyond all: 2 (1 + 0) / 10, never 0.
        (-1.0, np.arange(9.0), 0.2),
        (0.0, np.arange(9.0), 0.3),  # One tie counts half: 2 (1 + 0 + 1/2) / 10.
        (4.0, np.arange(9.0), 1.0),
        (7.0, np.ones(9) * 7, 1.0),
        (
            0.1 + 0.2,
            np.array([0.3] * 4 + [1.0] * 5),
            0.6,
        ),  # Rounding does not count as a difference.
    ],
)
def test_p_value_by_hand(observed: float, replicates: FloatArray, expected: float) -> None:
    assert two_sided_p_value(observed, replicates) == pytest.approx(expected, abs=1e-15)
    assert two_sided_p_value(-observed, -replicates) == pytest.approx(expected, abs=1e-15)


# --- counts that the model generates, and counts that it cannot -------------------------------


def check(
    counts: AttackCounts, model: CountModel | None = None, replicates: int = 1000
) -> PredictiveCheck:
    posterior = estimate_exact(counts, model or CountModel(delta=1e-3))
    assert posterior.trustworthy
    return check_predictions(posterior, rng=np.random.default_rng(21), replicates=replicates)


def named(result: PredictiveCheck, name: str) -> CheckedStatistic:
    (found,) = [statistic for statistic in result.statistics if statistic.name == name]
    return found


def test_counts_of_the_model_are_no_surprise() -> None:
    rng = np.random.default_rng(22)
    alpha, beta = region.sample_ring(25, 2.5, 1e-3, 0.4, rng=rng)
    counts = binomial_counts(alpha, beta, 300, 200, rng)
    result = check(counts)
    assert not any(statistic.surprising for statistic in result.statistics)


def test_attacks_all_alike_are_a_surprise() -> None:
    """The model's rates spread along the curve; these do not, however many the trials."""
    counts = AttackCounts(
        false_positives=[10**5] * 15, trials_h0=10**6, false_negatives=[10**5] * 15, trials_h1=10**6
    )
    result = check(counts)
    for rate in ("positive", "negative"):
        statistic = named(result, f"standard deviation of false-{rate} rates")
        assert statistic.observed == pytest.approx(0.0, abs=1e-12)
        assert statistic.observed < statistic.low
        # Beyond every replicate.
        assert statistic.p_value == pytest.approx(2 / 1001)
        assert statistic.surprising
    for quantity in result.quantities[:2]:
        assert quantity.observed[0] > quantity.high[0]
        assert quantity.observed[-1] < quantity.low[-1]


def test_too_many_counts_at_their_ends_are_a_surprise() -> None:
    """Attacks that never say member are compatible with epsilon 0, but replicates would say it."""
    counts = AttackCounts(
        false_positives=[0] * 20, trials_h0=100, false_negatives=[100] * 20, trials_h1=100
    )
    statistic = named(check(counts), AT_ENDS)
    assert statistic.observed == 1.0
    assert statistic.surprising


# --- the statistics ---------------------------------------------------------------------------

MIXED = AttackCounts(
    false_positives=[30, 8, 50, 2, 38],
    trials_h0=[40, 80, 100, 20, 40],
    false_negatives=[45, 30, 50, 10, 10],
    trials_h1=[60, 60, 100, 100, 90],
    names=["worse", "good", "guess", "best", "leaning"],
)


def test_fold_reflects_only_what_is_worse_than_guessing() -> None:
    alpha, beta = fold(MIXED.false_positive_rates, MIXED.false_negative_rates)
    np.testing.assert_allclose(alpha, [0.25, 0.1, 0.5, 0.1, 0.05])
    np.testing.assert_allclose(beta, [0.25, 0.5, 0.5, 0.1, 8 / 9])
    again = fold(alpha, beta)
    np.testing.assert_array_equal(again[0], alpha)
    np.testing.assert_array_equal(again[1], beta)


def test_observed_statistics_and_order_of_bases() -> None:
    result = check(MIXED, replicates=300)
    alpha = np.array([0.25, 0.1, 0.5, 0.1, 0.05])
    beta = np.array([0.25, 0.5, 0.5, 0.1, 8 / 9])
    observed = {statistic.name: statistic.observed for statistic in result.statistics}
    assert observed == pytest.approx(
        {
            "mean false-positive rate": alpha.mean(),
            "standard deviation of false-positive rates": alpha.std(ddof=1),
            "mean false-negative rate": beta.mean(),
            "standard deviation of false-negative rates": beta.std(ddof=1),
            "mean advantage": (1 - alpha - beta).mean(),
            "largest advantage": 0.8,
            AT_ENDS: 0.0,
        }
    )
    positive, negative, advantage = result.quantities
    assert [quantity.name for quantity in result.quantities] == [
        "false-positive rate",
        "false-negative rate",
        "advantage",
    ]
    for quantity, values in ((positive, alpha), (negative, beta), (advantage, 1 - alpha - beta)):
        np.testing.assert_allclose(quantity.observed, np.sort(values), atol=1e-12)
        np.testing.assert_allclose(values[quantity.order], quantity.observed, atol=1e-12)
        assert sorted(quantity.order) == [0, 1, 2, 3, 4]
        assert np.all((quantity.low <= quantity.middle) & (quantity.middle <= quantity.high))
        for line in (quantity.low, quantity.middle, quantity.high):
            assert np.all(np.diff(line) >= 0)
    names = [MIXED.names[base] for base in advantage.order]
    assert names == ["guess", "leaning", "good", "worse", "best"]


def test_reflected_counts_give_the_same_answer() -> None:
    reflected = AttackCounts(
        false_positives=MIXED.trials_h0 - MIXED.false_positives,
        trials_h0=MIXED.trials_h0,
        false_negatives=MIXED.trials_h1 - MIXED.false_negatives,
        trials_h1=MIXED.trials_h1,
    )
    draws = {"epsilon": np.array([1.0, 2.0]), "strength": np.array([0.1, 0.9])}
    model = CountModel(delta=0.01)
    first, second = (
        check_predictions(known(counts, model, **draws), rng=np.random.default_rng(3))
        for counts in (MIXED, reflected)
    )
    for one, other in zip(first.statistics, second.statistics, strict=True):
        assert one.observed == pytest.approx(other.observed, abs=1e-12)
        assert (one.low, one.high, one.p_value) == (other.low, other.high, other.p_value)


def test_each_base_keeps_its_own_trials() -> None:
    """A single trial is always extreme; of a million trials near guessing, none ever is."""
    counts = AttackCounts(
        false_positives=[1, 500_000, 0],
        trials_h0=[1, 10**6, 1],
        false_negatives=[300_000, 1, 1],
        trials_h1=[10**6, 1, 1],
    )
    # The density on the boundary falls linearly to 0 towards its ends, so of the 4,000 counts of a
    # million trials one is at an end with probability 4e-4; the interval would not show it.
    model = CountModel(delta=0.0, epsilon=Fixed(value=1.0), strength=Fixed(value=1.0))
    statistic = named(check(counts, model), AT_ENDS)
    assert statistic.observed == statistic.low == statistic.high == pytest.approx(4 / 6)
    assert statistic.p_value > 0.9


# --- new attacks in closed form ---------------------------------------------------------------


def one_base(trials_h0: int, trials_h1: int) -> AttackCounts:
    return AttackCounts(
        false_positives=[trials_h0 // 5],
        trials_h0=trials_h0,
        false_negatives=[trials_h1 // 5],
        trials_h1=trials_h1,
    )


def assert_interval(
    ends: tuple[float, float, float], distribution: Callable[[float], float], replicates: int
) -> None:
    """The interval at level .9 and the median must be the quantiles of the distribution."""
    for value, expected in zip(ends, (0.05, 0.5, 0.95), strict=True):
        error = abs(distribution(value) - expected)
        assert error <= WORST_Z * np.sqrt(expected * (1 - expected) / replicates), expected


def test_fixed_parameters_are_those_of_the_model() -> None:
    """Strength 1, delta 0: half the folded points are (1 - y, y / e^epsilon), half the exchanged.

    y is the largest possible times the root of a uniform number.  With 1e8 trials the rates add
    noise of 5e-5, which moves no probability by more than a tenth of its standard error.
    """
    epsilon = 1.5
    model = CountModel(delta=0.0, epsilon=Fixed(value=epsilon), strength=Fixed(value=1.0))
    result = check(one_base(10**8, 10**8), model, replicates=4000)
    reach = 1 / (1 + np.exp(-epsilon))

    def distribution(rate: float) -> float:
        near = np.clip(np.exp(epsilon) * rate / reach, 0.0, 1.0) ** 2
        far = 1 - np.clip((1 - rate) / reach, 0.0, 1.0) ** 2
        return float(near + far) / 2

    for quantity in result.quantities[:2]:
        ends = float(quantity.low[0]), float(quantity.middle[0]), float(quantity.high[0])
        assert_interval(ends, distribution, 4000)
    # Control: another epsilon.
    epsilon = 1.2
    with pytest.raises(AssertionError):
        assert_interval(ends, distribution, 4000)


@pytest.mark.parametrize(("tau", "rho"), [(0.0, 0.0), (0.02, 0.01), (0.02, -0.015)])
def test_correlated_counts_spread_as_stated(tau: float, rho: float) -> None:
    """For epsilon -> 0 the rates are (1 - y, y) up to symmetries, y with density 8 y on [0, 1/2].

    The advantage |1 - X / N0 - Y / N1| is then half-normal of variance
    y (1 - y) [c0 / N0 + c1 / N1 + 2 rho], c = 1 + (N - 1) tau: with many trials, rounding to whole
    numbers and clipping at 0 and N are negligible.
    """
    n0, n1, replicates = 40_000, 10_000, 4000
    model = CountModel(delta=0.0, likelihood=CorrelatedNormal(within_correlation_scale=0.05))
    posterior = known(
        one_base(n0, n1),
        model,
        epsilon=np.array([1e-6]),
        strength=np.array([0.5]),
        within_correlation=np.array([tau]),
        cross_correlation=np.array([rho]),
    )
    result = check_predictions(posterior, rng=np.random.default_rng(31), replicates=replicates)
    advantage = result.quantities[2]
    ends = float(advantage.low[0]), float(advantage.middle[0]), float(advantage.high[0])
    y = (np.arange(2000) + 0.5) / 4000

    def half_normal(rho: float) -> Callable[[float], float]:
        variance = (1 + (n0 - 1) * tau) / n0 + (1 + (n1 - 1) * tau) / n1 + 2 * rho

        def distribution(value: float) -> float:
            inside = 2 * norm.cdf(value / np.sqrt(y * (1 - y) * variance)) - 1
            return float(np.average(inside, weights=y))

        return distribution

    assert_interval(ends, half_normal(rho), replicates)
    if rho:
        # Control: the cross correlation with the wrong sign.
        with pytest.raises(AssertionError):
            assert_interval(ends, half_normal(-rho), replicates)


def test_correlated_counts_are_whole_and_possible() -> None:
    """Also near the bound of tau, where the variance of the largest base nearly vanishes."""
    counts = AttackCounts(
        false_positives=[0, 3], trials_h0=[5, 10], false_negatives=[2, 7], trials_h1=[4, 7]
    )
    rng = np.random.default_rng(32)
    rates = rng.random((2, 3000, 2))
    for tau, rho in ((0.9, 0.6), (-1 / 9, 0.0), (-1 / 9 + 1e-16, 1e-9)):
        tau_column, rho_column = np.full((3000, 1), tau), np.full((3000, 1), rho)
        x, y = CorrelatedNormal().sample_counts(
            counts,
            rates[0],
            rates[1],
            {"within_correlation": tau_column, "cross_correlation": rho_column},
            rng=rng,
        )
        assert x.dtype == y.dtype == np.int64
        assert np.all((x >= 0) & (x <= counts.trials_h0))
        assert np.all((y >= 0) & (y <= counts.trials_h1))
    # Without variance the count is the mean, rounded.
    np.testing.assert_array_equal(x[:, 1], np.rint(10 * rates[0, :, 1]))


# --- engines and settings ---------------------------------------------------------------------


def test_one_base_has_no_standard_deviations() -> None:
    result = check(one_base(100, 50), replicates=200)
    names = [statistic.name for statistic in result.statistics]
    assert len(names) == 5
    assert not any("deviation" in name for name in names)
    assert all(np.isfinite(statistic.p_value) for statistic in result.statistics)
    for quantity in result.quantities:
        assert quantity.order.tolist() == [0]
        assert quantity.middle.shape == (1,)


def test_level_sets_the_width() -> None:
    posterior = known(
        MIXED, CountModel(delta=0.01), epsilon=np.array([2.0]), strength=np.array([0.3])
    )
    narrow, wide = (
        check_predictions(posterior, rng=np.random.default_rng(1), level=level)
        for level in (0.5, 0.95)
    )
    assert (narrow.level, wide.level) == (0.5, 0.95)
    assert narrow.replicates == wide.replicates == 2000
    for one, other in zip(narrow.statistics, wide.statistics, strict=True):
        assert one.p_value == other.p_value
        assert other.low <= one.low <= one.high <= other.high
    for inner, outer in zip(narrow.quantities, wide.quantities, strict=True):
        np.testing.assert_array_equal(inner.middle, outer.middle)
        assert np.all((outer.low <= inner.low) & (inner.high <= outer.high))


def test_chunks_and_kept_replicates_are_put_together_rightly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chunks of 7 replicates, of which the first 200 are kept for the sorted values."""
    monkeypatch.setattr(predictive, "ATTACKS_AT_ONCE", 7 * len(MIXED))
    monkeypatch.setattr(predictive, "KEPT", 1)
    posterior = known(
        MIXED, CountModel(delta=0.01), epsilon=np.array([1.0, 3.0]), strength=np.array([0.1, 0.6])
    )
    result = check_predictions(posterior, rng=np.random.default_rng(1), replicates=300)
    chunks = list(predictive._new_attacks(posterior, 300, np.random.default_rng(1)))
    assert {len(chunk.share_at_ends) for chunk in chunks} == {7, 300 % 7}
    advantage = np.concatenate([chunk.quantities["advantage"] for chunk in chunks])
    assert advantage.shape == (300, len(MIXED))
    kept = np.quantile(np.sort(advantage[:200], axis=1), [0.05, 0.5, 0.95], axis=0)
    quantity = result.quantities[2]
    # Quantiles computed one by one or together may differ by rounding.
    np.testing.assert_allclose([quantity.low, quantity.middle, quantity.high], kept, atol=1e-14)
    low, high = np.quantile(advantage.max(axis=1), [0.05, 0.95])
    statistic = named(result, "largest advantage")
    assert (statistic.low, statistic.high) == pytest.approx((low, high), abs=1e-14)


def test_every_replicate_has_its_own_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """At strength 1 and delta 0 every point lies on the curve of the epsilon drawn for it."""
    monkeypatch.setattr(predictive, "ATTACKS_AT_ONCE", 7 * 4)
    trials = 10**12
    counts = AttackCounts(
        false_positives=[trials // 5] * 4,
        trials_h0=trials,
        false_negatives=[trials // 3] * 4,
        trials_h1=trials,
    )
    model = CountModel(delta=0.0, strength=Fixed(value=1.0))
    posterior = known(counts, model, epsilon=np.linspace(0.5, 3.0, 1000))
    chunks = list(predictive._new_attacks(posterior, 200, np.random.default_rng(1)))
    alpha = np.concatenate([chunk.quantities["false-positive rate"] for chunk in chunks])
    beta = np.concatenate([chunk.quantities["false-negative rate"] for chunk in chunks])
    expected = posterior.draws(200, rng=np.random.default_rng(1))["epsilon"]
    # Rates of 1e12 trials err by 1e-6 of the root of the rate, so those above 1e-4 by 1e-4 at most.
    found = np.median(region.critical_epsilon(alpha, beta, 0.0), axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_bad_settings_are_refused() -> None:
    posterior = known(
        MIXED, CountModel(delta=0.01), epsilon=np.array([2.0]), strength=np.array([0.3])
    )
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="replicates >= 200, got replicates=199"):
        check_predictions(posterior, rng=rng, replicates=199)
    with pytest.raises(InputError, match="level"):
        check_predictions(posterior, rng=rng, level=1.0)


def test_the_fewest_replicates_can_still_surprise() -> None:
    replicates = np.zeros(predictive.FEWEST_REPLICATES)
    p_value = two_sided_p_value(1.0, replicates)
    assert CheckedStatistic(name="", observed=1.0, low=0.0, high=0.0, p_value=p_value).surprising
    assert two_sided_p_value(1.0, replicates[1:]) >= predictive.SURPRISING
