"""The exact engine: golden values, slow twins, edges of the domain, and its own error estimate."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.models import CountModel
from epsilometer.model.priors import (
    Beta,
    Exponential,
    Fixed,
    HalfNormal,
    LogNormal,
    Prior,
)
from epsilometer.posteriors.panels import PanelDensity, gauss_legendre
from studies.draws import sample_ring
from tests.drawn import binomial_counts
from tests.engines import stated_error_oracle
from tests.golden import reference

QUANTILES = [0.05, 0.5, 0.95]


@pytest.mark.parametrize("case", reference.FIXED_STRENGTH, ids=str)
def test_golden_fixed_strength(case: tuple[int, int, float]) -> None:
    trials, errors, strength = case
    posterior = estimate_exact(
        counts_of(errors, trials, errors, trials),
        CountModel(delta=0.01, strength=Fixed(value=strength)),
    )
    assert posterior.trustworthy
    found = posterior.quantile("epsilon", QUANTILES)
    # The golden values are quoted to four decimals.
    np.testing.assert_allclose(found, reference.FIXED_STRENGTH[case], atol=3e-4)


@pytest.mark.parametrize("trials", reference.ENDS_AT_99)
def test_golden_against_trials(trials: int) -> None:
    errors = 2 * trials // 5
    posterior = estimate_exact(
        counts_of(errors, trials, errors, trials),
        CountModel(delta=0.01, strength=Fixed(value=0.99)),
    )
    low, high = posterior.credible_interval("epsilon", 0.9)
    assert (low, high) == pytest.approx(reference.ENDS_AT_99[trials], abs=2e-4)


def test_ten_strong_attacks_against_the_oracle() -> None:
    counts = counts_of(reference.TEN_STRONG_X, 1000, reference.TEN_STRONG_Y, 1000)
    posterior = estimate_exact(counts, CountModel(delta=0.01))
    rows = [
        (x, 1000, y, 1000)
        for x, y in zip(reference.TEN_STRONG_X, reference.TEN_STRONG_Y, strict=True)
    ]
    oracle = stated_error_oracle.truth(rows, 0.01, HalfNormal(), Beta(), QUANTILES)
    for name in ("epsilon", "strength"):
        found = posterior.quantile(name, QUANTILES)
        np.testing.assert_allclose(
            found, oracle.quantiles[name], atol=posterior.accuracy.error + 1e-4
        )
    # The notes' values, themselves rounded and good to about 0.002.
    np.testing.assert_allclose(
        posterior.quantile("epsilon", QUANTILES), reference.TEN_STRONG_NOTES, atol=3e-3
    )
    np.testing.assert_allclose(
        posterior.quantile("strength", QUANTILES), reference.TEN_STRONG_STRENGTH_NOTES, atol=1e-3
    )


@pytest.mark.parametrize("name", ["A1", "A3", "A4"])
def test_golden_correlated(name: str) -> None:
    x, y, expected, strength = reference.CORRELATED[name]
    posterior = estimate_exact(
        counts_of(x, 100, y, 100), CountModel(delta=0.001, likelihood=CorrelatedNormal())
    )
    assert posterior.trustworthy
    # The notes are good to 0.01 and rounded to 0.01; finer steps of A3 give 1.172 for their 1.16.
    np.testing.assert_allclose(posterior.quantile("epsilon", QUANTILES), expected, atol=0.015)
    assert posterior.mean("strength") == pytest.approx(strength, abs=0.002)


#: Twenty nearly uninformative attacks, as on a private algorithm.
WEAK = (
    [14, 10, 4, 9, 12, 10, 11, 12, 13, 14, 24, 6, 13, 9, 9, 9, 13, 12, 13, 10],
    [91, 76, 84, 71, 84, 87, 85, 85, 91, 89, 91, 89, 89, 83, 87, 87, 87, 88, 89, 86],
)


@pytest.mark.slow
def test_weak_attacks_are_resolved_where_epsilon_is_about_delta() -> None:
    """There the region changes its shape; unresolved, quantiles were off by 0.2."""
    model = CountModel(delta=0.001, likelihood=CorrelatedNormal())
    counts = counts_of(WEAK[0], 100, WEAK[1], 100)
    posterior = estimate_exact(counts, model)
    finer = estimate_exact(counts, model, ExactSettings(tolerance=3e-3))
    assert posterior.trustworthy
    assert finer.trustworthy
    difference = posterior.quantile("epsilon", QUANTILES) - finer.quantile("epsilon", QUANTILES)
    # Between two modes half of the probability moves a quantile far: five times the tolerance.
    assert np.abs(difference).max() < 0.05


#: Priors that extend to where masses and areas are too small for double precision.
FAR = [HalfNormal(scale=30.0), Exponential(mean=10.0), LogNormal()]


@pytest.mark.parametrize("prior", FAR)
@pytest.mark.parametrize("strength", [Beta(), Fixed(value=0.5)])
def test_priors_that_reach_far_find_no_peak_in_the_noise(
    prior: Prior, strength: Beta | Fixed
) -> None:
    """Few trials leave epsilon to the prior; rounding errors of masses must not favour its far end."""
    counts = counts_of([0, 1, 1, 2], 3, [1, 1, 2, 3], 3)
    check_by_reweighting(counts, prior, strength=strength)


@pytest.mark.parametrize("prior", [HalfNormal(scale=20.0), LogNormal()])
def test_far_priors_of_correlated_counts(prior: Prior) -> None:
    counts = counts_of([8, 12, 10], 100, [50, 47, 55], 100)
    check_by_reweighting(counts, prior, likelihood=CorrelatedNormal())


def check_by_reweighting(counts: AttackCounts, prior: Prior, **model: Any) -> None:
    """The posterior under the usual prior, from the one under another by the ratio of the two."""
    assert not isinstance(prior, Fixed)
    usual = HalfNormal()
    wide = estimate_exact(counts, CountModel(delta=0.01, epsilon=prior, **model))
    near = estimate_exact(counts, CountModel(delta=0.01, epsilon=usual, **model))
    assert wide.trustworthy
    marginal = wide.marginals["epsilon"]
    ratio = np.exp(usual.log_density(marginal.nodes) - prior.log_density(marginal.nodes))
    found = PanelDensity(breaks=marginal.breaks, values=marginal.values * ratio)
    # Twice the engine's tolerance, one for each posterior.
    tolerance = 2 * (wide.accuracy.tolerance + near.accuracy.tolerance)
    for probability in (0.05, 0.5, 0.95):
        expected = float(near.quantile("epsilon", probability))
        assert float(found.quantile(probability)) == pytest.approx(expected, rel=tolerance)
    _, weights = gauss_legendre(marginal.values.shape[1])
    half = 0.5 * np.diff(marginal.breaks)[:, None]
    share = float(np.sum(half * marginal.values * ratio * weights))
    # The evidence is a product of likelihoods, each accurate to the tolerance.
    evidence = wide.log_evidence + np.log(share)
    assert near.log_evidence == pytest.approx(evidence, abs=len(counts) * tolerance)


def test_panels_that_are_never_resolved_still_fit_together() -> None:
    """With few rounds the last split once had no rows."""
    counts = counts_of([10, 30, 0, 5], 100, [20, 30, 0, 4], 80)
    model = CountModel(delta=0.05, strength=Fixed(value=0.5), likelihood=CorrelatedNormal())
    posterior = estimate_exact(counts, model)
    assert posterior.trustworthy
    assert (
        len(posterior.marginals["epsilon"].breaks) == len(posterior.marginals["epsilon"].values) + 1
    )


def test_no_attack_is_likelier_than_at_its_own_rates() -> None:
    from scipy.stats import binom

    from epsilometer.engines.exact.nuisance import NoNuisance
    from epsilometer.engines.exact.treatments import treatment_of

    counts = counts_of([0, 3, 7], 7, [2, 0, 5], 9)
    likelihood = CountModel(delta=0.0).likelihood
    kernel = treatment_of(likelihood).kernel(likelihood, counts, NoNuisance())
    rates = np.linspace(0, 1, 1001)
    for base, largest in enumerate(kernel.log_largest()):
        x, y = counts.false_positives[base], counts.false_negatives[base]
        logs = np.max(binom.logpmf(x, 7, rates)) + np.max(binom.logpmf(y, 9, rates))
        assert logs <= largest + 1e-12
        # Rates a thousandth apart come this near to the maximum.
        assert logs == pytest.approx(largest, abs=1e-4)


def test_fixed_epsilon_and_both_fixed() -> None:
    counts = counts_of([40, 50], 1000, [250, 200], 1000)
    posterior = estimate_exact(counts, CountModel(delta=0.01, epsilon=Fixed(value=3.0)))
    assert posterior.quantile("epsilon", QUANTILES).tolist() == [3.0] * 3
    assert posterior.parameters == ("strength",)
    # The evidence at a fixed strength, averaged over its prior, is the evidence at fixed epsilon.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    values = [
        estimate_exact(
            counts,
            CountModel(
                delta=0.01, epsilon=Fixed(value=3.0), strength=Fixed(value=float(0.5 + 0.5 * s))
            ),
        ).log_evidence
        for s in nodes
    ]
    average = np.log(np.sum(0.5 * weights * np.exp(np.array(values) - max(values)))) + max(values)
    assert posterior.log_evidence == pytest.approx(average, abs=1e-4)


@pytest.mark.parametrize(
    ("x", "n0", "y", "n1", "delta"),
    [
        ([0], 1, [0], 1, 0.0),
        ([1], 1, [1], 1, 0.0),
        ([0, 0, 100], 100, [0, 100, 0], 100, 1e-5),
        ([0], 10**9, [0], 10**9, 1e-5),
        ([5 * 10**8], 10**9, [5 * 10**8], 10**9, 1e-5),
        ([10**8], 10**9, [1], 2, 1e-6),
        ([10, 20], 100, [20, 10], 100, 0.9),
        pytest.param([10], 1000, [20], 1000, 0.99, marks=pytest.mark.slow),
    ],
)
def test_edges_of_the_domain(x: list[int], n0: int, y: list[int], n1: int, delta: float) -> None:
    posterior = estimate_exact(counts_of(x, n0, y, n1), CountModel(delta=delta))
    assert posterior.trustworthy
    for name in ("epsilon", "strength"):
        low, middle, high = posterior.quantile(name, QUANTILES)
        assert 0 <= low < middle < high
        assert np.isfinite(posterior.mean(name))


def test_huge_trials_pin_the_critical_level() -> None:
    """With a billion trials at strength 1 epsilon is the critical epsilon of the rates."""
    from epsilometer.model.region import critical_epsilon

    counts = counts_of([10**8], 10**9, [2 * 10**8], 10**9)
    posterior = estimate_exact(counts, CountModel(delta=0.01, strength=Fixed(value=1.0)))
    expected = float(critical_epsilon(0.1, 0.2, 0.01))
    assert posterior.median("epsilon") == pytest.approx(expected, abs=5e-4)
    assert posterior.standard_deviation("epsilon") < 1e-3


@pytest.mark.parametrize(
    ("x", "n", "y", "delta"),
    [([10, 30], 200, [20, 50], 0.05), ([3000, 9000], 20_000, [5000, 4000], 0.05)],
    ids=["blunt", "sharper than delta"],
)
def test_nodes_in_delta_do_not_matter(
    x: list[int], n: int, y: list[int], delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many values of d to interpolate masses between must give the same answer."""
    from epsilometer.engines.exact import surface

    counts, model = counts_of(x, n, y, n), CountModel(delta=delta)
    few = estimate_exact(counts, model)
    monkeypatch.setattr(surface, "SHARP_NODES", 2 * surface.SHARP_NODES)
    monkeypatch.setattr(surface, "BLUNT", 0.0)
    many = estimate_exact(counts, model)
    for name in ("epsilon", "strength"):
        np.testing.assert_allclose(
            few.quantile(name, QUANTILES), many.quantile(name, QUANTILES), atol=2e-4
        )
    assert few.log_evidence == pytest.approx(many.log_evidence, abs=1e-4)


