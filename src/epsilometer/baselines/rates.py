"""Confidence limits of one error rate from a binomial count.

Only limits of a rate; what two of them say about epsilon is in the estimators.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from epsilometer._arrays import FloatArray


def clopper_pearson_upper(count: ArrayLike, trials: ArrayLike, tail: float) -> FloatArray:
    """Rate at which ``count`` or fewer events of ``trials`` have probability ``tail``.

    It lies below the true rate with probability at most ``tail``, whatever that rate is (Clopper and
    Pearson 1934).  1 where every trial was an event.

    Examples
    --------
    >>> round(float(clopper_pearson_upper(0, 100, 0.05)), 6)
    0.029513
    """
    count, trials = np.asarray(count, dtype=float), np.asarray(trials, dtype=float)
    rest = np.maximum(trials - count, 0.5)  # any positive number: that case is 1 below
    return np.asarray(np.where(count >= trials, 1.0, betainccinv(count + 1, rest, tail)))


def clopper_pearson_lower(count: ArrayLike, trials: ArrayLike, tail: float) -> FloatArray:
    """Rate at which ``count`` or more events of ``trials`` have probability ``tail``; 0 at no event."""
    count, trials = np.asarray(count, dtype=float), np.asarray(trials, dtype=float)
    some = np.maximum(count, 0.5)
    return np.asarray(np.where(count <= 0, 0.0, betaincinv(some, trials - count + 1, tail)))


def jeffreys_upper(count: ArrayLike, trials: ArrayLike, tail: float) -> FloatArray:
    """Upper ``tail`` quantile of Beta(count + 1/2, trials - count + 1/2); 1 if all trials were events.

    The end at 1 keeps the coverage from falling to zero as the true rate goes to 1 (Brown, Cai and
    DasGupta 2001).

    Examples
    --------
    >>> round(float(jeffreys_upper(0, 100, 0.05)), 6)
    0.018977
    """
    count, trials = np.asarray(count, dtype=float), np.asarray(trials, dtype=float)
    limit = betainccinv(count + 0.5, trials - count + 0.5, tail)
    return np.asarray(np.where(count >= trials, 1.0, limit))


def jeffreys_lower(count: ArrayLike, trials: ArrayLike, tail: float) -> FloatArray:
    """Lower ``tail`` quantile of the same distribution; 0 if no trial was an event."""
    count, trials = np.asarray(count, dtype=float), np.asarray(trials, dtype=float)
    limit = betaincinv(count + 0.5, trials - count + 0.5, tail)
    return np.asarray(np.where(count <= 0, 0.0, limit))
