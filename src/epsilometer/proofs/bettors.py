"""Bettors against a claim of (epsilon, delta)-DP: what each of them assumes, and its e-values.

A pair is two independent models, one without the point and one with it, with outcomes x0 and x1: cells
of a partition that is fixed before the pair is seen.  For non-negative tables f0 and f1 let C be the
largest E f0(x0) + E f1(x1) that the claim allows.  Every pair of distributions that satisfies the claim
is a post-processing of one mechanism (Kairouz, Oh and Viswanath 2015), so that with a = e^epsilon

    C = (1 - delta) / (1 + a) (max(a f0 + f1) + max(f0 + a f1)) + delta (max f0 + max f1).

As x0 and x1 are independent, E f0 E f1 <= ((E f0 + E f1) / 2)^2 <= (C / 2)^2: the e-value

    f0(x0) f1(x1) / (C / 2)^2

has mean at most 1 if the claim is true, for any number of outcomes.  A bettor assumes rates that violate
the claim and takes for f the ratio of these rates to the nearest ones that the claim allows, as a
likelihood ratio would; whatever it assumes, its e-values are valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np
from numba import njit

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.proofs.outcomes import (
    CUT,
    FIT_RATES,
    HIGH_WITH,
    HIGH_WITHOUT,
    LOW_WITH,
    LOW_WITHOUT,
    OUTCOMES,
    RANK_RATES,
)

#: Assumed rare rate, relative to the rate of its fitted threshold.
TIMES_FITTED = (1.0, 3.0)

#: Assumed common rate: its logit is above the claim's boundary by these.
LOGIT_STEPS = (0.5, 1.5, 3.0)

#: Assumed errors at the cut, both alike, relative to the least that the claim allows.
CUT_ERRORS = (0.9, 0.7, 0.3, 0.02)

#: Directions of a bettor: false positives, false negatives, or both at once (three outcomes).
FALSE_POSITIVES, FALSE_NEGATIVES, BOTH = 0, 1, 2

#: A bettor stays out of a base while its capital there, had it always bet, is below the first number
#: (logarithm), or before so many pairs.
GATES = ((-3.0, 0), (0.0, 7))

#: Prior weights of placements at ranks, at fits, and at the cut; of three outcomes relative to two.
WEIGHT_RANKS, WEIGHT_FITS, WEIGHT_CUT, WEIGHT_BOTH = 0.2, 0.5, 0.3, 3.5

#: Prior of the claim's boundary at a bettor's rare rate: centre, and width of its logarithm.
BOUNDARY_CENTRE, BOUNDARY_WIDTH = 0.1, 1.3

#: Boundaries above this leave nothing to bet on.
LARGEST_BOUNDARY = 0.97

#: Least error that is assumed at the cut: its complement must not be rounded to 1.
LEAST_ERROR = 1e-15

#: Bisections: full double precision.
BISECTIONS = 50


@dataclass(frozen=True, eq=False)
class Bettors:
    """All bettors, in an order that does not depend on the claim.

    Attributes
    ----------
    placement, direction
        Of each bettor.
    weight
        Prior weight of each bettor, 0 if its rates do not violate the claim; the sum is 1.
    log_e
        Log e-value of each bettor for each outcome.
    """

    placement: IntArray
    direction: IntArray
    weight: FloatArray
    log_e: FloatArray


def bettors_against(epsilon: float, delta: float) -> Bettors:
    """The bettors against a claim."""
    parts = _bettors(
        exp(epsilon),
        delta,
        np.array(RANK_RATES),
        np.array(FIT_RATES),
        np.array(TIMES_FITTED),
        np.array(LOGIT_STEPS),
        np.array(CUT_ERRORS),
    )
    return Bettors(*parts)


@njit(cache=True)
def _bettors(
    odds: float,
    delta: float,
    rank_rates: FloatArray,
    fit_rates: FloatArray,
    times: FloatArray,
    steps: FloatArray,
    cut_errors: FloatArray,
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    rates = len(rank_rates) + len(times) * len(fit_rates)
    size = 3 * len(steps) * rates + len(cut_errors)
    placement, direction = np.zeros(size, np.int64), np.zeros(size, np.int64)
    weight, log_e = np.zeros(size), np.zeros((size, OUTCOMES))
    number, totals = 0, np.zeros(2)
    for which in range(rates):
        fitted = which - len(rank_rates)
        place = which if fitted < 0 else len(rank_rates) + fitted % len(fit_rates)
        rare = (
            rank_rates[which]
            if fitted < 0
            else fit_rates[fitted % len(fit_rates)] * times[fitted // len(fit_rates)]
        )
        boundary = odds * rare + delta
        prior = 0.0
        if boundary < LARGEST_BOUNDARY:
            prior = exp(-0.5 * (log(boundary / BOUNDARY_CENTRE) / BOUNDARY_WIDTH) ** 2)
        for step in steps:
            common = 1.0
            if prior > 0:
                common = 1 / (1 + (1 - boundary) / boundary * exp(-step))
            for way in range(3):
                placement[number], direction[number] = place, way
                if prior > 0 and (way < BOTH or rare + common <= 1):
                    weight[number] = prior * (WEIGHT_BOTH if way == BOTH else 1.0)
                    totals[int(fitted >= 0)] += weight[number]
                    if way == BOTH:
                        _three(common, rare, odds, delta, log_e[number])
                    else:
                        _two(rare, common, odds, delta, way, log_e[number])
                number += 1
    for n in range(number):
        fitted = int(placement[n] >= len(rank_rates))
        if weight[n] > 0:
            weight[n] *= (WEIGHT_FITS if fitted else WEIGHT_RANKS) / totals[fitted]
    for relative in cut_errors:
        wrong = max(relative * (1 - delta) / (1 + odds), LEAST_ERROR)
        placement[number], direction[number] = CUT, BOTH
        weight[number] = WEIGHT_CUT / len(cut_errors)
        _two(wrong, 1 - wrong, odds, delta, FALSE_POSITIVES, log_e[number])
        number += 1
    return placement, direction, weight / weight.sum(), log_e


@njit(cache=True)
def _two(
    rare: float, common: float, odds: float, delta: float, way: int, log_e: FloatArray
) -> None:
    """E-values from one threshold: beyond it with the rare rate on one side, the common on the other."""
    near_rare, near_common = nearest(rare, common, odds, delta)
    # Inside the threshold, beyond it: for the side with the rare rate, and with the common one.
    few = np.array([(1 - rare) / (1 - near_rare), rare / near_rare])
    many = np.array([(1 - common) / (1 - near_common), common / near_common])
    scale = 2 * log(_largest_sum(few, many, odds, delta) / 2)
    for code in range(OUTCOMES):
        if way == FALSE_POSITIVES:
            beyond_few, beyond_many = (code & HIGH_WITHOUT) > 0, (code & HIGH_WITH) > 0
        else:
            beyond_few, beyond_many = (code & LOW_WITH) > 0, (code & LOW_WITHOUT) > 0
        log_e[code] = log(few[int(beyond_few)]) + log(many[int(beyond_many)]) - scale


@njit(cache=True)
def _three(common: float, rare: float, odds: float, delta: float, log_e: FloatArray) -> None:
    """E-values from both thresholds: low, between them, high; the two sides mirror each other."""
    between = max(1 - common - rare, 0.0)
    low, high = 0.0, (1 - delta) / (1 + odds)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        beyond = odds * middle + delta
        slope = between * (odds + 1) / max(1 - beyond - middle, 1e-300)
        slope -= odds * common / beyond + rare / max(middle, 1e-300)
        if slope < 0:
            low = middle
        else:
            high = middle
    near_rare, near_common = high, odds * high + delta
    few, many = rare / near_rare, common / near_common
    rest = 1 - near_rare - near_common
    # Never worse between the thresholds than beyond the wrong one: an unseen score is then worst there.
    inner = max(between / rest if rest > 1e-12 else 0.0, few)
    zeros, ones = np.array([many, inner, few]), np.array([few, inner, many])
    scale = 2 * log(_largest_sum(zeros, ones, odds, delta) / 2)
    for code in range(OUTCOMES):
        cell0 = 1 + int((code & HIGH_WITHOUT) > 0) - int((code & LOW_WITHOUT) > 0)
        cell1 = 1 + int((code & HIGH_WITH) > 0) - int((code & LOW_WITH) > 0)
        log_e[code] = log(zeros[cell0]) + log(ones[cell1]) - scale


@njit(cache=True)
def _largest_sum(zeros: FloatArray, ones: FloatArray, odds: float, delta: float) -> float:
    """C of the module's docstring: the largest E f0 + E f1 that the claim allows."""
    both = (odds * zeros + ones).max() + (zeros + odds * ones).max()
    return float((1 - delta) / (1 + odds) * both + delta * (zeros.max() + ones.max()))


