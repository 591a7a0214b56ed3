"""Simulation-based calibration: parameters drawn from the prior must rank uniformly.

Each replicate draws (epsilon, s [, tau, rho]) from the prior and counts from the model, and computes the
rank of the truth in the posterior: the probability below it is uniform on [0, 1] if, and only if, model
and engine agree.  The statistic is the largest gap between the empirical and the uniform
distribution (Kolmogorov-Smirnov); the level 1e-4 per check keeps the suite's false alarms below 1e-3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest

from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
from epsilometer.engines.mcmc.driver import McmcSettings
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedCells, CorrelatedNormal
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Beta, HalfNormal
from epsilometer.posteriors.posterior import CountPosterior
from studies.draws import draw_model

LEVEL = 1e-4
Engine = Callable[[AttackCounts, CountModel], CountPosterior]


def _exact(counts: AttackCounts, model: CountModel) -> CountPosterior:
    return estimate_exact(counts, model, ExactSettings(tolerance=0.02))


def _mcmc(counts: AttackCounts, model: CountModel) -> CountPosterior:
    settings = McmcSettings(num_iterations=1500, num_warmup=1000, num_chains=2, seed=11)
    return settings.estimate(counts, model)


def ranks(
    engine: Engine, model: CountModel, replicates: int, seed: int, slip: float = 1.0
) -> dict[str, NDArray[np.float64]]:
    """Posterior probability below the truth, for each parameter and replicate."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {"epsilon": [], "strength": []}
    trials = 2000 if isinstance(model.likelihood, CorrelatedNormal) else 60
    bases = 2 if isinstance(model.likelihood, CorrelatedNormal) else 4
    for _ in range(replicates):
        truth, counts = draw_model(model, bases, trials, rng, slip=slip)
        posterior = engine(counts, model)
        for name, values in found.items():
            values.append(1 - posterior.probability_above(name, truth[name]))
    return {name: np.array(values) for name, values in found.items()}


BINOMIAL = CountModel(delta=0.02, epsilon=HalfNormal(scale=1.5), strength=Beta(a=2.0, b=2.0))
# Many trials, so that rounding the normal counts to integers and clipping them to 0..N is negligible.
CORRELATED = CountModel(
    delta=0.02,
    epsilon=HalfNormal(scale=1.0),
    strength=Beta(a=2.0, b=2.0),
    likelihood=CorrelatedNormal(within_correlation_scale=2e-4),
)


# Few trials: rounding and clipping are part of these likelihoods.
CELLS = replace(CORRELATED, likelihood=CorrelatedCells(within_correlation_scale=0.02))
MODELS = {
    "binomial": BINOMIAL,
    "correlated": CORRELATED,
    "cells": CELLS,
}


@pytest.mark.parametrize(
    ("name", "engine", "replicates"),
    [
        pytest.param("binomial", _exact, 16, id="binomial-exact"),
        pytest.param("binomial", _mcmc, 10, id="binomial-mcmc", marks=pytest.mark.slow),
        pytest.param("correlated", _exact, 6, id="correlated-exact", marks=pytest.mark.slow),
        pytest.param("correlated", _mcmc, 10, id="correlated-mcmc", marks=pytest.mark.slow),
        pytest.param("cells", _exact, 10, id="cells-exact", marks=pytest.mark.slow),
        pytest.param("cells", _exact, 200, id="cells-exact-long", marks=pytest.mark.slow),
        pytest.param("binomial", _exact, 1000, id="binomial-exact-long", marks=pytest.mark.slow),
        pytest.param("binomial", _mcmc, 200, id="binomial-mcmc-long", marks=pytest.mark.slow),
        pytest.param("correlated", _exact, 100, id="correlated-exact-long", marks=pytest.mark.slow),
        pytest.param("correlated", _mcmc, 200, id="correlated-mcmc-long", marks=pytest.mark.slow),
    ],
)
def test_truth_ranks_uniformly_and_the_sabotaged_twin_does_not(
    name: str, engine: Engine, replicates: int
) -> None:
    model = MODELS[name]
    for parameter, values in ranks(engine, model, replicates, seed=5).items():
        assert kstest(values, "uniform").pvalue > LEVEL, parameter
    # The twin: epsilon off by a factor, as from a mistake in the model or the engine.
    wrong = ranks(engine, model, 7 if name == "correlated" else 12, seed=5, slip=3.0)["epsilon"]
    assert kstest(wrong, "uniform").pvalue < LEVEL
