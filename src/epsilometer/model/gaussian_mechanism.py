"""Exact privacy of the Gaussian mechanism: a known answer to check estimates against."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr, ndtri

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError


def gaussian_epsilon(delta: float, *, sensitivity: float, noise: float) -> float:
    """Least epsilon at which adding normal noise is (epsilon, delta)-DP; infinite at delta = 0.

    To 1e-10; 0 if delta is reached without any epsilon.  The sensitivity is the largest change of the
    released vector between neighbours, in Euclidean length; the noise is its standard deviation in each
    coordinate.  The inverse, Phi(a/2 - epsilon/a) - exp(epsilon) Phi(-a/2 - epsilon/a) with a =
    sensitivity / noise (Balle and Wang 2018, theorem 8), is the delta of the family `Gaussian`.

    Examples
    --------
    >>> round(gaussian_epsilon(0.126937, sensitivity=1.0, noise=1.0), 4)
    1.0
    """
    ratio = _validate.positive("sensitivity", sensitivity) / _validate.positive("noise", noise)
    return float(epsilon_of_gaussian(ratio, delta))


#: Larger separations, including infinity, are treated as no privacy at all.
_NO_PRIVACY_SEPARATION = 1e50


def epsilon_of_gaussian(separation: ArrayLike, delta: float) -> FloatArray:
    """`gaussian_epsilon` for many separations mu = sensitivity / noise >= 0 at once; 0 gives 0.

    Examples
    --------
    >>> np.round(epsilon_of_gaussian([0.0, 0.5, 1.0], 1e-5), 6).tolist()
    [0.0, 1.993091, 4.377178]
    """
    mu = np.asarray(separation, dtype=float)
    if not np.all(mu >= 0):
        raise InputError(f"expected separation >= 0, got separation={mu.min()}.")
    delta = _validate.delta(delta)
    if delta == 0:
        return np.where(mu > 0, np.inf, 0.0)

    result = np.where(mu > _NO_PRIVACY_SEPARATION, np.inf, 0.0)
    leaks = (2 * ndtr(mu / 2) - 1 > delta) & (mu <= _NO_PRIVACY_SEPARATION)
    some = mu[leaks]
    if some.size:
        result[leaks] = _newton(some, delta)
    return result


def _newton(mu: FloatArray, delta: float) -> FloatArray:
    """Newton's method on log delta(epsilon), which is concave, from above: it never overshoots."""
    # delta(epsilon) < Phi(mu/2 - epsilon/mu), which is delta here.
    epsilon = np.maximum(mu * (mu / 2 - ndtri(delta)), 0.0)
    for _ in range(100):
        log_first = log_ndtr(mu / 2 - epsilon / mu)
        log_second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log_delta = log_first + np.log1p(-np.exp(np.minimum(log_second - log_first, 0.0)))
            # The derivative of delta is minus the second term.
            step = (log_delta - np.log(delta)) * np.exp(log_delta - log_second)
        new = np.clip(np.where(np.isfinite(step), epsilon + step, epsilon), 0.0, epsilon)
        done = epsilon - new <= 1e-13 * np.maximum(new, 1.0)
        epsilon = new
        if done.all():
            break
    return epsilon
