"""The mean strength: its posterior, and draws from it.

The strength distributions of a solution represent a whole region; each mean has a cell around it with
its prior probability.
"""

from __future__ import annotations

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve.solve import Solution
from epsilometer.model.strengths import (
    Region,
    StrengthDistributions,
    mean_at,
    mean_of_probability,
    probability_below_mean,
)
from epsilometer.posteriors.tabulated import Tabulated


def _cells(distributions: StrengthDistributions, region: Region) -> tuple[IntArray, FloatArray]:
    """The cell of each Beta distribution, and the increasing ends of all cells."""
    beta = np.isfinite(distributions.concentrations)
    _, which = np.unique(distributions.means[beta], return_inverse=True)
    prior = np.bincount(which, distributions.weights[beta])
    low, high = probability_below_mean(mean_at(np.array(region[:2])))
    share = low + (high - low) * np.append(0.0, np.cumsum(prior) / prior.sum())
    edges = mean_of_probability(np.minimum(share, 1.0))
    # Below 1, where all strengths are 1.
    edges[-1] = min(edges[-1], 1 - 1e-9)
    return which, edges


def mean_strength(solution: Solution, region: Region) -> Tabulated:
    """The posterior of the mean; 1 means that every attack was the best possible."""
    distributions, weights = solution.distributions, solution.distribution_weights
    which, edges = _cells(distributions, region)
    mass = np.bincount(which, weights[np.isfinite(distributions.concentrations)])
    cumulative = np.append(0.0, np.cumsum(mass)) / weights.sum()
    return Tabulated(points=np.append(edges, 1.0), cumulative=np.append(cumulative, 1.0))


def drawn_means(
    solution: Solution, region: Region, distribution: IntArray, *, rng: np.random.Generator
) -> FloatArray:
    """Draw means uniformly from the cells of the given distributions."""
    distributions = solution.distributions
    beta = np.isfinite(distributions.concentrations)
    if not beta.any():
        return distributions.means[distribution]
    which, edges = _cells(distributions, region)
    cell = np.zeros(len(beta), dtype=np.int64)
    cell[beta] = which
    low, high = edges[cell[distribution]], edges[cell[distribution] + 1]
    drawn = low + (high - low) * rng.random(len(distribution))
    return np.where(beta[distribution], drawn, distributions.means[distribution])
