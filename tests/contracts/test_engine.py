"""The contract of engines: whichever made a posterior, its queries are the same and consistent.

The exact engine is the specification; Markov chains must agree within their standard errors.
Everything here uses the public API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import epsilometer as em
from epsilometer.engines.estimate import estimate
from tests.engines.oracles import ring_area
from tests.golden.path_cases import counts

FloatArray = NDArray[np.float64]
Settings = em.engines.ExactSettings | em.engines.McmcSettings

ENGINES: dict[str, Settings] = {
    "exact": em.engines.ExactSettings(),
    "mcmc": em.engines.McmcSettings(num_iterations=8000, num_warmup=1500, num_chains=2, seed=20261),
}

HOPELESS: dict[str, Settings] = {
    # Below rounding error, and too few draws for any diagnostic.
    "exact": em.engines.ExactSettings(tolerance=1e-15),
    "mcmc": em.engines.McmcSettings(num_iterations=20, num_warmup=0, num_chains=1),
}

PROBABILITIES = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])

#: Below 500 comparisons of roughly normal errors: false alarms below 1e-3 (2 x 2.9e-7 each).
Z = 5.0


@dataclass(frozen=True, kw_only=True)
class Case:
    counts: em.AttackCounts
    model: em.CountModel
    parameters: tuple[str, ...] = ("epsilon", "strength")
    fixed: Mapping[str, float] = field(default_factory=dict)


CORRELATED = ("epsilon", "strength", "within_correlation", "cross_correlation")
TWO = counts([3, 6], [12, 15], [4, 2], [15, 10])
NONE_AND_ALL = counts([0, 10, 3], 10, [2, 9, 0], [9, 9, 12])

CASES = {
    "binomial": Case(counts=TWO, model=em.CountModel(delta=0.02)),
    "other priors": Case(
        counts=NONE_AND_ALL,
        model=em.CountModel(
            delta=0.0,
            epsilon=em.priors.Exponential(mean=2.0),
            strength=em.priors.Beta(a=2.0, b=3.0),
        ),
    ),
    "strength fixed": Case(
        counts=TWO,
        model=em.CountModel(delta=0.05, strength=em.priors.Fixed(value=0.5)),
        parameters=("epsilon",),
        fixed={"strength": 0.5},
    ),
    "epsilon fixed": Case(
        counts=TWO,
        model=em.CountModel(delta=0.0, epsilon=em.priors.Fixed(value=2.0)),
        parameters=("strength",),
        fixed={"epsilon": 2.0},
    ),
    "correlated": Case(
        counts=TWO,
        model=em.CountModel(
            delta=0.05, likelihood=em.likelihoods.CorrelatedNormal(within_correlation_scale=0.03)
        ),
        parameters=CORRELATED,
    ),
    "cells": Case(
        counts=TWO,
        model=em.CountModel(
            delta=0.05, likelihood=em.likelihoods.CorrelatedCells(within_correlation_scale=0.03)
        ),
        parameters=CORRELATED,
    ),
    "groups": Case(
        counts=counts([8, 10, 9, 25, 22], 40, [20, 24, 21, 8, 9], 40, "aaabb"),
        model=em.CountModel(delta=0.02),
        parameters=("epsilon", "strength", "spread"),
    ),
    "groups, spread fixed": Case(
        counts=counts([8, 10, 9, 25, 22], 40, [20, 24, 21, 8, 9], 40, "aaabb"),
        model=em.CountModel(
            delta=0.02,
            dependence=em.likelihoods.ScatteredMembers(spread=em.priors.Fixed(value=0.05)),
        ),
        fixed={"spread": 0.05},
    ),
}

EXACT_ONLY = ("groups", "groups, spread fixed")

each_engine = pytest.mark.parametrize("engine", ENGINES)
each_case = pytest.mark.parametrize("case", [name for name in CASES if name not in EXACT_ONLY])
each_pair = pytest.mark.parametrize(
    ("engine", "case"),
    [
        pytest.param(engine, case, marks=pytest.mark.slow if case in EXACT_ONLY else ())
        for engine in ENGINES
        for case in CASES
        if engine == "exact" or case not in EXACT_ONLY
    ],
)


@cache
def posterior(engine: str, case: str) -> Any:
    return estimate(CASES[case].counts, CASES[case].model, ENGINES[engine])


def number_of_draws(of: Any) -> float:
    """The resolution of a posterior's probabilities: exact, or limited by its draws."""
    settings = ENGINES["mcmc"]
    assert isinstance(settings, em.engines.McmcSettings)
    draws = settings.num_chains * settings.num_iterations
    return np.inf if of.provenance.engine == "exact" else float(draws)


