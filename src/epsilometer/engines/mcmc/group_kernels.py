"""Compiled moves of the sampler for groups of dependent attacks (appendix C of the paper).

The state is (epsilon, strength, tau, rho, spread), the average (a, b) of each group and the rates
(alpha, beta) of each member; a group of one has only a member, which is its average.  A sweep moves
every member, every average and each parameter in turn by a random walk.  Any change of the region, the
spread or an average also changes the share Z(a, b) of the scatter inside R(epsilon, delta), which is
then recomputed (`group_shares.py`).

Arguments are not checked here, and settings are unknown; see `group_chain.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.mcmc.densities import (
    EPSILON,
    RHO,
    SPREAD,
    STRENGTH,
    TAU,
    CompiledModel,
    Ring,
    Rng,
    Row,
    all_in_ring,
    compiled,
    edges_possible,
    fold,
    in_ring,
    inlined,
    log_correlation_prior,
    log_edge_prior,
    log_prior_at,
    log_ring_area,
    log_row,
    region_of,
    ring_of,
    spliced,
    unfold,
)
from epsilometer.engines.mcmc.group_shares import least_beta, log_kept, log_scatter
from epsilometer.model.dependence import LARGEST_SPREAD

# Steps that are tuned: of the five parameters, of epsilon with its latents, of members, of averages,
# of the spread with the members' deviations.
SLIDE, MEMBER, AVERAGE, SCALE = 5, 6, 7, 8
NUM_STEPS = 9

COLUMNS: dict[str, type] = {"group": np.int64, "width_x": float, "width_y": float}
"""Columns of rows: the number of their group, and deviations of the rates given the counts alone."""

NUM_STRENGTHS = 3
"""Moves of the strength per sweep: they are cheap, and it mixes worst."""

JUMPS = 0.2
"""Share of these moves that draw a new strength, to jump between modes."""


class State(NamedTuple):
    """The state of a chain; moves change it in place."""

    parameters: FloatArray
    averages: FloatArray
    members: FloatArray
    kept: FloatArray
    """Log Z of each group."""


class Walk(NamedTuple):
    """Lengths of the steps, and how many of each kind were tried and accepted."""

    steps: FloatArray
    accepted: FloatArray
    tried: FloatArray


# --- building blocks of the moves -------------------------------------------------------------------


@compiled
def kept_of(
    problem: CompiledModel, averages: FloatArray, epsilon: float, spread: float
) -> FloatArray:
    """Log Z of each group; 0 for groups of one, which do not scatter."""
    kept = np.zeros(len(averages))
    for g in range(len(averages)):
        if problem.sizes[g] > 1:
            a, b = averages[g, 0], averages[g, 1]
            kept[g] = log_kept(problem.scatter, a, b, epsilon, problem.delta, spread)
    return kept


@spliced
def _log_member(problem: CompiledModel, state: State, row: Row, alpha: float, beta: float) -> float:
    """Log density of a member's rates around its average, before truncation."""
    a, b = state.averages[row.group, 0], state.averages[row.group, 1]
    return log_scatter(problem.scatter, alpha - a, beta - b, state.parameters[SPREAD])


@inlined
def _log_spread_prior(problem: CompiledModel, spread: float) -> float:
    return log_prior_at(problem.spread_prior, spread) if spread < LARGEST_SPREAD else -math.inf


@inlined
def _accepts(rng: Rng, walk: Walk, kind: int, change: float) -> bool:
    if math.log(rng.random()) < change:
        walk.accepted[kind] += 1
        return True
    return False


@spliced
def _accepts_kept(
    rng: Rng,
    problem: CompiledModel,
    state: State,
    walk: Walk,
    kind: int,
    change: float,
    kept: FloatArray,
) -> bool:
    """Accept or reject a move that also changes Z of all groups."""
    for g in range(len(kept)):
        change -= problem.sizes[g] * (kept[g] - state.kept[g])
    if _accepts(rng, walk, kind, change):
        state.kept[:] = kept
        return True
    return False


@compiled
def _move_with_region(
    alpha: float, beta: float, old: float, new: float, delta: float
) -> tuple[float, float, float]:
    """Move a point with the region from R(old, delta) to R(new, delta).

    Each quarter of the square, cut by its diagonals, is mapped to itself linearly along beta (or
    alpha): the gap from the edge to the diagonal alpha + beta = 1 is stretched.  Returns the point
    and the log of the map's Jacobian, NaN if there is none.
    """
    low, high, reflected, swapped = fold(alpha, beta)
    room_old = 1 - high - least_beta(high, old, delta)
    room_new = 1 - high - least_beta(high, new, delta)
    ratio = room_new / room_old if room_old > 0 else 1.0
    low = 1 - high - ratio * (1 - high - low)
    if not low <= high or ratio <= 0:
        return math.nan, math.nan, 0.0
    alpha, beta = unfold(low, high, reflected, swapped)
    return alpha, beta, math.log(ratio)


# --- the moves, each in place ---------------------------------------------------------------------


