"""The recursion of `one_run_fdp.py`, compiled: a step a guess, thousands of times for each bound."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from epsilometer._arrays import FloatArray

_ROOT_TWO = math.sqrt(2.0)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


@njit(cache=True)
def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / _ROOT_TWO)


@njit(cache=True)
def _moved_quantile(x: float, probability: float) -> float:
    """Phi^-1(probability) by Newton's method from ``x``, the quantile of one a little smaller.

    Two-sided rounding ends it: where steps are below 1e-14, or after 60 of them.
    """
    for _ in range(60):
        slope = math.exp(-0.5 * x * x) / _ROOT_TWO_PI
        if slope < 1e-300:
            break
        step = (probability - _normal_cdf(x)) / slope
        step = min(max(step, -1.0), 1.0)
        x += step
        if abs(step) < 1e-14 * max(1.0, abs(x)):
            break
    return x


@njit(cache=True)
def excess_of_approximate_dp(
    epsilon: FloatArray,
    m: FloatArray,
    r: FloatArray,
    v: FloatArray,
    level: FloatArray,
    delta: float,
) -> FloatArray:
    """`one_run_fdp.excess` with the curve of (epsilon, delta)-DP."""
    result = np.empty(len(m))
    for k in range(len(m)):
        right, wrong = level[k] * v[k] / m[k], level[k] * (r[k] - v[k]) / m[k]
        shrink, grow = math.exp(-epsilon[k]), math.exp(min(epsilon[k], 700.0))
        i = v[k] - 1
        while i >= 0:
            least = max((right - delta) * shrink, 1 - delta - grow * (1 - right))
            if least <= wrong:
                break
            if r[k] > i:
                right = min(right + i / (r[k] - i) * (least - wrong), 1.0)
            wrong = least
            i -= 1
        result[k] = right + wrong - r[k] / m[k]
    return result


@njit(cache=True)
def excess_of_gaussian_dp(
    mu: FloatArray,
    m: FloatArray,
    r: FloatArray,
    v: FloatArray,
    level: FloatArray,
    first_quantile: FloatArray,
) -> FloatArray:
    """The same with the curve of a Gaussian mechanism; ``first_quantile`` is Phi^-1(level v / m)."""
    result = np.empty(len(m))
    for k in range(len(m)):
        right, wrong = level[k] * v[k] / m[k], level[k] * (r[k] - v[k]) / m[k]
        x = first_quantile[k]
        i = v[k] - 1
        while i >= 0:
            least = 1.0 if right >= 1.0 else _normal_cdf(x - mu[k])
            if least <= wrong:
                break
            if r[k] > i:
                right = min(right + i / (r[k] - i) * (least - wrong), 1.0)
                if right < 1.0:
                    x = _moved_quantile(x, right)
            wrong = least
            i -= 1
        result[k] = right + wrong - r[k] / m[k]
    return result
