"""Joint draws from a posterior by quadrature.

The quadrature nodes represent the joint posterior; drawing the nodes themselves would repeat a few
values, so every coordinate is inverted continuously between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.posteriors.panels import invert, table

if TYPE_CHECKING:
    from epsilometer.engines.exact.posterior import GridPosterior

POOLED_POINTS = 4000  # strengths at which the rows' distribution functions are summed


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Nodes of (epsilon, strength) that represent the posterior, for drawing and for reweighting.

    ``row`` numbers the epsilons; within a row strengths increase.  ``log_nuisance`` is the log
    likelihood at the nuisance nodes, up to a constant per cell, empty without nuisance parameters.
    """

    epsilon: FloatArray
    row: IntArray
    strength: FloatArray
    mass: FloatArray
    log_nuisance: FloatArray


def draw(posterior: GridPosterior, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Draw all estimated parameters jointly, ``size`` times, independently.

    Epsilon is drawn from its marginal; the strength from the conditional at one of the two neighbouring
    rows of the grid, the nearer with higher probability; (tau, r) from the likelihood in the resulting
    cell.  Fixed parameters are left out.
    """
    size = _validate.whole_number("size", size, least=0)
    cells = posterior.cells
    drawn: dict[str, FloatArray] = {}
    rows, row_of_cell = np.unique(cells.row, return_inverse=True)
    if "epsilon" in posterior.parameters:
        drawn["epsilon"] = invert(posterior.marginals["epsilon"], rng.random(size))
        row = _neighbour(cells.epsilon[rows], drawn["epsilon"], rng.random(size))
    else:
        row = np.zeros(size, dtype=np.int64)
    first = np.searchsorted(row_of_cell, np.arange(len(rows) + 1)).astype(np.int64)
    conditionals = [
        _Conditional.of_row(cells.strength[start:end], cells.mass[start:end])
        for start, end in pairwise(first)
    ]
    strength, cell = _strength(conditionals, first, row, rng.random(size))
    if "strength" in posterior.parameters:
        drawn["strength"] = _corrected(posterior, conditionals, strength)
    return drawn | posterior.nuisance.draw(posterior, cell, rng)


def _neighbour(nodes: FloatArray, value: FloatArray, uniform: FloatArray) -> IntArray:
    """The index of one of the two nodes around each value, with linear probability."""
    if len(nodes) == 1:
        return np.zeros(len(value), dtype=np.int64)
    left = np.clip(np.searchsorted(nodes, value) - 1, 0, len(nodes) - 2)
    share = (value - nodes[left]) / (nodes[left + 1] - nodes[left])
    return np.asarray(left + (uniform < share), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class _Conditional:
    """The distribution of the strength in one row: its cumulative mass, linear between points.

    The cumulative mass at a Gauss node is approximated by the mass before it plus half its own;
    :func:`_corrected` corrects the error.
    """

    points: FloatArray
    cumulative: FloatArray
    after: FloatArray

    @classmethod
    def of_row(cls, nodes: FloatArray, mass: FloatArray) -> _Conditional:
        mass = mass / mass.sum()
        after = np.cumsum(mass)
        if len(nodes) == 1:
            return cls(points=nodes, cumulative=np.ones(1), after=after)
        low = max(0.0, nodes[0] - 0.5 * (nodes[1] - nodes[0]))
        high = min(1.0, nodes[-1] + 0.5 * (nodes[-1] - nodes[-2]))
        return cls(
            points=np.concatenate([[low], nodes, [high]]),
            cumulative=np.concatenate([[0.0], after - 0.5 * mass, [1.0]]),
            after=after,
        )


def _strength(
    rows: Sequence[_Conditional], first: IntArray, row: IntArray, uniform: FloatArray
) -> tuple[FloatArray, IntArray]:
    """For each row drawn, a strength from its conditional and the cell that contains it."""
    strength = np.empty(len(row))
    cell = np.empty(len(row), dtype=np.int64)
    order = np.argsort(row, kind="stable")
    bounds = np.searchsorted(row[order], np.arange(len(rows) + 1))
    for index in np.unique(row):
        mine = order[bounds[index] : bounds[index + 1]]
        conditional = rows[index]
        strength[mine] = np.interp(uniform[mine], conditional.cumulative, conditional.points)
        inside = np.searchsorted(conditional.after, uniform[mine])
        cell[mine] = first[index] + np.minimum(inside, len(conditional.after) - 1)
    return strength, cell


def _corrected(
    posterior: GridPosterior, rows: Sequence[_Conditional], strength: FloatArray
) -> FloatArray:
    """Shift the strengths, preserving their order, so that their marginal is the posterior's.

    Linear interpolation distorts every row slightly and in the same way; the exact marginal is known,
    so the common part of the distortion can be removed.
    """
    if "epsilon" in posterior.parameters:
        epsilon = posterior.cells.epsilon[np.unique(posterior.cells.row)]
        points, cumulative = table(posterior.marginals["epsilon"])
        mass, middle = np.diff(cumulative), 0.5 * (points[1:] + points[:-1])
        count = len(epsilon)
        share = np.interp(middle, epsilon, np.arange(count))
        left = np.minimum(share.astype(np.int64), max(count - 2, 0))
        near, far = mass * (1 - (share - left)), mass * (share - left)
        sums = np.bincount(left, near, count + 1) + np.bincount(left + 1, far, count + 1)
        weight = np.asarray(sums[:count], dtype=np.float64)
    else:
        weight = np.ones(1)
    pooled = np.unique(np.concatenate([row.points for row in rows]))
    every = max(1, len(pooled) // POOLED_POINTS)
    pooled = np.append(pooled[:-1:every], pooled[-1])
    total: FloatArray = np.zeros(len(pooled))
    for w, row in zip(weight / weight.sum(), rows, strict=True):
        total += w * np.interp(pooled, row.points, row.cumulative)
    return invert(posterior.marginals["strength"], np.interp(strength, pooled, total))
