"""Compiled moves of MCMC-DP-Est: Metropolis-Hastings with averaged acceptance ratios.

Algorithm 1 of the paper and its extension to correlated counts (appendix B).  The state is
(epsilon, strength, tau, rho) with one latent (alpha, beta) per challenge base.  An iteration proposes
parameters, draws K - 1 new auxiliaries per base in addition to the current latent, compares the summed
weights under old and proposed parameters, and picks a new latent under those that are kept.

Auxiliaries come from a density q that does not depend on the parameters, so the chain is exact for
any q that covers the square.  A weight has three factors: ``factor``, free of parameters (the count
likelihood or its Jacobian over q); for correlated counts exp(-quadratic form); and the indicator of
the ring.  Factors common to a base's weights (the area, the normal's constant) are kept as logarithms
outside the sums.

Arguments are not checked here, and settings are unknown; see `attack_chain.py`.
"""

import math
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.mcmc import cheap_moves, densities
from epsilometer.engines.mcmc.cheap_moves import FARTHEST_UNCONSTRAINED, State
from epsilometer.engines.mcmc.densities import EPSILON, RHO, STRENGTH, TAU, CompiledModel, Rng

#: Shape of the heavy tail: rates below t have probability of order t ** TAIL_POWER.
TAIL_POWER = 0.2

#: Share of tuned steps that leave tau and rho to the cheap moves.
EDGES_ONLY = 0.7

#: Share of proposals that draw the strength from its prior, to jump between modes.
PRIOR_JUMP = 0.1


class Proposal(NamedTuple):
    """How parameters are proposed: fixed steps, or Cholesky factors of learnt covariances."""

    tuned: bool
    scales: FloatArray
    #: Of all parameters, and of epsilon and s alone.
    factors: FloatArray


# --- auxiliaries ----------------------------------------------------------------------------------


@densities.inlined
def _tail_factor(count: float, trials: float, end: float, log_tail: float, rate: float) -> float:
    """Beta posterior over the density of :func:`_draw_rate`, at most 2."""
    if end == 0:
        return 1.0
    distance = rate if end < 0 else 1 - rate
    if distance <= 0:
        return 0.0
    shape = (count if end < 0 else trials - count) + 1
    return 2 / (1 + math.exp(log_tail + (TAIL_POWER - shape) * math.log(distance)))


@densities.inlined
def _draw_rate(rng: Rng, count: float, trials: float, end: float) -> float:
    """Draw a rate from its Beta posterior, or half the time from a heavy tail towards a nearby end.

    Rings for a large epsilon lie so deep in the corners that a count of 0 hardly ever hits them.
    """
    low, high = count + 1, trials - count + 1
    if end != 0 and rng.random() < 0.5:
        if end < 0:
            low = TAIL_POWER
        else:
            high = TAIL_POWER
    return rng.beta(low, high)


@densities.inlined
def _factor(
    base: densities.Row, alpha: float, beta: float, informed: bool, correlated: bool
) -> float:
    """The parameter-free factor of a latent's weight: likelihood or Jacobian, over q."""
    if informed and not correlated:
        factor = _tail_factor(base.x, base.n0, base.end_x, base.log_tail_x, alpha)
        return float(factor * _tail_factor(base.y, base.n1, base.end_y, base.log_tail_y, beta))
    if not (0 < alpha < 1 and 0 < beta < 1):
        return 0.0
    if not correlated:
        log_count = densities.log_count(base, alpha, beta, 0.0, 0.0, False, False)
        return math.exp(log_count - base.log_top)
    if not informed:
        return 1 / math.sqrt(alpha * (1 - alpha) * beta * (1 - beta))
    u = abs(math.asin(math.sqrt(alpha)) - base.centre_x) / base.scale_x
    v = abs(math.asin(math.sqrt(beta)) - base.centre_y) / base.scale_y
    # 1 / logistic density; the scales are common to a base's weights and cancel.
    return (1 + math.exp(-u)) ** 2 * (1 + math.exp(-v)) ** 2 * math.exp(u + v)


@densities.compiled
def refresh_factors(problem: CompiledModel, latents: FloatArray) -> None:
    """Update the third column of the latents after a change of them or of the auxiliary density."""
    for j in range(len(latents)):
        alpha, beta = latents[j, 0], latents[j, 1]
        factor = _factor(problem.rows[j], alpha, beta, problem.informed, problem.correlated)
        latents[j, 2] = factor


