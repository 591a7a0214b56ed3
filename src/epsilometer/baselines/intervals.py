"""Epsilon from confidence limits of the two error rates: Clopper-Pearson and Jeffreys.

The tails: ``lower(significance=a)`` puts a / 2 into the limit of each rate, so that both hold at once
with probability 1 - a (union bound), and ``interval(significance=a)`` puts a / 4.  This is what
privacy-estimates (``compute_eps_lo``, ``compute_eps_lo_hi``), TensorFlow Privacy and jax_privacy's
``Explicit`` threshold do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.baselines import rates
from epsilometer.baselines.estimator import FromRateLimits, Kind
from epsilometer.model.counts import AttackCounts
from epsilometer.model.region import critical_epsilon

Limit = Callable[[ArrayLike, ArrayLike, float], FloatArray]


def _rectangle_ends(
    alpha: tuple[FloatArray, FloatArray], beta: tuple[FloatArray, FloatArray], delta: float
) -> tuple[FloatArray, FloatArray]:
    """Least and largest critical epsilon of the rates in a rectangle [low, high] x [low, high].

    The critical epsilon falls towards the line alpha + beta = 1 and is the same for reflected rates,
    so the ends are at two corners, or the least is 0 where the line crosses the rectangle.
    """
    at_low = critical_epsilon(alpha[0], beta[0], delta)
    at_high = critical_epsilon(alpha[1], beta[1], delta)
    crossed = (alpha[0] + beta[0] <= 1) & (alpha[1] + beta[1] >= 1)
    return np.where(crossed, 0.0, np.minimum(at_low, at_high)), np.maximum(at_low, at_high)


class _Rectangle(FromRateLimits):
    """The rates in a rectangle of limits, whichever these are."""

    limits: ClassVar[tuple[Limit, Limit]]
    one_sided: bool

    def _ends(
        self, counts: AttackCounts, delta: float, tail: float
    ) -> tuple[FloatArray, FloatArray]:
        low, high = self.limits
        x, n0 = counts.false_positives, counts.trials_h0
        y, n1 = counts.false_negatives, counts.trials_h1
        alpha = (low(x, n0, tail), high(x, n0, tail))
        beta = (low(y, n1, tail), high(y, n1, tail))
        delta = _validate.delta(delta)
        if self.one_sided:
            with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 tells nothing: 0 below
                ends = [
                    np.log(np.maximum(1 - delta - b, 0.0)) - np.log(a)
                    for a, b in zip(alpha[::-1], beta[::-1], strict=True)
                ]
            return np.fmax(ends[0], 0.0), np.fmax(ends[1], 0.0)
        return _rectangle_ends(alpha, beta, delta)


@dataclass(frozen=True)
class ClopperPearson(_Rectangle):
    """Bounds from exact binomial limits of both error rates.

    Parameters
    ----------
    one_sided
        Look at TPR / FPR only, as jax_privacy does unless told otherwise; else at TNR / FNR too, and
        at the reflected decision.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    ... )
    >>> low, high = ClopperPearson().interval(counts, 0.01, significance=0.1)
    >>> round(float(low[0]), 7), round(float(high[0]), 7)
    (0.2050459, 0.5737802)
    """

    one_sided: bool = False

    label: ClassVar[str] = "Clopper-Pearson"
    kind: ClassVar[Kind] = Kind.EXACT_BOUND
    assumes: ClassVar[str] = "independent trials, a decision rule fixed beforehand"
    gaussian: ClassVar[bool] = False
    limits: ClassVar[tuple[Limit, Limit]] = (
        rates.clopper_pearson_lower,
        rates.clopper_pearson_upper,
    )


@dataclass(frozen=True)
class Jeffreys(_Rectangle):
    """The same from Jeffreys' limits: narrower, right about as often as stated on average.

    Parameters
    ----------
    one_sided
        As for `ClopperPearson`.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=100, false_negatives=[10], trials_h1=100
    ... )
    >>> low, high = Jeffreys().interval(counts, 0.001, significance=0.1)
    >>> round(float(low[0]), 7), round(float(high[0]), 7)
    (1.5835435, 2.8902568)
    """

    one_sided: bool = False

    label: ClassVar[str] = "Jeffreys"
    kind: ClassVar[Kind] = Kind.APPROXIMATE_BOUND
    assumes: ClassVar[str] = "independent trials, a decision rule fixed beforehand"
    gaussian: ClassVar[bool] = False
    limits: ClassVar[tuple[Limit, Limit]] = (rates.jeffreys_lower, rates.jeffreys_upper)
