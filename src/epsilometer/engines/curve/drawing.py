"""Joint draws from a solution: the curve, the leak of the algorithm, the strength of each base."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve.solve import Solution, cell_index

NOTHING = -1
"""Marks draws without any leak."""


class DrawnLeaks(NamedTuple):
    """Draws: component (-1: no leak), strength distribution, leak of the algorithm and of each base."""

    component: IntArray
    distribution: IntArray
    leak: FloatArray
    base_leak: FloatArray


def draw_leaks(solution: Solution, size: int, *, rng: np.random.Generator) -> DrawnLeaks:
    """Draw cells by probability, positions uniformly within them, and bases given the algorithm."""
    component, distribution, row, mass = cell_index(solution)
    bases = solution.grids[0].likelihood.shape[1]
    cumulative = np.cumsum(mass)
    place = rng.random(size) * (cumulative[-1] + solution.no_leak)
    cell = np.minimum(np.searchsorted(cumulative, place, side="right"), len(mass) - 1)
    nothing = place >= cumulative[-1]
    components, distributions, rows = component[cell], distribution[cell], row[cell]
    distributions[nothing] = rng.choice(
        len(solution.distributions.weights),
        size=int(nothing.sum()),
        p=_normal(solution.distributions.weights),
    )
    leak = np.zeros(size)
    base_leak = np.zeros((size, bases))
    shift = np.exp(solution.step * (rng.random(size) - 0.5))
    for number in np.unique(components[~nothing]).tolist():
        grid = solution.grids[solution.grid_of[number]]
        for which in np.unique(distributions[(components == number) & ~nothing]).tolist():
            chosen = np.flatnonzero((components == number) & (distributions == which) & ~nothing)
            leak[chosen] = solution.rows_of(number)[rows[chosen]] * shift[chosen]
            if np.isinf(solution.distributions.concentrations[which]):
                value = float(solution.distributions.means[which])
                base_leak[chosen] = value * leak[chosen, None]
                continue
            weights = solution.strength_rows(grid, which)[rows[chosen]]
            columns = grid.leaks[grid.columns]
            for base in range(bases):
                running = np.cumsum(weights * grid.likelihood[grid.columns, base], axis=1)
                at = rng.random(len(chosen)) * running[:, -1]
                indices = np.minimum((running <= at[:, None]).sum(axis=1), len(columns) - 1)
                within = np.exp(solution.step * (rng.random(len(chosen)) - 0.5))
                # No base leaks more than the algorithm.
                base_leak[chosen, base] = np.minimum(columns[indices] * within, leak[chosen])
    components = np.where(nothing, NOTHING, components)
    return DrawnLeaks(components, distributions, leak, base_leak)


def _normal(weights: FloatArray) -> FloatArray:
    return np.asarray(weights / weights.sum())
