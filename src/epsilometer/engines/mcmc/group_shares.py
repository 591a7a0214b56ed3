"""Compiled scatter of members around the average of their group, and its share inside a region.

The share Z(a, b) of the scatter around (a, b) inside R(epsilon, delta) is computed by quadrature for
normal scatter, and as the area of a polygon for uniform scatter.
"""

from __future__ import annotations

import math

import numpy as np

from epsilometer.engines.mcmc.densities import (
    LARGEST_SAMPLED_EPSILON,
    compiled,
    in_ring,
    inlined,
    region_of,
)
from epsilometer.engines.mcmc.settings import COMPILED_SCATTERS

NORMAL, UNIFORM = range(len(COMPILED_SCATTERS))
ROOT_3 = math.sqrt(3.0)
SCATTER_REACH = 5.5
"""Spreads beyond which normal scatter is negligible: 2e-8 on each side."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


@inlined
def log_scatter(scatter: int, dx: float, dy: float, spread: float) -> float:
    """Log density of a deviation of both rates."""
    if scatter == NORMAL:
        z, w = dx / spread, dy / spread
        return -0.5 * (z * z + w * w) - 2 * math.log(spread) - math.log(2 * math.pi)
    w = ROOT_3 * spread
    if abs(dx) > w or abs(dy) > w:
        return -math.inf
    return -2 * math.log(2 * w)


@inlined
def least_beta(alpha: float, epsilon: float, delta: float) -> float:
    """The lower edge of R(epsilon, delta)."""
    flat = math.exp(-epsilon) * (1 - delta - alpha)
    steep = 1 - delta - math.exp(min(epsilon, LARGEST_SAMPLED_EPSILON)) * alpha
    return max(0.0, flat, steep)


@inlined
def _normal_below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@compiled
def _kept_normal(a: float, b: float, epsilon: float, delta: float, spread: float) -> float:
    """Probability that normal scatter around (a, b) stays in R(epsilon, delta)."""
    # R is symmetric: on this side of the diagonals its edge is flat along alpha, on the other steep.
    if (b > a) == (a + b < 1):
        a, b = b, a
    reach = SCATTER_REACH * spread
    # Edges turn at these rates; between them, in steps of 1.5 spreads, the integrand is smooth.
    corner = (1 - delta) / (1 + math.exp(min(epsilon, LARGEST_SAMPLED_EPSILON)))
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


@compiled
def _kept_uniform(a: float, b: float, epsilon: float, delta: float, spread: float) -> float:
    """Share of the square around (a, b) inside R(epsilon, delta): a polygon, clipped side by side."""
    w = ROOT_3 * spread
    size = 4
    xs, ys = np.empty(16), np.empty(16)
    xs[0], ys[0], xs[1], ys[1] = max(a - w, 0.0), max(b - w, 0.0), min(a + w, 1.0), max(b - w, 0.0)
    xs[2], ys[2], xs[3], ys[3] = min(a + w, 1.0), min(b + w, 1.0), max(a - w, 0.0), min(b + w, 1.0)
    shrink = math.exp(-epsilon)
    room = shrink * (1 - delta)
    new_x, new_y = np.empty(16), np.empty(16)
    for side in range(4):
        # Keep the part where p x + q y >= r.
        p, q, r = (shrink, 1.0, room) if side % 2 == 0 else (1.0, shrink, room)
        if side >= 2:
            p, q, r = -p, -q, room - shrink - 1.0
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


@compiled
def log_kept(
    scatter: int, a: float, b: float, epsilon: float, delta: float, spread: float
) -> float:
    """Log Z(a, b); 0 where the region, which is convex, contains all of the scatter."""
    reach = (SCATTER_REACH if scatter == NORMAL else ROOT_3) * spread
    region = region_of(epsilon, delta)
    if (
        in_ring(region, a - reach, b - reach)
        and in_ring(region, a + reach, b + reach)
        and in_ring(region, a - reach, b + reach)
        and in_ring(region, a + reach, b - reach)
    ):
        return 0.0
    if scatter == NORMAL:
        kept = _kept_normal(a, b, epsilon, delta, spread)
    else:
        kept = _kept_uniform(a, b, epsilon, delta, spread)
    # Never -inf: as a divisor it would make any move acceptable.
    return math.log(kept) if kept > 0 else -700.0
