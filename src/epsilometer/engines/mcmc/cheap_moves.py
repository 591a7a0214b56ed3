"""Compiled moves without auxiliaries: of the parameters given the latents, and jointly with them.

The tuned sampler makes a few of each kind before an iteration.  A move of both changes variables to
coordinates in which the latents stay fixed.
"""

import math
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.mcmc import densities
from epsilometer.engines.mcmc.densities import EPSILON, RHO, STRENGTH, TAU, CompiledModel, Rng

#: Number of moves of each kind.
NUM_MOVES = 4

#: Step lengths are spread between 2 and a hundredth of that, so none needs tuning.
LOG_SHORTEST = math.log(0.01)

#: Unconstrained values beyond this are equivalent to the bound: e^700 is still finite.
FARTHEST_UNCONSTRAINED = 700.0


class State(NamedTuple):
    """The state of a chain; moves change it in place.  A latent is (alpha, beta, factor)."""

    parameters: FloatArray
    latents: FloatArray


# --- moves of epsilon and the strength: the edges of the ring ---------------------------------------


@densities.compiled
def log_areas(problem: CompiledModel, old: FloatArray, new: FloatArray) -> float:
    """Log ratio of areas to the power of minus the number of bases; 0 for one of the test faults."""
    areas = densities.log_ring_area(old[EPSILON], problem.delta, old[STRENGTH])
    areas -= densities.log_ring_area(new[EPSILON], problem.delta, new[STRENGTH])
    log_ratio = 0.0 if problem.fault == densities.NO_AREA else len(problem.rows) * areas
    if problem.fault == densities.NO_JACOBIAN:
        log_ratio -= math.log(new[EPSILON] / old[EPSILON])
    return log_ratio


@densities.compiled
def _step_edges(rng: Rng, problem: CompiledModel, old: FloatArray, new: FloatArray) -> float:
    """Propose one of: the outer edge alone, the inner edge alone, the whole ring.

    The outer edge moves with s epsilon fixed, the inner with epsilon fixed, the ring with s fixed.
    Returns the log ratio of priors, areas and Jacobians.
    """
    epsilon, s = old[EPSILON], old[STRENGTH]
    new[:] = old
    step = 2 * math.exp(LOG_SHORTEST * rng.random()) * rng.standard_normal()
    kind = 3 * rng.random()
    if not problem.free[STRENGTH] or (problem.free[EPSILON] and kind < 1):
        new[EPSILON] = epsilon * math.exp(step)
        log_ratio = step
    elif not problem.free[EPSILON] or kind < 2:
        new[STRENGTH] = 1 / (1 + (1 - s) / s * math.exp(-step))
        if not 0 < new[STRENGTH] < 1:
            return -math.inf
        log_ratio = math.log(new[STRENGTH] / s) + math.log((1 - new[STRENGTH]) / (1 - s))
    else:
        # In (log epsilon, log s epsilon) the Jacobian is s epsilon, which does not change.
        new[EPSILON] = epsilon * math.exp(step)
        new[STRENGTH] = s * epsilon / new[EPSILON]
        log_ratio = 0.0
    new_prior = densities.log_edge_prior(problem, new[EPSILON], new[STRENGTH])
    if not new_prior > -math.inf:
        return -math.inf
    log_ratio += new_prior - densities.log_edge_prior(problem, epsilon, s)
    return log_ratio + log_areas(problem, old, new)


@densities.spliced
def _move_edges(rng: Rng, problem: CompiledModel, state: State) -> None:
    """Move epsilon and s given the latents."""
    parameters, latents = state
    new = np.empty(len(parameters))
    for _ in range(NUM_MOVES):
        log_ratio = _step_edges(rng, problem, parameters, new)
        if not math.log(1 - rng.random()) < log_ratio:
            continue
        if densities.all_in_ring(
            densities.ring_of(new[EPSILON], problem.delta, new[STRENGTH]), latents
        ):
            parameters[:] = new


