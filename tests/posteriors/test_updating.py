"""Updating must equal estimating from all counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.model.counts import counts_of
from epsilometer.posteriors.panels import PanelDensity, gauss_legendre

PROBABILITIES = [0.05, 0.25, 0.5, 0.75, 0.95]
CHAINS = em.engines.McmcSettings(num_iterations=200, num_warmup=200, num_chains=2, seed=5)


def counts(x: list[int], y: list[int], trials: int = 100, **more: Any) -> em.AttackCounts:
    return counts_of(x, trials, y, trials, **more)


FIRST, SECOND, THIRD = counts([10, 30], [20, 30]), counts([5, 8], [40, 35]), counts([45], [50])


def at_once(model: em.CountModel, *parts: em.AttackCounts) -> Any:
    return estimate(parts[0].joined(*parts[1:]), model)


def largest_change(one: em.engines.CountPosterior, two: em.engines.CountPosterior) -> float:
    """Over the quantiles of all parameters, relative above 1, as the engine states it."""
    worst = 0.0
    for name in one.parameters:
        values = one.quantile(name, PROBABILITIES), two.quantile(name, PROBABILITIES)
        gap = np.abs(values[0] - values[1]) / np.maximum(1.0, np.abs(values[1]))
        worst = max(worst, float(gap.max()))
    return worst


# --- equal to estimating at once --------------------------------------------------------------


@pytest.mark.parametrize(
    "likelihood",
    [
        em.likelihoods.IndependentBinomial(),
        pytest.param(em.likelihoods.CorrelatedNormal(), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("order", [(FIRST, SECOND, THIRD), (THIRD, FIRST, SECOND)])
def test_updates_in_any_order_equal_estimating_at_once(
    likelihood: em.likelihoods.IndependentBinomial | em.likelihoods.CorrelatedNormal,
    order: tuple[em.AttackCounts, ...],
) -> None:
    model = em.CountModel(delta=0.01, likelihood=likelihood)
    found: em.engines.CountPosterior = estimate(order[0], model)
    for batch in order[1:]:
        found = found.update(batch)
    expected = at_once(model, FIRST, SECOND, THIRD)
    assert found.trustworthy
    assert largest_change(found, expected) <= 2 * expected.accuracy.tolerance
    assert isinstance(found, GridPosterior)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-3)
    assert found.accuracy.tolerance == expected.accuracy.tolerance


def test_multiplying_marginals_fails_the_same_check() -> None:
    """The sabotaged twin ignores that old and new attacks share one strength."""
    model = em.CountModel(delta=0.01)
    old, new = estimate(FIRST, model), estimate(SECOND, model)
    expected = at_once(model, FIRST, SECOND)
    assert not isinstance(model.epsilon, em.priors.Fixed)
    breaks = np.linspace(0.05, 15, 200)
    points, _ = gauss_legendre(10)
    nodes = breaks[:-1, None] + 0.5 * np.diff(breaks)[:, None] * (1 + points)
    gain = new.density("epsilon", nodes) / np.exp(model.epsilon.log_density(nodes))
    twin = PanelDensity(breaks=breaks, values=old.density("epsilon", nodes) * gain)
    wrong = twin.quantile(PROBABILITIES) - expected.quantile("epsilon", PROBABILITIES)
    assert np.abs(wrong).max() > 20 * expected.accuracy.tolerance


def test_chains_of_the_same_seed_are_the_same_chains() -> None:
    model = em.CountModel(delta=0.01)
    found = estimate(FIRST, model, CHAINS).update(SECOND)
    expected = estimate(FIRST.joined(SECOND), model, CHAINS)
    assert isinstance(found, SamplePosterior)
    for name in expected.parameters:
        np.testing.assert_array_equal(found.samples[name], expected.samples[name])
    assert found.provenance.settings == expected.provenance.settings
    other = estimate(FIRST, model, CHAINS).update(SECOND, engine=replace(CHAINS, seed=6))
    assert isinstance(other, SamplePosterior)
    assert not np.array_equal(other.samples["epsilon"], expected.samples["epsilon"])


@pytest.mark.parametrize(
    "settings",
    [CHAINS, em.engines.McmcSettings.published(num_iterations=20, num_warmup=10, num_auxiliary=5)],
)
def test_settings_come_back_from_provenance(
    settings: em.engines.McmcSettings, tmp_path: Path
) -> None:
    estimate(FIRST, em.CountModel(delta=0.01), settings).save(tmp_path / "p.nc")
    assert em.load(tmp_path / "p.nc").engine == settings


def test_exact_settings_come_back_from_provenance() -> None:
    settings = em.engines.ExactSettings(tolerance=1e-2, most_levels=3)
    assert estimate(THIRD, em.CountModel(delta=0.01), settings).engine == settings


def test_names_that_are_numbers_are_counted_on_and_others_are_kept() -> None:
    posterior = estimate(FIRST, em.CountModel(delta=0.01)).update(SECOND)
    assert posterior.counts.names == ("0", "1", "2", "3")
    assert posterior.counts.repeated_names == ()
    named = posterior.counts.joined(counts([3], [9], names=["1"]))
    assert named.names[-1] == "1"
    assert named.repeated_names == ("1",)
