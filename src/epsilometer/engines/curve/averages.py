"""Weights of the averages from rank to rank, which all curves of a mixing rate share.

The share of rank m is t U^(1/m) if that of rank m + 1 is t; `chain.py` says what the averages are for.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numba
import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve.ranks import ShareGrid

#: Ranks whose averages are computed together; and the largest number of scores, and number of parts,
#: for which they are kept: all curves of a rate need the same.
PART, KEPT_UP_TO, KEPT = 128, 8192, 96


@numba.njit(nogil=True, cache=True)
def place(theta: FloatArray, angle: float) -> int:
    """The number of points below an angle."""
    low, high = 0, len(theta)
    while low < high:
        middle = (low + high) // 2
        if theta[middle] < angle:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(nogil=True, cache=True)
def window_of(theta: FloatArray, rank: int, total: int, reach: float) -> tuple[int, int]:
    """The range of points within ``reach`` standard deviations of the share of a rank, inclusive."""
    centre = 2 * math.asin(math.sqrt(rank / (total + 1)))
    width = reach / math.sqrt(total)
    low = place(theta, centre - width)
    high = place(theta, centre + width)
    return max(low - 3, 0), min(high + 3, len(theta) - 1)


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _averages(
    m: int,
    low: int,
    high: int,
    first: IntArray,
    ratio: FloatArray,
    rule: FloatArray,
    powers: FloatArray,
    known: IntArray,
    weights: FloatArray,
) -> None:
    """Weights of E[g(t U^(1/m))] at points low + 1 to high: of the point before, and of four others.

    They are counted from ``low``.  ``powers`` holds ``ratio`` to the power m - 1 for the cells used in
    the step before, marked in ``known``.
    """
    nodes = rule.shape[2]
    for cell in range(low, high):
        if known[0] == m - 1 and known[1] <= cell < known[2]:
            for p in range(nodes + 1):
                powers[cell, p] *= ratio[cell, p]
        else:
            for p in range(nodes + 1):
                powers[cell, p] = ratio[cell, p] ** (m - 1)
        row, total = cell - low, 0.0
        for k in range(4):
            part = 0.0
            for p in range(nodes):
                part += powers[cell, p] * rule[cell, k, p]
            weights[row, k] = part
            total += part
        kept = powers[cell, nodes] * ratio[cell, nodes]
        # Weights sum to one, as for any average, however steep the powers are.
        scale = (1 - kept) / total if total > 0 else 0.0
        for k in range(4):
            weights[row, k] *= scale
        weights[row, 4] = kept
        if total <= 0:
            weights[row, cell + 1 - first[cell]] = 1 - kept
    known[0], known[1], known[2] = m, low, high


class Steps(NamedTuple):
    """Averages from rank to rank, for some ranks: ranges of points, and weights in each range.

    The ranges, inclusive, are of a step and of the window of the rank after it; a step covers the
    windows of both ranks.
    """

    ranges: IntArray
    weights: FloatArray


def _steps(grid: ShareGrid, total: int, reach: float, start: int) -> Steps:
    """The steps from rank ``start``, at most :data:`PART`, to that beyond the last rank."""
    ranges = np.empty((min(PART, total + 1 - start), 4), dtype=np.int64)
    _ranges(grid.theta, total, reach, start, ranges)
    widest = int((ranges[:, 1] - ranges[:, 0]).max())
    weights = np.zeros((len(ranges), widest, 5))
    _all_averages(start, ranges, grid.first, grid.ratio, grid.rule, weights)
    return Steps(ranges, weights)


_kept_steps = lru_cache(maxsize=KEPT)(_steps)


def steps_of(grid: ShareGrid, total: int, reach: float, start: int) -> Steps:
    """The steps from rank ``start``, a multiple of :data:`PART`, kept if there are few in ``total``."""
    return (_kept_steps if total <= KEPT_UP_TO else _steps)(grid, total, reach, start)


@numba.njit(nogil=True, cache=True)
def _ranges(theta: FloatArray, total: int, reach: float, start: int, ranges: IntArray) -> None:
    """Fill the ranges of :class:`Steps`."""
    last = len(theta) - 1
    low, high = (0, last) if start == 0 else window_of(theta, start, total, reach)
    for row in range(len(ranges)):
        new_low, new_high = low, last
        if start + row < total:
            new_low, new_high = window_of(theta, start + row + 1, total, reach)
        ranges[row] = min(low, new_low), max(high, new_high), new_low, new_high
        low, high = new_low, new_high


@numba.njit(nogil=True, cache=True)
def _all_averages(
    start: int,
    ranges: IntArray,
    first: IntArray,
    ratio: FloatArray,
    rule: FloatArray,
    weights: FloatArray,
) -> None:
    """Fill the weights of :class:`Steps`; the step from rank 0 has none."""
    powers = np.zeros(ratio.shape)
    known = np.array([-1, 0, 0])
    for row in range(len(ranges)):
        if start + row > 0:
            low, high = ranges[row, 0], ranges[row, 1]
            _averages(start + row, low, high, first, ratio, rule, powers, known, weights[row])
