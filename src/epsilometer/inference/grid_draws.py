"""Joint draws from a posterior by quadrature.

The quadrature nodes carry the joint posterior; drawing them as they are would repeat the same few
values, so every coordinate is inverted continuously between the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilometer import _validate
from epsilometer.inference.grid_posterior import FINE, interpolation_matrix, log_prior_tau
from epsilometer.inference.nuisance import NuisanceGrid
from epsilometer.inference.panels import PanelDensity
from epsilometer.inference.spread_grid import SpreadGrid
from epsilometer.model.likelihoods import CorrelatedNormal

if TYPE_CHECKING:
    from epsilometer.inference.grid_posterior import GridPosterior

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

POINTS_A_PANEL = 128
"""Between this many points a panel the distribution function of epsilon is taken as linear."""

POOLED_POINTS = 4000
"""Strengths at which the rows' distribution functions are added up."""

LEAST_LOG = -700.0
"""A node of relative likelihood below e^-700 is as good as impossible, but keeps a logarithm."""

CELLS_AT_ONCE = 2048
"""Cells whose (tau, r) densities are held in memory at the same time."""


def draw(posterior: GridPosterior, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Draw all estimated parameters jointly, ``size`` times, independently.

    epsilon comes from its marginal; the strength from the conditional at one of the two
    neighbouring rows of the grid, the nearer the likelier; (tau, r) from the likelihood in the cell
    so found.  Fixed parameters are left out.
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
    if "within_correlation" in posterior.parameters:
        drawn |= _correlations(posterior, cell, rng)
    if "spread" in posterior.parameters:
        drawn["spread"] = _spread(posterior, cell, rng)
    return drawn


def table(density: PanelDensity) -> tuple[FloatArray, FloatArray]:
    """Points so dense that the distribution function is all but linear between, and its values."""
    steps = np.linspace(0.0, 1.0, POINTS_A_PANEL, endpoint=False)
    points = (density.breaks[:-1, None] + np.diff(density.breaks)[:, None] * steps).ravel()
    points = np.append(points, density.breaks[-1])
    return points, np.maximum.accumulate(density.cdf(points))


def invert(density: PanelDensity, uniform: FloatArray) -> FloatArray:
    """Quantiles of many probabilities at once, from a fine table of the distribution function."""
    points, cumulative = table(density)
    # Of points with no mass between them only those next to a rise may be interpolated from.
    rises = np.diff(cumulative) > 0
    useful = np.append(rises, False) | np.append(False, rises)
    return np.asarray(np.interp(uniform, cumulative[useful], points[useful]))


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

    The cumulative mass at a Gauss node is what lies before it and half its own, which is nearly so;
    :func:`_corrected` makes up for it.
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
    """For each row drawn, a strength from its conditional and the cell that it falls in."""
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
    """Move the strengths, in order, so that their marginal is the posterior's own.

    Linear interpolation distorts every row a little, and every row alike; the exact marginal is
    known, so the common part of the distortion is undone.
    """
    if "epsilon" in posterior.parameters:
        epsilon = posterior.cells.epsilon[np.unique(posterior.cells.row)]
        points, cumulative = table(posterior.marginals["epsilon"])
        mass, middle = np.diff(cumulative), 0.5 * (points[1:] + points[:-1])
        hats = np.arange(len(epsilon))
        share = np.interp(middle, epsilon, hats)
        left = np.minimum(share.astype(np.int64), max(len(epsilon) - 2, 0))
        near, far = mass * (1 - (share - left)), mass * (share - left)
        weight = np.bincount(left, near, minlength=len(epsilon)).astype(np.float64)
        if len(epsilon) > 1:
            weight = weight + np.bincount(left + 1, far, minlength=len(epsilon))
    else:
        weight = np.ones(1)
    pooled = np.unique(np.concatenate([row.points for row in rows]))
    every = max(1, len(pooled) // POOLED_POINTS)
    pooled = np.append(pooled[:-1:every], pooled[-1])
    total: FloatArray = np.zeros(len(pooled))
    for w, row in zip(weight / weight.sum(), rows, strict=True):
        total += w * np.interp(pooled, row.points, row.cumulative)
    return invert(posterior.marginals["strength"], np.interp(strength, pooled, total))


def _spread(posterior: GridPosterior, cell: IntArray, rng: np.random.Generator) -> FloatArray:
    """Draw the spread in each given cell: a node, smeared over its share of the known marginal."""
    grid = posterior.nuisance
    assert isinstance(grid, SpreadGrid)
    logs = np.maximum(posterior.cells.log_nuisance, LEAST_LOG) + grid.log_weight
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    uniform = rng.random(len(cell))
    node = (cumulative[cell] < uniform[:, None]).sum(axis=1)
    share = posterior.cells.mass @ (weights / weights.sum(axis=1, keepdims=True))
    before = np.concatenate([[0.0], np.cumsum(share)])
    level = (before[node] + rng.random(len(cell)) * share[node]) / before[-1]
    return invert(posterior.marginals["spread"], level)


def _linear_matrix(nodes: FloatArray, points: FloatArray) -> FloatArray:
    """Matrix (points, nodes) of linear interpolation, constant beyond the outer nodes."""
    unit = np.eye(len(nodes))
    return np.stack([np.interp(points, nodes, column) for column in unit], axis=1)


def _correlations(
    posterior: GridPosterior, cell: IntArray, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Draw tau and rho in each given cell, on a fine mesh.

    One cell's log likelihood can fall too steeply from node to node for a polynomial, but that of
    all cells together does not, and how a cell differs from them is nearly linear.  So the density
    on the mesh is the joint one of all cells, interpolated by a polynomial, times the cell's share,
    interpolated linearly.
    """
    likelihood, grid = posterior.model.likelihood, posterior.nuisance
    assert isinstance(likelihood, CorrelatedNormal)
    assert isinstance(grid, NuisanceGrid)
    assert grid.box is not None
    box, shape = grid.box, (len(grid.tau), len(grid.r))
    steps = (np.arange(FINE, dtype=np.float64) + 0.5) / FINE
    tau = np.asarray(box.tau_low + (box.tau_high - box.tau_low) * steps)
    r = np.asarray(box.r_low + (box.r_high - box.r_low) * steps)
    logs = np.maximum(posterior.cells.log_nuisance, LEAST_LOG) + grid.log_weight
    cell_log = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
    joint_log = np.log(np.maximum(posterior.cells.mass @ np.exp(cell_log), 1e-300))
    smooth = (
        interpolation_matrix(grid.tau, tau)
        @ (joint_log - grid.log_weight).reshape(shape)
        @ interpolation_matrix(grid.r, r).T
    ) + log_prior_tau(likelihood, tau)[:, None]
    to_tau, to_r = _linear_matrix(grid.tau, tau), _linear_matrix(grid.r, r)

    def mesh_density(numbers: IntArray) -> FloatArray:
        share = (cell_log[numbers] - joint_log).reshape(-1, *shape)
        flat = (to_tau @ share @ to_r.T + smooth).reshape(len(share), -1)
        density = np.exp(flat - flat.max(axis=1, keepdims=True))
        return np.asarray(density / density.sum(axis=1, keepdims=True))

    uniform = rng.random(len(cell))
    picked = np.empty(len(cell), dtype=np.int64)
    order = np.argsort(cell, kind="stable")
    distinct, starts = np.unique(cell[order], return_index=True)
    ends = np.append(starts[1:], len(cell))
    for block in range(0, len(distinct), CELLS_AT_ONCE):
        part = slice(block, block + CELLS_AT_ONCE)
        cumulative = np.cumsum(mesh_density(distinct[part]), axis=1)
        for row, start, end in zip(cumulative, starts[part], ends[part], strict=True):
            mine = order[start:end]
            picked[mine] = np.searchsorted(row, uniform[mine] * row[-1], side="right")
    picked = np.minimum(picked, FINE * FINE - 1)
    # As for the strength: undo what interpolation did to the marginals, which are known.
    shares = (np.arange(CELLS_AT_ONCE) + 0.5) / CELLS_AT_ONCE
    cumulative_mass = np.cumsum(posterior.cells.mass)
    spread = np.searchsorted(cumulative_mass, shares * cumulative_mass[-1])
    mixture = mesh_density(spread).mean(axis=0).reshape(FINE, FINE)
    jitter = rng.random((2, len(cell)))
    drawn = []
    for name, axis, index, offset in (
        ("within_correlation", 1, picked // FINE, jitter[0]),
        ("_r", 0, picked % FINE, jitter[1]),
    ):
        masses = mixture.sum(axis=axis)
        before = np.concatenate([[0.0], np.cumsum(masses)])
        level = (before[index] + offset * masses[index]) / before[-1]
        drawn.append(invert(posterior.marginals[name], level))
    bound = likelihood.cross_correlation_bound(posterior.counts, drawn[0])
    return {"within_correlation": drawn[0], "cross_correlation": drawn[1] * bound}
