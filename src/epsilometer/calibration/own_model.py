"""Simulation-based calibration: parameters from the prior, counts from the model, ranks of the truth.

The posterior probability below the true value is uniform on [0, 1] if and only if model and engine agree
(Cook, Gelman and Rubin 2006; Talts et al. 2018); intervals of any level then have their stated coverage.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.calibration.plan import ModelCell
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import sample_members
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import HalfNormal

CORRELATED_SCALE = 2e-4
"""Scale of the within correlation; with 2,000 trials, rounding normal counts is negligible."""


def model_of(cell: ModelCell) -> CountModel:
    """The model that generates and analyses the counts."""
    if cell.likelihood == "binomial":
        return CountModel(delta=cell.delta)
    likelihood = CorrelatedNormal(within_correlation_scale=CORRELATED_SCALE)
    return CountModel(delta=cell.delta, epsilon=HalfNormal(scale=1.0), likelihood=likelihood)


def draw(
    model: CountModel, bases: int, trials: int, rng: np.random.Generator, *, slip: float = 1.0
) -> tuple[dict[str, float], AttackCounts]:
    """Parameters from the prior, counts from the model.

    ``slip`` is for controls: counts come from attacks at this multiple of the returned epsilon.
    """
    blank = _blank(trials, [""] * bases)
    truth = _truth(model, blank, rng)
    alpha, beta = region.sample_ring(
        bases, slip * truth["epsilon"], model.delta, truth["strength"], rng=rng
    )
    nuisance = model.likelihood.sample_nuisance(blank, rng=rng)
    x, y = model.likelihood.sample_counts(blank, alpha, beta, nuisance, rng=rng)
    return truth, replace(blank, false_positives=x, false_negatives=y)


def _blank(trials: int, groups: list[str]) -> AttackCounts:
    """One row per label, with no errors counted yet."""
    return AttackCounts(
        false_positives=[0] * len(groups),
        trials_h0=trials,
        false_negatives=0,
        trials_h1=trials,
        groups=groups,
    )


def _truth(model: CountModel, counts: AttackCounts, rng: np.random.Generator) -> dict[str, float]:
    """Epsilon, strength and, for groups, spread, drawn from their priors."""
    if model.fixed_values(counts):
        raise InputError("expected priors to draw from, got a fixed value.")
    priors = model.priors_of(counts).items()
    return {name: float(prior.sample(1, rng=rng)[0]) for name, prior in priors}


def draw_groups(
    model: CountModel,
    groups: int,
    members: int,
    trials: int,
    rng: np.random.Generator,
    *,
    slip: float = 1.0,
) -> tuple[dict[str, float], AttackCounts]:
    """Parameters from the prior, counts of groups of dependent attacks from the model.

    Pooled groups are drawn from the scatter with the same moments, but without the truncation to
    R(epsilon, delta), and their counts are normal.  ``slip`` is as in :func:`draw`, for the spread.
    """
    if members < 2 or model.likelihood.parameters:
        raise InputError("expected binomial counts in groups of at least two members.")
    labels = [f"group {number + 1}" for number in range(groups) for _ in range(members)]
    blank = _blank(trials, labels)
    truth = _truth(model, blank, rng)
    if "spread" not in truth:
        raise InputError("expected a dependence model with a prior for the spread.")
    alpha, beta = region.sample_ring(
        groups, truth["epsilon"], model.delta, truth["strength"], rng=rng
    )
    spread, scatter = slip * truth["spread"], model.dependence.scatter
    if scatter is not None:
        averages = np.repeat(alpha, members), np.repeat(beta, members)
        alpha, beta = sample_members(
            scatter, *averages, spread, truth["epsilon"], model.delta, rng=rng
        )
        x, y = rng.binomial(trials, alpha), rng.binomial(trials, beta)
    else:
        x, y = (_normal_members(rate, spread, members, trials, rng) for rate in (alpha, beta))
    return truth, replace(blank, false_positives=x, false_negatives=y)


def _normal_members(
    rate: FloatArray, spread: float, members: int, trials: int, rng: np.random.Generator
) -> IntArray:
    """Counts whose sums are normal with the moments of :class:`PooledGroups`, split evenly."""
    number = members * trials
    variance = number * rate * (1 - rate) + spread**2 * members * trials * (trials - 1)
    total = np.rint(number * rate + np.sqrt(variance) * rng.standard_normal(len(rate)))
    total = np.clip(total, 0, number).astype(np.int64)
    return np.concatenate([(t + np.arange(members)) // members for t in total])


def ranks(cell: ModelCell, runs: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """Posterior probability below the truth for epsilon and the strength, run by run."""
    from epsilometer.engines.exact.engine import ExactSettings, estimate_exact

    model = model_of(cell)
    ranks: dict[str, list[float]] = {"epsilon": [], "strength": []}
    for _ in range(runs):
        truth, counts = draw(model, cell.bases, cell.trials, rng)
        posterior = estimate_exact(counts, model, ExactSettings(tolerance=0.02))
        for name, values in ranks.items():
            values.append(round(1 - posterior.probability_above(name, truth[name]), 6))
    return ranks
