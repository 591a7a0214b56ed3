"""Compiled building blocks of the sampler: data and model as numbers, rings, priors, likelihoods.

There are three ways to compile.  Numba's cache checks the modification time of one file only: after a
change here, touch the kernels.
"""

import math
from typing import Any, NamedTuple, cast

import numpy as np
from numba import njit

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedCounts
from epsilometer.model.models import CountModel
from epsilometer.model.normal_cells import log_cell
from epsilometer.model.priors import Prior

compiled = njit(nogil=True, cache=True)

#: For inner loops: a call would cost as much as the work.
inlined = njit(nogil=True, cache=True, forceinline=True)

#: For moves: each is a separate function here, but compiled as part of one loop.
spliced = njit(inline="always")

Rng = np.random.Generator
#: A record: x, n0, y, n1, and columns for the auxiliaries.
Row = Any

#: e^-epsilon, 1 - delta, e^-(s epsilon), 1 - s delta: the edge and the core of R_s(epsilon, delta).
Ring = tuple[float, float, float, float]

#: Densities of epsilon known to the kernels; those of the strength are Beta.
COMPILED_PRIORS = ("half-normal", "exponential", "log-normal", "uniform")

COMPILED_LIKELIHOODS = ("binomial", "correlated", "correlated-published")

PARAMETERS = ("epsilon", "strength", "within_correlation", "cross_correlation")
#: Indices into a parameter vector.
EPSILON, STRENGTH, TAU, RHO = range(len(PARAMETERS))

HALF_NORMAL, EXPONENTIAL, LOG_NORMAL, UNIFORM = range(len(COMPILED_PRIORS))

#: Beyond it e^-epsilon nears the limit of double precision; chains do not go there.
LARGEST_SAMPLED_EPSILON = 700.0

#: Chains start below the limit, with some room to move.
LARGEST_START = 600.0

#: Deliberate faults for tests, to show that they would be detected; 0 is none.
NO_JACOBIAN, NO_AREA = 1, 2


#: Columns of rows for the auxiliaries.  Informed, binomial counts: which end has a heavy tail (-1
#: low, 1 high, 0 none) and the log constant of its ratio.  Informed, correlated counts: centre and
#: scale of the logistic in the arcsine of the rate's root.  Uniform: the largest log likelihood.
COLUMNS = (
    *("end_x", "end_y", "log_tail_x", "log_tail_y"),
    *("centre_x", "centre_y", "scale_x", "scale_y", "log_top"),
)


class CompiledModel(NamedTuple):
    """Counts and model in the form that compiled code uses."""

    rows: Row
    #: The distinct pairs of trials.
    pairs: FloatArray
    #: Which parameters are estimated.
    free: BoolArray
    delta: float
    least_epsilon: float
    epsilon_prior: tuple[int, float, float]
    strength_prior: tuple[float, float]
    correlated: bool
    #: Whether correlated counts have cell probabilities instead of the published density.
    cells: bool
    tau_bounds: tuple[float, float]
    tau_scale: float
    #: Whether auxiliaries are informed.
    informed: bool
    fault: int = 0


def compile_model(counts: AttackCounts, model: CountModel, *, informed: bool) -> CompiledModel:
    """Tabulate a model accepted by :meth:`McmcSettings.supports`, with room for the auxiliaries."""
    priors, named = model.priors_of(counts), model.parameters_of(counts)
    rows = np.zeros(len(counts), [(name, float) for name in ("x", "n0", "y", "n1", *COLUMNS)])
    (rows["x"], rows["n0"]), (rows["y"], rows["n1"]) = counts.by_hypothesis
    tau_bounds, tau_scale = (0.0, 0.0), 0.0
    correlated = bool(model.likelihood.parameters)
    if correlated:
        likelihood = cast(CorrelatedCounts, model.likelihood)
        tau_bounds = likelihood.within_correlation_bounds(counts)
        tau_scale = likelihood.within_correlation_scale
    return CompiledModel(
        rows=rows,
        pairs=np.unique(np.stack([rows["n0"], rows["n1"]], axis=1), axis=0),
        free=np.array([name in named for name in PARAMETERS]),
        delta=model.delta,
        least_epsilon=model.likelihood.smallest_epsilon(counts),
        epsilon_prior=_prior_code(priors["epsilon"]),
        strength_prior=_prior_code(priors["strength"])[1:],
        correlated=correlated,
        cells=correlated and model.likelihood.bounded,
        tau_bounds=tau_bounds,
        tau_scale=tau_scale,
        informed=informed,
    )


