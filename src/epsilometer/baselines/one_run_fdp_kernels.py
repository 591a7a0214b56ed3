"""The compiled recursion of `OneRunFdpBound`: one step per guess, thousands of times per bound."""

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
    """Phi^-1(probability) by Newton's method from ``x``, the quantile of a slightly smaller probability.

    Stops when steps are below 1e-14, or after 60 steps.
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
def excess(
    parameter: FloatArray,
    m: FloatArray,
    r: FloatArray,
    v: FloatArray,
    level: FloatArray,
    first_quantile: FloatArray,
    delta: float,
    gaussian: bool,
) -> FloatArray:
    """Above 0 if the curve at ``parameter`` is refuted: that of a Gaussian mechanism or of DP.

    ``first_quantile`` is Phi^-1(level v / m), which only the Gaussian curve needs.
    """
    result = np.empty(len(m))
    for k in range(len(m)):
        right, wrong = level[k] * v[k] / m[k], level[k] * (r[k] - v[k]) / m[k]
        shrink, grow = math.exp(-parameter[k]), math.exp(min(parameter[k], 700.0))
        x = first_quantile[k]
        i = v[k] - 1
        while i >= 0:
            if gaussian:
                least = 1.0 if right >= 1.0 else _normal_cdf(x - parameter[k])
            else:
                least = max((right - delta) * shrink, 1 - delta - grow * (1 - right))
            if least <= wrong:
                break
            if r[k] > i:
                right = min(right + i / (r[k] - i) * (least - wrong), 1.0)
                if gaussian and right < 1.0:
                    x = _moved_quantile(x, right)
            wrong = least
            i -= 1
        result[k] = right + wrong - r[k] / m[k]
    return result
