"""Compiled inner loops of MCMC-DP-Est: Metropolis-Hastings with averaged acceptance ratios.

Algorithm 1 of the paper and its extension to correlated counts (appendix B).  The state is
(epsilon, strength, tau, rho) with one latent (alpha, beta) a challenge base.  An iteration proposes
parameters, draws K - 1 fresh auxiliaries a base beside the current latent, compares the summed
weights under old and proposed parameters, and picks a new latent under whichever is kept.

Auxiliaries come from a density q that does not depend on the parameters, so the chain is exact for
any q that covers the square.  A weight has three factors: ``factor``, free of parameters (the count
likelihood or its Jacobian over q); for correlated counts exp(-quadratic form); and the indicator of
the ring.  What is common to a base's weights (the area, the normal's constant) is kept in
logarithms outside the sums.

Nothing here checks its arguments or knows of settings; `mcmc.py` does.
"""

# Compiled functions pass arrays by position, and the loops stay whole so that they stay quick.
# ruff: noqa: PLR0912, PLR0915

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

BINOMIAL_UNIFORM, BINOMIAL_INFORMED, CORRELATED_UNIFORM, CORRELATED_INFORMED = 0, 1, 2, 3
HALF_NORMAL, EXPONENTIAL, LOG_NORMAL, UNIFORM = 0, 1, 2, 3

# Columns of the base table: counts, then what the informed auxiliaries of correlated counts use,
# then those of binomial ones: which end has a heavy tail (-1 low, 1 high, 0 none), and its ratio's
# log constant.
X, N0, Y, N1, CENTRE_X, SCALE_X, CENTRE_Y, SCALE_Y, LOG_TOP = range(9)
END_X, TAIL_X, END_Y, TAIL_Y = range(9, 13)
NUM_COLUMNS = 13

TAIL_POWER = 0.2
"""Shape of the heavy tail: rates below t have probability of order t ** TAIL_POWER."""

CHEAP_MOVES = 4
"""Moves given the latents, of each kind, that the tuned sampler makes before an iteration."""

LOG_SHORTEST = math.log(0.01)
"""Cheap moves have lengths between 2 and a hundredth of that, so none needs tuning."""

EDGES_ONLY = 0.7
"""Share of tuned steps that leave tau and rho to the cheap moves."""

# Entries of a parameter vector.
EPSILON, STRENGTH, TAU, RHO = range(4)

# Entries of the constants vector.
(
    DELTA,
    PRIOR_A,
    PRIOR_B,
    BETA_A,
    BETA_B,
    TAU_LOW,
    TAU_HIGH,
    TAU_SCALE,
    PRIOR_JUMP,
    FAULT,
    EPSILON_LOW,
) = range(11)


@njit(nogil=True, cache=True)
def log_ring_area(epsilon: float, delta: float, strength: float) -> float:
    """Scalar twin of :func:`epsilometer.model.region.log_ring_area`."""
    inner = strength * epsilon
    gap = (1 - strength) * epsilon
    ratio = -math.expm1(-gap) / gap if gap > 0 else 1.0
    small, core = math.exp(-epsilon), math.exp(-inner)
    decay = core / ((1 + core) * (1 + small))
    corner_part = (1 - strength * delta) ** 2 * epsilon * ratio * decay
    delta_part = small / (1 + small) * delta * (2 - delta * (1 + strength))
    return math.log1p(-strength) + math.log(2 * (corner_part + delta_part))


@njit(nogil=True, cache=True)
def log_epsilon_prior(code: int, a: float, b: float, epsilon: float) -> float:
    """Log prior density of epsilon up to a constant."""
    if code == HALF_NORMAL:
        return -0.5 * (epsilon / a) ** 2
    if code == EXPONENTIAL:
        return -epsilon / a
    if code == LOG_NORMAL:
        z = (math.log(epsilon) - a) / b
        return -math.log(epsilon) - 0.5 * z * z
    return 0.0 if epsilon <= a else -math.inf


@njit(nogil=True, cache=True)
def cross_bound(tau: float, sizes: FloatArray) -> float:
    """The largest |rho| that suits every pair of sizes."""
    least = math.inf
    for i in range(sizes.shape[0]):
        c0 = max(1 + (sizes[i, 0] - 1) * tau, 0.0) / sizes[i, 0]
        c1 = max(1 + (sizes[i, 1] - 1) * tau, 0.0) / sizes[i, 1]
        least = min(least, math.sqrt(c0 * c1))
    return least


