"""Epsilon from large-sample limits of a ratio of rates: Katz, adjusted, Bailey, inverse sinh.

(epsilon, delta)-DP bounds both (TPR - delta) / FPR and (TNR - delta) / FNR by e^epsilon.  Each class
computes a lower limit of such a ratio with half of the allowed error.  With x1 of n1 and x2 of n2
events, p = x / n, the limits use

    V1 = p1 (1 - p1) / (n1 (p1 - delta)^2),   V2 = (1 - p2) / x2,

the large-sample variances of log(p1 - delta) and of log(p2); at delta = 0 V1 is 1/x1 - 1/n1 and the
limits are the well-known ones (compared by Price and Bonett 2008).  They are approximate: with few
events their error rate is above or below the stated one.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.baselines.estimator import Kind, LowerEndOnly, check_significance
from epsilometer.model.counts import AttackCounts


class _LogRatio(LowerEndOnly):
    """Common part: one ratio in each direction, each with half of the error."""

    kind = Kind.APPROXIMATE_BOUND
    assumes = "many independent trials, a decision rule fixed in advance"
    added = 0.0
    """Events and trials added to each count."""

    def ratio_lower(
        self,
        events: ArrayLike,
        trials: ArrayLike,
        other_events: ArrayLike,
        other_trials: ArrayLike,
        *,
        delta: float = 0.0,
        significance: float = 0.05,
    ) -> FloatArray:
        """One-sided lower limit of (p1 - delta) / p2; 0 if the counts are uninformative.

        Parameters
        ----------
        events, trials
            x1 and n1: true positives of the members, for TPR / FPR.
        other_events, other_trials
            x2 and n2: false positives of the non-members, for TPR / FPR.
        """
        delta = _validate.delta(delta)
        z = float(-ndtri(check_significance(significance)))
        counts = np.broadcast_arrays(events, trials, other_events, other_trials)
        x1, n1, x2, n2 = (np.asarray(count, dtype=float) + self.added for count in counts)
        with np.errstate(all="ignore"):  # zero counts and p1 <= delta are set to 0 below
            p1, p2 = x1 / n1, x2 / n2
            gap = np.where(p1 > delta, p1 - delta, np.nan)
            limit = self._limit(gap / p2, p1 * (1 - p1) / (n1 * gap**2), (1 - p2) / x2, z)
        return np.asarray(np.where(np.isfinite(limit), np.maximum(limit, 0.0), 0.0))

    @abstractmethod
    def _limit(self, ratio: FloatArray, v1: FloatArray, v2: FloatArray, z: float) -> FloatArray:
        """The limit from (p1 - delta) / p2, V1 and V2; not finite if undefined."""

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        """Lower end for each base: the larger of both directions, each with half the error."""
        half = check_significance(significance) / 2
        (x, n0), (y, n1) = counts.by_hypothesis
        positive = self.ratio_lower(n1 - y, n1, x, n0, delta=delta, significance=half)
        negative = self.ratio_lower(n0 - x, n0, y, n1, delta=delta, significance=half)
        return np.asarray(np.log(np.maximum(np.maximum(positive, negative), 1.0)))


@dataclass(frozen=True)
class Katz(_LogRatio):
    """exp(log ratio - z sqrt(V1 + V2)) (Katz et al. 1978).

    Examples
    --------
    >>> round(float(Katz().ratio_lower(473, 984, 755, 1705)), 8)
    1.01166194
    """

    label = "Katz log-ratio"

    def _limit(self, ratio: FloatArray, v1: FloatArray, v2: FloatArray, z: float) -> FloatArray:
        return ratio * np.exp(-z * np.sqrt(v1 + v2))


@dataclass(frozen=True)
class AdjustedLog(Katz):
    """Katz with half an event and half a trial added to each count (Walter 1975).

    Examples
    --------
    >>> round(float(AdjustedLog().ratio_lower(473, 984, 755, 1705)), 8)
    1.01189079
    """

    label = "adjusted log-ratio"
    added = 0.5


@dataclass(frozen=True)
class Bailey(_LogRatio):
    """Treats the cube root of the ratio as normal, by Fieller's argument (Bailey 1987).

    Examples
    --------
    >>> round(float(Bailey().ratio_lower(473, 984, 755, 1705)), 8)
    1.01148934
    """

    label = "Bailey ratio"

    def _limit(self, ratio: FloatArray, v1: FloatArray, v2: FloatArray, z: float) -> FloatArray:
        spread = np.sqrt(v1 + v2 - (z / 3) ** 2 * v1 * v2)
        return ratio * (np.maximum(1 - z / 3 * spread, 0.0) / (1 - (z / 3) ** 2 * v2)) ** 3


@dataclass(frozen=True)
class InverseSinh(_LogRatio):
    """exp(log ratio - 2 asinh(z/2 sqrt(V1 + V2))) (Newcombe 2001).

    Examples
    --------
    >>> round(float(InverseSinh().ratio_lower(473, 984, 755, 1705)), 8)
    1.01167669
    """

    label = "inverse-sinh log-ratio"

    def _limit(self, ratio: FloatArray, v1: FloatArray, v2: FloatArray, z: float) -> FloatArray:
        return np.asarray(ratio * np.exp(-2 * np.arcsinh(z / 2 * np.sqrt(v1 + v2))))
