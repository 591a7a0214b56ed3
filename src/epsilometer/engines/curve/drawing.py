"""Joint draws from a solution: the curve, the leak of the algorithm, the strength of each base."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve.solve import Solution, cell_index

NOTHING = -1
"""Marks draws without any leak."""


class DrawnLeaks(NamedTuple):
    """Draws: component (-1 for no leak), law of strengths, leak of the algorithm and of each base."""

    component: IntArray
    law: IntArray
    leak: FloatArray
    base_leak: FloatArray


def draw_leaks(solution: Solution, size: int, *, rng: np.random.Generator) -> DrawnLeaks:
    """Draw cells by probability, positions uniformly within them, and bases given the algorithm."""
    component, law, row, mass = cell_index(solution)
    bases = solution.strands[0].likelihood.shape[1]
    cumulative = np.cumsum(mass)
    place = rng.random(size) * (cumulative[-1] + solution.no_leak)
    cell = np.minimum(np.searchsorted(cumulative, place, side="right"), len(mass) - 1)
    nothing = place >= cumulative[-1]
    own, laws, rows = component[cell], law[cell], row[cell]
    laws[nothing] = rng.choice(
        len(solution.laws.weights), size=int(nothing.sum()), p=_normal(solution.laws.weights)
    )
    leak = np.zeros(size)
    base_leak = np.zeros((size, bases))
    shift = np.exp(solution.step * (rng.random(size) - 0.5))
    for number in np.unique(own[~nothing]).tolist():
        strand = solution.strands[solution.strand_of[number]]
        for which in np.unique(laws[(own == number) & ~nothing]).tolist():
            chosen = np.flatnonzero((own == number) & (laws == which) & ~nothing)
            leak[chosen] = solution.rows_of(number)[rows[chosen]] * shift[chosen]
            if np.isinf(solution.laws.concentrations[which]):
                value = float(solution.laws.means[which])
                base_leak[chosen] = value * leak[chosen, None]
                continue
            weights = solution.strength_rows(strand, which)[rows[chosen]]
            columns = strand.leaks[strand.columns]
            for base in range(bases):
                running = np.cumsum(weights * strand.likelihood[strand.columns, base], axis=1)
                at = rng.random(len(chosen)) * running[:, -1]
                found = np.minimum((running <= at[:, None]).sum(axis=1), len(columns) - 1)
                within = np.exp(solution.step * (rng.random(len(chosen)) - 0.5))
                # No base leaks more than the algorithm.
                base_leak[chosen, base] = np.minimum(columns[found] * within, leak[chosen])
    own = np.where(nothing, NOTHING, own)
    return DrawnLeaks(own, laws, leak, base_leak)


def _normal(weights: FloatArray) -> FloatArray:
    return np.asarray(weights / weights.sum())
