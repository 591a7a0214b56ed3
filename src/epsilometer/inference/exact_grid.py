"""Both parameters free: rows on a grid of (epsilon, t = s epsilon) that share one table of masses.

The same table serves every row, because masses of R(t, d) do not know which epsilon t belongs to; d is
interpolated.  The correlated likelihood, whose tables are two-dimensional quadrature, also comes here
when a parameter is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import edges, masses, panels
from epsilometer.inference.exact_problem import (
    CHUNK_ENTRIES,
    DEEPEST,
    TABLE_ATTACKS,
    FloatArray,
    Masses,
    PanelRows,
    Problem,
    Solution,
    delta_node_count,
    first_breaks,
    marginal,
    mass_table_of,
    moved_nodes,
    nodes_up_to,
    panel_nodes,
    split_panels,
    trimmed,
    unresolved,
)
from epsilometer.inference.rows import Rows, StrengthPanels, strength_panels
from epsilometer.model import region
from epsilometer.model.priors import Beta, Fixed


def tensor_row(problem: Problem, epsilon: float) -> Rows:
    """The likelihood along the strength at one epsilon, from two-dimensional quadrature."""
    model, level = problem.model, problem.level
    assert isinstance(model.strength, Beta)
    fractions = np.array([0.0, 0.02, 0.1, 0.3, 0.6, 0.8, 0.95])
    for _ in range(level.rounds):
        grid = _Grid.make(np.array([epsilon]), epsilon * fractions, model.strength, level.nodes)
        logs, _ = _grid_log_likelihood(problem, grid, epsilon)
        rows = Rows(epsilon=grid.epsilon, quadrature=grid.quadrature, log_likelihood=logs)
        weighted = logs[0] + problem.nuisance.log_weight
        density = np.exp(weighted - weighted.max()).sum(axis=-1)
        breaks = grid.quadrature.breaks[0]
        split = unresolved(breaks, density, level.tolerance)
        if not split.any():
            break
        # The last shared break and the end are joined in the row's own panel.
        fractions = np.append(split_panels(breaks, split)[:-1], fractions[-1])
        fractions = np.unique(fractions)
    return rows


def tensor_fixed_strength(problem: Problem, strength: float, end: float) -> PanelRows:
    """As for fluxes, with masses from two-dimensional quadrature."""
    model, nodes = problem.model, len(problem.nuisance)
    d_count = delta_node_count(problem)
    own_nodes = masses.delta_nodes(model.delta, nodes_up_to(problem, model.delta))
    weights = masses.lagrange(own_nodes, np.array([strength * model.delta]))
    moved = moved_nodes(problem, own_nodes)

    def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Rows]]:
        total = np.zeros((len(epsilon), nodes))
        for chunk in problem.attack_chunks(TABLE_ATTACKS // 10):
            table = mass_table_of(problem, chunk, d_count, end)
            for start in range(0, len(chunk), 20):
                part = slice(start, min(start + 20, len(chunk)))
                positions = np.concatenate([strength * epsilon, epsilon])
                inside, outside = _at_own_nodes(table.at(positions, part), moved)
                count = len(epsilon)
                core = [
                    np.einsum("adtn,dx->atn", values[:, :, :count], weights)
                    for values in (inside, outside)
                ]
                logs = masses.log_ring(
                    core[0], core[1], inside[:, -1, count:], outside[:, -1, count:]
                )
                logs += table.log_unit[part, None]
                total += np.tensordot(problem.multiplicity[chunk[part]], logs, axes=1)
        area = region.log_ring_area(epsilon, model.delta, strength)
        return total - problem.number * area[:, None], []

    return evaluate


MOST_ROWS = 4000
"""Rows from which refining only follows noise; what is left unresolved shows in the error estimate."""

EVEN_ROOM = 6.0
"""How far below the depth to which masses are evenly accurate the posterior may reach: e^3 times the
tolerance is still a small ripple."""

MOST_OWN_ROUNDS = 20
"""Rounds in which rows may ask for breaks of their own; what is left shows in the error estimate."""


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """Rows at the nodes of epsilon panels, with panels of t = s epsilon that they share.

    A row uses the shared panels of t that end well below its epsilon, ``full`` of them, and then one
    of its own up to t = epsilon, where the ring vanishes.
    """

    epsilon: FloatArray
    shared_t: FloatArray
    full: NDArray[np.intp]
    quadrature: StrengthPanels

    @classmethod
    def make(cls, epsilon: FloatArray, t_breaks: FloatArray, prior: Beta, count: int) -> _Grid:
        full = np.maximum(np.searchsorted(t_breaks, epsilon, side="right") - 2, 0)
        quadrature = strength_panels(
            [np.append(t_breaks[: f + 1], e) / e for f, e in zip(full, epsilon, strict=True)],
            prior,
            count,
        )
        # The shared nodes, as the row with the most panels has them; Jacobi at 0 if need be.
        widest = int(np.argmax(full))
        shared = quadrature.nodes[widest, : full[widest]].ravel() * epsilon[widest]
        return cls(epsilon=epsilon, shared_t=shared, full=full, quadrature=quadrature)

    @property
    def own_t(self) -> FloatArray:
        """Positions on each row's own panel, shape (row, node)."""
        rows = np.arange(len(self.epsilon))
        return np.asarray(self.quadrature.nodes[rows, self.full] * self.epsilon[:, None])


