"""Compiled inner loops of the sampler for groups of dependent attacks (appendix C of the paper).

The state is (epsilon, strength, tau, rho, spread), the average (a, b) of each group and the rates
(alpha, beta) of each member; a group of one has a member only, which is its average.  A sweep moves
every member, every average and each parameter in turn by a random walk.  Whatever changes the region,
the spread or an average also changes the share Z(a, b) of the scatter that R(epsilon, delta) keeps; it
is worked out anew each time (`group_mcmc_shares.py`).

Nothing here checks its arguments or knows of settings; `group_mcmc.py` does.
"""

# Compiled functions pass arrays by position, and the loops stay whole so that they stay quick.
# ruff: noqa: PLR0912, PLR0915, SIM110

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from epsilometer.inference.group_mcmc_shares import (
    NORMAL,
    ROOT_3,
    in_ring,
    inside,
    least_beta,
    log_kept,
)
from epsilometer.inference.mcmc_kernels import (
    DELTA,
    EPSILON_LOW,
    TAU_HIGH,
    TAU_LOW,
    TAU_SCALE,
    cross_bound,
    log_epsilon_prior,
    log_ring_area,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

EPSILON, STRENGTH, TAU, RHO, SPREAD = range(5)

# Steps that are tuned: of the five parameters, of epsilon with its latents, of members, of averages,
# of the spread with the members' deviations.
SLIDE, MEMBER, AVERAGE, SCALE = 5, 6, 7, 8
NUM_STEPS = 9

# Columns of the rows' table.
X, N0, Y, N1, GROUP, WIDTH_X, WIDTH_Y = range(7)
NUM_COLUMNS = 7


@njit(nogil=True, cache=True)
def _log_scatter(scatter: int, dx: float, dy: float, spread: float) -> float:
    """Log density of a deviation, both rates."""
    if scatter == NORMAL:
        z, w = dx / spread, dy / spread
        return -0.5 * (z * z + w * w) - 2 * math.log(spread) - math.log(2 * math.pi)
    w = ROOT_3 * spread
    if abs(dx) > w or abs(dy) > w:
        return -math.inf
    return -2 * math.log(2 * w)


@njit(nogil=True, cache=True)
def _log_count(
    row: FloatArray, alpha: float, beta: float, tau: float, rho: float, correlated: bool
) -> float:
    """Log likelihood of a row's counts, up to a constant."""
    if alpha <= 0.0 or alpha >= 1.0 or beta <= 0.0 or beta >= 1.0:
        return -math.inf
    x, n0, y, n1 = row[X], row[N0], row[Y], row[N1]
    if not correlated:
        total: float = x * math.log(alpha) + (n0 - x) * math.log1p(-alpha)
        total += y * math.log(beta) + (n1 - y) * math.log1p(-beta)
        return total
    var_x = alpha * (1 - alpha) * n0 * (1 + (n0 - 1) * tau)
    var_y = beta * (1 - beta) * n1 * (1 + (n1 - 1) * tau)
    r = rho * math.sqrt(n0 * n1 / ((1 + (n0 - 1) * tau) * (1 + (n1 - 1) * tau)))
    left = 1 - r * r
    if left <= 0:
        return -math.inf
    z = (x - n0 * alpha) / math.sqrt(var_x)
    w = (y - n1 * beta) / math.sqrt(var_y)
    quadratic: float = (z * z + w * w - 2 * r * z * w) / left
    return -0.5 * (math.log(var_x * var_y * left) + quadratic)


@njit(nogil=True, cache=True)
def _log_spread_prior(code: int, a: float, b: float, spread: float) -> float:
    return log_epsilon_prior(code, a, b, spread) if spread < 1.0 else -math.inf


@njit(nogil=True, cache=True)
def _total_kept(
    scatter: int,
    epsilon: float,
    delta: float,
    spread: float,
    averages: FloatArray,
    sizes: IntArray,
    found: FloatArray,
) -> float:
    """Sum of m log Z over groups, and each log Z in ``found``."""
    total = 0.0
    for g in range(len(sizes)):
        found[g] = 0.0
        if sizes[g] > 1:
            found[g] = log_kept(scatter, averages[g, 0], averages[g, 1], epsilon, delta, spread)
            total += sizes[g] * found[g]
    return total


@njit(nogil=True, cache=True)
def _region_fits(
    epsilon: float,
    delta: float,
    s: float,
    averages: FloatArray,
    members: FloatArray,
) -> bool:
    """Whether all averages lie in the ring and all members in the region."""
    for g in range(len(averages)):
        if not in_ring(averages[g, 0], averages[g, 1], epsilon, delta, s):
            return False
    for j in range(len(members)):
        if not inside(members[j, 0], members[j, 1], epsilon, delta):
            return False
    return True


@njit(nogil=True, cache=True)
def _to_level(
    alpha: float, beta: float, old: float, new: float, delta: float
) -> tuple[float, float, float]:
    """Move a point with the region: where its side of R(old, delta) goes in R(new, delta).

    Each quarter of the square, cut by its diagonals, is mapped on itself linearly along beta (or
    alpha): the gap from the edge to the diagonal alpha + beta = 1 is stretched.  Returns the point
    and the log of the map's Jacobian.
    """
    flip = alpha + beta > 1
    if flip:
        alpha, beta = 1 - alpha, 1 - beta
    swap = beta > alpha
    if swap:
        alpha, beta = beta, alpha
    # beta <= alpha, alpha + beta <= 1: distance to the diagonal along beta, from the edge's.
    edge_old = least_beta(alpha, old, delta)
    edge_new = least_beta(alpha, new, delta)
    room_old, room_new = 1 - alpha - edge_old, 1 - alpha - edge_new
    ratio = room_new / room_old if room_old > 0 else 1.0
    beta = 1 - alpha - ratio * (1 - alpha - beta)
    if not beta <= alpha or ratio <= 0:
        return math.nan, math.nan, 0.0
    if swap:
        alpha, beta = beta, alpha
    if flip:
        alpha, beta = 1 - alpha, 1 - beta
    return alpha, beta, math.log(ratio)


@njit(nogil=True, cache=True)
def sweep(
    rng: np.random.Generator,
    parameters: FloatArray,
    averages: FloatArray,
    members: FloatArray,
    kept: FloatArray,
    rows: FloatArray,
    sizes: IntArray,
    pairs: FloatArray,
    constants: FloatArray,
    epsilon_prior: FloatArray,
    strength_prior: FloatArray,
    spread_prior: FloatArray,
    free: NDArray[np.bool_],
    scatter: int,
    correlated: bool,
    steps: FloatArray,
    accepted: FloatArray,
    tried: FloatArray,
) -> None:
    """One sweep over all latents and parameters, in place."""
    delta = constants[DELTA]
    epsilon, s, tau = parameters[EPSILON], parameters[STRENGTH], parameters[TAU]
    rho, spread = parameters[RHO], parameters[SPREAD]
    groups, n = len(sizes), len(rows)
    # Members, given their averages.
    for j in range(n):
        row = rows[j]
        g = int(row[GROUP])
        alone = sizes[g] == 1
        step = steps[MEMBER]
        width_x, width_y = row[WIDTH_X], row[WIDTH_Y]
        if not alone:
            width_x = 1 / math.sqrt(1 / (width_x * width_x) + 1 / (spread * spread))
            width_y = 1 / math.sqrt(1 / (width_y * width_y) + 1 / (spread * spread))
        alpha = members[j, 0] + step * width_x * rng.standard_normal()
        beta = members[j, 1] + step * width_y * rng.standard_normal()
        tried[MEMBER] += 1
        if alone:
            if not in_ring(alpha, beta, epsilon, delta, s):
                continue
        elif not inside(alpha, beta, epsilon, delta):
            continue
        change = _log_count(row, alpha, beta, tau, rho, correlated)
        change -= _log_count(row, members[j, 0], members[j, 1], tau, rho, correlated)
        if not alone:
            change += _log_scatter(scatter, alpha - averages[g, 0], beta - averages[g, 1], spread)
            change -= _log_scatter(
                scatter, members[j, 0] - averages[g, 0], members[j, 1] - averages[g, 1], spread
            )
        if math.log(rng.random()) < change:
            members[j, 0], members[j, 1] = alpha, beta
            accepted[MEMBER] += 1
            if alone:
                averages[g, 0], averages[g, 1] = alpha, beta
    # Averages, given their members.
    for g in range(groups):
        if sizes[g] == 1:
            continue
        step = steps[AVERAGE] * spread / math.sqrt(sizes[g])
        alpha = averages[g, 0] + step * rng.standard_normal()
        beta = averages[g, 1] + step * rng.standard_normal()
        tried[AVERAGE] += 1
        if not in_ring(alpha, beta, epsilon, delta, s):
            continue
        change = 0.0
        for j in range(n):
            if int(rows[j, GROUP]) == g:
                change += _log_scatter(scatter, members[j, 0] - alpha, members[j, 1] - beta, spread)
                change -= _log_scatter(
                    scatter, members[j, 0] - averages[g, 0], members[j, 1] - averages[g, 1], spread
                )
        if change == -math.inf:
            continue
        new_kept = log_kept(scatter, alpha, beta, epsilon, delta, spread)
        change -= sizes[g] * (new_kept - kept[g])
        if math.log(rng.random()) < change:
            averages[g, 0], averages[g, 1], kept[g] = alpha, beta, new_kept
            accepted[AVERAGE] += 1
    found = np.empty(groups)
    total_kept = 0.0
    for g in range(groups):
        total_kept += sizes[g] * kept[g]
    # The spread.
    if free[SPREAD]:
        new = spread * math.exp(steps[SPREAD] * rng.standard_normal())
        tried[SPREAD] += 1
        prior = _log_spread_prior(int(spread_prior[0]), spread_prior[1], spread_prior[2], new)
        if prior > -math.inf:
            change = (
                prior
                + math.log(new / spread)
                - _log_spread_prior(int(spread_prior[0]), spread_prior[1], spread_prior[2], spread)
            )
            for j in range(n):
                g = int(rows[j, GROUP])
                if sizes[g] > 1:
                    dx, dy = members[j, 0] - averages[g, 0], members[j, 1] - averages[g, 1]
                    change += _log_scatter(scatter, dx, dy, new)
                    change -= _log_scatter(scatter, dx, dy, spread)
            if change > -math.inf:
                new_total = _total_kept(scatter, epsilon, delta, new, averages, sizes, found)
                change -= new_total - total_kept
                if math.log(rng.random()) < change:
                    spread, total_kept = new, new_total
                    kept[:] = found
                    accepted[SPREAD] += 1
    # The spread with all deviations: their density cancels against the Jacobian.
    if free[SPREAD]:
        factor = math.exp(steps[SCALE] * rng.standard_normal())
        new = spread * factor
        tried[SCALE] += 1
        prior = _log_spread_prior(int(spread_prior[0]), spread_prior[1], spread_prior[2], new)
        change = (
            prior
            + math.log(factor)
            - _log_spread_prior(int(spread_prior[0]), spread_prior[1], spread_prior[2], spread)
        )
        moved = members.copy()
        for j in range(n):
            g = int(rows[j, GROUP])
            if sizes[g] == 1 or not change > -math.inf:
                continue
            x = averages[g, 0] + factor * (members[j, 0] - averages[g, 0])
            y = averages[g, 1] + factor * (members[j, 1] - averages[g, 1])
            if not inside(x, y, epsilon, delta):
                change = -math.inf
                break
            moved[j, 0], moved[j, 1] = x, y
            change += _log_count(rows[j], x, y, tau, rho, correlated)
            change -= _log_count(rows[j], members[j, 0], members[j, 1], tau, rho, correlated)
        if change > -math.inf:
            new_total = _total_kept(scatter, epsilon, delta, new, averages, sizes, found)
            change -= new_total - total_kept
            if math.log(rng.random()) < change:
                spread, total_kept = new, new_total
                kept[:] = found
                members[:] = moved
                accepted[SCALE] += 1
    # The strength: a walk, or now and then a jump within what the averages allow.
    if free[STRENGTH]:
        for _ in range(3):
            new = s + steps[STRENGTH] * rng.standard_normal()
            if rng.random() < 0.2:
                new = rng.random()
            tried[STRENGTH] += 1
            if not 0.0 < new < 1.0:
                continue
            fits = True
            for g in range(groups):
                if not in_ring(averages[g, 0], averages[g, 1], epsilon, delta, new):
                    fits = False
                    break
            if not fits:
                continue
            change = -groups * (
                log_ring_area(epsilon, delta, new) - log_ring_area(epsilon, delta, s)
            )
            change += (strength_prior[0] - 1) * math.log(new / s)
            change += (strength_prior[1] - 1) * (math.log1p(-new) - math.log1p(-s))
            if math.log(rng.random()) < change:
                s = new
                accepted[STRENGTH] += 1
    # Epsilon: alone, and with all latents sliding along.
    if free[EPSILON]:
        code, pa, pb = int(epsilon_prior[0]), epsilon_prior[1], epsilon_prior[2]
        for kind in (EPSILON, SLIDE):
            new = epsilon * math.exp(steps[kind] * rng.standard_normal())
            tried[kind] += 1
            if not constants[EPSILON_LOW] < new < 600.0:
                continue
            # The core stays where it is, if it can: what held it back still does.
            new_s = s * epsilon / new if free[STRENGTH] else s
            if not 0.0 < new_s < 1.0:
                continue
            change = log_epsilon_prior(code, pa, pb, new) - log_epsilon_prior(code, pa, pb, epsilon)
            change += math.log(new / epsilon)
            if free[STRENGTH]:
                change += math.log(new_s / s)
                change += (strength_prior[0] - 1) * math.log(new_s / s)
                change += (strength_prior[1] - 1) * (math.log1p(-new_s) - math.log1p(-s))
            change -= groups * (log_ring_area(new, delta, new_s) - log_ring_area(epsilon, delta, s))
            if kind == EPSILON:
                if not _region_fits(new, delta, new_s, averages, members):
                    continue
                new_averages, new_members = averages, members
            else:
                new_averages, new_members = averages.copy(), members.copy()
                good = True
                for g in range(groups):
                    x, y, jacobian = _to_level(averages[g, 0], averages[g, 1], epsilon, new, delta)
                    new_averages[g, 0], new_averages[g, 1] = x, y
                    change += jacobian
                    if not in_ring(x, y, new, delta, new_s):
                        good = False
                        break
                if not good:
                    continue
                for j in range(n):
                    g = int(rows[j, GROUP])
                    if sizes[g] == 1:
                        x, y = new_averages[g, 0], new_averages[g, 1]
                    else:
                        x, y, jacobian = _to_level(
                            members[j, 0], members[j, 1], epsilon, new, delta
                        )
                        change += jacobian
                        if not inside(x, y, new, delta):
                            good = False
                            break
                        change += _log_scatter(
                            scatter, x - new_averages[g, 0], y - new_averages[g, 1], spread
                        )
                        change -= _log_scatter(
                            scatter,
                            members[j, 0] - averages[g, 0],
                            members[j, 1] - averages[g, 1],
                            spread,
                        )
                    new_members[j, 0], new_members[j, 1] = x, y
                    change += _log_count(rows[j], x, y, tau, rho, correlated)
                    change -= _log_count(
                        rows[j], members[j, 0], members[j, 1], tau, rho, correlated
                    )
                if not good or not change > -math.inf:
                    continue
            new_total = _total_kept(scatter, new, delta, spread, new_averages, sizes, found)
            change -= new_total - total_kept
            if math.log(rng.random()) < change:
                epsilon, s, total_kept = new, new_s, new_total
                kept[:] = found
                if kind == SLIDE:
                    averages[:] = new_averages
                    members[:] = new_members
                accepted[kind] += 1
    # The correlations.
    if correlated:
        for kind in (TAU, RHO):
            new_tau, new_rho = tau, rho
            if kind == TAU:
                new_tau = tau + steps[TAU] * rng.standard_normal()
            else:
                new_rho = rho + steps[RHO] * rng.standard_normal()
            tried[kind] += 1
            if not constants[TAU_LOW] < new_tau < constants[TAU_HIGH]:
                continue
            bound = cross_bound(new_tau, pairs)
            if abs(new_rho) >= bound:
                continue
            scale = constants[TAU_SCALE]
            change = -0.5 * (new_tau * new_tau - tau * tau) / (scale * scale)
            change -= math.log(bound / cross_bound(tau, pairs))
            for j in range(n):
                change += _log_count(rows[j], members[j, 0], members[j, 1], new_tau, new_rho, True)
                change -= _log_count(rows[j], members[j, 0], members[j, 1], tau, rho, True)
            if math.log(rng.random()) < change:
                tau, rho = new_tau, new_rho
                accepted[kind] += 1
    parameters[EPSILON], parameters[STRENGTH], parameters[TAU] = epsilon, s, tau
    parameters[RHO], parameters[SPREAD] = rho, spread


@njit(nogil=True, cache=True)
def run(
    rng: np.random.Generator,
    draws: FloatArray,
    sweeps: int,
    parameters: FloatArray,
    averages: FloatArray,
    members: FloatArray,
    kept: FloatArray,
    rows: FloatArray,
    sizes: IntArray,
    pairs: FloatArray,
    constants: FloatArray,
    epsilon_prior: FloatArray,
    strength_prior: FloatArray,
    spread_prior: FloatArray,
    free: NDArray[np.bool_],
    scatter: int,
    correlated: bool,
    steps: FloatArray,
    accepted: FloatArray,
    tried: FloatArray,
) -> None:
    """Fill ``draws`` with the parameters after every so many sweeps."""
    for k in range(len(draws)):
        for _ in range(sweeps):
            sweep(
                rng, parameters, averages, members, kept, rows, sizes, pairs, constants,
                epsilon_prior, strength_prior, spread_prior, free, scatter, correlated,
                steps, accepted, tried,
            )  # fmt: skip
        draws[k] = parameters