def test_too_few_nodes_in_delta_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: with hardly any for sharp counts the stated error is large."""
    from epsilometer.engines.exact import surface

    counts, model = counts_of([3000, 9000], 20_000, [5000, 4000], 20_000), CountModel(delta=0.05)
    monkeypatch.setattr(surface, "SHARP_NODES", 0.0)
    once = estimate_exact(counts, model, ExactSettings(most_levels=2))
    assert not once.trustworthy


def test_a_pool_of_threads_does_not_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fluxes use the thread pool, so they must not be called from within its tasks."""
    from epsilometer.engines.exact import flux, surface

    askers, log_flux = set(), flux.log_flux

    def seen(*question: Any) -> Any:
        askers.add(threading.current_thread())
        return log_flux(*question)

    monkeypatch.setattr(surface, "log_flux", seen)
    monkeypatch.setattr(surface, "CHUNK_ENTRIES", 1)  # each attack is a separate job
    estimate_exact(
        counts_of([5, 30], 50, [20, 10], 60), CountModel(delta=0.02, strength=Fixed(value=1.0))
    )
    assert askers == {threading.main_thread()}


def test_a_prior_that_reaches_too_far_is_refused() -> None:
    with pytest.raises(InputError, match="stays below"):
        estimate_exact(
            counts_of([0], 1, [0], 5), CountModel(delta=0.0, epsilon=HalfNormal(scale=1e4))
        )


@pytest.mark.parametrize("bases", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_many_bases_find_the_truth(bases: int) -> None:
    """Sharp posteriors far from any first guess of the panels, and errors that add up over bases."""
    rng = np.random.default_rng(0)
    alpha, beta = sample_ring(bases, 3.0, 0.01, 0.3, rng=rng)
    counts = binomial_counts(alpha, beta, 100, 100, rng)
    posterior = estimate_exact(counts, CountModel(delta=0.01))
    assert posterior.trustworthy
    for name, truth in (("epsilon", 3.0), ("strength", 0.3)):
        low, high = posterior.quantile(name, [1e-4, 1 - 1e-4])
        assert low < truth < high
    # Draws come from the joint grid, quantiles from the marginals: they must agree.
    drawn = posterior.draws(20_000, rng=rng)["strength"]
    middle = posterior.median("strength")
    assert abs(np.mean(drawn < middle) - 0.5) < 5 * 0.5 / np.sqrt(20_000)