# --- distance between two posteriors ----------------------------------------------------------------


def chains(of: Any) -> dict[str, FloatArray]:
    """The draws of a posterior by sampling, (chain, draw)."""
    tree = of.to_datatree()["posterior"]
    return {name: np.asarray(tree[name].values) for name in of.parameters}


def standard_error(draws: FloatArray, probability: float | None) -> float:
    """Standard error of a quantile, or of the mean if no probability is given."""
    from arviz_stats import base

    array_stats: Any = base.array_stats  # type: ignore[attr-defined]
    options = {"method": "mean"}
    if probability is not None:
        options = {"method": "quantile", "prob": probability}  # type: ignore[dict-item]
    return float(array_stats.mcse(draws, chain_axis=0, draw_axis=1, **options))


def largest_z(draws: Mapping[str, FloatArray], expected: Any) -> float:
    """The largest deviation of draws from a posterior, in standard errors, its own included.

    Both errors count: the Monte Carlo error as a deviation, the exact engine's stated error as a bound.
    """
    worst = 0.0
    other = None if expected.provenance.engine == "exact" else chains(expected)
    for name, values in draws.items():
        for probability in (0.05, 0.5, 0.95, None):
            if probability is None:
                found, known = float(values.mean()), float(expected.mean(name))
            else:
                found = float(np.quantile(values, probability))
                known = float(expected.quantile(name, probability))
            error = standard_error(values, probability)
            bound = 0.0
            if other is None:
                bound = stated_error(expected, name) * max(1.0, abs(known))
            else:
                error = np.hypot(error, standard_error(other[name], probability))
            worst = max(worst, (abs(found - known) - bound) / error)
    return worst


def stated_error(of: Any, name: str) -> float:
    """The exact engine's stated error for epsilon and the strength; none for nuisance parameters.

    Their marginals come from rules with few nodes: a tenth of a standard deviation is allowed.
    """
    if name in ("epsilon", "strength"):
        return float(of.accuracy.error)
    return 0.1 * float(of.standard_deviation(name))


def assert_same(one: Any, two: Any) -> None:
    """Two posteriors of one engine that must be equal up to its error."""
    if one.provenance.engine == "mcmc":
        assert largest_z(chains(one), two) < Z
        return
    for name in one.parameters:
        values = [each.quantile(name, PROBABILITIES) for each in (one, two)]
        bound = stated_error(one, name) + stated_error(two, name) + 1e-9
        gap = np.abs(values[0] - values[1]) / np.maximum(1.0, np.abs(values[0]))
        assert gap.max() <= bound


# --- the same queries, consistent answers -----------------------------------------------------------