def _prior_code(prior: Prior) -> tuple[int, float, float]:
    """A prior as encoded for the kernels; for a fixed parameter any prior will do."""
    if prior.fixed_value is not None or prior.compiled is None:
        return UNIFORM, math.inf, 0.0
    name, a, b = prior.compiled
    return COMPILED_PRIORS.index(name) if name in COMPILED_PRIORS else -1, float(a), float(b)


# --- the ring -------------------------------------------------------------------------------------


@inlined
def ring_of(epsilon: float, delta: float, strength: float) -> Ring:
    """The edge and the core of R_s(epsilon, delta)."""
    return math.exp(-epsilon), 1 - delta, math.exp(-strength * epsilon), 1 - strength * delta


@inlined
def fold(alpha: float, beta: float) -> tuple[float, float, bool, bool]:
    """The image of a point with low <= high and low + high <= 1: R(epsilon, delta) is symmetric.

    Also returns whether it was reflected and whether the rates were swapped.
    """
    reflected = alpha + beta > 1
    if reflected:
        alpha, beta = 1 - alpha, 1 - beta
    swapped = alpha > beta
    return (beta, alpha, reflected, True) if swapped else (alpha, beta, reflected, False)


@inlined
def unfold(low: float, high: float, reflected: bool, swapped: bool) -> tuple[float, float]:
    """The inverse of :func:`fold`."""
    alpha, beta = (high, low) if swapped else (low, high)
    return (1 - alpha, 1 - beta) if reflected else (alpha, beta)


@inlined
def between(ring: Ring, low: float, high: float) -> bool:
    """Whether a folded point of the square is in the ring: of two edges the flat one binds."""
    edge, room, core, inner = ring
    return low + edge * high >= edge * room and low + core * high < core * inner


@inlined
def in_ring(ring: Ring, alpha: float, beta: float) -> bool:
    """Whether a point is in R_s(epsilon, delta)."""
    low, high, _, _ = fold(alpha, beta)
    return 0 <= alpha <= 1 and 0 <= beta <= 1 and between(ring, low, high)


@compiled
def ring_mask(ring: Ring, alpha: FloatArray, beta: FloatArray) -> BoolArray:
    """Which points of two tables are in the ring."""
    mask = np.empty(alpha.shape, dtype=np.bool_)
    for i in range(alpha.shape[0]):
        for j in range(alpha.shape[1]):
            mask[i, j] = in_ring(ring, alpha[i, j], beta[i, j])
    return mask


@compiled
def all_in_ring(ring: Ring, points: FloatArray) -> bool:
    """Whether all points (alpha, beta) are in the ring."""
    for j in range(len(points)):  # noqa: SIM110
        if not in_ring(ring, points[j, 0], points[j, 1]):
            return False
    return True


@compiled
def log_ring_area(epsilon: float, delta: float, strength: float) -> float:
    """Scalar version of :func:`epsilometer.model.region.log_ring_area`."""
    inner = strength * epsilon
    gap = (1 - strength) * epsilon
    ratio = -math.expm1(-gap) / gap if gap > 0 else 1.0
    small, core = math.exp(-epsilon), math.exp(-inner)
    decay = core / ((1 + core) * (1 + small))
    corner_part = (1 - strength * delta) ** 2 * epsilon * ratio * decay
    delta_part = small / (1 + small) * delta * (2 - delta * (1 + strength))
    return math.log1p(-strength) + math.log(2 * (corner_part + delta_part))


# --- priors, up to constants ----------------------------------------------------------------------


@inlined
def log_prior_at(prior: tuple[int, float, float], value: float) -> float:
    """Log prior density of epsilon."""
    code, a, b = prior
    if code == HALF_NORMAL:
        return -0.5 * (value / a) ** 2
    if code == EXPONENTIAL:
        return -value / a
    if code == LOG_NORMAL:
        z = (math.log(value) - a) / b
        return -math.log(value) - 0.5 * z * z
    return 0.0 if value <= a else -math.inf


@compiled
def log_edge_prior(problem: CompiledModel, epsilon: float, s: float) -> float:
    """Log prior density of epsilon and s, where these are free; -inf where chains do not go."""
    if problem.free[EPSILON] and not problem.least_epsilon < epsilon < LARGEST_SAMPLED_EPSILON:
        return -math.inf
    if problem.free[STRENGTH] and not 0 < s < 1:
        return -math.inf
    total = 0.0
    if problem.free[EPSILON]:
        total += log_prior_at(problem.epsilon_prior, epsilon)
    if problem.free[STRENGTH]:
        a, b = problem.strength_prior
        total += (a - 1) * math.log(s) + (b - 1) * math.log1p(-s)
    return total