@njit(nogil=True, cache=True)
def _tail_factor(
    count: float, trials: float, end: float, log_constant: float, rate: float
) -> float:
    """Beta posterior over the density of :func:`_draw_rate`, at most 2."""
    if end == 0:
        return 1.0
    distance = rate if end < 0 else 1 - rate
    if distance <= 0:
        return 0.0
    shape = (count if end < 0 else trials - count) + 1
    return 2 / (1 + math.exp(log_constant + (TAIL_POWER - shape) * math.log(distance)))


@njit(nogil=True, cache=True)
def _draw_rate(rng: np.random.Generator, count: float, trials: float, end: float) -> float:
    """A rate from its Beta posterior; half the time from a tail towards an end it is close to.

    Rings for a large epsilon lie so deep in the corners that a count of 0 hardly ever hits them.
    """
    low, high = count + 1, trials - count + 1
    if end != 0 and rng.random() < 0.5:
        if end < 0:
            low = TAIL_POWER
        else:
            high = TAIL_POWER
    return rng.beta(low, high)


@njit(nogil=True, cache=True)
def _latent_factor(scheme: int, base: FloatArray, alpha: float, beta: float) -> float:
    """The parameter-free factor of a latent's weight: likelihood or Jacobian, over q."""
    if scheme == BINOMIAL_INFORMED:
        factor = _tail_factor(base[X], base[N0], base[END_X], base[TAIL_X], alpha)
        return factor * _tail_factor(base[Y], base[N1], base[END_Y], base[TAIL_Y], beta)
    if not (0 < alpha < 1 and 0 < beta < 1):
        return 0.0
    if scheme == BINOMIAL_UNIFORM:
        value = base[X] * math.log(alpha) + (base[N0] - base[X]) * math.log1p(-alpha)
        value += base[Y] * math.log(beta) + (base[N1] - base[Y]) * math.log1p(-beta)
        return math.exp(value - base[LOG_TOP])
    if scheme == CORRELATED_UNIFORM:
        return 1 / math.sqrt(alpha * (1 - alpha) * beta * (1 - beta))
    x = abs(math.asin(math.sqrt(alpha)) - base[CENTRE_X]) / base[SCALE_X]
    y = abs(math.asin(math.sqrt(beta)) - base[CENTRE_Y]) / base[SCALE_Y]
    # 1 / logistic density; the scales are common to a base's weights and cancel.
    return (1 + math.exp(-x)) ** 2 * (1 + math.exp(-y)) ** 2 * math.exp(x + y)


@njit(nogil=True, cache=True)
def refresh_factors(scheme: int, bases: FloatArray, latents: FloatArray) -> None:
    """Bring the third column of the latents up to date with the auxiliary density."""
    for j in range(bases.shape[0]):
        latents[j, 2] = _latent_factor(scheme, bases[j], latents[j, 0], latents[j, 1])


@njit(nogil=True, cache=True)
def _form(tau: float, rho: float, n0: float, n1: float) -> tuple[float, float, float, float]:
    """Coefficients of dx^2, dy^2, dx dy in minus the log density, and its log constant."""
    c0, c1 = 1 + (n0 - 1) * tau, 1 + (n1 - 1) * tau
    r = rho / math.sqrt(c0 / n0 * c1 / n1)
    rest = 1 - r * r
    if not (c0 > 0 and c1 > 0 and rest > 0):
        return 0.0, 0.0, 0.0, -math.inf
    scale = 0.5 / rest
    cross = -2 * r * scale / math.sqrt(c0 * c1)
    return scale / c0, scale / c1, cross, -0.5 * math.log(c0 * c1 * rest)