@each_pair
class TestAnswers:
    def test_what_it_carries(self, engine: str, case: str) -> None:
        found, given, known = (
            posterior(engine, case),
            CASES[case],
            posterior(engine, case).provenance,
        )
        assert found.parameters == given.parameters
        assert found.trustworthy is True
        assert (found.counts, found.model) == (given.counts, given.model)
        assert (known.engine, known.seed) == (engine, getattr(ENGINES[engine], "seed", None))
        assert known.settings
        assert known.seconds > 0
        assert {"python", "numpy", "scipy", "epsilometer"} <= set(known.versions)
        tree = found.to_datatree()
        assert set(given.parameters) <= set(tree["posterior"].data_vars)
        assert "observed_data" in tree.children

    def test_quantiles_increase(self, engine: str, case: str) -> None:
        found = posterior(engine, case)
        for name in found.parameters:
            values = found.quantile(name, np.linspace(0, 1, 101))
            assert values.shape == (101,)
            assert np.all(np.isfinite(values))
            assert np.all(np.diff(values) >= 0)
            assert found.quantile(name, [[0.1, 0.2]]).shape == (1, 2)
            assert found.median(name) == float(found.quantile(name, 0.5))
            assert found.credible_interval(name, 0.8) == pytest.approx(
                tuple(found.quantile(name, [0.1, 0.9])), rel=1e-12
            )

    def test_values_are_possible(self, engine: str, case: str) -> None:
        found = posterior(engine, case)
        supports = {"epsilon": (0.0, np.inf), "strength": (0.0, 1.0), "spread": (0.0, 1.0)}
        for name in found.parameters:
            low, high = supports.get(name, (-1.0, 1.0))
            ends = found.quantile(name, [0.0, 1.0])
            assert low <= ends[0] < ends[1] <= high
            assert found.probability_above(name, low - 1) == pytest.approx(1.0, abs=1e-9)
            assert found.probability_above(name, min(high, 1e6)) == pytest.approx(0.0, abs=1e-9)

    def test_probabilities_are_the_inverse_of_quantiles(self, engine: str, case: str) -> None:
        found = posterior(engine, case)
        allowed = 1e-6 + 2 / number_of_draws(found)
        for name in found.parameters:
            above = [found.probability_above(name, v) for v in found.quantile(name, PROBABILITIES)]
            np.testing.assert_allclose(above, 1 - PROBABILITIES, rtol=0, atol=allowed)

    def test_moments_are_those_of_the_quantiles(self, engine: str, case: str) -> None:
        """The mean is the integral of the quantile function, the variance that of its square."""
        found = posterior(engine, case)
        middles = (np.arange(20_000) + 0.5) / 20_000
        for name in found.parameters:
            values = found.quantile(name, middles)
            spread = found.standard_deviation(name)
            assert values.min() < found.mean(name) < values.max()
            # Midpoints miss a little of the tails, which matters more for the square.
            assert found.mean(name) == pytest.approx(values.mean(), abs=2e-3 * spread)
            assert spread == pytest.approx(values.std(), rel=5e-3)

    def test_the_density_is_that_of_the_quantiles(self, engine: str, case: str) -> None:
        found = posterior(engine, case)
        for name in found.parameters:
            low, high = found.quantile(name, [0.2, 0.8])
            points = np.linspace(low, high, 401)
            density = found.density(name, points)
            assert np.all(density >= 0)
            # Chains estimate it by kernels, which smooth: three per cent of probability.
            allowed = 1e-3 if engine == "exact" else 0.03
            assert np.trapezoid(density, points) == pytest.approx(0.6, abs=allowed)

    def test_draws(self, engine: str, case: str) -> None:
        found, size = posterior(engine, case), 4000
        drawn = found.draws(size, rng=np.random.default_rng(1))
        again = found.draws(size, rng=np.random.default_rng(1))
        other = found.draws(size, rng=np.random.default_rng(2))
        assert tuple(drawn) == found.parameters
        for name, values in drawn.items():
            assert values.shape == (size,)
            np.testing.assert_array_equal(values, again[name])
            assert not np.array_equal(values, other[name])
            below = (values[:, None] <= found.quantile(name, PROBABILITIES)).mean(axis=0)
            noise = np.sqrt(PROBABILITIES * (1 - PROBABILITIES) / size)
            # Nuisance parameters of the exact engine are drawn from tables of their marginals.
            allowed = 0.0 if name in ("epsilon", "strength") else 0.02
            assert np.all(np.abs(below - PROBABILITIES) <= Z * noise + allowed), name
        if "cross_correlation" in drawn:
            within, likelihood = drawn["within_correlation"], found.model.likelihood
            bound = likelihood.cross_correlation_bound(found.counts, within)
            assert np.all(np.abs(drawn["cross_correlation"]) <= bound)

    def test_saved_and_loaded(self, engine: str, case: str, tmp_path: Path) -> None:
        found = posterior(engine, case)
        found.save(tmp_path / "posterior.nc")
        loaded = em.load(tmp_path / "posterior.nc")
        assert type(loaded) is type(found)
        for what in ("counts", "model", "parameters", "trustworthy", "provenance"):
            assert getattr(loaded, what) == getattr(found, what)
        drawn, expected = (
            each.draws(100, rng=np.random.default_rng(3)) for each in (loaded, found)
        )
        for name in found.parameters:
            for ask in ("mean", "standard_deviation"):
                assert getattr(loaded, ask)(name) == getattr(found, ask)(name)
            np.testing.assert_array_equal(
                loaded.quantile(name, PROBABILITIES), found.quantile(name, PROBABILITIES)
            )
            middle = found.median(name)
            assert loaded.probability_above(name, middle) == found.probability_above(name, middle)
            np.testing.assert_array_equal(
                loaded.density(name, [middle]), found.density(name, [middle])
            )
            np.testing.assert_array_equal(drawn[name], expected[name])


