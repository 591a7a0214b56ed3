"""The most powerful test of one normal distribution against another, from one observation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from epsilometer._arrays import FloatArray


def p_value(
    observed: ArrayLike,
    *,
    mean_h0: ArrayLike,
    deviation_h0: ArrayLike,
    mean_h1: ArrayLike,
    deviation_h1: ArrayLike,
) -> FloatArray:
    """Smallest significance level at which the likelihood-ratio test rejects H0 (appendix D).

    Let u = (x - mean_h0) / deviation_h0, and m and r the mean and deviation under H1 in those units.
    The log-likelihood ratio is a quadratic in u that takes the same value at v = -u - 2 m / (r^2 - 1).
    H0 is rejected outside (u, v) if r >= 1 and inside if r < 1, so the p-value is a sum or a difference
    of two normal probabilities.  In this form nothing cancels as r -> 1: v goes to infinity and the test
    becomes the one-sided test for equal variances.

    The paper's algorithm has the sign of the denominator of R reversed; its appendix, used here, is
    correct.

    Parameters
    ----------
    observed, mean_h0, deviation_h0, mean_h1, deviation_h1
        Arrays that broadcast; standard deviations >= 0.  NaN in any of them gives NaN.

    Returns
    -------
    FloatArray
        In [0, 1], accurate to 1e-15.  Uniform under H0 if deviation_h0 > 0.  Limits: if H0 has no
        spread, everything but mean_h0 is rejected (p = 0, else p = 1); if H1 has no spread, a
        neighbourhood of mean_h1 is rejected; equal hypotheses are never distinguished (p = 1).

    Examples
    --------
    >>> float(p_value(1.6448536, mean_h0=0, deviation_h0=1, mean_h1=2, deviation_h1=1).round(6))
    0.05
    """
    given = (observed, mean_h0, deviation_h0, mean_h1, deviation_h1)
    parts = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in given))
    x, mean_0, deviation_0, mean_1, deviation_1 = parts
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        here = (x - mean_0) / deviation_0
        shift = (mean_1 - mean_0) / deviation_0
        # r^2 - 1 as (r - 1)(r + 1), exact near 0.
        excess = (
            (deviation_1 - deviation_0) / deviation_0 * ((deviation_1 + deviation_0) / deviation_0)
        )
        far = np.where(mean_1 > mean_0, -np.inf, np.inf)
        there = np.where(excess == 0, far, -here - 2 * shift / excess)
        low, high = np.minimum(here, there), np.maximum(here, there)
        outside = ndtr(low) + ndtr(-high)
        # Computing the interval from the nearer tail keeps small probabilities accurate.
        flip = low > 0
        inside = ndtr(np.where(flip, -low, high)) - ndtr(np.where(flip, -high, low))
    p = np.where(excess >= 0, outside, inside)
    equal = (mean_0 == mean_1) & (deviation_0 == deviation_1)
    # A deviation so small that dividing by it overflows counts as no spread.
    p = np.where((deviation_0 == 0) | np.isnan(p), np.where(x == mean_0, 1.0, 0.0), p)
    p = np.where(equal, 1.0, p)
    return np.where(np.isnan(parts).any(axis=0), np.nan, np.clip(p, 0.0, 1.0))
