"""Epsilon from confidence limits of the two error rates, or of their ratio.

Of rates: Clopper-Pearson, Jeffreys, Gaussian.

``lower(significance=a)`` uses a tail of a / 2 for the limit of each rate, so that both hold at once with
probability 1 - a (union bound), and ``interval(significance=a)`` uses a / 4.  This agrees with
privacy-estimates (``compute_eps_lo``, ``compute_eps_lo_hi``), TensorFlow Privacy and jax_privacy's
``Explicit`` threshold.

If the algorithm is mu-GDP, an attack has Phi^-1(1 - alpha) - Phi^-1(beta) <= mu (Dong, Roth and Su
2022).  Upper limits of both rates, each with half of the error, give a lower bound of mu, and from it
the epsilon at delta (Nasr et al. 2023).  It bounds the algorithm's own epsilon only if the algorithm's
trade-off curve is Gaussian; a Laplace mechanism with epsilon = 1 is covered by mu = 1.03, whose epsilon
at delta = 1e-5 is 4.5.

Of a ratio, for many trials: Katz, adjusted, Bailey, inverse sinh.  (epsilon, delta)-DP bounds both
(TPR - delta) / FPR and (TNR - delta) / FNR by e^epsilon.  Each class computes a lower limit of such a
ratio with half of the allowed error.  With x1 of n1 and x2 of n2 events, p = x / n, the limits use

    V1 = p1 (1 - p1) / (n1 (p1 - delta)^2),   V2 = (1 - p2) / x2,

the large-sample variances of log(p1 - delta) and of log(p2); at delta = 0 V1 is 1/x1 - 1/n1 and the
limits are the well-known ones (compared by Price and Bonett 2008).  They are approximate: with few
events their error rate is above or below the stated one.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, ndtri

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.baselines.estimator import (
    CountEstimator,
    Kind,
    LowerEndOnly,
    check_positive_delta,
    check_significance,
)
from epsilometer.model.counts import AttackCounts
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from epsilometer.model.region import critical_epsilon


def clopper_pearson(count: ArrayLike, trials: ArrayLike, tail: float) -> FloatPair:
    """Rates at which ``count`` or more (fewer) events of ``trials`` have probability ``tail``.

    Each has error probability at most ``tail`` for any true rate (Clopper and Pearson 1934).

    Examples
    --------
    >>> low, high = clopper_pearson(0, 100, 0.05)
    >>> float(low), round(float(high), 6)
    (0.0, 0.029513)
    """
    return _beta_quantiles(count, trials, tail, 0.0)


def jeffreys(count: ArrayLike, trials: ArrayLike, tail: float) -> FloatPair:
    """The ``tail`` quantiles of Beta(count + 1/2, trials - count + 1/2).

    If no event occurred, the lower limit is 0; if every trial was an event, the upper limit is 1.  This
    keeps the coverage from dropping to zero at extreme rates (Brown, Cai and DasGupta 2001).

    Examples
    --------
    >>> low, high = jeffreys(0, 100, 0.05)
    >>> float(low), round(float(high), 6)
    (0.0, 0.018977)
    """
    return _beta_quantiles(count, trials, tail, 0.5)


def _beta_quantiles(count: ArrayLike, trials: ArrayLike, tail: float, more: float) -> FloatPair:
    """Quantiles of Beta(x + more, n - x + 1 - more) and of Beta(x + 1 - more, n - x + more)."""
    count, rest = np.asarray(count, dtype=float), np.subtract(trials, count, dtype=float)
    # At least 1/2: any positive number works, since these cases are set to 0 and 1 below.
    low = betaincinv(np.maximum(count + more, 0.5), rest + 1 - more, tail)
    high = betainccinv(count + 1 - more, np.maximum(rest + more, 0.5), tail)
    return np.where(count <= 0, 0.0, low), np.where(rest <= 0, 1.0, high)


class FromRateLimits(CountEstimator):
    """Both ends from limits of the two error rates, each limit with half of an end's error."""

    limits = staticmethod(clopper_pearson)

    def _ends(self, counts: AttackCounts, delta: float, error: float) -> FloatPair:
        alpha, beta = (self.limits(*observed, error / 2) for observed in counts.by_hypothesis)
        return self._epsilons(alpha, beta, delta)

    @abstractmethod
    def _epsilons(self, alpha: FloatPair, beta: FloatPair, delta: float) -> FloatPair:
        """Smallest and largest epsilon of rates within these limits."""


@dataclass(frozen=True)
class _Rectangle(FromRateLimits):
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
    limits = staticmethod(jeffreys)


def separation(alpha: ArrayLike, beta: ArrayLike) -> FloatArray:
    """Separation mu at which a Gaussian mechanism just allows these rates; 0 if they sum to 1.

    Infinite if a rate is 0.

    Examples
    --------
    >>> round(float(separation(0.3085375387, 0.3085375387)), 6)
    1.0
    """
    alpha, beta = np.asarray(alpha, dtype=float), np.asarray(beta, dtype=float)
    with np.errstate(invalid="ignore"):  # rates of 0 and 1, which sum to 1
        return np.asarray(np.where(alpha + beta < 1, -ndtri(alpha) - ndtri(beta), 0.0))


@dataclass(frozen=True)
class GaussianRates(FromRateLimits):
    """Epsilon at delta from Clopper-Pearson limits of the rates, assuming a Gaussian mechanism.

    Examples
    --------
    >>> from epsilometer import AttackCounts
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=100, false_negatives=[10], trials_h1=100
    ... )
    >>> round(float(GaussianRates().lower(counts, 1e-5)[0]), 4)
    9.1439
    """

    label = "Gaussian DP"
    kind = Kind.EXACT_BOUND
    assumes = "a Gaussian trade-off curve, independent trials, a decision rule fixed in advance"
    gaussian = True

    def _epsilons(self, alpha: FloatPair, beta: FloatPair, delta: float) -> FloatPair:
        delta = check_positive_delta(delta, who=self.label)
        at_low, at_high = (
            # A reflected attack is equally informative.
            (separation(a, b), separation(1 - a, 1 - b))
            for a, b in zip(alpha, beta, strict=True)
        )
        near, far = np.maximum(at_high[0], at_low[1]), np.maximum(at_low[0], at_high[1])
        upper = np.full(far.shape, np.inf)
        known = np.isfinite(far)
        upper[known] = epsilon_of_gaussian(far[known], delta)
        return epsilon_of_gaussian(near, delta), upper


# --- limits of a ratio ------------------------------------------------------------------------------


class _LogRatio(LowerEndOnly):
    """Common part: one ratio in each direction, each with half of the error."""

    kind = Kind.APPROXIMATE_BOUND
    assumes = "many independent trials, a decision rule fixed in advance"
    #: Events and trials added to each count.
    added = 0.0

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
