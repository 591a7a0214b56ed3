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

from functools import cache
from math import exp, log
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.proofs.nearest import BISECTIONS, nearest
from epsilometer.proofs.outcomes import CUT, FIT_RATES, OUTCOMES, RANK_RATES, beyond

#: Directions of a bettor: false positives, false negatives, or both at once (three outcomes).
FALSE_POSITIVES, FALSE_NEGATIVES, BOTH = 0, 1, 2

#: When a bettor bets on a base: while its capital there, had it always bet, is at least the first number
#: (logarithm), and after so many pairs.  Bettors that assume much stay out of bases until these leak.
EARLY, LATE, WINNING = (-3.0, 0), (0.25, 6), (0.0, 0)

#: Assumed common rate: its logit is above the claim's boundary by the first number; the gate; and the
#: share of the prior weight, against claims of a large epsilon and of epsilon 0.  For one threshold, and
#: for both.
STEPS_ONE = ((1.75, EARLY, 0.85, 0.85), (2.75, LATE, 0.15, 0.15))
STEPS_BOTH = (
    (0.5, EARLY, 0.23, 0.283),
    (0.9, EARLY, 0.17, 0.45),
    (1.5, EARLY, 0.045, 0.002),
    (2.0, LATE, 0.045, 0.264),
    (3.5, LATE, 0.51, 0.001),
)

#: Assumed errors at the cut, both alike, relative to the least that the claim allows; gates and shares.
CUT_ERRORS = (
    (0.9, EARLY, 0.2, 0.2),
    (0.7, EARLY, 0.15, 0.15),
    (0.3, WINNING, 0.2, 0.2),
    (0.02, WINNING, 0.45, 0.45),
)

#: Prior weights of all bettors with both thresholds at ranks, with one at fits, with both, at the cut:
#: against claims of a large epsilon, and of epsilon 0.  Small leaks are seen at common rates, large ones
#: at rates that only fits reach.  In between logarithms are mixed, with the share exp(-epsilon) of the
#: second.  Weights decide what is proven, not whether it is valid; these were chosen for the settings of
#: `studies/proofs.py` and others, on other random numbers.
WEIGHTS = ((0.002, 0.12, 0.806, 0.072), (0.874, 0.011, 0.054, 0.061))

#: Prior of the claim's boundary at a bettor's rare rate, for the same but the cut: centre, and width of
#: its logarithm.
BOUNDARIES = ((0.45, 0.27), (0.01, 0.685), (0.064, 1.24))

#: Boundaries above this leave nothing to bet on.
LARGEST_BOUNDARY = 0.97

#: Least error that is assumed at the cut: its complement must not be rounded to 1.
LEAST_ERROR = 1e-15


class Bettors(NamedTuple):
    """All bettors, in an order that does not depend on the claim.

    Attributes
    ----------
    placement, direction
        Of each bettor.
    least, after
        The gate of each bettor: least paper capital, and number of pairs.
    weight
        Prior weight of each bettor, 0 if its rates do not violate the claim; the sum is 1.
    log_e
        Log e-value of each bettor for each outcome.
    """

    placement: IntArray
    direction: IntArray
    least: FloatArray
    after: FloatArray
    weight: FloatArray
    log_e: FloatArray

    @property
    def used(self) -> IntArray:
        """Numbers of the bettors whose rates violate the claim."""
        return np.flatnonzero(self.weight > 0)


@cache
def _all() -> FloatArray:
    """Placement, direction, group, rate (at the cut: error), step, gate and shares of every bettor."""
    rows: list[tuple[float, ...]] = []
    for place, rate in enumerate((*RANK_RATES, *FIT_RATES)):
        fitted = place >= len(RANK_RATES)
        ways = (FALSE_POSITIVES, FALSE_NEGATIVES, BOTH) if fitted else (BOTH,)
        for way in ways:
            steps, group = (STEPS_BOTH, 2 * fitted) if way == BOTH else (STEPS_ONE, 1)
            rows += [(place, way, group, rate, step, *gate, *share) for step, gate, *share in steps]
    rows += [(CUT, BOTH, 3, error, 0.0, *gate, *share) for error, gate, *share in CUT_ERRORS]
    return np.array(rows).T


