"""Predictive checks: p-values that must be uniform, and replicated attacks in closed form.

Kolmogorov-Smirnov and binomial checks are at level 1e-4 each, as in `test_sbc.py`; every kind of
check has a twin with a fault that it must catch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, kstest, norm

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
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Beta, Fixed, HalfNormal
from epsilometer.posteriors.provenance import Provenance
from studies.draws import sample_ring
from tests.drawn import binomial_counts, error_counts

FloatArray = NDArray[np.float64]
Points = tuple[FloatArray, FloatArray]

LEVEL = 1e-4
#: About 40 comparisons of shares: a false alarm in one of them has probability 3e-4.
WORST_Z = 4.5

# --- p-values ---------------------------------------------------------------------------------


def known(counts: AttackCounts, model: CountModel, **samples: object) -> SamplePosterior:
    """A posterior defined by the given draws."""
    return SamplePosterior(
        counts=counts,
        model=model,
        provenance=Provenance(engine="given", settings={}, seconds=0.0),
        samples={
            name: np.reshape(np.asarray(draws, float), (1, -1)) for name, draws in samples.items()
        },
        diagnostics=Diagnostics(parameters={}, acceptance_rate=1.0),
    )


def simulated(model: CountModel, bases: int, trials: int, rng: np.random.Generator) -> AttackCounts:
    """Binomial counts from the prior, by the sampler of one ring: independent of the check."""
    assert isinstance(model.epsilon, HalfNormal)
    assert isinstance(model.strength, Beta)
    assert isinstance(model.likelihood, IndependentBinomial)
    epsilon = float(model.epsilon.sample(1, rng=rng)[0])
    strength = float(model.strength.sample(1, rng=rng)[0])
    alpha, beta = sample_ring(bases, epsilon, model.delta, strength, rng=rng)
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
        return error_counts(rng.binomial(300, 0.2, 8), rng.binomial(600, 0.5, 8), 300, 600)

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
    alpha, beta = sample_ring(25, 2.5, 1e-3, 0.4, rng=rng)
    counts = binomial_counts(alpha, beta, 300, 200, rng)
    result = check(counts)
    assert not any(statistic.surprising for statistic in result.statistics)


def test_attacks_all_alike_are_a_surprise() -> None:
    """The model's rates spread along the curve; these do not, however many the trials."""
    counts = error_counts([10**5] * 15, [10**5] * 15, 10**6)
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
    counts = error_counts([0] * 20, [100] * 20, 100)
    statistic = named(check(counts), AT_ENDS)
    assert statistic.observed == 1.0
    assert statistic.surprising


# --- the statistics ---------------------------------------------------------------------------

MIXED = error_counts(
    [30, 8, 50, 2, 38],
    [45, 30, 50, 10, 10],
    [40, 80, 100, 20, 40],
    [60, 60, 100, 100, 90],
    names=["worse", "good", "guess", "best", "leaning"],
)


def mixed(counts: AttackCounts = MIXED, **samples: object) -> SamplePosterior:
    return known(counts, CountModel(delta=0.01), **samples)


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
    reflected = error_counts(
        MIXED.trials_h0 - MIXED.false_positives,
        MIXED.trials_h1 - MIXED.false_negatives,
        MIXED.trials_h0,
        MIXED.trials_h1,
    )
    draws = {"epsilon": [1.0, 2.0], "strength": [0.1, 0.9]}
    first, second = (
        check_predictions(mixed(counts, **draws), rng=np.random.default_rng(3))
        for counts in (MIXED, reflected)
    )
    for one, other in zip(first.statistics, second.statistics, strict=True):
        assert one.observed == pytest.approx(other.observed, abs=1e-12)
        assert (one.low, one.high, one.p_value) == (other.low, other.high, other.p_value)


def test_each_base_keeps_its_own_trials() -> None:
    """A single trial is always extreme; of a million trials near guessing, none ever is."""
    counts = error_counts([1, 500_000, 0], [300_000, 1, 1], [1, 10**6, 1], [10**6, 1, 1])
    # The density on the boundary falls linearly to 0 towards its ends, so of the 4,000 counts of a
    # million trials one is at an end with probability 4e-4; the interval would not show it.
    model = CountModel(delta=0.0, epsilon=Fixed(value=1.0), strength=Fixed(value=1.0))
    statistic = named(check(counts, model), AT_ENDS)
    assert statistic.observed == statistic.low == statistic.high == pytest.approx(4 / 6)
    assert statistic.p_value > 0.9


# --- new attacks in closed form ---------------------------------------------------------------


def one_base(trials_h0: int, trials_h1: int) -> AttackCounts:
    return error_counts([trials_h0 // 5], [trials_h1 // 5], trials_h0, trials_h1)


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
        epsilon=1e-6,
        strength=0.5,
        within_correlation=tau,
        cross_correlation=rho,
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
    counts = error_counts([0, 3], [2, 7], [5, 10], [4, 7])
    rng = np.random.default_rng(32)
    rates = rng.random((3000, 2)), rng.random((3000, 2))
    for tau, rho in ((0.9, 0.6), (-1 / 9, 0.0), (-1 / 9 + 1e-16, 1e-9)):
        tau_column, rho_column = np.full((3000, 1), tau), np.full((3000, 1), rho)
        x, y = CorrelatedNormal().sample_counts(
            counts,
            rates,
            {"within_correlation": tau_column, "cross_correlation": rho_column},
            rng=rng,
        )
        assert x.dtype == y.dtype == np.int64
        assert np.all((x >= 0) & (x <= counts.trials_h0))
        assert np.all((y >= 0) & (y <= counts.trials_h1))
    # Without variance the count is the mean, rounded.
    np.testing.assert_array_equal(x[:, 1], np.rint(10 * rates[0][:, 1]))


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
    posterior = mixed(epsilon=2.0, strength=0.3)
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
    posterior = mixed(epsilon=[1.0, 3.0], strength=[0.1, 0.6])
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
    counts = error_counts([trials // 5] * 4, [trials // 3] * 4, trials)
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
    posterior = mixed(epsilon=2.0, strength=0.3)
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
