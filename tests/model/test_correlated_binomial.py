"""Kupper and Haseman's correlated binomial: its moments, its range of validity, and its draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chisquare

import epsilometer as em
from epsilometer.model.correlated_binomial import log_correlated_binomial

RATES = [1e-6, 0.01, 0.2, 0.5, 0.83, 1 - 1e-5]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("trials", [2, 9, 60])
def test_sum_mean_and_variance(rate: float, trials: int) -> None:
    """By exact summation, up to the largest correlation that is allowed."""
    x = np.arange(trials + 1)
    for tau in (0.0, 0.4 / (trials - 1), 1 / (trials - 1)):
        chance = np.exp(log_correlated_binomial(x, trials, np.array(rate), tau))
        mean = chance @ x
        variance = trials * rate * (1 - rate) * (1 + (trials - 1) * tau)
        assert chance.sum() == pytest.approx(1.0, abs=1e-10)
        assert mean == pytest.approx(trials * rate, rel=1e-9)
        assert chance @ (x - mean) ** 2 == pytest.approx(variance, rel=1e-6)
        # The form printed in the paper of 1978, with p q tau for the covariance.
        p, q = rate, 1 - rate
        printed = (x - trials * p) ** 2 + x * (2 * p - 1) - trials * p * p
        factor = 1 + tau * p * q / (2 * p * p * q * q) * printed
        np.testing.assert_allclose(chance, binom.pmf(x, trials, p) * factor, rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("trials", [2, 9, 60])
def test_it_is_valid_for_every_rate_within_its_bounds_and_not_beyond(trials: int) -> None:
    x, rates = np.arange(trials + 1), np.linspace(1e-4, 1 - 1e-4, 2001)[:, None]
    bound = 1 / (trials - 1)

    def impossible(tau: float) -> bool:
        return bool(np.isneginf(log_correlated_binomial(x, trials, rates, tau)).any())

    assert not impossible(0.999 * bound)
    # Controls: slightly above the bound, or below 0, some probability would be negative.
    assert impossible(1.1 * bound)
    assert impossible(-0.02 * bound)


def test_certain_at_the_ends() -> None:
    logs = log_correlated_binomial([0, 1, 5], 5, np.array([[0.0], [1.0]]), 0.1)
    np.testing.assert_array_equal(logs, [[0.0, -np.inf, -np.inf], [-np.inf, -np.inf, 0.0]])


def test_the_prior_is_a_density_on_what_is_valid() -> None:
    counts = em.AttackCounts(false_positives=[3], trials_h0=30, false_negatives=[4], trials_h1=20)
    likelihood = em.likelihoods.KupperHaseman(within_correlation_scale=0.02)
    low, high = likelihood.within_correlation_bounds(counts)
    assert (low, high) == (0.0, 1 / 29)
    tau = low + (high - low) * (np.arange(4000) + 0.5) / 4000
    density = likelihood.prior_density(counts, "within_correlation", tau)
    assert density.sum() * (high - low) / 4000 == pytest.approx(1.0, abs=1e-6)
    assert likelihood.log_prior(counts, within_correlation=-0.001) == -np.inf
    assert likelihood.log_prior(counts, within_correlation=1.01 * high) == -np.inf
    rng = np.random.default_rng(1)
    drawn = [likelihood.sample_nuisance(counts, rng=rng)["within_correlation"] for _ in range(500)]
    assert low < min(drawn) < max(drawn) < high


def test_counts_are_drawn_from_it() -> None:
    counts = em.AttackCounts(false_positives=[0], trials_h0=10, false_negatives=[0], trials_h1=7)
    rates = np.full((20_000, 1), 0.1), np.full((20_000, 1), 0.6)
    tau = 0.09
    x, y = em.likelihoods.KupperHaseman().sample_counts(
        counts, *rates, {"within_correlation": tau}, rng=np.random.default_rng(2)
    )
    for seen, trials, rate in ((x, 10, 0.1), (y, 7, 0.6)):
        number = np.bincount(seen.ravel(), minlength=trials + 1)
        values = np.arange(trials + 1)
        chance = np.exp(log_correlated_binomial(values, trials, np.array(rate), tau))
        plain = binom.pmf(values, trials, rate)
        common = 20_000 * np.minimum(chance, plain) > 5
        p_values = []
        for each in (chance, plain):
            expected = each[common] / each[common].sum() * number[common].sum()
            p_values.append(chisquare(number[common], expected).pvalue)
        assert p_values[0] > 1e-4
        assert p_values[1] < 1e-6  # control


def test_single_trials_are_refused() -> None:
    counts = em.AttackCounts(false_positives=[0], trials_h0=1, false_negatives=[1], trials_h1=5)
    with pytest.raises(em.InputError, match="trials_h0 >= 2"):
        em.likelihoods.KupperHaseman().check(counts)