@njit(cache=True)
def nearest(rare: float, common: float, odds: float, delta: float) -> tuple[float, float]:
    """The rates that the claim allows, with the least divergence (Kullback-Leibler) from the assumed."""
    if common <= odds * rare + delta and 1 - rare <= odds * (1 - common) + delta:
        return rare, common
    one = _on_edge(rare, common, odds, delta)
    other = _on_edge(1 - common, 1 - rare, odds, delta)
    far = _divergence(rare, one) + _divergence(common, odds * one + delta)
    mirrored = _divergence(1 - common, other) + _divergence(1 - rare, odds * other + delta)
    if far <= mirrored:
        return one, odds * one + delta
    return 1 - odds * other - delta, 1 - other


@njit(cache=True)
def _on_edge(rare: float, common: float, odds: float, delta: float) -> float:
    """The nearest rare rate on the edge common = odds rare + delta."""
    low, high = 0.0, (1 - delta) / (1 + odds)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        other = odds * middle + delta
        slope = (middle - rare) / max(middle * (1 - middle), 1e-300)
        slope += odds * (other - common) / max(other * (1 - other), 1e-300)
        if slope < 0:
            low = middle
        else:
            high = middle
    return high


@njit(cache=True)
def _divergence(rate: float, other: float) -> float:
    total = 0.0
    if rate > 0:
        total += rate * log(rate / other)
    if rate < 1:
        total += (1 - rate) * log((1 - rate) / (1 - other))
    return total
