"""Compiled geometry of groups: what lies in R(epsilon, delta), and how much of a scatter does.

The share Z(a, b) of the scatter around (a, b) that stays in R(epsilon, delta) comes by quadrature for
normal scatter, and as the area of a polygon for uniform.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

NORMAL, UNIFORM = 0, 1
ROOT_3 = math.sqrt(3.0)
REACH = 5.5
"""Spreads beyond which normal scatter has nothing that matters: 2e-8 on each side."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


@njit(nogil=True, cache=True)
def least_beta(alpha: float, epsilon: float, delta: float) -> float:
    """The lower edge of R(epsilon, delta)."""
    flat = math.exp(-epsilon) * (1 - delta - alpha)
    steep = 1 - delta - math.exp(min(epsilon, 700.0)) * alpha
    return max(0.0, flat, steep)


@njit(nogil=True, cache=True)
def inside(alpha: float, beta: float, epsilon: float, delta: float) -> bool:
    """Whether a point lies in R(epsilon, delta)."""
    if not (0.0 <= alpha <= 1.0 and 0.0 <= beta <= 1.0):
        return False
    if beta < least_beta(alpha, epsilon, delta):
        return False
    return 1 - beta >= least_beta(1 - alpha, epsilon, delta)


@njit(nogil=True, cache=True)
def in_ring(alpha: float, beta: float, epsilon: float, delta: float, s: float) -> bool:
    """Whether a point lies in R_s(epsilon, delta)."""
    return inside(alpha, beta, epsilon, delta) and not inside(alpha, beta, s * epsilon, s * delta)


@njit(nogil=True, cache=True)
def _normal_below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@njit(nogil=True, cache=True)
def _kept_normal(a: float, b: float, epsilon: float, delta: float, spread: float) -> float:
    """Probability that normal scatter around (a, b) stays in R(epsilon, delta)."""
    # R is symmetric: on this side of the diagonals its edge is flat along alpha, on the other steep.
    if (b > a) == (a + b < 1):
        a, b = b, a
    reach = REACH * spread
    if (
        inside(a - reach, b - reach, epsilon, delta)
        and inside(a + reach, b + reach, epsilon, delta)
        and inside(a - reach, b + reach, epsilon, delta)
        and inside(a + reach, b - reach, epsilon, delta)
    ):
        return 1.0
    # Edges turn at these rates; between them, and a spread and a half apart, the integrand is smooth.
    corner = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    turns = (corner, delta, 1 - corner, 1 - delta)
    low, end = max(a - reach, 0.0), min(a + reach, 1.0)
    total = 0.0
    while low < end:
        high = min(end, low + 1.5 * spread)
        for turn in turns:
            if low + 1e-12 < turn < high:
                high = turn
        half = 0.5 * (high - low)
        part = 0.0
        for k in range(len(NODES)):
            alpha = low + half * (1 + NODES[k])
            z = (alpha - a) / spread
            bottom = (least_beta(alpha, epsilon, delta) - b) / spread
            top = (1 - least_beta(1 - alpha, epsilon, delta) - b) / spread
            share = _normal_below(top) - _normal_below(bottom)
            part += WEIGHTS[k] * math.exp(-0.5 * z * z) * share
        total += half * part
        low = high
    return total / (spread * math.sqrt(2 * math.pi))


@njit(nogil=True, cache=True)
def _kept_uniform(a: float, b: float, epsilon: float, delta: float, spread: float) -> float:
    """Share of the square around (a, b) that lies in R(epsilon, delta): a polygon, cut side by side."""
    w = ROOT_3 * spread
    size = 4
    xs, ys = np.empty(16), np.empty(16)
    xs[0], ys[0], xs[1], ys[1] = max(a - w, 0.0), max(b - w, 0.0), min(a + w, 1.0), max(b - w, 0.0)
    xs[2], ys[2], xs[3], ys[3] = min(a + w, 1.0), min(b + w, 1.0), max(a - w, 0.0), min(b + w, 1.0)
    shrink = math.exp(-epsilon)
    room = shrink * (1 - delta)
    new_x, new_y = np.empty(16), np.empty(16)
    for side in range(4):
        # Kept where p x + q y >= r.
        if side == 0:
            p, q, r = shrink, 1.0, room
        elif side == 1:
            p, q, r = 1.0, shrink, room
        elif side == 2:
            p, q, r = -shrink, -1.0, room - shrink - 1.0
        else:
            p, q, r = -1.0, -shrink, room - shrink - 1.0
        count = 0
        for k in range(size):
            x0, y0 = xs[k], ys[k]
            x1, y1 = xs[(k + 1) % size], ys[(k + 1) % size]
            f0, f1 = p * x0 + q * y0 - r, p * x1 + q * y1 - r
            if f0 >= 0:
                new_x[count], new_y[count] = x0, y0
                count += 1
            if (f0 >= 0) != (f1 >= 0):
                t = f0 / (f0 - f1)
                new_x[count], new_y[count] = x0 + t * (x1 - x0), y0 + t * (y1 - y0)
                count += 1
        size = count
        if size == 0:
            return 0.0
        xs[:size], ys[:size] = new_x[:size], new_y[:size]
    area = 0.0
    for k in range(size):
        n = (k + 1) % size
        area += xs[k] * ys[n] - xs[n] * ys[k]
    return 0.5 * area / (4 * w * w)


@njit(nogil=True, cache=True)
def log_kept(
    scatter: int, a: float, b: float, epsilon: float, delta: float, spread: float
) -> float:
    """Log Z(a, b)."""
    if scatter == NORMAL:
        kept = _kept_normal(a, b, epsilon, delta, spread)
    else:
        kept = _kept_uniform(a, b, epsilon, delta, spread)
    # Never -inf: as a divisor it would make any move look good.
    return math.log(kept) if kept > 0 else -700.0
