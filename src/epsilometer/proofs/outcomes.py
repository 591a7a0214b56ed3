"""Where thresholds are placed for every pair of models, and on which side of them the pair falls.

The thresholds for a pair come from earlier pairs of its base alone.  A *placement* is one way to place
a high threshold, which few models without the point exceed, and a low one, below which few models with
the point are:

- at ranks: the share RANK_RATES of earlier models is beyond the threshold;
- at fits: quantiles of a t distribution fitted to earlier models, for rates that ranks cannot reach;
- the cut: one threshold, which decides most of the earlier models correctly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import exp, log
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.stats import t as student

from epsilometer._arrays import FloatArray, FloatPair, IntArray

#: Rates of errors at thresholds placed at ranks, and at fits.
RANK_RATES = (0.0003, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5)
FIT_RATES = (0.0002, 0.001, 0.004, 0.015, 0.05, 0.15)

#: Number of placements; the last is the cut.
PLACEMENTS = len(RANK_RATES) + len(FIT_RATES) + 1
CUT = PLACEMENTS - 1

#: Pairs before the first bet: thresholds need data.
PAIRS_BEFORE_BETS = 4

#: A rank is used once this many models are expected beyond it.
LEAST_BEYOND = 0.7

#: The cut is placed anew when the number of pairs has grown by this share.
CUT_GROWTH = 0.02

#: Bits of an outcome: each model beyond the high threshold, each beyond the low one.
HIGH_WITHOUT, HIGH_WITH, LOW_WITHOUT, LOW_WITH = 1, 2, 4, 8

#: Number of outcomes, and the mark of a pair without a bet.
OUTCOMES = 16
NO_BET = OUTCOMES

#: Sample sizes with their own quantile of the t distribution; the last serves all larger ones.
FITTED_SIZES = 400


@cache
def fit_quantiles() -> FloatArray:
    """How many standard deviations of the past a rate is away from its mean: rates x sample sizes."""
    sizes = np.maximum(np.arange(FITTED_SIZES), 1)
    tails = student.isf(np.array(FIT_RATES)[:, None], np.maximum(sizes - 1, 1))
    return np.asarray(tails * np.sqrt(1 + 1 / sizes))


class Outcomes(NamedTuple):
    """The outcomes of all pairs of many bases.

    Attributes
    ----------
    codes
        The outcome of every pair for every placement; the pairs of all bases are concatenated.
    cut_errors
        The errors that the cut made on the past of every pair.
    starts
        Where the pairs of each base begin, and where the last ends.
    incomplete
        How many pairs of each base were begun, but are not complete.
    """

    codes: np.ndarray
    cut_errors: FloatArray
    starts: IntArray
    incomplete: IntArray


def outcomes_of(pairs: Sequence[FloatPair], incomplete: Sequence[int] | None = None) -> Outcomes:
    """Outcomes of the scores of complete pairs, for each base in the order of training."""
    starts = _starts([len(without) for without, _ in pairs])
    without, with_point = (np.concatenate(side).astype(float) for side in zip(*pairs, strict=True))
    codes = np.full((PLACEMENTS, len(without)), NO_BET, dtype=np.uint8)
    errors = np.zeros((2, len(without)))
    _all_bases(without, with_point, starts, np.array(RANK_RATES), fit_quantiles(), codes, errors)
    missing = [0] * len(pairs) if incomplete is None else incomplete
    return Outcomes(codes, errors, starts, np.array(missing, dtype=np.int64))


def best_outcomes(sizes: Sequence[int] | IntArray) -> Outcomes:
    """The best possible outcomes of bases with so many pairs."""
    starts = _starts(sizes)
    pair = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
    codes = np.full((PLACEMENTS, len(pair)), HIGH_WITH | LOW_WITHOUT, dtype=np.uint8)
    codes[:, pair < PAIRS_BEFORE_BETS] = NO_BET
    for number, rate in enumerate(RANK_RATES):
        codes[number, rate * (pair + 1) < LEAST_BEYOND] = NO_BET
    return Outcomes(codes, np.zeros((2, len(pair))), starts, np.zeros(len(sizes), np.int64))


def _starts(sizes: Sequence[int] | IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@njit(cache=True)
def _all_bases(
    without: FloatArray,
    with_point: FloatArray,
    starts: IntArray,
    rates: FloatArray,
    quantiles: FloatArray,
    codes: np.ndarray,
    errors: FloatArray,
) -> None:
    for base in range(len(starts) - 1):
        first, last = starts[base], starts[base + 1]
        zeros, ones = without[first:last], with_point[first:last]
        _at_ranks(zeros, ones, rates, codes[:, first:last])
        _at_fits(zeros, ones, len(rates), quantiles, codes[:, first:last])
        _at_cut(zeros, ones, codes[-1, first:last], errors[:, first:last])


@njit(cache=True)
def _code(high0: bool, high1: bool, low0: bool, low1: bool) -> int:
    return HIGH_WITHOUT * high0 + HIGH_WITH * high1 + LOW_WITHOUT * low0 + LOW_WITH * low1


@njit(cache=True)
def beyond(code: int) -> tuple[bool, bool, bool, bool]:
    """Which models an outcome has beyond a threshold: the two beyond the high one, then the low one."""
    high0, high1 = (code & HIGH_WITHOUT) > 0, (code & HIGH_WITH) > 0
    return high0, high1, (code & LOW_WITHOUT) > 0, (code & LOW_WITH) > 0


# --- ranks ------------------------------------------------------------------------------------------


@njit(cache=True)
def _at_ranks(zeros: FloatArray, ones: FloatArray, rates: FloatArray, codes: np.ndarray) -> None:
    """A score is high if at most as many earlier ones without the point reach it as its rate allows."""
    values = np.unique(np.concatenate((zeros, ones)))
    place0 = np.searchsorted(values, zeros) + 1
    place1 = np.searchsorted(values, ones) + 1
    # Binary indexed trees of the earlier scores of each side.
    past0 = np.zeros(len(values) + 1, np.int64)
    past1 = np.zeros(len(values) + 1, np.int64)
    for pair in range(len(zeros)):
        if pair >= PAIRS_BEFORE_BETS:
            above0 = pair - _up_to(past0, place0[pair] - 1)
            above1 = pair - _up_to(past0, place1[pair] - 1)
            below0 = _up_to(past1, place0[pair])
            below1 = _up_to(past1, place1[pair])
            for number in range(len(rates)):
                expected = rates[number] * (pair + 1)
                if expected >= LEAST_BEYOND:
                    most = max(int(np.rint(expected)) - 1, 0)
                    codes[number, pair] = _code(
                        above0 <= most, above1 <= most, below0 <= most, below1 <= most
                    )
        _insert(past0, place0[pair])
        _insert(past1, place1[pair])


@njit(cache=True)
def _up_to(tree: IntArray, place: int) -> int:
    total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


@njit(cache=True)
def _insert(tree: IntArray, place: int) -> None:
    while place < len(tree):
        tree[place] += 1
        place += place & -place


# --- fits -------------------------------------------------------------------------------------------

#: Running moments of one side: count, mean, sums of squares and of cubes of deviations; for the scores
#: and for their logarithms; last the numbers of positive and of negative scores.
MOMENTS = (3, 4)


@njit(cache=True)
def _at_fits(
    zeros: FloatArray, ones: FloatArray, first: int, quantiles: FloatArray, codes: np.ndarray
) -> None:
    moments0, moments1 = np.zeros(MOMENTS), np.zeros(MOMENTS)
    for pair in range(len(zeros)):
        if pair >= PAIRS_BEFORE_BETS:
            for number in range(len(quantiles)):
                deviations = quantiles[number, min(pair, FITTED_SIZES - 1)]
                high = _fitted(moments0, moments1, deviations)
                low = _fitted(moments1, moments0, -deviations)
                if np.isnan(high) or np.isnan(low):
                    break  # infinite or equal scores so far
                codes[first + number, pair] = _code(
                    zeros[pair] > high, ones[pair] > high, zeros[pair] < low, ones[pair] < low
                )
        _learn(moments0, zeros[pair])
        _learn(moments1, ones[pair])


@njit(cache=True)
def _learn(moments: FloatArray, score: float) -> None:
    if not np.isfinite(score):
        return
    moments[2, 0] += score > 0
    moments[2, 1] += score < 0
    for scale in range(2):
        value = score
        if scale == 1:
            value = 0.0 if score == 0 else log(abs(score)) * (1 if score > 0 else -1)
        size = moments[scale, 0] + 1
        step = value - moments[scale, 1]
        share = step / size
        square = step * share * (size - 1)
        moments[scale, 3] += square * share * (size - 2) - 3 * share * moments[scale, 2]
        moments[scale, 2] += square
        moments[scale, 1] += share
        moments[scale, 0] = size


@njit(cache=True)
def _fitted(own: FloatArray, other: FloatArray, deviations: float) -> float:
    """The mean and so many standard deviations; NaN if unknown.

    On the scale of logarithms where all scores have one sign and logarithms are less skewed.
    """
    size, both, least, found = own[0, 0], own[0, 0] + other[0, 0], np.inf, np.nan
    if size < 2:
        return found
    positive = own[2, 0] + other[2, 0] == both
    negative = own[2, 1] + other[2, 1] == both
    for scale in range(2):
        if (scale == 1 and not (positive or negative)) or not own[scale, 2] > 0:
            continue
        skewness = abs(own[scale, 3]) / own[scale, 2] ** 1.5
        if skewness < least:
            least = skewness
            value = own[scale, 1] + deviations * np.sqrt(own[scale, 2] / (size - 1))
            back = exp(value) if positive else -exp(-value)
            found = value if scale == 0 else back
    return found


# --- the cut ----------------------------------------------------------------------------------------


@njit(cache=True)
def _at_cut(zeros: FloatArray, ones: FloatArray, codes: np.ndarray, errors: FloatArray) -> None:
    following = PAIRS_BEFORE_BETS
    cut, false_positives, false_negatives = 0.0, 0.0, 0.0
    for pair in range(PAIRS_BEFORE_BETS, len(zeros)):
        if pair >= following:
            cut, wrong0, wrong1 = _best_cut(np.sort(zeros[:pair]), np.sort(ones[:pair]))
            false_positives, false_negatives = wrong0 / pair, wrong1 / pair
            following = max(pair + 1, int(pair * (1 + CUT_GROWTH)))
        errors[0, pair], errors[1, pair] = false_positives, false_negatives
        high0, high1 = zeros[pair] >= cut, ones[pair] >= cut
        codes[pair] = _code(high0, high1, not high0, not high1)


@njit(cache=True)
def _best_cut(zeros: FloatArray, ones: FloatArray) -> tuple[float, int, int]:
    """The threshold with most correct decisions, of equals in the widest gap, and its errors.

    Its place in the gap follows from the spread of the nearest quarter of the scores on each side.
    """
    size = len(zeros)
    quarter = max(size // 4, 1)
    cut, wrong0, wrong1, best, widest = -np.inf, size, 0, 0, -1.0
    below0, below1, last = 0, 0, 0.0
    while below0 + below1 < 2 * size:
        first = below1 == size or (below0 < size and zeros[below0] <= ones[below1])
        score = zeros[below0] if first else ones[below1]
        correct, gap = below0 - below1, score - last
        better = correct > best or (correct == best and gap > widest >= 0)
        if below0 + below1 > 0 and score > last and better:
            best, widest, wrong0, wrong1 = correct, gap, size - below0, below1
            left = last - zeros[max(below0 - 1 - quarter, 0)]
            right = ones[min(below1 + quarter, size - 1)] - score
            spread = left + right
            share = left / spread if 0 < spread < np.inf else 0.5
            cut = last + gap * min(max(share, 0.1), 0.9)
            if not last < cut <= score:
                cut = score
        last = score
        below0 += first
        below1 += not first
    return cut, wrong0, wrong1
