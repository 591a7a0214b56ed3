"""The Gaussian mechanism's privacy, exactly: a known answer to check estimates against."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from epsilometer import _validate


def gaussian_delta(epsilon: float, *, sensitivity: float, noise: float) -> float:
    """Least delta at which adding normal noise is (epsilon, delta)-DP.

    Phi(a/2 - epsilon/a) - exp(epsilon) Phi(-a/2 - epsilon/a) with a = sensitivity / noise (Balle and
    Wang 2018, theorem 8).

    Parameters
    ----------
    epsilon
        >= 0.
    sensitivity
        Largest change of the released vector between neighbours, in Euclidean length; > 0.
    noise
        Standard deviation of the noise in each coordinate; > 0.

    Examples
    --------
    >>> round(gaussian_delta(1.0, sensitivity=1.0, noise=1.0), 6)
    0.126937
    """
    epsilon = _validate.non_negative("epsilon", epsilon)
    ratio = _validate.positive("sensitivity", sensitivity) / _validate.positive("noise", noise)
    tail = epsilon + float(log_ndtr(-ratio / 2 - epsilon / ratio))
    return max(0.0, float(ndtr(ratio / 2 - epsilon / ratio)) - math.exp(tail))


def gaussian_epsilon(delta: float, *, sensitivity: float, noise: float) -> float:
    """Least epsilon at which adding normal noise is (epsilon, delta)-DP; infinite at delta = 0.

    The inverse of `gaussian_delta`, to 1e-10; 0 if delta is reached without any epsilon.

    Examples
    --------
    >>> round(gaussian_epsilon(0.126937, sensitivity=1.0, noise=1.0), 4)
    1.0
    """
    delta = _validate.delta(delta)
    if delta == 0:
        return math.inf

    def excess(epsilon: float) -> float:
        return gaussian_delta(epsilon, sensitivity=sensitivity, noise=noise) - delta

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-10))
