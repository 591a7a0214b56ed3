"""Draws from the quadrature grid must have the marginals and the dependence of the posterior."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact.engine import make_surface
from epsilometer.engines.exact.integrate import integrate
from epsilometer.engines.exact.posterior import GridPosterior, from_solution
from epsilometer.engines.exact.resolution import Resolution

PROBABILITIES = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
SIZE = 100_000
WORST_Z = 4.5
"""About 40 comparisons in this file: a false alarm in one of them has probability 3e-4."""

STRONG: dict[str, Any] = {
    "false_positives": [40, 60, 100, 120, 200],
    "trials_h0": 1000,
    "false_negatives": [250, 150, 100, 100, 60],
    "trials_h1": 1000,
}


@cache
def binomial(**model: Any) -> Any:
    return estimate(em.AttackCounts(**STRONG), em.CountModel(delta=0.01, **model))


def correlated() -> GridPosterior:
    # No refinement: draws must agree with the marginals of their own grid.
    counts = em.AttackCounts(
        false_positives=[10, 30], trials_h0=100, false_negatives=[20, 30], trials_h1=80
    )
    model = em.CountModel(delta=0.01, likelihood=em.likelihoods.CorrelatedNormal())
    coarse = Resolution.number(0, planar=True)
    solution, _ = integrate(make_surface(counts, model), model, coarse)
    return from_solution(counts, model, solution)


def assert_marginals(
    posterior: GridPosterior, drawn: dict[str, np.ndarray], allowance: float = 0.0
) -> None:
    for name, values in drawn.items():
        expected = PROBABILITIES
        quantiles = posterior.quantile(name, expected)
        error = np.abs((values[:, None] <= quantiles).mean(axis=0) - expected)
        noise = np.sqrt(expected * (1 - expected) / len(values))
        assert np.all(error <= WORST_Z * noise + allowance), (name, error / noise)


def test_marginals_of_draws_are_those_of_the_posterior() -> None:
    posterior = binomial()
    drawn = posterior.draws(SIZE, rng=np.random.default_rng(1))
    assert list(drawn) == ["epsilon", "strength"]
    assert_marginals(posterior, drawn)


def test_dependence_is_that_of_the_grid() -> None:
    posterior = binomial()
    drawn = posterior.draws(SIZE, rng=np.random.default_rng(2))
    cells = posterior.cells
    grid_epsilon = cells.epsilon[cells.row]
    product = float(cells.mass @ (grid_epsilon * cells.strength)) / float(cells.mass.sum())
    values = drawn["epsilon"] * drawn["strength"]
    # The allowance is for linear interpolation between rows.
    assert abs(values.mean() - product) < WORST_Z * values.std() / SIZE**0.5 + 1e-3 * product
    correlation = np.corrcoef(drawn["epsilon"], drawn["strength"])[0, 1]
    assert correlation < -0.5


def test_correlations_are_drawn_within_their_bounds() -> None:
    posterior = correlated()
    drawn = posterior.draws(SIZE // 4, rng=np.random.default_rng(3))
    assert set(drawn) == set(posterior.parameters)
    # (tau, r) is interpolated between few nodes: half a per cent of probability is allowed for it.
    assert_marginals(posterior, drawn, allowance=0.005)
    likelihood = posterior.model.likelihood
    assert isinstance(likelihood, em.likelihoods.CorrelatedNormal)
    bound = likelihood.cross_correlation_bound(posterior.counts, drawn["within_correlation"])
    assert np.all(np.abs(drawn["cross_correlation"]) <= bound)


def test_fixed_parameters_are_left_out() -> None:
    for left, held in (("epsilon", {"strength": 0.5}), ("strength", {"epsilon": 3.0})):
        posterior = binomial(**{name: em.priors.Fixed(value=v) for name, v in held.items()})
        drawn = posterior.draws(SIZE, rng=np.random.default_rng(4))
        assert list(drawn) == [left]
        assert_marginals(posterior, drawn)


def test_no_draws_and_bad_sizes() -> None:
    posterior = binomial()
    assert posterior.draws(0, rng=np.random.default_rng(7))["epsilon"].shape == (0,)
    with pytest.raises(em.InputError, match="size"):
        posterior.draws(-1, rng=np.random.default_rng(7))