@compiled
def cross_bound(tau: float, pairs: FloatArray) -> float:
    """The largest |rho| that is valid for every pair of trials."""
    least = math.inf
    for i in range(len(pairs)):
        c0 = max(1 + (pairs[i, 0] - 1) * tau, 0.0) / pairs[i, 0]
        c1 = max(1 + (pairs[i, 1] - 1) * tau, 0.0) / pairs[i, 1]
        least = min(least, math.sqrt(c0 * c1))
    return least


@compiled
def log_correlation_prior(problem: CompiledModel, tau: float, rho: float, on_line: bool) -> float:
    """Log prior density of tau and rho, or of their unconstrained values; -inf if impossible."""
    low, high = problem.tau_bounds
    bound = cross_bound(tau, problem.pairs)
    if not (low < tau < high and abs(rho) < bound):
        return -math.inf
    log_normal = -0.5 * (tau / problem.tau_scale) ** 2
    if not on_line:
        return log_normal - math.log(bound)
    # The bound of rho cancels against its slope.
    r = rho / bound
    return log_normal + (math.log((tau - low) * (high - tau)) + math.log((1 + r) * (1 - r)))


# --- the likelihood of counts ---------------------------------------------------------------------


@inlined
def quadratic_form(
    tau: float, rho: float, n0: float, n1: float
) -> tuple[float, float, float, float]:
    """Coefficients of dx^2, dy^2, dx dy in minus the log density, and its log constant.

    Deviations dx, dy are in binomial standard deviations.
    """
    c0, c1 = 1 + (n0 - 1) * tau, 1 + (n1 - 1) * tau
    r = rho / math.sqrt(c0 / n0 * c1 / n1)
    rest = 1 - r * r
    if not (c0 > 0 and c1 > 0 and rest > 0):
        return 0.0, 0.0, 0.0, -math.inf
    scale = 0.5 / rest
    cross = -2 * r * scale / math.sqrt(c0 * c1)
    return scale / c0, scale / c1, cross, -0.5 * math.log(c0 * c1 * rest)


@compiled
def log_row_cell(row: Row, alpha: float, beta: float, tau: float, rho: float) -> float:
    """Log probability of the cell of a row's counts."""
    x, n0, y, n1 = row.x, row.n0, row.y, row.n1
    c0, c1 = 1 + (n0 - 1) * tau, 1 + (n1 - 1) * tau
    if not (c0 > 0 and c1 > 0):
        return -math.inf
    r = rho / math.sqrt(c0 / n0 * c1 / n1)
    if not abs(r) < 1:
        return -math.inf
    return float(log_cell(x, n0, alpha, c0, y, n1, beta, c1, r))


@inlined
def log_count(
    row: Row, alpha: float, beta: float, tau: float, rho: float, correlated: bool, cells: bool
) -> float:
    """Log likelihood of a row's counts, up to a constant."""
    if not (0 < alpha < 1 and 0 < beta < 1):
        return -math.inf
    x, n0, y, n1 = row.x, row.n0, row.y, row.n1
    if not correlated:
        total = x * math.log(alpha) + (n0 - x) * math.log1p(-alpha)
        return float(total + (y * math.log(beta) + (n1 - y) * math.log1p(-beta)))
    if cells:
        return log_row_cell(row, alpha, beta, tau, rho)
    variance_x, variance_y = alpha * (1 - alpha), beta * (1 - beta)
    dx = (x - n0 * alpha) / math.sqrt(n0 * variance_x)
    dy = (y - n1 * beta) / math.sqrt(n1 * variance_y)
    xx, yy, xy, log_constant = quadratic_form(tau, rho, n0, n1)
    total = log_constant - 0.5 * math.log(variance_x * variance_y)
    return float(total - (xx * dx * dx + yy * dy * dy + xy * dx * dy))


@inlined
def log_row(
    problem: CompiledModel, parameters: FloatArray, row: Row, alpha: float, beta: float
) -> float:
    """:func:`log_count` with the correlations in ``parameters``."""
    tau, rho = parameters[TAU], parameters[RHO]
    return log_count(row, alpha, beta, tau, rho, problem.correlated, problem.cells)