@densities.compiled
def _edge_scale(low: float, high: float, epsilon: float, delta: float, s: float) -> float:
    """The u in (s, 1] for which (high, low) lies on the lower edge of R(u epsilon, u delta)."""
    if delta == 0:
        return math.log((1 - high) / low) / epsilon
    left, right = s, min(1.0, (1 - high) / delta)
    u, log_low = 0.5 * (left + right), math.log(low)
    for _ in range(100):
        room = 1 - u * delta - high
        if room <= 0:
            right = u
            u = 0.5 * (left + right)
            continue
        gap = u * epsilon - math.log(room) + log_low
        if gap < 0:
            left = u
        else:
            right = u
        step = gap / (epsilon + delta / room)
        u -= step
        # A step this short is rounding error; the remaining error, its square, is negligible.
        if abs(step) <= 1e-9 * (1 - s):
            break
        if not left < u < right:
            u = 0.5 * (left + right)
    return u


@densities.compiled
def _to_ring_coordinates(problem: CompiledModel, state: State, place: FloatArray) -> float:
    """Coordinates of latents within the ring: columns v, f, and how they were folded.

    Returns the log density of the latents in these coordinates; NaN if one has none.
    """
    parameters, latents = state
    epsilon, s, delta, total = parameters[EPSILON], parameters[STRENGTH], problem.delta, 0.0
    for j in range(len(latents)):
        alpha, beta = latents[j, 0], latents[j, 1]
        low, high, reflected, swapped = densities.fold(alpha, beta)
        if not low > 0:
            return math.nan
        u = min(max(_edge_scale(low, high, epsilon, delta, s), s), 1.0)
        y = low * math.exp(u * epsilon)
        top = (1 - u * delta) / (1 + math.exp(-u * epsilon))
        place[j, 0], place[j, 1] = (u - s) / (1 - s), min(y / top, 1.0)
        place[j, 2], place[j, 3] = int(reflected), int(swapped)
        total += math.log((1 - s) * top * (delta + epsilon * y)) - u * epsilon
        total += densities.log_row(problem, parameters, problem.rows[j], alpha, beta)
    return total


@densities.compiled
def _from_ring_coordinates(
    problem: CompiledModel, parameters: FloatArray, place: FloatArray, moved: FloatArray
) -> float:
    """The inverse of :func:`_to_ring_coordinates` for other parameters; same return value, or -inf."""
    epsilon, s, delta, total = parameters[EPSILON], parameters[STRENGTH], problem.delta, 0.0
    for j in range(len(place)):
        u = s + place[j, 0] * (1 - s)
        top = (1 - u * delta) / (1 + math.exp(-u * epsilon))
        y = place[j, 1] * top
        low, high = math.exp(-u * epsilon) * y, 1 - u * delta - y
        alpha, beta = densities.unfold(low, high, place[j, 2] == 1, place[j, 3] == 1)
        moved[j, 0], moved[j, 1] = alpha, beta
        total += math.log((1 - s) * top * (delta + epsilon * y)) - u * epsilon
        total += densities.log_row(problem, parameters, problem.rows[j], alpha, beta)
        if not total > -math.inf:
            return -math.inf
    return total


# --- moves of the correlations ----------------------------------------------------------------------


@densities.compiled
def correlations_to_line(problem: CompiledModel, tau: float, rho: float) -> tuple[float, float]:
    """Logits of tau within its bounds and of (1 + rho / bound) / 2."""
    low, high = problem.tau_bounds
    r = rho / densities.cross_bound(tau, problem.pairs)
    return math.log((tau - low) / (high - tau)), math.log((1 + r) / (1 - r))


@densities.compiled
def correlations_from_line(problem: CompiledModel, t: float, v: float) -> tuple[float, float]:
    """The inverse of :func:`correlations_to_line`."""
    low, high = problem.tau_bounds
    bounded = min(max(t, -FARTHEST_UNCONSTRAINED), FARTHEST_UNCONSTRAINED)
    tau = low + (high - low) / (1 + math.exp(-bounded))
    return tau, densities.cross_bound(tau, problem.pairs) * math.tanh(0.5 * v)