def bettors_against(epsilon: float, delta: float) -> Bettors:
    """The bettors against a claim."""
    odds, blend = exp(epsilon), exp(-epsilon)
    whole, (rate, step, least, after, *shares) = _all()[:3].astype(np.int64), _all()[3:]
    placement, direction, group = whole
    cut = placement == CUT
    rare = np.where(cut, np.maximum(rate * (1 - delta) / (1 + odds), LEAST_ERROR), rate)
    boundary = odds * rare + delta
    used = boundary < LARGEST_BOUNDARY
    common = np.where(cut, 1 - rare, expit(logit(np.where(used, boundary, 0.5)) + step))
    used = cut | (used & ((direction != BOTH) | (rare + common <= 1)))
    centre, width = np.array((*BOUNDARIES, (1.0, np.inf)))[group].T
    prior = np.exp(-0.5 * (np.log(boundary / centre) / width) ** 2)
    weight = used * prior * _blended(shares, blend)
    total = np.bincount(group, weight, len(WEIGHTS[0]))
    weight *= (_blended(WEIGHTS, blend) / np.where(total > 0, total, 1.0))[group]
    # One threshold: the cut is bet on as on few false positives.
    bets = np.where(cut, FALSE_POSITIVES, direction)
    log_e = _log_e_values(bets, rare, common, used, odds, delta)
    return Bettors(placement, direction, least, after, weight / weight.sum(), log_e)


def _blended(ends: ArrayLike, blend: float) -> FloatArray:
    """Weights between those at a large epsilon and those at 0."""
    large, small = np.log(ends)
    return np.asarray(np.exp((1 - blend) * large + blend * small))


@njit(cache=True)
def _log_e_values(
    direction: IntArray,
    rare: FloatArray,
    common: FloatArray,
    used: np.ndarray,
    odds: float,
    delta: float,
) -> FloatArray:
    """Log e-values of every bettor that is used: bettors x outcomes."""
    log_e = np.zeros((len(rare), OUTCOMES))
    for n in np.flatnonzero(used):
        if direction[n] == BOTH:
            _three(common[n], rare[n], odds, delta, log_e[n])
        else:
            _two(rare[n], common[n], odds, delta, direction[n], log_e[n])
    return log_e


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
        high0, high1, low0, low1 = beyond(code)
        beyond_few, beyond_many = (high0, high1) if way == FALSE_POSITIVES else (low1, low0)
        log_e[code] = log(few[int(beyond_few)]) + log(many[int(beyond_many)]) - scale


@njit(cache=True)
def _three(common: float, rare: float, odds: float, delta: float, log_e: FloatArray) -> None:
    """E-values from both thresholds: low, between them, high; the two sides mirror each other."""
    between = max(1 - common - rare, 0.0)
    low, high = 0.0, (1 - delta) / (1 + odds)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        other = odds * middle + delta
        slope = between * (odds + 1) / max(1 - other - middle, 1e-300)
        slope -= odds * common / other + rare / max(middle, 1e-300)
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
        high0, high1, low0, low1 = beyond(code)
        cell0, cell1 = 1 + int(high0) - int(low0), 1 + int(high1) - int(low1)
        log_e[code] = log(zeros[cell0]) + log(ones[cell1]) - scale


@njit(cache=True)
def _largest_sum(zeros: FloatArray, ones: FloatArray, odds: float, delta: float) -> float:
    """C of the module's docstring: the largest E f0 + E f1 that the claim allows."""
    both = (odds * zeros + ones).max() + (zeros + odds * ones).max()
    return float((1 - delta) / (1 + odds) * both + delta * (zeros.max() + ones.max()))