@njit(nogil=True, cache=True)
def _compare(
    rng: np.random.Generator,
    scheme: int,
    num_auxiliary: int,
    base: FloatArray,
    latent: FloatArray,
    old: FloatArray,
    new: FloatArray,
    delta: float,
    kept_old: FloatArray,
    kept_new: FloatArray,
) -> float:
    """Log of the ratio of averaged weights of one base, without the areas; picks a latent for each.

    The picks are reservoir draws that share their uniforms: only one of them is ever used.
    """
    n0, n1 = base[N0], base[N1]
    edge_old, core_old = math.exp(-old[EPSILON]), math.exp(-old[STRENGTH] * old[EPSILON])
    edge_new, core_new = math.exp(-new[EPSILON]), math.exp(-new[STRENGTH] * new[EPSILON])
    inner_old, inner_new = 1 - old[STRENGTH] * delta, 1 - new[STRENGTH] * delta
    outer = 1 - delta
    correlated = scheme >= CORRELATED_UNIFORM
    log_constant = 0.0
    xx_old, yy_old, xy_old, xx_new, yy_new, xy_new = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    shared = old[TAU] == new[TAU] and old[RHO] == new[RHO]
    if correlated:
        xx_old, yy_old, xy_old, log_old = _form(old[TAU], old[RHO], n0, n1)
        xx_new, yy_new, xy_new, log_new = _form(new[TAU], new[RHO], n0, n1)
        log_constant = log_new - log_old
    root0, root1 = math.sqrt(n0), math.sqrt(n1)
    total_old, total_new = 0.0, 0.0
    kept_old[:] = latent
    kept_new[:] = latent
    for k in range(num_auxiliary):
        factor = 1.0
        if k == 0:
            alpha, beta, factor = latent[0], latent[1], latent[2]
        elif scheme == BINOMIAL_INFORMED:
            alpha = _draw_rate(rng, base[X], n0, base[END_X])
            beta = _draw_rate(rng, base[Y], n1, base[END_Y])
        elif scheme == CORRELATED_INFORMED:
            p = rng.random()
            q = rng.random()
            if p <= 0 or q <= 0:
                continue
            theta = base[CENTRE_X] + base[SCALE_X] * math.log(p / (1 - p))
            phi = base[CENTRE_Y] + base[SCALE_Y] * math.log(q / (1 - q))
            if not (0 < theta < 0.5 * math.pi and 0 < phi < 0.5 * math.pi):
                continue
            alpha, beta = math.sin(theta) ** 2, math.sin(phi) ** 2
            factor = 1 / (p * (1 - p) * q * (1 - q))
        else:
            alpha, beta = rng.random(), rng.random()
        if alpha + beta > 1:
            low, high = 1 - alpha, 1 - beta
        else:
            low, high = alpha, beta
        if low > high:
            low, high = high, low
        # Of the two edges the one through the larger rate binds.
        in_old = low + edge_old * high >= edge_old * outer
        in_old = in_old and low + core_old * high < core_old * inner_old
        in_new = low + edge_new * high >= edge_new * outer
        in_new = in_new and low + core_new * high < core_new * inner_new
        if not (in_old or in_new):
            continue
        if k > 0 and scheme != CORRELATED_INFORMED:
            factor = _latent_factor(scheme, base, alpha, beta)
        weight_old, weight_new = factor, factor
        if correlated:
            spread_x = root0 * math.sqrt(alpha * (1 - alpha))
            spread_y = root1 * math.sqrt(beta * (1 - beta))
            if not (spread_x > 0 and spread_y > 0):
                continue
            dx, dy = (base[X] - n0 * alpha) / spread_x, (base[Y] - n1 * beta) / spread_y
            if in_old or shared:
                weight_old *= math.exp(-(xx_old * dx * dx + yy_old * dy * dy + xy_old * dx * dy))
            if shared:
                weight_new = weight_old
            elif in_new:
                weight_new *= math.exp(-(xx_new * dx * dx + yy_new * dy * dy + xy_new * dx * dy))
        pick = rng.random() if k > 0 else 0.0
        if in_old:
            total_old += weight_old
            if pick * total_old < weight_old:
                kept_old[0], kept_old[1], kept_old[2] = alpha, beta, factor
        if in_new:
            total_new += weight_new
            if pick * total_new < weight_new:
                kept_new[0], kept_new[1], kept_new[2] = alpha, beta, factor
    if total_old <= 0:
        # The starting latent's weight underflowed: a proposal seen to have some is better.
        return 1e6 if total_new > 0 else 0.0
    if total_new <= 0:
        return -math.inf
    return math.log(total_new / total_old) + log_constant


@njit(nogil=True, cache=True)
def to_line(
    parameters: FloatArray, constants: FloatArray, sizes: FloatArray, line: FloatArray
) -> None:
    """(log epsilon, logit s, logit of tau within its bounds, logit of (1 + rho / bound) / 2)."""
    line[0] = math.log(parameters[EPSILON])
    s = parameters[STRENGTH]
    line[1] = math.log(s / (1 - s)) if 0 < s < 1 else 0.0
    if sizes.shape[0] > 0:
        tau = parameters[TAU]
        line[2] = math.log((tau - constants[TAU_LOW]) / (constants[TAU_HIGH] - tau))
        r = parameters[RHO] / cross_bound(tau, sizes)
        line[3] = math.log((1 + r) / (1 - r))


@njit(nogil=True, cache=True)
def _log_density(
    parameters: FloatArray, prior_code: int, free: Any, constants: FloatArray, sizes: FloatArray
) -> float:
    """Log prior of (epsilon, s, tau, rho) up to a constant; -inf outside the support."""
    epsilon, s = parameters[EPSILON], parameters[STRENGTH]
    total = 0.0
    if free[EPSILON]:
        if not constants[EPSILON_LOW] < epsilon < 700:
            return -math.inf
        total += log_epsilon_prior(prior_code, constants[PRIOR_A], constants[PRIOR_B], epsilon)
    if free[STRENGTH]:
        if not 0 < s < 1:
            return -math.inf
        total += (constants[BETA_A] - 1) * math.log(s) + (constants[BETA_B] - 1) * math.log1p(-s)
    if sizes.shape[0] > 0:
        tau = parameters[TAU]
        if not constants[TAU_LOW] < tau < constants[TAU_HIGH]:
            return -math.inf
        bound = cross_bound(tau, sizes)
        if not abs(parameters[RHO]) < bound:
            return -math.inf
        total += -0.5 * (tau / constants[TAU_SCALE]) ** 2 - math.log(bound)
    return total