@densities.compiled
def _step_correlations(rng: Rng, problem: CompiledModel, old: FloatArray, new: FloatArray) -> None:
    """Propose tau and rho by an unconstrained step."""
    t, v = correlations_to_line(problem, old[TAU], old[RHO])
    length = 2 * math.exp(LOG_SHORTEST * rng.random())
    t += length * rng.standard_normal()
    v += 2 * length * rng.standard_normal()
    new[:] = old
    new[TAU], new[RHO] = correlations_from_line(problem, t, v)


@densities.compiled
def _log_given(problem: CompiledModel, parameters: FloatArray, latents: FloatArray) -> float:
    """Log density of the unconstrained tau and rho given the latents, up to a constant."""
    total = densities.log_correlation_prior(problem, parameters[TAU], parameters[RHO], True)
    for j in range(len(latents)):
        if total > -math.inf:
            alpha, beta = latents[j, 0], latents[j, 1]
            total += densities.log_row(problem, parameters, problem.rows[j], alpha, beta)
    return total


@densities.spliced
def _move_correlations(rng: Rng, problem: CompiledModel, state: State) -> None:
    """Move tau and rho given the latents."""
    parameters, latents = state
    new, log_old = np.empty(len(parameters)), _log_given(problem, parameters, latents)
    for _ in range(NUM_MOVES):
        _step_correlations(rng, problem, parameters, new)
        log_new = _log_given(problem, new, latents)
        if log_new > -math.inf and math.log(1 - rng.random()) < log_new - log_old:
            parameters[:] = new
            log_old = log_new


@densities.inlined
def _rate_of(deviation: float, rate: float) -> float:
    """The alpha with (rate - alpha) / sqrt(alpha (1 - alpha)) = deviation; outside (0, 1) if none.

    With T = tan(theta), alpha = sin(theta)^2, it is (1 - rate) T^2 + deviation T - rate = 0.
    """
    root = math.sqrt(deviation * deviation + 4 * rate * (1 - rate))
    if deviation > 0:
        tangent = 2 * rate / (deviation + root)
    elif rate < 1:
        tangent = (root - deviation) / (2 * (1 - rate))
    else:
        return 1.0
    return tangent * tangent / (1 + tangent * tangent)


@densities.inlined
def _log_slope(alpha: float, rate: float) -> float:
    """Log |d deviation / d theta|."""
    return math.log(rate / alpha + (1 - rate) / (1 - alpha))


@densities.inlined
def _widths(row: densities.Row, tau: float, rho: float) -> tuple[float, float, float]:
    """The scales of deviations of alpha and of beta, and their correlation."""
    width_x = math.sqrt((1 + (row.n0 - 1) * tau) / row.n0)
    width_y = math.sqrt((1 + (row.n1 - 1) * tau) / row.n1)
    return width_x, width_y, rho / (width_x * width_y)


@densities.compiled
def _log_over_density(
    row: densities.Row, alpha: float, beta: float, tau: float, rho: float
) -> float:
    """Log ratio of a row's cell probability to the normal density, which a slide cancels."""
    return densities.log_count(row, alpha, beta, tau, rho, True, True) - densities.log_count(
        row, alpha, beta, tau, rho, True, False
    )


@densities.compiled
def _whiten(problem: CompiledModel, state: State, place: FloatArray) -> float:
    """Whiten the deviations of each base; returns log prior minus the sum of their log slopes."""
    parameters, latents = state
    tau, rho, total = parameters[TAU], parameters[RHO], 0.0
    for j in range(len(latents)):
        row, alpha, beta = problem.rows[j], latents[j, 0], latents[j, 1]
        p, q = row.x / row.n0, row.y / row.n1
        width_x, width_y, r = _widths(row, tau, rho)
        place[j, 0] = (p - alpha) / (math.sqrt(alpha * (1 - alpha)) * width_x)
        w = (q - beta) / (math.sqrt(beta * (1 - beta)) * width_y)
        place[j, 1] = (w - r * place[j, 0]) / math.sqrt(1 - r * r)
        total -= _log_slope(alpha, p) + _log_slope(beta, q)
        if problem.cells:
            total += _log_over_density(row, alpha, beta, tau, rho)
    return densities.log_correlation_prior(problem, tau, rho, True) + total