def solve_on_grid(problem: Problem, hint: Solution | None) -> tuple[Solution, Problem]:
    """Both parameters free: refine panels of epsilon and of t until the posterior is resolved.

    The problem comes back with the tables that were made, which may reach deeper than at first.
    """
    model, level = problem.model, problem.level
    assert not isinstance(model.epsilon, Fixed)
    assert isinstance(model.strength, Beta)
    if hint is None:
        breaks, t_breaks = first_breaks(problem)
    else:
        breaks, t_breaks = hint.breaks, hint.t_breaks
    end = max(float(breaks[-1]), float(t_breaks[-1]))
    for number in range(level.rounds):
        epsilon = panel_nodes(breaks, level.nodes).ravel()
        grid = _Grid.make(epsilon, t_breaks, model.strength, level.nodes)
        log_likelihood, log_deficit = _grid_log_likelihood(problem, grid, end)
        rows = Rows(epsilon=grid.epsilon, quadrature=grid.quadrature, log_likelihood=log_likelihood)
        log_rows = (
            rows.log_integral()
            + model.epsilon.log_density(grid.epsilon)[:, None]
            + problem.nuisance.log_weight
        ).reshape(-1, level.nodes, len(problem.nuisance))
        density = marginal(log_rows)
        split = unresolved(breaks, density, level.tolerance)
        t_density = _t_density(problem, grid, rows, breaks, log_rows)
        t_split = _unresolved_in_t(problem, breaks, t_breaks, density, t_density)
        own_share, own_breaks = _own_panels(problem, grid, rows, breaks, log_rows)
        if number >= MOST_OWN_ROUNDS:
            own_breaks = np.zeros(0)
        needed = 0.0 if problem.correlated else _depth_needed(problem, rows, log_deficit)
        known = needed < problem.level.table.depth and needed < problem.level.table.even + EVEN_ROOM
        if number == level.rounds - 1 or len(epsilon) > MOST_ROWS:
            # What was computed belongs to these panels; others would need another round.
            break
        settled = not (split.any() or t_split.any() or own_breaks.size)
        if settled and known:
            break
        if not known and (settled or problem.level.table.depth < DEEPEST):
            # Attacks in conflict, or a prior that reaches far: the posterior lives where some masses
            # are far out in a tail.  Panels refined before these are known would follow noise.
            problem = problem.deepened(2 * needed if settled else min(2 * needed, DEEPEST))
            continue
        # A peak where masses are not known may be none: nothing is given up for it.
        kept = trimmed(density, level.negligible) if known else slice(0, len(density))
        breaks = split_panels(breaks[kept.start : kept.stop + 1], split[kept])
        if known and t_density.size and t_density.max() > 0 and own_share < level.negligible:
            # Rows join the last panel before their epsilon to their own, so two are kept to spare.
            stop = trimmed(t_density, level.negligible).stop + 2
            t_breaks, t_split = t_breaks[: stop + 1], t_split[:stop]
        t_breaks = np.unique(np.append(split_panels(t_breaks, t_split), own_breaks))
    solution = Solution(
        breaks=breaks,
        t_breaks=t_breaks,
        log_rows=log_rows,
        rows=rows,
        nuisance=problem.nuisance,
        method="grid",
    )
    return solution, problem


def _depth_needed(problem: Problem, rows: Rows, log_deficit: FloatArray) -> float:
    """How far below its whole mass the ring of some attack is, where the posterior has weight."""
    assert not isinstance(problem.model.epsilon, Fixed)
    logs = rows.log_likelihood + rows.quadrature.log_weights[..., None]
    logs = logs + problem.nuisance.log_weight
    logs = logs + problem.model.epsilon.log_density(rows.epsilon)[:, None, None, None]
    return float(log_deficit[logs > logs.max() - 9].max()) + 1.0


