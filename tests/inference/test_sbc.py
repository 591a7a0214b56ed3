"""Simulation-based calibration: parameters drawn from the prior must rank uniformly.

Each replicate draws (epsilon, s [, tau, rho]) from the prior, counts from the model, and asks where
the truth lies in the posterior: the probability below it is uniform on [0, 1] if, and only if, model
and engine agree.  The statistic is the largest gap between the empirical and the uniform
distribution (Kolmogorov-Smirnov); the level 1e-4 a check keeps the suite's false alarms below 1e-3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest

from epsilometer.inference.exact import ExactSettings, estimate_exact
from epsilometer.inference.mcmc import McmcSettings, estimate_mcmc
from epsilometer.inference.posterior import Posterior
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial
from epsilometer.model.priors import Beta, HalfNormal

LEVEL = 1e-4
Engine = Callable[[AttackCounts, AuditModel], Posterior]


def _exact(counts: AttackCounts, model: AuditModel) -> Posterior:
    return estimate_exact(counts, model, ExactSettings(tolerance=0.02))


def _mcmc(counts: AttackCounts, model: AuditModel) -> Posterior:
    settings = McmcSettings(num_iterations=1500, num_warmup=1000, num_chains=2, seed=11)
    return estimate_mcmc(counts, model, settings)


def simulate(
    model: AuditModel, bases: int, trials: int, rng: np.random.Generator
) -> tuple[dict[str, float], AttackCounts]:
    """Parameters from the prior and counts from the model."""
    assert isinstance(model.epsilon, HalfNormal)
    assert isinstance(model.strength, Beta)
    epsilon = float(model.epsilon.sample(1, rng=rng)[0])
    strength = float(model.strength.sample(1, rng=rng)[0])
    alpha, beta = region.sample_ring(bases, epsilon, model.delta, strength, rng=rng)
    if isinstance(model.likelihood, IndependentBinomial):
        counts = model.likelihood.sample(alpha, beta, trials_h0=trials, trials_h1=trials, rng=rng)
        return {"epsilon": epsilon, "strength": strength}, counts
    blank = AttackCounts(
        false_positives=np.zeros(bases, dtype=int),
        trials_h0=trials,
        false_negatives=np.zeros(bases, dtype=int),
        trials_h1=trials,
    )
    tau, rho = model.likelihood.sample_prior(blank, rng=rng)
    spread = trials * (1 + (trials - 1) * tau)
    r = rho * trials / (1 + (trials - 1) * tau)
    z = rng.standard_normal((2, bases))
    z[1] = r * z[0] + np.sqrt(1 - r * r) * z[1]
    x = trials * alpha + np.sqrt(spread * alpha * (1 - alpha)) * z[0]
    y = trials * beta + np.sqrt(spread * beta * (1 - beta)) * z[1]
    counts = AttackCounts(
        false_positives=np.clip(np.rint(x), 0, trials).astype(int),
        trials_h0=trials,
        false_negatives=np.clip(np.rint(y), 0, trials).astype(int),
        trials_h1=trials,
    )
    return {"epsilon": epsilon, "strength": strength}, counts


def ranks(
    engine: Engine, truth_model: AuditModel, fit_model: AuditModel, replicates: int, seed: int
) -> dict[str, NDArray[np.float64]]:
    """Posterior probability below the truth, for each parameter and replicate."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {"epsilon": [], "strength": []}
    trials = 2000 if isinstance(truth_model.likelihood, CorrelatedNormal) else 60
    for _ in range(replicates):
        bases = 2 if isinstance(truth_model.likelihood, CorrelatedNormal) else 4
        truth, counts = simulate(truth_model, bases, trials, rng)
        posterior = engine(counts, fit_model)
        for name, values in found.items():
            values.append(1 - posterior.probability_above(name, truth[name]))
    return {name: np.array(values) for name, values in found.items()}


BINOMIAL = AuditModel(delta=0.02, epsilon=HalfNormal(scale=1.5), strength=Beta(a=2.0, b=2.0))
# Many trials, so that rounding the normal counts to integers and cutting them to 0..N is nothing.
CORRELATED = AuditModel(
    delta=0.02,
    epsilon=HalfNormal(scale=1.0),
    strength=Beta(a=2.0, b=2.0),
    likelihood=CorrelatedNormal(within_correlation_scale=2e-4),
)
# Sabotaged twins: the same counts read with a prior whose scale is off, as a missing factor would.
SABOTAGED = {
    "binomial": AuditModel(delta=0.02, epsilon=HalfNormal(scale=0.1), strength=Beta(a=2.0, b=2.0)),
    "correlated": AuditModel(
        delta=0.02,
        epsilon=HalfNormal(scale=0.1),
        strength=Beta(a=2.0, b=2.0),
        likelihood=CorrelatedNormal(within_correlation_scale=2e-4),
    ),
}


@pytest.mark.parametrize(
    ("name", "engine", "replicates"),
    [
        ("binomial", _exact, 120),
        ("binomial", _mcmc, 50),
        ("correlated", _exact, 25),
        ("correlated", _mcmc, 40),
    ],
    ids=["binomial-exact", "binomial-mcmc", "correlated-exact", "correlated-mcmc"],
)
def test_truth_ranks_uniformly_and_the_sabotaged_twin_does_not(
    name: str, engine: Engine, replicates: int
) -> None:
    model = BINOMIAL if name == "binomial" else CORRELATED
    for parameter, values in ranks(engine, model, model, replicates, seed=5).items():
        assert kstest(values, "uniform").pvalue > LEVEL, parameter
    wrong = ranks(engine, model, SABOTAGED[name], 15, seed=5)["epsilon"]
    assert kstest(wrong, "uniform").pvalue < LEVEL
