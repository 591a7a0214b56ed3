"""Epsilon from confidence limits of the two error rates: Clopper-Pearson and Jeffreys.

``lower(significance=a)`` uses a tail of a / 2 for the limit of each rate, so that both hold at once with
probability 1 - a (union bound), and ``interval(significance=a)`` uses a / 4.  This agrees with
privacy-estimates (``compute_eps_lo``, ``compute_eps_lo_hi``), TensorFlow Privacy and jax_privacy's
``Explicit`` threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatPair
from epsilometer.baselines import rates
from epsilometer.baselines.estimator import Kind
from epsilometer.model.region import critical_epsilon


@dataclass(frozen=True)
class _Rectangle(rates.FromRateLimits):
    """Rates in a rectangle of any limits.

    The critical epsilon decreases towards the line alpha + beta = 1 and is the same for reflected rates,
    so the ends are at two corners; the lower end is 0 if the line crosses the rectangle.
    """

    one_sided: bool = False

    assumes = "independent trials, a decision rule fixed in advance"

    def _epsilons(self, alpha: FloatPair, beta: FloatPair, delta: float) -> FloatPair:
        delta = _validate.delta(delta)
        corners = list(zip(alpha, beta, strict=True))
        if self.one_sided:
            with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 is uninformative: 0
                far, near = (
                    np.fmax(np.log(np.maximum(1 - delta - b, 0.0)) - np.log(a), 0.0)
                    for a, b in corners
                )
            return near, far
        at_low, at_high = (critical_epsilon(a, b, delta) for a, b in corners)
        crossed = (alpha[0] + beta[0] <= 1) & (alpha[1] + beta[1] >= 1)
        return np.where(crossed, 0.0, np.minimum(at_low, at_high)), np.maximum(at_low, at_high)


@dataclass(frozen=True)
class ClopperPearson(_Rectangle):
    """Bounds from exact binomial limits of both error rates.

    Parameters
    ----------
    one_sided
        Use TPR / FPR only, as jax_privacy does by default; otherwise also TNR / FNR and the reflected
        decision.

    Examples
    --------
    >>> from epsilometer import AttackCounts
    >>> counts = AttackCounts(
    ...     false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    ... )
    >>> low, high = ClopperPearson().interval(counts, 0.01, significance=0.1)
    >>> round(float(low[0]), 7), round(float(high[0]), 7)
    (0.2050459, 0.5737802)
    """

    label = "Clopper-Pearson"
    kind = Kind.EXACT_BOUND


@dataclass(frozen=True)
class Jeffreys(_Rectangle):
    """The same from Jeffreys limits: narrower, with about the stated error rate on average.

    Parameters
    ----------
    one_sided
        As for `ClopperPearson`.

    Examples
    --------
    >>> from epsilometer import AttackCounts
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=100, false_negatives=[10], trials_h1=100
    ... )
    >>> low, high = Jeffreys().interval(counts, 0.001, significance=0.1)
    >>> round(float(low[0]), 7), round(float(high[0]), 7)
    (1.5835435, 2.8902568)
    """

    label = "Jeffreys"
    kind = Kind.APPROXIMATE_BOUND
    limits = staticmethod(rates.jeffreys)