def _t_density(
    problem: Problem, grid: _Grid, rows: Rows, breaks: FloatArray, log_rows: FloatArray
) -> FloatArray:
    """The density of t = s epsilon at the shared nodes, summed over the rows that use them."""
    model, count = problem.model, problem.level.nodes
    assert not isinstance(model.epsilon, Fixed)
    assert isinstance(model.strength, Beta)
    _, weights = panels.gauss_legendre(count)
    most = int(grid.full.max())
    row_weight = (0.5 * np.diff(breaks)[:, None] * weights).ravel() / grid.epsilon
    offset = model.epsilon.log_density(grid.epsilon) - log_rows.max()
    s = np.clip(grid.quadrature.nodes[:, :most], 0.0, 1.0)
    logs = rows.log_likelihood[:, :most] + problem.nuisance.log_weight
    uses = (np.arange(most) < grid.full[:, None])[:, :, None]
    logs = np.where(uses[..., None], logs + offset[:, None, None, None], -np.inf)
    prior = np.exp(np.where(uses, model.strength.log_density(s), 0.0))
    return np.asarray((np.exp(logs).sum(axis=-1) * prior * row_weight[:, None, None]).sum(axis=0))


def _own_panels(
    problem: Problem, grid: _Grid, rows: Rows, breaks: FloatArray, log_rows: FloatArray
) -> tuple[float, FloatArray]:
    """The share of the mass on the rows' own panels, and breaks of t to add where unresolved."""
    model, count = problem.model, problem.level.nodes
    assert not isinstance(model.epsilon, Fixed)
    _, weights = panels.gauss_legendre(count)
    row_weight = (0.5 * np.diff(breaks)[:, None] * weights).ravel()
    top = log_rows.max()
    mass = float(np.sum(row_weight * np.exp(log_rows - top).sum(axis=-1).ravel()))
    index = np.arange(len(grid.epsilon))
    offset = model.epsilon.log_density(grid.epsilon) - top
    logs = rows.log_likelihood[index, grid.full] + problem.nuisance.log_weight
    likelihood = np.exp(logs + offset[:, None, None]).sum(axis=-1) * row_weight[:, None] / mass
    prior = np.exp(grid.quadrature.log_weights[index, grid.full])
    share = float((likelihood * prior).sum())
    # The prior is in the rule, Jacobi's if need be; the likelihood alone must be a polynomial.
    begin = grid.quadrature.breaks[index, grid.full][:, None]
    local = 2 * (grid.quadrature.nodes[index, grid.full] - begin) / (1 - begin) - 1
    basis = np.polynomial.legendre.legvander(local, count - 1)
    coefficients = np.linalg.solve(basis, likelihood[..., None])[..., 0]
    left = panels.tail(coefficients) * prior.sum(axis=1)
    start = begin[:, 0] * grid.epsilon
    wide = grid.epsilon - start > 1e-9 * grid.epsilon
    bad = (left > problem.level.tolerance / len(index)) & wide
    if left.sum() <= problem.level.tolerance or not bad.any():
        return share, np.zeros(0)
    worst = int(np.argmax(np.where(bad, left, 0.0)))
    gap = grid.epsilon[worst] - start[worst]
    return share, np.array([start[worst] + 0.4 * gap, start[worst] + 0.7 * gap])


def _unresolved_in_t(
    problem: Problem,
    breaks: FloatArray,
    t_breaks: FloatArray,
    density: FloatArray,
    t_density: FloatArray,
) -> NDArray[np.bool_]:
    """Panels of t on which the density of t is not yet resolved."""
    count = problem.level.nodes
    _, weights = panels.gauss_legendre(count)
    mass = float(np.sum(0.5 * np.diff(breaks)[:, None] * weights * density))
    half = 0.5 * np.diff(t_breaks)
    split = np.zeros(len(half), dtype=bool)
    used = len(t_density)
    left = panels.tail(t_density @ panels.analysis_matrix(count).T) * half[:used]
    split[:used] = (left > problem.level.tolerance * mass) & (half[:used] > 1e-10 * t_breaks[-1])
    return split