@pytest.mark.parametrize("case", ["strength fixed", "epsilon fixed"])
@each_engine
def test_fixed_parameters_are_points(engine: str, case: str) -> None:
    found = posterior(engine, case)
    ((name, value),) = CASES[case].fixed.items()
    assert found.quantile(name, PROBABILITIES).tolist() == [value] * len(PROBABILITIES)
    assert found.mean(name) == found.median(name) == value
    assert found.standard_deviation(name) == 0.0
    assert found.probability_above(name, value - 1e-9) == 1.0
    assert found.probability_above(name, value) == 0.0
    assert name not in found.draws(3, rng=np.random.default_rng(1))


# --- the same counts in another form ----------------------------------------------------------------


@each_engine
class TestCounts:
    @pytest.mark.parametrize(
        "case", ["binomial", pytest.param("correlated", marks=pytest.mark.slow)]
    )
    def test_updating_is_estimating_from_all(self, engine: str, case: str) -> None:
        whole, given = posterior(engine, case), CASES[case]
        first = estimate(given.counts.take([0]), given.model, ENGINES[engine])
        updated = first.update(given.counts.take([1]))
        assert len(updated.counts) == 2
        for name in whole.parameters:
            np.testing.assert_allclose(
                updated.quantile(name, PROBABILITIES),
                whole.quantile(name, PROBABILITIES),
                rtol=1e-12,
            )

    @pytest.mark.parametrize(
        "change",
        [
            "other order",
            "hypotheses exchanged",
            pytest.param("decisions reflected", marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.parametrize(
        "case", ["other priors", pytest.param("correlated", marks=pytest.mark.slow)]
    )
    def test_symmetries(self, engine: str, case: str, change: str) -> None:
        given = CASES[case].counts
        x, n0, y, n1 = (
            given.false_positives.tolist(),
            given.trials_h0.tolist(),
            given.false_negatives.tolist(),
            given.trials_h1.tolist(),
        )
        if change == "other order":
            changed = given.take(list(range(len(given)))[::-1])
        elif change == "hypotheses exchanged":
            changed = counts(y, n1, x, n0)
        else:
            reflected = [[n - k for n, k in zip(*pair, strict=True)] for pair in ((n0, x), (n1, y))]
            changed = counts(reflected[0], n0, reflected[1], n1)
        other = estimate(changed, CASES[case].model, ENGINES[engine])
        assert_same(other, posterior(engine, case))

    def test_different_counts_are_distinguished(self, engine: str) -> None:
        """Negative control of the symmetries: one row reflected in one count only."""
        given = CASES["other priors"]
        changed = counts([0, 10, 9], 10, [2, 9, 0], [9, 9, 12])
        other = estimate(changed, given.model, ENGINES[engine])
        with pytest.raises(AssertionError):
            assert_same(other, posterior(engine, "other priors"))

    def test_the_same_again(self, engine: str) -> None:
        given, found = CASES["binomial"], posterior(engine, "binomial")
        again = estimate(given.counts, given.model, ENGINES[engine])
        for name in found.parameters:
            np.testing.assert_array_equal(
                again.quantile(name, PROBABILITIES), found.quantile(name, PROBABILITIES)
            )

    def test_progress_is_reported(self, engine: str) -> None:
        lines: list[str] = []
        given = CASES["binomial"]
        estimate(given.counts, given.model, HOPELESS[engine], on_message=lines.append)
        assert lines
        assert all(isinstance(line, str) for line in lines)


# --- input that every engine refuses ----------------------------------------------------------------


@each_engine
class TestRefusals:
    def test_unreachable_accuracy_is_reported(self, engine: str) -> None:
        given = CASES["binomial"]
        found = estimate(given.counts, given.model, HOPELESS[engine])
        assert found.trustworthy is False
        assert np.isfinite(found.median("epsilon"))

    @pytest.mark.parametrize("probability", [-0.1, 1.1, np.nan])
    def test_probabilities(self, engine: str, probability: float) -> None:
        with pytest.raises(em.InputError, match="expected 0 <= probability <= 1"):
            posterior(engine, "binomial").quantile("epsilon", probability)

    @pytest.mark.parametrize("level", [0.0, 1.0, np.nan])
    def test_levels(self, engine: str, level: float) -> None:
        with pytest.raises(em.InputError, match="level"):
            posterior(engine, "binomial").credible_interval("epsilon", level)

    @pytest.mark.parametrize("name", ["spread", "within_correlation", "eps"])
    def test_parameters_that_are_not_there(self, engine: str, name: str) -> None:
        found = posterior(engine, "binomial")
        match = rf"expected one of the parameters epsilon, strength, got '{name}'"
        for ask in (found.mean, found.median, found.standard_deviation):
            with pytest.raises(em.InputError, match=match):
                ask(name)

    def test_counts_that_do_not_suit_the_likelihood(self, engine: str) -> None:
        model = em.CountModel(delta=0.0, likelihood=em.likelihoods.CorrelatedNormal())
        with pytest.raises(em.InputError, match="trials_h0 >= 2"):
            estimate(counts([1], 1, [0], 5), model, ENGINES[engine])

    def test_pooled_groups_of_correlated_counts(self, engine: str) -> None:
        model = em.CountModel(
            delta=0.0,
            likelihood=em.likelihoods.CorrelatedNormal(),
            dependence=em.likelihoods.PooledGroups(),
        )
        with pytest.raises(em.InputError, match="ScatteredMembers"):
            estimate(CASES["groups"].counts, model, ENGINES[engine])

    def test_sizes_of_draws(self, engine: str) -> None:
        found, rng = posterior(engine, "binomial"), np.random.default_rng(7)
        assert found.draws(0, rng=rng)["epsilon"].shape == (0,)
        with pytest.raises(em.InputError, match="size"):
            found.draws(-1, rng=rng)

    def test_updates_with_anything_but_counts(self, engine: str) -> None:
        with pytest.raises(em.InputError, match="expected AttackCounts"):
            posterior(engine, "binomial").update([3, 10, 4, 10])


# --- exact against chains ---------------------------------------------------------------------------


@each_case
def test_chains_agree_with_the_exact_engine(case: str) -> None:
    found, expected = posterior("mcmc", case), posterior("exact", case)
    assert found.trustworthy
    assert expected.trustworthy
    assert largest_z(chains(found), expected) < Z


@pytest.mark.parametrize("case", ["binomial", "other priors"])
def test_both_draw_the_same_dependence(case: str) -> None:
    """P(epsilon and the strength both above their medians): a quarter if they were independent."""
    shares, errors = [], []
    medians = {name: posterior("exact", case).median(name) for name in ("epsilon", "strength")}
    drawn = chains(posterior("mcmc", case))
    both = (drawn["epsilon"] > medians["epsilon"]) & (drawn["strength"] > medians["strength"])
    shares.append(float(both.mean()))
    errors.append(standard_error(both.astype(float), None))
    grid = posterior("exact", case).draws(20_000, rng=np.random.default_rng(4))
    both = (grid["epsilon"] > medians["epsilon"]) & (grid["strength"] > medians["strength"])
    shares.append(float(both.mean()))
    errors.append(0.5 / np.sqrt(20_000))
    assert abs(shares[0] - shares[1]) < Z * float(np.hypot(errors[0], errors[1]))
    assert max(shares) < 0.25 - Z * max(errors)


def resampled(draws: Mapping[str, FloatArray], log_weight: FloatArray) -> dict[str, FloatArray]:
    """Draws of another posterior: each chain resampled with the given weights."""
    rng = np.random.default_rng(5)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    chosen = [rng.choice(len(row), size=len(row), p=row / row.sum()) for row in weight]
    return {
        name: np.stack([values[i][rows] for i, rows in enumerate(chosen)])
        for name, values in draws.items()
    }


@pytest.mark.parametrize("fault", ["none", "no area", "prior over epsilon"])
def test_a_sabotaged_twin_fails_the_same_check(fault: str) -> None:
    """The draws of a faulty sampler, by weights; without a fault, resampling alone passes."""
    case, draws = CASES["binomial"], chains(posterior("mcmc", "binomial"))
    epsilon, strength = draws["epsilon"], draws["strength"]
    area = ring_area(epsilon, case.model.delta, strength)
    log_weight = {
        "none": np.zeros_like(epsilon),
        "no area": len(case.counts) * np.log(area),
        "prior over epsilon": -np.log(epsilon),
    }[fault]
    z = largest_z(resampled(draws, log_weight), posterior("exact", "binomial"))
    assert z < Z if fault == "none" else z > Z


def test_chains_of_another_delta_fail_the_same_check() -> None:
    case = CASES["binomial"]
    expected = estimate(case.counts, replace(case.model, delta=0.1))
    assert largest_z(chains(posterior("mcmc", "binomial")), expected) > Z
