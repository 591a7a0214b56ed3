"""Updating must equal estimating from all counts, and record the true effect of each batch."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.posteriors import trees
from epsilometer.posteriors.panels import PanelDensity, gauss_legendre
from epsilometer.posteriors.updating import divergence
from tests.engines.oracles import brute_force_posterior, quantile

FloatArray = NDArray[np.float64]

PROBABILITIES = [0.05, 0.25, 0.5, 0.75, 0.95]
CHAINS = em.engines.McmcSettings(num_iterations=200, num_warmup=200, num_chains=2, seed=5)


def counts(
    x: list[int], y: list[int], trials: int = 100, names: list[str] | None = None
) -> em.AttackCounts:
    return em.AttackCounts(
        false_positives=x, trials_h0=trials, false_negatives=y, trials_h1=trials, names=names
    )


FIRST, SECOND, THIRD = counts([10, 30], [20, 30]), counts([5, 8], [40, 35]), counts([45], [50])


def at_once(model: em.CountModel, *parts: em.AttackCounts) -> GridPosterior:
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


def test_updated_posterior_against_a_brute_force_grid() -> None:
    model = em.CountModel(delta=0.01)
    found = estimate(counts([10], [20]), model).update(counts([30], [30]))
    grid = brute_force_posterior([(10, 100, 20, 100), (30, 100, 30, 100)], 0.01, size=300)
    expected = quantile(grid["epsilon"], grid["epsilon_weight"], [0.05, 0.5, 0.95])
    # Midpoint grid of step 0.04, whose quantiles are good to a tenth of a step.
    np.testing.assert_allclose(found.quantile("epsilon", [0.05, 0.5, 0.95]), expected, atol=6e-3)


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
    other = estimate(FIRST, model, CHAINS).update(
        SECOND,
        engine=em.engines.McmcSettings(num_iterations=200, num_warmup=200, num_chains=2, seed=6),
    )
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


def test_what_cannot_be_an_update_is_refused() -> None:
    posterior = estimate(
        FIRST, em.CountModel(delta=0.01, likelihood=em.likelihoods.CorrelatedNormal())
    )
    with pytest.raises(em.InputError, match="expected AttackCounts"):
        posterior.update([1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(em.InputError, match="trials_h0 >= 2"):
        posterior.update(counts([1], [0], trials=1))
    with pytest.raises(em.InputError, match="batches of 2 rows in all, got 4"):
        posterior.with_batches(posterior.batches * 2)


def test_names_that_are_numbers_are_counted_on_and_others_are_kept() -> None:
    posterior = estimate(FIRST, em.CountModel(delta=0.01)).update(SECOND)
    assert posterior.counts.names == ("0", "1", "2", "3")
    assert posterior.counts.repeated_names == ()
    named = posterior.update(counts([3], [9], names=["1"]))
    assert named.counts.names[-1] == "1"
    assert named.counts.repeated_names == ("1",)


# --- the effect of a batch --------------------------------------------------------------------


def test_three_batches_add_up() -> None:
    model = em.CountModel(delta=0.01)
    posterior = estimate(FIRST, model).update(SECOND, label="more.csv").update(THIRD)
    batches = posterior.batches
    assert [batch.rows for batch in batches] == [2, 2, 1]
    assert [batch.label for batch in batches] == ["batch 1", "more.csv", "batch 3"]
    assert isinstance(posterior, GridPosterior)
    # The chain rule of probability; the first batch starts from the prior's median.
    predictive = [batch.log_predictive for batch in batches if batch.log_predictive is not None]
    assert math.fsum(predictive) == pytest.approx(posterior.log_evidence, abs=1e-9)
    moved = math.fsum(batch.shift for batch in batches)
    assert not isinstance(model.epsilon, em.priors.Fixed)
    start = float(model.epsilon.quantile(0.5))
    assert posterior.median("epsilon") == pytest.approx(start + moved, abs=1e-9)
    assert batches[-1].median == posterior.median("epsilon")
    assert batches[-1].interval == posterior.credible_interval("epsilon", 0.9)
    middle = estimate(FIRST.joined(SECOND), model)
    assert batches[1].median == pytest.approx(middle.median("epsilon"), abs=1e-3)
    expected = middle.log_evidence - estimate(FIRST, model).log_evidence
    assert batches[1].log_predictive == pytest.approx(expected, abs=1e-3)


def test_information_of_the_first_batch_against_scipy() -> None:
    posterior = estimate(FIRST, em.CountModel(delta=0.01))
    prior = em.priors.HalfNormal()

    def integrand(epsilon: float) -> float:
        density = float(posterior.density("epsilon", epsilon))
        return density * (math.log(max(density, 1e-300)) - float(prior.log_density(epsilon)))

    expected = sum(quad(integrand, a, b, limit=200)[0] for a, b in ((1e-6, 2), (2, 6), (6, 20)))
    assert posterior.batches[0].information == pytest.approx(expected, abs=1e-4)


def test_much_data_say_more_than_little() -> None:
    start = estimate(FIRST, em.CountModel(delta=0.01))
    little = start.update(counts([1], [1], trials=2)).batches[-1].information
    much = start.update(counts([20] * 6, [30] * 6, trials=1000)).batches[-1].information
    assert 0 <= little < 0.02
    assert much > 0.2


def test_a_fixed_epsilon_learns_nothing() -> None:
    model = em.CountModel(delta=0.01, epsilon=em.priors.Fixed(value=2.0))
    batch = estimate(FIRST, model).update(SECOND).batches[-1]
    assert (batch.information, batch.shift, batch.median) == (0.0, 0.0, 2.0)


def test_chains_tell_about_the_same_of_a_batch() -> None:
    model = em.CountModel(delta=0.01)
    settings = em.engines.McmcSettings(num_iterations=4000, num_warmup=1000, num_chains=2)
    drawn = estimate(FIRST, model, settings).update(SECOND)
    exact = estimate(FIRST, model).update(SECOND)
    for one, two in zip(drawn.batches, exact.batches, strict=True):
        assert one.log_predictive is None
        # Kernel estimates are too smooth, and draws have their own error.
        assert one.information == pytest.approx(two.information, abs=0.1)
        assert one.median == pytest.approx(two.median, abs=0.1)


# --- divergence -------------------------------------------------------------------------------


def on_panels(density: object, low: float, high: float, number: int = 60) -> PanelDensity:
    breaks = np.linspace(low, high, number)
    points, _ = gauss_legendre(12)
    nodes = breaks[:-1, None] + 0.5 * np.diff(breaks)[:, None] * (1 + points)
    return PanelDensity(breaks=breaks, values=density(nodes))  # type: ignore[operator]


def exponential(rate: float, number: int) -> PanelDensity:
    return on_panels(lambda x: rate * np.exp(-rate * x), 0.0, 20.0, number)


def normal(mean: float, spread: float) -> PanelDensity:
    return on_panels(lambda x: np.exp(-0.5 * ((x - mean) / spread) ** 2), mean - 6, mean + 6)


def test_divergence_of_exponentials_and_normals() -> None:
    found = divergence(exponential(2.0, 50), exponential(1.0, 37))
    expected = math.log(2.0) + 1 / 2.0 - 1
    # What lies beyond 20 has probability 2e-9, and the floor of 1e-11 begins at 25.
    assert found == pytest.approx(expected, abs=1e-7)
    # The reverse divergence is a different number, and is detected.
    assert divergence(exponential(1.0, 37), exponential(2.0, 50)) != pytest.approx(
        expected, abs=1e-2
    )
    found = divergence(normal(0.4, 0.5), normal(0.0, 1.0))
    expected = math.log(1 / 0.5) + (0.5**2 + 0.4**2) / 2 - 0.5
    assert found == pytest.approx(expected, abs=1e-6)
    assert divergence(normal(0.0, 1.0), normal(0.0, 1.0)) < 1e-12


def test_divergence_from_where_nothing_was_is_large_and_finite() -> None:
    found = divergence(normal(30.0, 1.0), normal(0.0, 1.0))
    assert 20 < found < 450


# --- files ------------------------------------------------------------------------------------


def signed(tree: object, path: Path, **attributes: str | None) -> None:
    """Write a tree with other attributes and the digest that belongs to them."""
    attrs = tree.attrs  # type: ignore[attr-defined]
    for name, value in attributes.items():
        attrs.pop(name) if value is None else attrs.update({name: value})
    arrays = {
        f"{group}/{name}": np.asarray(variable.values)
        for group in ("posterior", "observed_data", "grid")
        for name, variable in tree[group].dataset.data_vars.items()  # type: ignore[index]
    }
    names = tree["observed_data"]["challenge_base"].values  # type: ignore[index]
    arrays["observed_data/challenge_base"] = np.asarray(names, dtype=object)
    attrs["digest"] = trees.digest(arrays, {str(k): v for k, v in attrs.items()})
    tree.to_netcdf(path, engine="h5netcdf")  # type: ignore[attr-defined]


def test_batches_are_kept_in_files(tmp_path: Path) -> None:
    posterior = estimate(FIRST, em.CountModel(delta=0.01)).update(SECOND, label="\ud800 naïve\n")
    posterior.save(tmp_path / "p.nc")
    restored = em.load(tmp_path / "p.nc")
    assert restored.batches == posterior.batches
    again = restored.update(THIRD)
    assert again.batches == posterior.update(THIRD).batches
    # Many batches with long labels: HDF5 has a limit for some kinds of attributes.
    one = em.engines.Batch(
        rows=1,
        label="x" * 300,
        median=1.0,
        interval=(0.5, 2.0),
        shift=0.0,
        information=0.1,
        log_predictive=-1.0,
    )
    many = estimate(counts([10] * 500, [20] * 500), em.CountModel(delta=0.01))
    many.with_batches((one,) * 500).save(tmp_path / "many.nc")
    assert em.load(tmp_path / "many.nc").batches == (one,) * 500


def test_files_from_before_there_were_batches_hold_one(tmp_path: Path) -> None:
    posterior = estimate(FIRST, em.CountModel(delta=0.01))
    signed(posterior.to_datatree(), tmp_path / "old.nc", batches=None)
    restored = em.load(tmp_path / "old.nc")
    assert restored.batches == posterior.batches
    assert len(restored.update(SECOND).batches) == 2


@pytest.mark.parametrize(
    "batches",
    [
        "[]",
        "not JSON",
        "[1]",
        '[{"rows": 2}]',
        '[{"rows": 3, "label": "", "median": 1.0, "interval": [0.0, 2.0], "shift": 0.0, '
        '"information": 0.0, "log_predictive": null}]',
        '[{"rows": 2, "label": "", "median": NaN, "interval": [0.0, 2.0], "shift": 0.0, '
        '"information": 0.0, "log_predictive": null}]',
        '[{"rows": 2, "label": 7, "median": 1.0, "interval": [0.0, 2.0], "shift": 0.0, '
        '"information": 0.0, "log_predictive": null}]',
    ],
)
def test_forged_batches_are_refused_even_with_a_right_digest(batches: str, tmp_path: Path) -> None:
    tree = estimate(FIRST, em.CountModel(delta=0.01)).to_datatree()
    signed(tree, tmp_path / "p.nc", batches=batches)
    with pytest.raises(em.InputError) as caught:
        em.load(tmp_path / "p.nc")
    assert "digest" not in str(caught.value)


def test_batches_are_part_of_the_digest(tmp_path: Path) -> None:
    import h5py  # type: ignore[import-untyped]

    estimate(FIRST, em.CountModel(delta=0.01)).save(tmp_path / "p.nc")
    with h5py.File(tmp_path / "p.nc", "r+") as file:
        found = json.loads(file.attrs["batches"])
        file.attrs["batches"] = json.dumps([found[0] | {"median": 9.0}])
    with pytest.raises(em.InputError, match="digest"):
        em.load(tmp_path / "p.nc")
    with h5py.File(tmp_path / "p.nc", "r+") as file:
        del file.attrs["batches"]
    with pytest.raises(em.InputError, match="digest"):
        em.load(tmp_path / "p.nc")