def _grid_log_likelihood(
    problem: Problem, grid: _Grid, end: float
) -> tuple[FloatArray, FloatArray]:
    """Log likelihood and deficit, each at (row, panel, node, nuisance node).

    The deficit is the largest of the attacks' log(whole mass / ring mass).
    """
    model, nodes = problem.model, len(problem.nuisance)
    d_count = delta_node_count(problem)
    rows, count = len(grid.epsilon), problem.level.nodes
    shared = len(grid.shared_t)
    positions = np.concatenate([grid.shared_t, grid.epsilon, grid.own_t.ravel()])
    wide = shared + count
    # Shared panels first, then the own one; put in order at the end.
    shape = (rows, wide, nodes)
    total, deficit = np.zeros(shape), np.zeros(shape)
    shared_s = np.minimum(grid.shared_t / grid.epsilon[:, None], 1.0)
    own_s = grid.own_t / grid.epsilon[:, None]
    d = model.delta * np.concatenate([shared_s, own_s], axis=1)
    own_nodes = masses.delta_nodes(model.delta, nodes_up_to(problem, model.delta))
    weights = masses.lagrange(own_nodes, d)
    moved = moved_nodes(problem, own_nodes)
    s = np.concatenate([shared_s, own_s], axis=1)
    area = region.log_ring_area(grid.epsilon[:, None], model.delta, s)[..., None]
    # Shared positions beyond a row's epsilon have no ring; the row does not use them.
    area = np.where(np.isfinite(area), area, 0.0)
    largest = problem.log_largest()
    size = max(1, CHUNK_ENTRIES // (nodes * max(d_count * len(positions), rows * wide)))
    for chunk in problem.attack_chunks(TABLE_ATTACKS if nodes == 1 else TABLE_ATTACKS // 10):
        table = mass_table_of(problem, chunk, d_count, end)
        parts = [
            slice(start, min(start + size, len(chunk))) for start in range(0, len(chunk), size)
        ]

        def ring(
            part: slice, table: Masses = table, most: FloatArray = largest[chunk]
        ) -> tuple[FloatArray, FloatArray | None]:
            sizes = (rows, shared, count, nodes)
            logs, gap = _ring_masses(table, part, positions, (weights, moved), sizes)
            if gap is not None:
                np.minimum(logs, most[part, None, None, None] + area, out=logs)
            return logs, gap

        # Added up in the order of the parts, so that threads do not change a single bit.
        many = len(parts) > 3 and size * rows * wide * nodes > 50_000
        results = edges.thread_pool().map(ring, parts) if many else map(ring, parts)
        for part, (logs, gap) in zip(parts, results, strict=True):
            if gap is not None:
                deficit = np.maximum(deficit, gap)
            for multiplicity, one in zip(problem.multiplicity[chunk[part]], logs, strict=True):
                total += one if multiplicity == 1 else multiplicity * one
    total -= problem.number * area
    return _arranged(grid, total, count), _arranged(grid, deficit, count)


def _ring_masses(
    table: Masses,
    part: slice,
    positions: FloatArray,
    d_weights: tuple[FloatArray, FloatArray | None],
    sizes: tuple[int, int, int, int],
) -> tuple[FloatArray, FloatArray | None]:
    """Log ring masses (attack, row, position, nuisance) of some attacks, and the worst deficit.

    ``d_weights`` interpolate from the nodes of d to the rings' inner edges, and before that, where the
    table is for a larger delta, from its nodes to those of this one.  The last node is the outer edge.
    The deficit only matters to tables whose depth can be raised, so fluxes alone report it.
    """
    rows, shared, count, nodes = sizes
    weights, moved = d_weights
    inside, outside = _at_own_nodes(table.at(positions, part), moved)
    whole = slice(shared, shared + rows)
    core = []
    for values in (inside, outside):
        own = values[:, :, shared + rows :].reshape(*values.shape[:2], rows, count, nodes)
        core.append(
            np.concatenate(
                [
                    _interpolated(values[:, :, None, :shared], weights[:, :, :shared]),
                    _interpolated(own, weights[:, :, shared:]),
                ],
                axis=2,
            )
        )
    logs = masses.log_ring(
        core[0], core[1], inside[:, -1, whole, None], outside[:, -1, whole, None]
    )
    deficit: FloatArray | None = None
    if isinstance(table, masses.InterpolatedMasses):
        whole_mass = np.log(inside[:, -1, :1] + outside[:, -1, :1])[:, :, None]
        deficit = (whole_mass - logs).max(axis=0)
    logs += table.log_unit[part, None, None]
    return logs, deficit


def _at_own_nodes(
    found: tuple[FloatArray, FloatArray], moved: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Masses in and out at the nodes of the model's own delta."""
    if moved is None:
        return found
    inside, outside = (np.einsum("adtn,de->aetn", values, moved) for values in found)
    return inside, outside


def _arranged(grid: _Grid, values: FloatArray, count: int) -> FloatArray:
    """(row, shared positions then own) -> (row, panel, node), 0 where a row has no panel."""
    shared = len(grid.shared_t)
    rows, most = len(values), shared // count
    result = np.zeros((*grid.quadrature.nodes.shape, values.shape[-1]))
    result[:, :most] = values[:, :shared].reshape(rows, most, count, values.shape[-1])
    result[np.arange(rows), grid.full] = values[:, shared:]
    result[np.arange(result.shape[1]) > grid.full[:, None]] = 0.0
    return result


def _interpolated(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum over the delta nodes: (attack, d, row or 1, position, nuisance) with (d, row, position)."""
    total = values[:, 0] * weights[0][..., None]
    for k in range(1, len(weights)):
        total += values[:, k] * weights[k][..., None]
    return np.asarray(total)