@densities.inlined
def _draw_auxiliary(
    rng: Rng, base: densities.Row, informed: bool, correlated: bool
) -> tuple[float, float, float]:
    """Rates from q, NaN if outside the square, and their factor if it is available for free."""
    if not informed:
        alpha = rng.random()
        return alpha, rng.random(), 0.0
    if not correlated:
        alpha = _draw_rate(rng, base.x, base.n0, base.end_x)
        return alpha, _draw_rate(rng, base.y, base.n1, base.end_y), 0.0
    p = rng.random()
    q = rng.random()
    if p <= 0 or q <= 0:
        return math.nan, math.nan, 0.0
    theta = base.centre_x + base.scale_x * math.log(p / (1 - p))
    phi = base.centre_y + base.scale_y * math.log(q / (1 - q))
    if not (0 < theta < 0.5 * math.pi and 0 < phi < 0.5 * math.pi):
        return math.nan, math.nan, 0.0
    return math.sin(theta) ** 2, math.sin(phi) ** 2, 1 / (p * (1 - p) * q * (1 - q))


@densities.inlined
def _cell(base: densities.Row, alpha: float, beta: float, parameters: FloatArray) -> float:
    """Probability of the cell of a base's counts."""
    return math.exp(densities.log_row_cell(base, alpha, beta, parameters[TAU], parameters[RHO]))


@densities.compiled
def _compare(  # noqa: PLR0912, PLR0915
    rng: Rng,
    problem: CompiledModel,
    j: int,
    num_auxiliary: int,
    state: State,
    new: FloatArray,
    latents_old: FloatArray,
    latents_new: FloatArray,
) -> float:
    """Log of the ratio of averaged weights of one base, without the areas; picks a latent for each.

    The picks are reservoir draws that share their random numbers: only one of them is used.
    """
    base, informed, correlated = problem.rows[j], problem.informed, problem.correlated
    old, latent, kept_old, kept_new = state[0], state[1][j], latents_old[j], latents_new[j]
    x, n0, y, n1 = base.x, base.n0, base.y, base.n1
    ring_old = densities.ring_of(old[EPSILON], problem.delta, old[STRENGTH])
    ring_new = densities.ring_of(new[EPSILON], problem.delta, new[STRENGTH])
    same = old[TAU] == new[TAU] and old[RHO] == new[RHO]
    xx_old, yy_old, xy_old, log_old = densities.quadratic_form(old[TAU], old[RHO], n0, n1)
    xx_new, yy_new, xy_new, log_new = densities.quadratic_form(new[TAU], new[RHO], n0, n1)
    cells = problem.cells
    log_constant = log_new - log_old if correlated and not cells else 0.0
    root0, root1 = math.sqrt(n0), math.sqrt(n1)
    total_old, total_new = 0.0, 0.0
    kept_old[:] = latent
    kept_new[:] = latent
    alpha, beta, factor = latent[0], latent[1], latent[2]
    for k in range(num_auxiliary):
        if k > 0:
            alpha, beta, factor = _draw_auxiliary(rng, base, informed, correlated)
        low, high, _, _ = densities.fold(alpha, beta)
        in_old = densities.between(ring_old, low, high)
        in_new = densities.between(ring_new, low, high)
        if not (in_old or in_new):
            continue
        if k > 0 and not (informed and correlated):
            factor = _factor(base, alpha, beta, informed, correlated)
        weight_old, weight_new = factor, factor
        if correlated:
            spread_x = root0 * math.sqrt(alpha * (1 - alpha))
            spread_y = root1 * math.sqrt(beta * (1 - beta))
            if not (spread_x > 0 and spread_y > 0):
                continue
            dx, dy = (x - n0 * alpha) / spread_x, (y - n1 * beta) / spread_y
            # Cells lack the inverse roots of the density, which the factor makes up for.
            roots = spread_x * spread_y
            if cells and (in_old or same):
                weight_old *= roots * _cell(base, alpha, beta, old)
            elif in_old or same:
                weight_old *= math.exp(-(xx_old * dx * dx + yy_old * dy * dy + xy_old * dx * dy))
            if same:
                weight_new = weight_old
            elif cells and in_new:
                weight_new *= roots * _cell(base, alpha, beta, new)
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
        # The starting latent's weight underflowed: a proposal with positive weight is better.
        return 1e6 if total_new > 0 else 0.0
    if total_new <= 0:
        return -math.inf
    return float(math.log(total_new / total_old) + log_constant)


# --- proposals ------------------------------------------------------------------------------------


@densities.compiled
def to_line(problem: CompiledModel, draws: FloatArray) -> FloatArray:
    """(log epsilon, logit s) and the unconstrained correlations, for each row of parameters."""
    lines = np.zeros(draws.shape)
    for i in range(len(draws)):
        s = draws[i, STRENGTH]
        lines[i, EPSILON] = math.log(draws[i, EPSILON])
        lines[i, STRENGTH] = math.log(s / (1 - s)) if 0 < s < 1 else 0.0
        if problem.correlated:
            t, v = cheap_moves.correlations_to_line(problem, draws[i, TAU], draws[i, RHO])
            lines[i, TAU], lines[i, RHO] = t, v
    return lines