@njit(nogil=True, cache=True)
def _log_jacobian(
    parameters: FloatArray, free: Any, constants: FloatArray, sizes: FloatArray
) -> float:
    """Log |d parameters / d line|."""
    total = 0.0
    if free[EPSILON]:
        total += math.log(parameters[EPSILON])
    if free[STRENGTH]:
        total += math.log(parameters[STRENGTH]) + math.log1p(-parameters[STRENGTH])
    if sizes.shape[0] > 0:
        tau = parameters[TAU]
        bound = cross_bound(tau, sizes)
        r = parameters[RHO] / bound
        total += math.log((tau - constants[TAU_LOW]) * (constants[TAU_HIGH] - tau))
        total += math.log(bound) + math.log((1 + r) * (1 - r))
    return total


@njit(nogil=True, cache=True)
def _propose_fixed(
    rng: np.random.Generator, old: FloatArray, new: FloatArray, free: Any, scales: FloatArray
) -> None:
    """The paper's proposal: independent steps on log epsilon, s, tau and rho, all at once."""
    for i in range(4):
        new[i] = old[i]
        if free[i]:
            step = scales[i] * rng.standard_normal()
            new[i] = old[i] * math.exp(step) if i == EPSILON else old[i] + step


@njit(nogil=True, cache=True)
def _propose_tuned(
    rng: np.random.Generator,
    old: FloatArray,
    new: FloatArray,
    moving: Any,
    factor: FloatArray,
    constants: FloatArray,
    sizes: FloatArray,
) -> None:
    """A correlated step of the moving parameters on the whole line, its length one of three."""
    line, noise = np.zeros(4), np.zeros(4)
    to_line(old, constants, sizes, line)
    length = 0.3
    choice = rng.random()
    if choice > 0.25:
        length = 1.0
    if choice > 0.8:
        length = 3.0
    for i in range(4):
        noise[i] = length * rng.standard_normal()
    for i in range(4):
        for k in range(i + 1):
            line[i] += factor[i, k] * noise[k]
    _from_line(line, old, new, moving, constants, sizes)


@njit(nogil=True, cache=True)
def _from_line(
    line: FloatArray,
    old: FloatArray,
    new: FloatArray,
    moving: Any,
    constants: FloatArray,
    sizes: FloatArray,
) -> None:
    """Parameters from the whole line where they move, as they were elsewhere."""
    new[:] = old
    if moving[EPSILON]:
        new[EPSILON] = math.exp(min(line[0], 700.0))
    if moving[STRENGTH]:
        new[STRENGTH] = 1 / (1 + math.exp(-line[1])) if line[1] > -700 else 0.0
    if moving[TAU]:
        low, high = constants[TAU_LOW], constants[TAU_HIGH]
        new[TAU] = low + (high - low) / (1 + math.exp(-min(max(line[2], -700.0), 700.0)))
        new[RHO] = cross_bound(new[TAU], sizes) * math.tanh(0.5 * line[3])


@njit(nogil=True, cache=True)
def _latents_in_ring(epsilon: float, delta: float, s: float, latents: FloatArray) -> bool:
    edge, core = math.exp(-epsilon), math.exp(-s * epsilon)
    for j in range(latents.shape[0]):
        low, high = latents[j, 0], latents[j, 1]
        if low + high > 1:
            low, high = 1 - low, 1 - high
        if low > high:
            low, high = high, low
        if low + edge * high < edge * (1 - delta) or low + core * high >= core * (1 - s * delta):
            return False
    return True


