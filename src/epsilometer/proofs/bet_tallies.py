"""Compiled counts of the outcomes of the bets in `bets.py`, for many points at once.

Every bet at a rate has one of KINDS outcomes: G and L for false positives, G and L for false negatives.
Capitals depend only on how often each outcome occurred.
"""

import numpy as np
from numba import njit

from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.proofs import bets

#: Number of possible outcomes of a bet.
KINDS = 2**bets.OUTCOMES


def kinds() -> FloatArray:
    """The bits of each kind of outcome: KINDS x OUTCOMES, 0 or 1."""
    return ((np.arange(KINDS)[:, None] >> np.arange(bets.OUTCOMES)) & 1).astype(np.float64)


def schedule(pairs: int) -> tuple[IntArray, BoolArray]:
    """For every pair and rate: the rank of the threshold, and whether a bet is placed."""
    seen, rates = np.arange(pairs)[:, None], np.array(bets.TARGET_RATES)
    rank = np.maximum(np.rint(rates * (seen + 1)) - 1, 0).astype(np.int64)
    return rank, (seen >= bets.PAIRS_BEFORE_BETS) & (rates * (seen + 1) >= 0.5)


def tallies(without: FloatArray, with_point: FloatArray, sizes: IntArray) -> IntArray:
    """How often the bets on each point had each outcome: points x rates x KINDS.

    Scores of all points are concatenated, each point's in the order of its models; ``sizes`` holds the
    numbers of models without and with each point.
    """
    pairs = sizes.min(axis=1)
    starts = np.cumsum(sizes, axis=0) - sizes
    return np.asarray(_counted(without, with_point, starts, pairs, *schedule(int(pairs.max()))))


def perfect(pairs: IntArray) -> IntArray:
    """The tallies of the best possible outcome: always G and never L."""
    _, betting = schedule(int(pairs.max()))
    often = np.vstack(
        [np.zeros(len(bets.TARGET_RATES), dtype=np.int64), np.cumsum(betting, axis=0)]
    )
    tallies = np.zeros((len(pairs), len(bets.TARGET_RATES), KINDS), dtype=np.int64)
    best = int(np.flatnonzero((kinds() == [1.0, 0.0, 1.0, 0.0]).all(axis=1))[0])
    tallies[:, :, best] = often[pairs]
    return tallies


@njit(cache=True)
def _below(past: FloatArray, size: int, value: float) -> int:
    """How many of the first ``size`` scores, which are sorted, are below a value."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if past[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _insert(past: FloatArray, size: int, value: float) -> int:
    """Insert a score into the sorted array; returns how many earlier ones are at least as high."""
    place = _below(past, size, value)
    for n in range(size, place, -1):
        past[n] = past[n - 1]
    past[place] = value
    return size - place


@njit(cache=True)
def _counted(
    without: FloatArray,
    with_point: FloatArray,
    starts: IntArray,
    pairs: IntArray,
    rank: IntArray,
    betting: BoolArray,
) -> IntArray:
    rates = rank.shape[1]
    tallies = np.zeros((len(pairs), rates, KINDS), dtype=np.int64)
    high, low = np.empty(len(rank)), np.empty(len(rank))
    for point in range(len(pairs)):
        for n in range(pairs[point]):
            zero, one = without[starts[point, 0] + n], with_point[starts[point, 1] + n]
            # Scores above a threshold are those that at most `rank` earlier ones reach; `low` is
            # negated.
            gain, gain_low = n - _below(high, n, one), n - _below(low, n, -zero)
            loss, loss_low = _insert(high, n, zero), _insert(low, n, -one)
            for rate in range(rates):
                if betting[n, rate]:
                    most = rank[n, rate]
                    kind = int(gain <= most) + 2 * int(loss <= most)
                    kind += 4 * int(gain_low <= most) + 8 * int(loss_low <= most)
                    tallies[point, rate, kind] += 1
    return tallies
