"""MCMC against the exact engine, its settings, and faulty twins that the check must catch."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from epsilometer.engines.exact.engine import estimate_exact
from epsilometer.engines.mcmc import attack_chain, densities
from epsilometer.engines.mcmc.diagnostics import diagnose_parameter
from epsilometer.engines.mcmc.driver import (
    FixedRandomWalk,
    InformedAuxiliaries,
    McmcSettings,
    TunedRandomWalk,
    UniformAuxiliaries,
)
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.model.dependence import PooledGroups
from epsilometer.model.likelihoods import CorrelatedCells, CorrelatedNormal, IndependentBinomial
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Beta, Exponential, Fixed, HalfNormal, LogNormal, Uniform
from tests.contracts.test_engine import largest_z as largest_z_of_draws
from tests.drawn import ring_contains

#: About 200 comparisons of roughly normal errors: false alarms below 1e-3 (2 x 2.9e-7 each).
Z = 5.0

STRONG = counts_of([4, 10, 20], [60, 80, 100], [20, 5, 9], 90)
ZEROS = counts_of([0, 5, 0, 30], 30, [6, 0, 0, 20], 30)
LOW = counts_of([10, 8, 12], 100, [0, 15, 3], 100)
SMALL = counts_of([3, 6], [12, 15], [4, 0], [15, 10])
MIDDLE = counts_of([3, 6], [12, 15], [4, 2], [15, 10])
ONE = counts_of([40], 100, [40], 100)

OURS = McmcSettings(num_iterations=8000, num_warmup=2000, num_chains=2, seed=20240917)
PUBLISHED_FORM = McmcSettings.published(
    num_auxiliary=40,
    num_iterations=30_000,
    num_warmup=2000,
    num_chains=2,
    seed=9,
    proposal=FixedRandomWalk(
        log_epsilon_scale=0.5,
        strength_scale=0.25,
        within_correlation_scale=0.015,
        cross_correlation_scale=0.05,
    ),
)


def largest_z(posterior: SamplePosterior) -> float:
    """The largest deviation from the exact engine, in Monte Carlo standard errors."""
    exact = estimate_exact(posterior.counts, posterior.model)
    assert exact.trustworthy
    return largest_z_of_draws(posterior.samples, exact)


MODELS = {
    "delta 0, unequal trials": (STRONG, CountModel(delta=0.0)),
    "delta .05": (
        STRONG,
        CountModel(delta=0.05, epsilon=Exponential(mean=3), strength=Beta(a=2, b=3)),
    ),
    "zero counts": (ZEROS, CountModel(delta=0.0)),
    "strength 0": (ONE, CountModel(delta=0.01, strength=Fixed(value=0.0))),
    "strength 0, delta 0": (SMALL, CountModel(delta=0.0, strength=Fixed(value=0.0))),
    "strength .99": (ONE, CountModel(delta=0.01, strength=Fixed(value=0.99))),
    "epsilon fixed": (STRONG, CountModel(delta=0.01, epsilon=Fixed(value=3.0))),
    "uniform": (SMALL, CountModel(delta=0.3, epsilon=Uniform(upper=4))),
    "log-normal": (
        SMALL,
        CountModel(delta=0.05, epsilon=LogNormal(median=2.0, log_scale=0.7)),
    ),
    "correlated, unequal trials": (
        STRONG,
        CountModel(delta=0.0, likelihood=CorrelatedNormal(within_correlation_scale=0.02)),
    ),
    "correlated, zero counts": (LOW, CountModel(delta=0.05, likelihood=CorrelatedNormal())),
    "cells, zero counts": (LOW, CountModel(delta=0.05, likelihood=CorrelatedCells())),
    "correlated, strength .99": (
        ONE,
        CountModel(delta=0.01, strength=Fixed(value=0.99), likelihood=CorrelatedNormal()),
    ),
    "correlated, strength 0": (
        ONE,
        CountModel(delta=0.01, strength=Fixed(value=0.0), likelihood=CorrelatedNormal()),
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_default_form_agrees_with_the_exact_engine(case: str) -> None:
    posterior = OURS.estimate(*MODELS[case])
    for figures in posterior.diagnostics.parameters.values():
        assert figures.r_hat < 1.03
        assert figures.bulk_effective_size > 200
    assert largest_z(posterior) < Z


@pytest.mark.parametrize(
    ("counts", "model"),
    [
        (SMALL, CountModel(delta=0.0)),
        (SMALL, CountModel(delta=0.05, epsilon=HalfNormal(scale=2))),
        (SMALL, CountModel(delta=0.05, strength=Fixed(value=0.0))),
        (
            MIDDLE,
            CountModel(delta=0.05, likelihood=CorrelatedNormal(within_correlation_scale=0.03)),
        ),
        (MIDDLE, CountModel(delta=0.05, likelihood=CorrelatedCells(within_correlation_scale=0.03))),
    ],
    ids=["delta 0", "delta .05", "strength 0", "correlated", "cells"],
)
def test_published_form_agrees_with_the_exact_engine(
    counts: AttackCounts, model: CountModel
) -> None:
    assert largest_z(PUBLISHED_FORM.estimate(counts, model)) < Z


def test_mixed_choices_agree_with_the_exact_engine() -> None:
    settings = replace(PUBLISHED_FORM, auxiliaries=InformedAuxiliaries(), num_auxiliary=10)
    assert largest_z(settings.estimate(SMALL, CountModel(delta=0.01))) < Z
    settings = replace(OURS, auxiliaries=UniformAuxiliaries())
    assert largest_z(settings.estimate(SMALL, CountModel(delta=0.01))) < Z


@pytest.mark.parametrize("settings", [OURS, PUBLISHED_FORM], ids=["ours", "published"])
@pytest.mark.parametrize(
    "fault", [densities.NO_JACOBIAN, densities.NO_AREA], ids=["no epsilon'/epsilon", "no area"]
)
def test_a_twin_with_a_fault_fails_the_same_check(
    settings: McmcSettings, fault: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    intact = densities.compile_model

    def sabotaged(*counts_and_model: Any, **options: Any) -> densities.CompiledModel:
        return intact(*counts_and_model, **options)._replace(fault=fault)

    monkeypatch.setattr(densities, "compile_model", sabotaged)
    assert largest_z(settings.estimate(SMALL, CountModel(delta=0.0))) > Z


@pytest.mark.parametrize(
    "model",
    [CountModel(delta=0.01), CountModel(delta=0.01, likelihood=CorrelatedNormal())],
    ids=["binomial", "correlated"],
)
def test_same_seed_same_draws_for_any_number_of_threads(model: CountModel) -> None:
    settings = McmcSettings(num_iterations=700, num_warmup=600, num_chains=3, seed=7)
    runs = [settings.estimate(SMALL, model, num_threads=k) for k in (1, 3, None)]
    other = replace(settings, seed=8).estimate(SMALL, model)
    for name in runs[0].parameters:
        assert np.array_equal(runs[0].samples[name], runs[1].samples[name])
        assert np.array_equal(runs[0].samples[name], runs[2].samples[name])
        assert not np.array_equal(runs[0].samples[name], other.samples[name])
        chains = runs[0].samples[name]
        assert not np.array_equal(chains[0], chains[1])


def test_published_settings_are_those_of_the_appendix() -> None:
    settings = McmcSettings.published(seed=3)
    variances = {"epsilon": 1e-2, "strength": 1e-4, "within": 1e-6, "cross": 1e-6}
    assert isinstance(settings.proposal, FixedRandomWalk)
    scales = list(asdict(settings.proposal).values())
    assert np.allclose(np.square(scales), list(variances.values()), rtol=1e-12)
    assert settings == McmcSettings(
        num_auxiliary=1000,
        num_iterations=90_000,
        num_warmup=10_000,
        num_chains=1,
        seed=3,
        auxiliaries=UniformAuxiliaries(),
        proposal=settings.proposal,
    )


def test_chains_start_inside_the_ring() -> None:
    for counts, model in MODELS.values():
        for seed in range(2):
            start, rates = attack_chain.draw_start(counts, model, rng=np.random.default_rng(seed))
            epsilon, strength = start[:2]
            alpha, beta = rates.T
            wider = epsilon * (1 + 1e-12)
            inside = ring_contains(alpha, beta, wider, model.delta, strength)
            assert np.all(inside)


@pytest.mark.parametrize(("epsilon", "strength"), [(1e-5, 0.3), (0.7, 0.0), (5.0, 1 - 1e-9)])
@pytest.mark.parametrize("delta", [0.0, 0.2])
def test_kernel_area_is_the_region_modules(epsilon: float, strength: float, delta: float) -> None:
    found = densities.log_ring_area(epsilon, delta, strength)
    assert np.isclose(found, region.log_ring_area(epsilon, delta, strength), rtol=1e-13)


GROUPED = counts_of([3, 6], 20, [4, 5], 20, groups=["a", "a"])


class Tilted(IndependentBinomial):
    """A third-party likelihood."""

    name = "tilted"


class Shifted(HalfNormal):
    """A third-party prior, unknown to compiled code."""

    @property
    def compiled(self) -> Any:
        return None


@pytest.mark.parametrize(
    ("counts", "model", "message"),
    [
        (ONE, CountModel(delta=0.0, strength=Fixed(value=1.0)), "strength < 1, .* exact engine"),
        (
            ONE,
            CountModel(delta=0.0, epsilon=Fixed(value=1.0), strength=Fixed(value=0.5)),
            "both fixed",
        ),
        (ONE, CountModel(delta=0.0, likelihood=Tilted()), "likelihood .*binomial, correlated"),
        (ONE, CountModel(delta=0.0, epsilon=Shifted()), "prior of epsilon .*half-normal"),
        (ONE, CountModel(delta=0.0, epsilon=Beta()), "prior of epsilon .*half-normal"),
        (GROUPED, CountModel(delta=0.0), "exact engine for groups"),
    ],
)
def test_what_is_not_supported_is_refused_in_the_same_words(
    counts: AttackCounts, model: CountModel, message: str
) -> None:
    refusal = McmcSettings().supports(counts, model)
    assert refusal is not None
    assert re.search(message, refusal)
    with pytest.raises(InputError, match=re.escape(refusal)):
        McmcSettings().estimate(counts, model)


def test_all_models_of_these_tests_are_supported() -> None:
    for counts, model in MODELS.values():
        assert McmcSettings().supports(counts, model) is None
    # Independent rows have no scatter that could be refused.
    assert McmcSettings().supports(ONE, CountModel(delta=0.0, dependence=PooledGroups())) is None
    both = CountModel(delta=0.0, epsilon=Fixed(value=1.0), strength=Fixed(value=0.5))
    assert McmcSettings().supports(ONE, replace(both, likelihood=CorrelatedNormal())) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_auxiliary", 1),
        ("num_iterations", 0),
        ("num_warmup", -1),
        ("num_chains", 0),
        ("seed", -1),
        ("seed", 1.5),
        ("auxiliaries", "uniform"),
        ("proposal", TunedRandomWalk),
    ],
)
def test_settings_are_checked(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        McmcSettings(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="strength_scale > 0"):
        FixedRandomWalk(strength_scale=0.0)


def test_progress_reaches_the_total() -> None:
    seen: list[tuple[int, int]] = []
    lines: list[str] = []
    settings = McmcSettings(num_iterations=600, num_warmup=300, num_chains=2)
    settings.estimate(
        SMALL,
        CountModel(delta=0.01),
        on_message=lines.append,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (1800, 1800)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert lines


def test_a_chain_that_never_moves_has_not_converged() -> None:
    constant = diagnose_parameter(np.ones((4, 1000)))
    one_stuck = np.random.default_rng(0).normal(size=(4, 1000))
    one_stuck[2] = 0.0
    assert not constant.converged
    assert not diagnose_parameter(one_stuck).converged
    assert diagnose_parameter(np.random.default_rng(0).normal(size=(4, 1000))).converged
    assert diagnose_parameter(np.random.default_rng(0).normal(size=(1, 4000))).converged
    drifting = np.random.default_rng(0).normal(size=(1, 4000)) + np.linspace(0, 2, 4000)
    assert not diagnose_parameter(drifting).converged