@njit(nogil=True, cache=True)
def _step_edges(
    rng: np.random.Generator, free: Any, parameters: FloatArray, new: FloatArray
) -> float:
    """Propose one of: the outer edge alone, the inner edge alone, the whole ring; log Jacobian.

    The outer edge moves with s epsilon held, the inner with epsilon held, the ring with s held.
    """
    epsilon, s = parameters[EPSILON], parameters[STRENGTH]
    new[:] = parameters
    step = 2 * math.exp(LOG_SHORTEST * rng.random()) * rng.standard_normal()
    kind = 3 * rng.random()
    if not free[STRENGTH] or (free[EPSILON] and kind < 1):
        new[EPSILON] = epsilon * math.exp(step)
        return step
    if not free[EPSILON] or kind < 2:
        new[STRENGTH] = 1 / (1 + (1 - s) / s * math.exp(-step))
        if not 0 < new[STRENGTH] < 1:
            return -math.inf
        return math.log(new[STRENGTH] / s) + math.log((1 - new[STRENGTH]) / (1 - s))
    # In (log epsilon, log s epsilon) the Jacobian is s epsilon, which does not change.
    new[EPSILON] = epsilon * math.exp(step)
    new[STRENGTH] = s * epsilon / new[EPSILON]
    return 0.0


@njit(nogil=True, cache=True)
def _log_prior_ratio(
    prior_code: int,
    free: Any,
    constants: FloatArray,
    sizes: FloatArray,
    n: int,
    parameters: FloatArray,
    new: FloatArray,
) -> float:
    """Log ratio of priors and of areas to the power -n, new over old."""
    new_prior = _log_density(new, prior_code, free, constants, sizes)
    if not new_prior > -math.inf:
        return -math.inf
    areas = log_ring_area(parameters[EPSILON], constants[DELTA], parameters[STRENGTH])
    areas -= log_ring_area(new[EPSILON], constants[DELTA], new[STRENGTH])
    ratio = new_prior - _log_density(parameters, prior_code, free, constants, sizes)
    if constants[FAULT] == 1:
        ratio -= math.log(new[EPSILON] / parameters[EPSILON])
    elif constants[FAULT] == 2:
        areas = 0.0
    return ratio + n * areas


@njit(nogil=True, cache=True)
def _move_edges(
    rng: np.random.Generator,
    prior_code: int,
    free: Any,
    constants: FloatArray,
    sizes: FloatArray,
    parameters: FloatArray,
    new: FloatArray,
    latents: FloatArray,
) -> None:
    """Metropolis steps of epsilon and s given the latents, in place: no auxiliaries needed."""
    n, delta = latents.shape[0], constants[DELTA]
    for _ in range(CHEAP_MOVES):
        log_ratio = _step_edges(rng, free, parameters, new)
        log_ratio += _log_prior_ratio(prior_code, free, constants, sizes, n, parameters, new)
        if not math.log(1 - rng.random()) < log_ratio:
            continue
        if _latents_in_ring(new[EPSILON], delta, new[STRENGTH], latents):
            parameters[:] = new


@njit(nogil=True, cache=True)
def _level(low: float, high: float, epsilon: float, delta: float, s: float) -> float:
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
        # A step this short is rounding error; its square, what is left, is nothing.
        if abs(step) <= 1e-9 * (1 - s):
            break
        if not left < u < right:
            u = 0.5 * (left + right)
    return u


@njit(nogil=True, cache=True)
def _log_likelihood_of(
    base: FloatArray, alpha: float, beta: float, tau: float, rho: float, correlated: bool
) -> float:
    """Log likelihood of one base's counts up to a constant."""
    x, n0, y, n1 = base[X], base[N0], base[Y], base[N1]
    if not (0 < alpha < 1 and 0 < beta < 1):
        return -math.inf
    total = 0.0
    if not correlated:
        total += x * math.log(alpha) + (n0 - x) * math.log1p(-alpha)
        total += y * math.log(beta) + (n1 - y) * math.log1p(-beta)
        return float(total)
    variance_x, variance_y = alpha * (1 - alpha), beta * (1 - beta)
    dx = (x - n0 * alpha) / math.sqrt(n0 * variance_x)
    dy = (y - n1 * beta) / math.sqrt(n1 * variance_y)
    xx, yy, xy, log_constant = _form(tau, rho, n0, n1)
    total += log_constant - 0.5 * math.log(variance_x * variance_y)
    total -= xx * dx * dx + yy * dy * dy + xy * dx * dy
    return float(total)