@densities.compiled
def _unwhiten(
    problem: CompiledModel, parameters: FloatArray, place: FloatArray, moved: FloatArray
) -> float:
    """The inverse of :func:`_whiten` for other correlations; same return value, or -inf."""
    tau, rho, total = parameters[TAU], parameters[RHO], 0.0
    log_prior = densities.log_correlation_prior(problem, tau, rho, True)
    if not log_prior > -math.inf:
        return -math.inf
    for j in range(len(place)):
        row, alpha, beta = problem.rows[j], math.nan, math.nan
        p, q = row.x / row.n0, row.y / row.n1
        width_x, width_y, r = _widths(row, tau, rho)
        if abs(r) < 1:
            w = r * place[j, 0] + math.sqrt(1 - r * r) * place[j, 1]
            alpha, beta = _rate_of(place[j, 0] * width_x, p), _rate_of(w * width_y, q)
        if not (0 < alpha < 1 and 0 < beta < 1):
            return -math.inf
        moved[j, 0], moved[j, 1] = alpha, beta
        total -= _log_slope(alpha, p) + _log_slope(beta, q)
        if problem.cells:
            total += _log_over_density(row, alpha, beta, tau, rho)
    return log_prior + total


# --- moves together with the latents ----------------------------------------------------------------


@densities.spliced
def _slide(rng: Rng, problem: CompiledModel, state: State, correlations: bool) -> bool:
    """Move parameters together with the latents; returns whether anything moved.

    Epsilon and s: a latent keeps its relative scale v = (u - s) / (1 - s) between the edges of the ring
    and its relative position f along the edge of scale u, so it cannot leave the ring: narrow rings,
    which auxiliaries seldom hit, move freely.  With y = f y_max(u), the point (1 - u delta - y,
    e^(-u epsilon) y) has Jacobian (1 - s) y_max e^(-u epsilon) (delta + epsilon y).

    Tau and rho: each base keeps its whitened deviations.  If the counts of a base are nearly perfectly
    correlated, or hardly vary, its latent is confined to a ridge; here the latent moves with the
    ridge.  The normal density cancels against the change of variables, except for the slopes of the
    deviations in theta and phi.
    """
    parameters, latents = state
    place, moved = np.empty((len(latents), 4)), np.empty((len(latents), 2))
    new, any_moved = np.empty(len(parameters)), False
    log_old = (
        _whiten(problem, state, place)
        if correlations
        else _to_ring_coordinates(problem, state, place)
    )
    if math.isnan(log_old):
        return False
    for _ in range(NUM_MOVES):
        log_ratio = 0.0
        if correlations:
            _step_correlations(rng, problem, parameters, new)
        else:
            log_ratio = _step_edges(rng, problem, parameters, new)
        threshold = math.log(1 - rng.random())
        if not log_ratio > -math.inf:
            continue
        if correlations:
            log_new = _unwhiten(problem, new, place, moved)
        else:
            log_new = _from_ring_coordinates(problem, new, place, moved)
        # Rounding may put a point on the edge outside; such a move is not made.
        if threshold < log_ratio + log_new - log_old and densities.all_in_ring(
            densities.ring_of(new[EPSILON], problem.delta, new[STRENGTH]), moved
        ):
            parameters[:] = new
            latents[:, :2] = moved
            log_old = log_new
            any_moved = True
    return any_moved


@densities.compiled
def make_cheap_moves(rng: Rng, problem: CompiledModel, state: State) -> bool:
    """Make all moves; returns whether latents moved, so that their factors are out of date."""
    moved = False
    if problem.free[EPSILON] or problem.free[STRENGTH]:
        _move_edges(rng, problem, state)
        moved = _slide(rng, problem, state, False)
    if problem.correlated:
        _move_correlations(rng, problem, state)
        moved = _slide(rng, problem, state, True) or moved
    return moved