@densities.spliced
def _propose_fixed(
    rng: Rng, problem: CompiledModel, scales: FloatArray, old: FloatArray, new: FloatArray
) -> None:
    """The paper's proposal: independent steps on log epsilon, s, tau and rho, all at once."""
    for i in range(len(old)):
        new[i] = old[i]
        if problem.free[i]:
            step = scales[i] * rng.standard_normal()
            new[i] = old[i] * math.exp(step) if i == EPSILON else old[i] + step


@densities.spliced
def _propose_tuned(
    rng: Rng,
    problem: CompiledModel,
    factor: FloatArray,
    edges_only: bool,
    old: FloatArray,
    new: FloatArray,
) -> None:
    """A correlated step of the free parameters, unconstrained, with one of three lengths."""
    line, noise = to_line(problem, old.reshape(1, -1))[0], np.zeros(len(old))
    choice = rng.random()
    length = 0.3 if choice <= 0.25 else 1.0 if choice <= 0.8 else 3.0
    for i in range(len(old)):
        noise[i] = length * rng.standard_normal()
    for i in range(len(old)):
        for k in range(i + 1):
            line[i] += factor[i, k] * noise[k]
    new[:] = old
    if problem.free[EPSILON]:
        new[EPSILON] = math.exp(min(line[EPSILON], FARTHEST_UNCONSTRAINED))
    if problem.free[STRENGTH]:
        new[STRENGTH] = (
            1 / (1 + math.exp(-line[STRENGTH])) if line[STRENGTH] > -FARTHEST_UNCONSTRAINED else 0.0
        )
    if problem.correlated and not edges_only:
        new[TAU], new[RHO] = cheap_moves.correlations_from_line(problem, line[TAU], line[RHO])


@densities.compiled
def _log_prior(problem: CompiledModel, parameters: FloatArray, on_line: bool) -> float:
    """Log prior of the parameters, or of their unconstrained values, up to a constant."""
    epsilon, s = parameters[EPSILON], parameters[STRENGTH]
    total = densities.log_edge_prior(problem, epsilon, s)
    if not total > -math.inf:
        return -math.inf
    if on_line and problem.free[EPSILON]:
        total += math.log(epsilon)
    if on_line and problem.free[STRENGTH]:
        total += math.log(s) + math.log1p(-s)
    if problem.correlated:
        total += densities.log_correlation_prior(problem, parameters[TAU], parameters[RHO], on_line)
    return total


@densities.spliced
def _log_proposed(
    problem: CompiledModel, tuned: bool, jump: bool, old: FloatArray, new: FloatArray
) -> float:
    """Log ratio of priors, areas and Jacobians, new over old; a jump is drawn from the prior."""
    log_prior = _log_prior(problem, new, tuned)
    if not log_prior > -math.inf:
        return -math.inf
    log_ratio = cheap_moves.log_areas(problem, old, new)
    if not jump:
        log_ratio += log_prior - _log_prior(problem, old, tuned)
        if not tuned and problem.free[EPSILON]:
            log_ratio += math.log(new[EPSILON] / old[EPSILON])
    return log_ratio


# --- iterations -----------------------------------------------------------------------------------


@densities.compiled
def run(
    rng: Rng,
    problem: CompiledModel,
    state: State,
    proposal: Proposal,
    num_auxiliary: int,
    draws: FloatArray,
    accepted: FloatArray,
    tried: FloatArray,
) -> None:
    """Advance a chain in place, one iteration for each of the ``draws``.

    ``tried`` and ``accepted`` count random-walk steps: first those of all parameters, then those of
    epsilon and s alone.
    """
    parameters, latents = state
    new, kept_old, kept_new = parameters.copy(), latents.copy(), latents.copy()
    tuned = proposal.tuned
    splits = tuned and problem.correlated and (problem.free[EPSILON] or problem.free[STRENGTH])
    for i in range(len(draws)):
        if tuned and cheap_moves.make_cheap_moves(rng, problem, state):
            refresh_factors(problem, latents)
        jump = tuned and problem.free[STRENGTH] and rng.random() < PRIOR_JUMP
        edges_only = splits and rng.random() < EDGES_ONLY
        if jump:
            new[:] = parameters
            new[STRENGTH] = rng.beta(problem.strength_prior[0], problem.strength_prior[1])
        elif tuned:
            factor = proposal.factors[int(edges_only)]
            _propose_tuned(rng, problem, factor, edges_only, parameters, new)
        else:
            _propose_fixed(rng, problem, proposal.scales, parameters, new)
        log_ratio = _log_proposed(problem, tuned, jump, parameters, new)
        possible = log_ratio > -math.inf
        if not possible:
            new[:] = parameters
        for j in range(len(latents)):
            log_ratio += _compare(rng, problem, j, num_auxiliary, state, new, kept_old, kept_new)
        accept = possible and math.log(1 - rng.random()) < log_ratio
        if accept:
            parameters[:] = new
        latents[:] = kept_new if accept else kept_old
        if not jump:
            tried[int(edges_only)] += 1
            accepted[int(edges_only)] += int(accept)
        draws[i] = parameters
