"""The mean of the law of strengths: its distribution, and draws from it.

The laws of a solution represent a whole region; each mean has a cell around it with its prior
probability.
"""

from __future__ import annotations

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve.solve import Solution
from epsilometer.model.strengths import (
    Laws,
    Region,
    mean_at,
    mean_of_probability,
    probability_below_mean,
)
from epsilometer.posteriors.tabulated import Tabulated


def _cells(laws: Laws, region: Region) -> tuple[IntArray, FloatArray]:
    """The cell of each Beta law, and the increasing ends of all cells."""
    beta = np.isfinite(laws.concentrations)
    _, which = np.unique(laws.means[beta], return_inverse=True)
    prior = np.bincount(which, laws.weights[beta])
    low, high = probability_below_mean(mean_at(np.array(region[:2])))
    share = low + (high - low) * np.append(0.0, np.cumsum(prior) / prior.sum())
    edges = mean_of_probability(np.minimum(share, 1.0))
    # Below 1, which is the law that all strengths are 1.
    edges[-1] = min(edges[-1], 1 - 1e-9)
    return which, edges


def mean_strength(solution: Solution, region: Region) -> Tabulated:
    """The distribution of the mean; 1 is the law that every attack was the best possible."""
    laws, weights = solution.laws, solution.law_weights
    which, edges = _cells(laws, region)
    mass = np.bincount(which, weights[np.isfinite(laws.concentrations)])
    cumulative = np.append(0.0, np.cumsum(mass)) / weights.sum()
    return Tabulated(points=np.append(edges, 1.0), cumulative=np.append(cumulative, 1.0))


def drawn_means(
    solution: Solution, region: Region, law: IntArray, *, rng: np.random.Generator
) -> FloatArray:
    """Draw means uniformly from the cells of the given laws."""
    laws = solution.laws
    beta = np.isfinite(laws.concentrations)
    if not beta.any():
        return laws.means[law]
    which, edges = _cells(laws, region)
    cell = np.zeros(len(beta), dtype=np.int64)
    cell[beta] = which
    low, high = edges[cell[law]], edges[cell[law] + 1]
    return np.where(beta[law], low + (high - low) * rng.random(len(law)), laws.means[law])