@njit(nogil=True, cache=True)
def _slide(
    rng: np.random.Generator,
    scheme: int,
    prior_code: int,
    free: Any,
    bases: FloatArray,
    sizes: FloatArray,
    constants: FloatArray,
    parameters: FloatArray,
    new: FloatArray,
    latents: FloatArray,
) -> None:
    """Metropolis steps of epsilon and s that carry the latents along, in place.

    A latent is held at its relative level v = (u - s) / (1 - s) between the edges of the ring and
    its relative place f along the edge of level u, so it cannot fall out: narrow rings, which
    auxiliaries seldom hit, move freely.  With y = f y_max(u), the point (1 - u delta - y,
    e^(-u epsilon) y) has Jacobian (1 - s) y_max e^(-u epsilon) (delta + epsilon y).
    """
    n, delta = bases.shape[0], constants[DELTA]
    correlated = scheme >= CORRELATED_UNIFORM
    tau, rho = parameters[TAU], parameters[RHO]
    # Columns: v, f, alpha, beta, whether reflected, whether alpha is then the smaller.
    place = np.empty((n, 6))
    epsilon, s = parameters[EPSILON], parameters[STRENGTH]
    log_old = 0.0
    for j in range(n):
        low, high = latents[j, 0], latents[j, 1]
        reflected = low + high > 1
        if reflected:
            low, high = 1 - low, 1 - high
        alpha_lower = low < high
        if not alpha_lower:
            low, high = high, low
        if not low > 0:
            return
        u = min(max(_level(low, high, epsilon, delta, s), s), 1.0)
        y = low * math.exp(u * epsilon)
        top = (1 - u * delta) / (1 + math.exp(-u * epsilon))
        place[j, 0], place[j, 1] = (u - s) / (1 - s), min(y / top, 1.0)
        place[j, 4], place[j, 5] = 1.0 if reflected else 0.0, 1.0 if alpha_lower else 0.0
        log_old += math.log((1 - s) * top * (delta + epsilon * y)) - u * epsilon
        log_old += _log_likelihood_of(bases[j], latents[j, 0], latents[j, 1], tau, rho, correlated)
    moved = False
    for _ in range(CHEAP_MOVES):
        log_ratio = _step_edges(rng, free, parameters, new)
        log_ratio += _log_prior_ratio(prior_code, free, constants, sizes, n, parameters, new)
        threshold = math.log(1 - rng.random())
        if not log_ratio > -math.inf:
            continue
        epsilon, s = new[EPSILON], new[STRENGTH]
        log_new = 0.0
        for j in range(n):
            u = s + place[j, 0] * (1 - s)
            top = (1 - u * delta) / (1 + math.exp(-u * epsilon))
            y = place[j, 1] * top
            low, high = math.exp(-u * epsilon) * y, 1 - u * delta - y
            if place[j, 5] == 0:
                low, high = high, low
            if place[j, 4] == 1:
                low, high = 1 - low, 1 - high
            place[j, 2], place[j, 3] = low, high
            log_new += math.log((1 - s) * top * (delta + epsilon * y)) - u * epsilon
            log_new += _log_likelihood_of(bases[j], low, high, tau, rho, correlated)
            if not log_new > -math.inf:
                break
        if threshold < log_ratio + log_new - log_old:
            # Rounding may put a point on the very edge outside; such a move is not made.
            if not _latents_in_ring(epsilon, delta, s, place[:, 2:4]):
                continue
            parameters[:] = new
            latents[:, :2] = place[:, 2:4]
            log_old = log_new
            moved = True
    if moved:
        refresh_factors(scheme, bases, latents)


@njit(nogil=True, cache=True)
def _log_likelihood(tau: float, rho: float, bases: FloatArray, squares: FloatArray) -> float:
    """Log density of all counts given the latents, up to a constant."""
    total = 0.0
    xx, yy, xy, log_constant = 0.0, 0.0, 0.0, 0.0
    for j in range(bases.shape[0]):
        n0, n1 = bases[j, N0], bases[j, N1]
        if j == 0 or n0 != bases[j - 1, N0] or n1 != bases[j - 1, N1]:
            xx, yy, xy, log_constant = _form(tau, rho, n0, n1)
        total += log_constant
        total -= xx * squares[j, 0] + yy * squares[j, 1] + xy * squares[j, 2]
    return total


@njit(nogil=True, cache=True)
def _move_correlations(
    rng: np.random.Generator,
    bases: FloatArray,
    constants: FloatArray,
    sizes: FloatArray,
    parameters: FloatArray,
    new: FloatArray,
    latents: FloatArray,
) -> None:
    """Metropolis steps of tau and rho given the latents, in place."""
    n = bases.shape[0]
    squares = np.empty((n, 3))
    for j in range(n):
        alpha, beta = latents[j, 0], latents[j, 1]
        n0, n1 = bases[j, N0], bases[j, N1]
        dx = (bases[j, X] - n0 * alpha) / math.sqrt(n0 * alpha * (1 - alpha))
        dy = (bases[j, Y] - n1 * beta) / math.sqrt(n1 * beta * (1 - beta))
        squares[j, 0], squares[j, 1], squares[j, 2] = dx * dx, dy * dy, dx * dy
    moving = np.array([False, False, True, True])
    neither = np.zeros(4, dtype=np.bool_)
    line = np.zeros(4)
    log_old = _log_likelihood(parameters[TAU], parameters[RHO], bases, squares)
    log_old += _log_density(parameters, 0, neither, constants, sizes)
    log_old += _log_jacobian(parameters, moving, constants, sizes)
    for _ in range(CHEAP_MOVES):
        to_line(parameters, constants, sizes, line)
        length = 2 * math.exp(LOG_SHORTEST * rng.random())
        line[2] += length * rng.standard_normal()
        line[3] += 2 * length * rng.standard_normal()
        _from_line(line, parameters, new, moving, constants, sizes)
        log_new = _log_density(new, 0, neither, constants, sizes)
        if not log_new > -math.inf:
            continue
        log_new += _log_likelihood(new[TAU], new[RHO], bases, squares)
        log_new += _log_jacobian(new, moving, constants, sizes)
        if math.log(1 - rng.random()) < log_new - log_old:
            parameters[:] = new
            log_old = log_new


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _log_slope(alpha: float, rate: float) -> float:
    """Log |d deviation / d theta|."""
    return math.log(rate / alpha + (1 - rate) / (1 - alpha))


