"""Confidence limits of error rates from binomial counts, and estimators based on them."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from epsilometer._arrays import FloatPair
from epsilometer.baselines.estimator import CountEstimator
from epsilometer.model.counts import AttackCounts


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