@spliced
def _move_members(rng: Rng, problem: CompiledModel, state: State, walk: Walk) -> None:
    """Move each member given its average; a group of one with its average, on the ring."""
    parameters, averages, members, _ = state
    spread = parameters[SPREAD]
    ring = ring_of(parameters[EPSILON], problem.delta, parameters[STRENGTH])
    region = region_of(parameters[EPSILON], problem.delta)
    for j in range(len(members)):
        row = problem.rows[j]
        g, width_x, width_y = row.group, row.width_x, row.width_y
        alone = problem.sizes[g] == 1
        if not alone:
            width_x = 1 / math.sqrt(1 / (width_x * width_x) + 1 / (spread * spread))
            width_y = 1 / math.sqrt(1 / (width_y * width_y) + 1 / (spread * spread))
        alpha = members[j, 0] + walk.steps[MEMBER] * width_x * rng.standard_normal()
        beta = members[j, 1] + walk.steps[MEMBER] * width_y * rng.standard_normal()
        walk.tried[MEMBER] += 1
        if not in_ring(ring if alone else region, alpha, beta):
            continue
        change = log_row(problem, parameters, row, alpha, beta)
        change -= log_row(problem, parameters, row, members[j, 0], members[j, 1])
        if not alone:
            change += _log_member(problem, state, row, alpha, beta)
            change -= _log_member(problem, state, row, members[j, 0], members[j, 1])
        if _accepts(rng, walk, MEMBER, change):
            members[j, 0], members[j, 1] = alpha, beta
            if alone:
                averages[g, 0], averages[g, 1] = alpha, beta


@spliced
def _move_averages(rng: Rng, problem: CompiledModel, state: State, walk: Walk) -> None:
    """Move each average given its members."""
    parameters, averages, members, kept = state
    epsilon, spread, sizes = parameters[EPSILON], parameters[SPREAD], problem.sizes
    ring = ring_of(epsilon, problem.delta, parameters[STRENGTH])
    for g in range(len(averages)):
        if sizes[g] == 1:
            continue
        step = walk.steps[AVERAGE] * spread / math.sqrt(sizes[g])
        a = averages[g, 0] + step * rng.standard_normal()
        b = averages[g, 1] + step * rng.standard_normal()
        walk.tried[AVERAGE] += 1
        if not in_ring(ring, a, b):
            continue
        change = 0.0
        for j in range(len(members)):
            if problem.rows[j].group == g:
                alpha, beta = members[j, 0], members[j, 1]
                change += log_scatter(problem.scatter, alpha - a, beta - b, spread)
                change -= _log_member(problem, state, problem.rows[j], alpha, beta)
        if change == -math.inf:
            continue
        new_kept = log_kept(problem.scatter, a, b, epsilon, problem.delta, spread)
        if _accepts(rng, walk, AVERAGE, change - sizes[g] * (new_kept - kept[g])):
            averages[g, 0], averages[g, 1], kept[g] = a, b, new_kept


@spliced
def _move_spread(rng: Rng, problem: CompiledModel, state: State, walk: Walk, kind: int) -> None:
    """Move the spread: alone, or with all deviations, whose density cancels against the Jacobian."""
    parameters, averages, members, _ = state
    spread = parameters[SPREAD]
    factor = math.exp(walk.steps[kind] * rng.standard_normal())
    new = spread * factor
    walk.tried[kind] += 1
    change = _log_spread_prior(problem, new) - _log_spread_prior(problem, spread)
    change += math.log(factor)
    region = region_of(parameters[EPSILON], problem.delta)
    moved = members.copy()
    for j in range(len(members)):
        row, alpha, beta = problem.rows[j], members[j, 0], members[j, 1]
        if problem.sizes[row.group] == 1 or not change > -math.inf:
            continue
        a, b = averages[row.group, 0], averages[row.group, 1]
        if kind == SPREAD:
            change += log_scatter(problem.scatter, alpha - a, beta - b, new)
            change -= log_scatter(problem.scatter, alpha - a, beta - b, spread)
        else:
            x, y = a + factor * (alpha - a), b + factor * (beta - b)
            if not in_ring(region, x, y):
                return
            moved[j, 0], moved[j, 1] = x, y
            change += log_row(problem, parameters, row, x, y)
            change -= log_row(problem, parameters, row, alpha, beta)
    if change > -math.inf:
        kept = kept_of(problem, averages, parameters[EPSILON], new)
        if _accepts_kept(rng, problem, state, walk, kind, change, kept):
            parameters[SPREAD] = new
            members[:] = moved


@spliced
def _move_strength(rng: Rng, problem: CompiledModel, state: State, walk: Walk) -> None:
    """Move the strength: a random walk, or sometimes a jump within what the averages allow."""
    parameters, averages, _, _ = state
    epsilon, delta = parameters[EPSILON], problem.delta
    s = parameters[STRENGTH]
    new = s + walk.steps[STRENGTH] * rng.standard_normal()
    if rng.random() < JUMPS:
        new = rng.random()
    walk.tried[STRENGTH] += 1
    if not 0 < new < 1 or not all_in_ring(ring_of(epsilon, delta, new), averages):
        return
    change = log_edge_prior(problem, epsilon, new) - log_edge_prior(problem, epsilon, s)
    areas = log_ring_area(epsilon, delta, new) - log_ring_area(epsilon, delta, s)
    if _accepts(rng, walk, STRENGTH, change - len(averages) * areas):
        parameters[STRENGTH] = new