@njit(nogil=True, cache=True)
def _slide_correlations(
    rng: np.random.Generator,
    scheme: int,
    bases: FloatArray,
    sizes: FloatArray,
    constants: FloatArray,
    parameters: FloatArray,
    new: FloatArray,
    latents: FloatArray,
) -> None:
    """Metropolis steps of tau and rho that hold each base's whitened deviations, in place.

    Where the counts of a base are all but perfectly correlated, or hardly vary, its latent is
    confined to a ridge; here the latent moves with the ridge.  The normal density cancels against
    the change of variables, but for the slopes of the deviations in theta and phi.
    """
    n = bases.shape[0]
    # Columns: deviations over sqrt(c), then alpha, beta as proposed.
    place = np.empty((n, 4))
    moving = np.array([False, False, True, True])
    neither = np.zeros(4, dtype=np.bool_)
    line = np.zeros(4)
    log_old = _log_density(parameters, 0, neither, constants, sizes)
    log_old += _log_jacobian(parameters, moving, constants, sizes)
    for j in range(n):
        n0, n1 = bases[j, N0], bases[j, N1]
        p, q = bases[j, X] / n0, bases[j, Y] / n1
        alpha, beta = latents[j, 0], latents[j, 1]
        c0 = 1 + (n0 - 1) * parameters[TAU]
        c1 = 1 + (n1 - 1) * parameters[TAU]
        r = parameters[RHO] / math.sqrt(c0 / n0 * c1 / n1)
        place[j, 0] = (p - alpha) / math.sqrt(alpha * (1 - alpha) * c0 / n0)
        w = (q - beta) / math.sqrt(beta * (1 - beta) * c1 / n1)
        place[j, 1] = (w - r * place[j, 0]) / math.sqrt(1 - r * r)
        log_old -= _log_slope(alpha, p) + _log_slope(beta, q)
    moved = False
    for _ in range(CHEAP_MOVES):
        to_line(parameters, constants, sizes, line)
        length = 2 * math.exp(LOG_SHORTEST * rng.random())
        line[2] += length * rng.standard_normal()
        line[3] += 2 * length * rng.standard_normal()
        _from_line(line, parameters, new, moving, constants, sizes)
        threshold = math.log(1 - rng.random())
        log_new = _log_density(new, 0, neither, constants, sizes)
        if not log_new > -math.inf:
            continue
        log_new += _log_jacobian(new, moving, constants, sizes)
        possible = True
        for j in range(n):
            n0, n1 = bases[j, N0], bases[j, N1]
            p, q = bases[j, X] / n0, bases[j, Y] / n1
            c0, c1 = 1 + (n0 - 1) * new[TAU], 1 + (n1 - 1) * new[TAU]
            r = new[RHO] / math.sqrt(c0 / n0 * c1 / n1)
            if not (c0 > 0 and c1 > 0 and 1 - r * r > 0):
                possible = False
                break
            w = r * place[j, 0] + math.sqrt(1 - r * r) * place[j, 1]
            alpha = _rate_of(place[j, 0] * math.sqrt(c0 / n0), p)
            beta = _rate_of(w * math.sqrt(c1 / n1), q)
            if not (0 < alpha < 1 and 0 < beta < 1):
                possible = False
                break
            place[j, 2], place[j, 3] = alpha, beta
            log_new -= _log_slope(alpha, p) + _log_slope(beta, q)
        if not (possible and threshold < log_new - log_old):
            continue
        if not _latents_in_ring(
            parameters[EPSILON], constants[DELTA], parameters[STRENGTH], place[:, 2:4]
        ):
            continue
        parameters[:] = new
        latents[:, :2] = place[:, 2:4]
        log_old = log_new
        moved = True
    if moved:
        refresh_factors(scheme, bases, latents)


