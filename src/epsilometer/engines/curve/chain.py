"""Probability of an order of labels, relative to random order: the chain of ranks, compiled.

With t_1 < ... < t_M the ordered shares of M independent uniform scores, the likelihood ratio is
Lambda = E[prod h_{c_m}(t_m)], where h are the densities of both hypotheses over t.  Let g_m(t) be the
contribution of the first m factors given that the m-th share is t.  Then

    g_{m+1}(t) = h_{c_{m+1}}(t) E[g_m(u)],   u = t U^(1/m),   Lambda = E[g_M(U^(1/M))],

and g is smooth on the scale 1 / sqrt(M), so it can be propagated from rank to rank by cubics between the
points of a `ShareGrid`.  Scores whose order is unknown are averaged over: for a block of n = a + b, a
without and b with the point,

    g_{r+n}(t) = E[g_r(u) A^a B^b ((a/n) h_0(t) / A + (b/n) h_1(t) / B)],   u = t Beta(r, n),

where A and B are the mean densities between u and t.  This is exact, also for a block that only gives
the number of each kind between two ranks; counts at one threshold are two such blocks.

t pools both hypotheses in the proportions of the scores, N1 of M with the point.  So the share of rank m
is near m / M, and each step uses a window of ten or more standard deviations.  Where a curve does not
fit, g is steeper than that and the chain only detects the misfit: averages are kept above 0, and finer
refinement steps of the engine show the size of the error.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve.averages import PART, place, steps_of, window_of
from epsilometer.engines.curve.ranks import ShareGrid
from epsilometer.model.family import Densities

#: Steps between rescalings: each multiplies by at most 2, and underflow means that nothing is left.
RESCALE = 8

#: Angles and shares of a grid, densities on it, and the share of members.
CurveArrays = tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray, FloatArray], float]


class GriddedCurves(NamedTuple):
    """Densities of curves on a grid; ``members`` in (0, 1) is the share of the pool with the point.

    ``reach`` is the half-width of the window, in standard deviations of a rank's share.
    """

    grid: ShareGrid
    densities: Densities
    members: float
    reach: float


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _step(
    low: int, high: int, first: IntArray, weights: FloatArray, g: FloatArray, out: FloatArray
) -> None:
    """Averages of g at the points from low to high, for all columns."""
    columns = g.shape[1]
    for c in range(columns):
        out[low, c] = g[low, c]
    for cell in range(low, high):
        start, row = first[cell], cell - low
        w0, w1, w2 = weights[row, 0], weights[row, 1], weights[row, 2]
        w3, kept = weights[row, 3], weights[row, 4]
        for c in range(columns):
            inside = (
                w0 * g[start, c]
                + w1 * g[start + 1, c]
                + w2 * g[start + 2, c]
                + w3 * g[start + 3, c]
            )
            # A cubic through steep values may fall below 0; an average of positive values cannot.
            out[cell + 1, c] = kept * out[cell, c] + max(inside, 0.0)


@numba.njit(nogil=True, cache=True)
def _rescale(low: int, high: int, g: FloatArray, logs: FloatArray) -> None:
    """Divide each column by its largest value, and add its logarithm to ``logs``."""
    for c in range(g.shape[1]):
        top = 0.0
        for j in range(low, high + 1):
            top = max(top, g[j, c])
        if top > 0 and top < math.inf:
            logs[c] += math.log(top)
            for j in range(low, high + 1):
                g[j, c] /= top
        else:
            logs[c] = -math.inf
            for j in range(low, high + 1):
                g[j, c] = 0.0


@numba.njit(nogil=True, cache=True)
def _spread(low: int, high: int, new_low: int, new_high: int, g: FloatArray) -> None:
    """Extend g as a constant to the points of the next window and its cubics."""
    last = min(new_high + 3, g.shape[0] - 1)
    for j in range(high + 1, last + 1):
        for c in range(g.shape[1]):
            g[j, c] = g[high, c]
    for j in range(max(new_low - 3, 0), low):
        for c in range(g.shape[1]):
            g[j, c] = g[low, c]


@numba.njit(nogil=True, cache=True)
def _block(
    zeros: int,
    ones: int,
    rank: int,
    window: tuple[int, int],
    new: tuple[int, int],
    rule: tuple[FloatArray, FloatArray],
    curved: CurveArrays,
    g: FloatArray,
    column: int,
    out: FloatArray,
) -> float:
    """One column of g after a block of ties; returns the log of the factor divided out."""
    theta, share, (without, with_point, below), members = curved
    beta_share, beta_weight = rule
    curve = column % without.shape[1]
    n = zeros + ones
    last = len(share) - 1
    nodes = len(beta_share) if rank > 0 else 1
    logs = np.empty((new[1] - new[0] + 1, nodes))
    top = -np.inf
    for j in range(new[0], new[1] + 1):
        t = share[j]
        for p in range(nodes):
            start, value, under = 0.0, 1.0, 0.0
            if rank > 0:
                start = t * beta_share[p]
                angle = 2 * math.asin(math.sqrt(start))
                cell = min(max(place(theta, angle) - 1, window[0]), window[1] - 1)
                corner = min(max(cell - 1, 0), last - 3)
                value, under = 0.0, 0.0
                for point in range(4):
                    weight = 1.0
                    for other in range(4):
                        if other != point:
                            gap = theta[corner + point] - theta[corner + other]
                            weight *= (angle - theta[corner + other]) / gap
                    value += weight * g[corner + point, column]
                    under += weight * below[corner + point, curve]
            width = t - start
            if width > 1e-14:
                mean0 = min(max((below[j, curve] - under) / width, 1e-300), 1 / (1 - members))
            else:
                mean0 = max(without[j, curve], 1e-300)
            mean1 = max((1 - (1 - members) * mean0) / members, 1e-300)
            edge = zeros / n * without[j, curve] / mean0 + ones / n * with_point[j, curve] / mean1
            value *= edge
            logs[j - new[0], p] = -np.inf
            if value > 0:
                size = math.log(value) + zeros * math.log(mean0) + ones * math.log(mean1)
                if rank > 0:
                    size += math.log(beta_weight[p])
                logs[j - new[0], p] = size
                top = max(top, size)
    for j in range(new[0], new[1] + 1):
        total = 0.0
        for p in range(nodes):
            total += math.exp(logs[j - new[0], p] - top) if top > -np.inf else 0.0
        out[j, column] = total
    return top


@numba.njit(nogil=True, cache=True)
def _singles(  # noqa: PLR0912 (one loop, for the compiler)
    labels: IntArray,
    rank: int,
    window: tuple[int, int],
    ranges: IntArray,
    weights: FloatArray,
    first: IntArray,
    densities: tuple[FloatArray, FloatArray, FloatArray],
    g: FloatArray,
    out: FloatArray,
    logs: FloatArray,
) -> None:
    """Propagate g from a rank, with its window, over scores without ties: labels (bases, scores).

    A label beyond the last rank means no score: only the average is taken, over all points.
    """
    low, high = window
    without, with_point, _ = densities
    bases, steps = labels.shape
    curves = without.shape[1]
    for k in range(steps):
        begin, end, new_low, new_high = ranges[k]
        if rank + k == 0:
            for j in range(begin, end + 1):
                for c in range(g.shape[1]):
                    out[j, c] = 1.0
        else:
            # Points that are new to the window do not contribute yet.
            _spread(low, high, begin, end, g)
            _step(begin, end, first, weights[k], g, out)
        for j in range(new_low, new_high + 1):
            for b in range(bases):
                start = b * curves
                if labels[b, k] == 1:
                    for c in range(curves):
                        g[j, start + c] = out[j, start + c] * with_point[j, c]
                elif labels[b, k] == 0:
                    for c in range(curves):
                        g[j, start + c] = out[j, start + c] * without[j, c]
                else:
                    for c in range(curves):
                        g[j, start + c] = out[j, start + c]
        low, high = new_low, new_high
        if (rank + k) % RESCALE == 0:
            _rescale(low, high, g, logs)


def log_likelihood_ratios(zeros: IntArray, ones: IntArray, curved: GriddedCurves) -> FloatArray:
    """Log Lambda of several bases with equal block sizes, under several curves: (bases, curves).

    ``zeros`` and ``ones`` are the numbers of scores without and with the point in each block of ties,
    highest first, shape (bases, blocks).
    """
    sizes = zeros[0] + ones[0]
    total, blocks, bases = int(sizes.sum()), len(sizes), len(zeros)
    # Plain tuples: a compiled function that names a class cannot be loaded once the class has moved.
    grid, densities = curved.grid, (*curved.densities,)
    arrays = grid.theta, grid.share, densities, curved.members
    points, curves = curved.densities.without.shape
    g, out = np.zeros((points, bases * curves)), np.zeros((points, bases * curves))
    logs = np.zeros(bases * curves)
    rank, window, k = 0, (0, points - 1), 0

    def singles(labels: IntArray, rank: int, window: tuple[int, int]) -> tuple[int, int]:
        while len(labels[0]):
            start = rank - rank % PART
            steps = steps_of(grid, total, curved.reach, start)
            part = slice(rank - start, rank - start + len(labels[0]))
            ranges, weights = steps.ranges[part], steps.weights[part]
            some, labels = labels[:, : len(ranges)], labels[:, len(ranges) :]
            some = np.ascontiguousarray(some)
            _singles(some, rank, window, ranges, weights, grid.first, densities, g, out, logs)
            rank, window = rank + len(ranges), (int(ranges[-1, 2]), int(ranges[-1, 3]))
        return window

    while k < blocks:
        n = int(sizes[k])
        if n == 1:
            after = k + int(np.argmin(np.append(sizes[k:] == 1, False)))
            window = singles(ones[:, k:after], rank, window)
            rank, k = rank + after - k, after
            continue
        new = window_of(grid.theta, rank + n, total, curved.reach)
        rule = beta_rule(rank, n) if rank else (np.ones(1), np.ones(1))
        _spread(*window, *window, g)
        for column in range(bases * curves):
            tied = int(zeros[column // curves, k]), int(ones[column // curves, k])
            logs[column] += _block(*tied, rank, window, new, rule, arrays, g, column, out)
        g[new[0] : new[1] + 1] = out[new[0] : new[1] + 1]
        rank, window, k = rank + n, new, k + 1
        _rescale(*window, g, logs)
    # One more average, over the last share, reaches t = 1.
    singles(np.full((bases, 1), 2), rank, window)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratios = logs + np.log(g[-1])
    return np.where(np.isnan(log_ratios), -np.inf, log_ratios).reshape(bases, curves)


#: Numbers of quadrature points for small blocks, and for any.
FEW_POINTS, MANY_POINTS = 10, 36


def beta_rule(rank: int, size: int) -> tuple[FloatArray, FloatArray]:
    """Gauss points and weights for x ~ Beta(rank, size), from the eigenvalues of the Jacobi matrix."""
    from scipy.linalg import eigh_tridiagonal

    a, b = size - 1.0, rank - 1.0
    k = np.arange(1.0, FEW_POINTS if size <= FEW_POINTS else MANY_POINTS)
    s = 2 * k + a + b
    diagonal = np.append((b - a) / (a + b + 2), (b * b - a * a) / (s * (s + 2)))
    off_diagonal = k * (k + a) * (k + b) * (k + a + b) / (s * s * (s + 1) * (s - 1))
    # At k = 1 a factor cancels from numerator and denominator, and may be 0.
    off_diagonal[0] = (1 + a) * (1 + b) / (s[0] ** 2 * (s[0] + 1))
    values, vectors = eigh_tridiagonal(diagonal, 2 * np.sqrt(off_diagonal))
    weights = vectors[0] ** 2
    return np.clip((values + 1) / 2, 0.0, 1.0), np.maximum(weights, 1e-300)