@spliced
def _slide(problem: CompiledModel, state: State, ring: Ring, new: float, slid: State) -> float:
    """Move averages and members along with the region of the new epsilon.

    Returns the log ratio of their densities and the Jacobian, -inf if some leave the region.
    """
    old, delta, change = state.parameters[EPSILON], problem.delta, 0.0
    region = region_of(new, delta)
    for g in range(len(state.averages)):
        x, y, jacobian = _move_with_region(
            state.averages[g, 0], state.averages[g, 1], old, new, delta
        )
        if not in_ring(ring, x, y):
            return -math.inf
        slid.averages[g, 0], slid.averages[g, 1] = x, y
        change += jacobian
    for j in range(len(state.members)):
        row, alpha, beta = problem.rows[j], state.members[j, 0], state.members[j, 1]
        x, y = slid.averages[row.group, 0], slid.averages[row.group, 1]
        if problem.sizes[row.group] > 1:
            x, y, jacobian = _move_with_region(alpha, beta, old, new, delta)
            if not in_ring(region, x, y):
                return -math.inf
            change += jacobian + _log_member(problem, slid, row, x, y)
            change -= _log_member(problem, state, row, alpha, beta)
        slid.members[j, 0], slid.members[j, 1] = x, y
        log_old = log_row(problem, state.parameters, row, alpha, beta)
        change += log_row(problem, state.parameters, row, x, y) - log_old
    return change


@spliced
def _move_epsilon(rng: Rng, problem: CompiledModel, state: State, walk: Walk, kind: int) -> None:
    """Move epsilon: alone, or with all latents sliding along.

    The core stays fixed if the strength is free: whatever constrains it still does.
    """
    parameters, delta = state.parameters, problem.delta
    epsilon, s = parameters[EPSILON], parameters[STRENGTH]
    new = epsilon * math.exp(walk.steps[kind] * rng.standard_normal())
    new_s = s * epsilon / new if problem.free[STRENGTH] else s
    walk.tried[kind] += 1
    if not edges_possible(problem, new, new_s):
        return
    change = log_edge_prior(problem, new, new_s) - log_edge_prior(problem, epsilon, s)
    if not problem.free[STRENGTH]:
        # Otherwise the Jacobian of epsilon cancels against that of the strength.
        change += math.log(new / epsilon)
    areas = log_ring_area(new, delta, new_s) - log_ring_area(epsilon, delta, s)
    change -= len(state.averages) * areas
    ring, slid = ring_of(new, delta, new_s), state
    if kind == SLIDE:
        slid = State(parameters, state.averages.copy(), state.members.copy(), state.kept)
        change += _slide(problem, state, ring, new, slid)
        if not change > -math.inf:
            return
    elif not (
        all_in_ring(ring, state.averages) and all_in_ring(region_of(new, delta), state.members)
    ):
        return
    kept = kept_of(problem, slid.averages, new, parameters[SPREAD])
    if _accepts_kept(rng, problem, state, walk, kind, change, kept):
        parameters[EPSILON], parameters[STRENGTH] = new, new_s
        state.averages[:] = slid.averages
        state.members[:] = slid.members


@spliced
def _move_correlation(
    rng: Rng, problem: CompiledModel, state: State, walk: Walk, kind: int
) -> None:
    """Move tau or rho given the members."""
    old, new = state.parameters, state.parameters.copy()
    new[kind] += walk.steps[kind] * rng.standard_normal()
    walk.tried[kind] += 1
    change = log_correlation_prior(problem, new[TAU], new[RHO], False)
    if not change > -math.inf:
        return
    change -= log_correlation_prior(problem, old[TAU], old[RHO], False)
    for j in range(len(state.members)):
        row, alpha, beta = problem.rows[j], state.members[j, 0], state.members[j, 1]
        change += log_row(problem, new, row, alpha, beta)
        change -= log_row(problem, old, row, alpha, beta)
    if _accepts(rng, walk, kind, change):
        old[:] = new


@compiled
def run(
    rng: Rng, problem: CompiledModel, state: State, walk: Walk, num_sweeps: int, draws: FloatArray
) -> None:
    """Fill ``draws`` with the parameters after every ``num_sweeps`` sweeps."""
    for sweep in range(num_sweeps * len(draws)):
        _move_members(rng, problem, state, walk)
        _move_averages(rng, problem, state, walk)
        if problem.free[SPREAD]:
            for kind in (SPREAD, SCALE):
                _move_spread(rng, problem, state, walk, kind)
        if problem.free[STRENGTH]:
            for _ in range(NUM_STRENGTHS):
                _move_strength(rng, problem, state, walk)
        if problem.free[EPSILON]:
            for kind in (EPSILON, SLIDE):
                _move_epsilon(rng, problem, state, walk, kind)
        if problem.correlated:
            for kind in (TAU, RHO):
                _move_correlation(rng, problem, state, walk, kind)
        draws[sweep // num_sweeps] = state.parameters