@njit(nogil=True, cache=True)
def run_block(
    rng: np.random.Generator,
    num_iterations: int,
    num_auxiliary: int,
    scheme: int,
    tuned: bool,
    prior_code: int,
    free: Any,
    bases: FloatArray,
    sizes: FloatArray,
    constants: FloatArray,
    scales: FloatArray,
    factor: FloatArray,
    edge_factor: FloatArray,
    parameters: FloatArray,
    latents: FloatArray,
    out: FloatArray,
) -> tuple[int, int, int, int]:
    """Advance a chain in place by ``num_iterations``; write its parameters to the rows of ``out``.

    Parameters
    ----------
    free
        For each of epsilon, s, tau, rho whether it is estimated.
    bases, latents
        One row a challenge base; see the column names above.  A latent is (alpha, beta, factor).
    sizes
        Distinct pairs of trials, without rows for binomial counts.
    scales, factor
        Steps of the fixed proposal; lower triangular factor of the tuned one's covariance.
    edge_factor
        The same for steps of epsilon and s alone.

    Returns
    -------
    tuple
        How many random-walk steps of all parameters were accepted and made, then how many of
        epsilon and s alone.
    """
    n = bases.shape[0]
    delta = constants[DELTA]
    new, kept_old, kept_new = np.zeros(4), np.zeros((n, 3)), np.zeros((n, 3))
    log_area = log_ring_area(parameters[EPSILON], delta, parameters[STRENGTH])
    log_prior = _log_density(parameters, prior_code, free, constants, sizes)
    accepted, walked, edge_accepted, edge_walked = 0, 0, 0, 0
    edges_free = free[EPSILON] or free[STRENGTH]
    moving_edges = free.copy()
    moving_edges[2:] = False
    splits = tuned and edges_free and sizes.shape[0] > 0
    for i in range(num_iterations):
        if tuned:
            if edges_free:
                _move_edges(rng, prior_code, free, constants, sizes, parameters, new, latents)
                _slide(
                    rng,
                    scheme,
                    prior_code,
                    free,
                    bases,
                    sizes,
                    constants,
                    parameters,
                    new,
                    latents,
                )
            if sizes.shape[0] > 0:
                _move_correlations(rng, bases, constants, sizes, parameters, new, latents)
                _slide_correlations(rng, scheme, bases, sizes, constants, parameters, new, latents)
            log_area = log_ring_area(parameters[EPSILON], delta, parameters[STRENGTH])
            log_prior = _log_density(parameters, prior_code, free, constants, sizes)
        jump = tuned and free[STRENGTH] and rng.random() < constants[PRIOR_JUMP]
        edges_only = splits and rng.random() < EDGES_ONLY
        if jump:
            new[:] = parameters
            new[STRENGTH] = rng.beta(constants[BETA_A], constants[BETA_B])
        elif edges_only:
            _propose_tuned(rng, parameters, new, moving_edges, edge_factor, constants, sizes)
        elif tuned:
            _propose_tuned(rng, parameters, new, free, factor, constants, sizes)
        else:
            _propose_fixed(rng, parameters, new, free, scales)
        new_prior = _log_density(new, prior_code, free, constants, sizes)
        possible = new_prior > -math.inf
        log_ratio, new_area = -math.inf, log_area
        if possible:
            new_area = log_ring_area(new[EPSILON], delta, new[STRENGTH])
            log_ratio = n * (log_area - new_area)
            if not jump:
                log_ratio += new_prior - log_prior
                if tuned:
                    log_ratio += _log_jacobian(new, free, constants, sizes)
                    log_ratio -= _log_jacobian(parameters, free, constants, sizes)
                elif free[EPSILON]:
                    log_ratio += math.log(new[EPSILON] / parameters[EPSILON])
            if constants[FAULT] == 1 and free[EPSILON]:
                log_ratio -= math.log(new[EPSILON] / parameters[EPSILON])
            elif constants[FAULT] == 2:
                log_ratio -= n * (log_area - new_area)
        else:
            new[:] = parameters
        for j in range(n):
            log_ratio += _compare(
                rng,
                scheme,
                num_auxiliary,
                bases[j],
                latents[j],
                parameters,
                new,
                delta,
                kept_old[j],
                kept_new[j],
            )
        accept = possible and math.log(1 - rng.random()) < log_ratio
        if accept:
            parameters[:] = new
            latents[:] = kept_new
            log_area, log_prior = new_area, new_prior
        else:
            latents[:] = kept_old
        if edges_only and not jump:
            edge_walked += 1
            edge_accepted += int(accept)
        elif not jump:
            walked += 1
            accepted += int(accept)
        out[i] = parameters
    return accepted, walked, edge_accepted, edge_walked
