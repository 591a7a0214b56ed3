"""Slow, simple implementations of the estimators, and helpers shared by the tests in this folder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, ndtri, xlog1py, xlogy
from scipy.stats import beta, binom

from epsilometer.model.counts import AttackCounts, counts_of

FloatArray = NDArray[np.float64]


def confusion(*, tp: int, tn: int, fp: int, fn: int) -> AttackCounts:
    """One base from the four cells that other tools take."""
    return counts_of([fp], fp + tn, [fn], fn + tp)


def base(x: int, n0: int, y: int, n1: int) -> AttackCounts:
    return AttackCounts(false_positives=[x], trials_h0=n0, false_negatives=[y], trials_h1=n1)


def normal_grid(size: int) -> FloatArray:
    """Scores without a seed: normal quantiles of an even grid."""
    return np.asarray(ndtri((np.arange(size) + 0.5) / size), dtype=float)


def most_failures(trials: int, nominal: float = 0.05) -> int:
    """More failures than this have probability below 1e-4 if each has at most ``nominal``."""
    return int(binom.isf(1e-4, trials, nominal))


def _lower_mass(x: int, n0: int, y: int, n1: int, epsilon: Any, delta: Any) -> Any:
    """Mass of the rates below the lower edge of R, by integrating the region's own inequalities.

    The rate with fewer trials is the inner one, where mpmath's series are short; R is symmetric.
    """
    if n1 > n0:
        x, n0, y, n1 = y, n1, x, n0
    a, b = mpmath.mpf(x) + 0.5, mpmath.mpf(n0 - x) + 0.5
    c, d = mpmath.mpf(y) + 0.5, mpmath.mpf(n1 - y) + 0.5
    top = 1 - delta
    constant = mpmath.beta(a, b)

    def integrand(alpha: Any) -> Any:
        edge = max((top - alpha) * mpmath.exp(-epsilon), top - mpmath.exp(epsilon) * alpha)
        if edge <= 0:
            return mpmath.mpf(0)
        inner = mpmath.betainc(c, d, 0, min(edge, 1), regularized=True)
        return alpha ** (a - 1) * (1 - alpha) ** (b - 1) / constant * inner

    mean, spread = a / (a + b), mpmath.sqrt(a * b / (a + b + 1)) / (a + b)
    other, wide = c / (c + d), mpmath.sqrt(c * d / (c + d + 1)) / (c + d)
    steps = (-10, -3, 0, 3, 10)
    corner = top / (1 + mpmath.exp(epsilon))
    marks = {corner, *(mean + k * spread for k in steps)}
    # Where either edge crosses the other rate's bulk.
    marks |= {top - mpmath.exp(epsilon) * (other + k * wide) for k in steps}
    marks |= {(top - other - k * wide) * mpmath.exp(-epsilon) for k in steps}
    inside = sorted(mark for mark in marks if 0 < mark < top)
    return mpmath.quad(integrand, [0, *inside, top], maxdegree=4)


def joint_beta_above(
    x: int, n0: int, y: int, n1: int, epsilon: float, delta: float, *, digits: int = 15
) -> float:
    """P(epsilon' > epsilon) under the product of the two Jeffreys posteriors, by mpmath."""
    with mpmath.workdps(digits):
        e, d = mpmath.mpf(epsilon), mpmath.mpf(delta)
        below = _lower_mass(x, n0, y, n1, e, d)
        return float(below + _lower_mass(n0 - x, n0, n1 - y, n1, e, d))


def joint_beta_above_by_panels(
    x: int, n0: int, y: int, n1: int, epsilon: float, delta: float
) -> float:
    """The same in double precision, for counts beyond mpmath's series: 400 Gauss panels per side."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for a, b, c, d in (
        (x + 0.5, n0 - x + 0.5, y + 0.5, n1 - y + 0.5),
        (n0 - x + 0.5, x + 0.5, n1 - y + 0.5, y + 0.5),
    ):
        corner, top = (1 - delta) / (1 + math.exp(epsilon)), 1 - delta
        # Panels between quantiles of the rate, where its mass is, and the corner.
        share = np.concatenate([10.0 ** np.arange(-18, -2), np.linspace(0.01, 0.99, 180)])
        marks = np.concatenate([beta.ppf(share, a, b), beta.isf(share[share < 0.01], a, b)])
        other = np.concatenate([beta.ppf(share, c, d), beta.isf(share[share < 0.01], c, d)])
        marks = np.concatenate([marks, top - math.exp(epsilon) * other])
        marks = np.concatenate([marks, (top - other) * math.exp(-epsilon), [0.0, corner, top]])
        angle = np.arcsin(np.sqrt(np.unique(marks[(marks >= 0) & (marks <= top)])))
        half = np.diff(angle)[:, None] / 2
        theta = (angle[:-1, None] + angle[1:, None]) / 2 + half * nodes
        rate = np.sin(theta) ** 2
        edge = np.maximum((top - rate) * math.exp(-epsilon), top - math.exp(epsilon) * rate)
        density = np.exp(xlogy(a - 0.5, rate) + xlog1py(b - 0.5, -rate) - betaln(a, b))
        total += float(np.sum(half * weights * 2 * density * beta.cdf(edge, c, d)))
    return total


def one_run_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Algorithm of appendix D of Steinke et al., every i tried."""
    chance = 1 / (1 + math.exp(-epsilon))
    weights = binom.pmf(np.arange(r + 1), r, chance)
    right = float(weights[v:].sum())
    most, total = 0.0, 0.0
    for i in range(1, v + 1):
        total += float(weights[v - i])
        most = max(most, total / i)
    return min(1.0, right + 2 * m * delta * most)


def fdp_refuted(
    curve: Callable[[float], float], m: int, r: int, v: int, significance: float
) -> bool:
    """Algorithm 3 of Mahloujifar et al. in plain numbers; ``curve`` is the least FPR at a TPR."""
    h, s = significance * (r - v) / m, significance * v / m
    for i in range(v - 1, -1, -1):
        raised = max(h, curve(s))
        s += i / (r - i) * (raised - h)
        h = raised
        s = min(s, 1.0)
    return s + h > r / m


def largest_refuted(refuted: Callable[[float], bool]) -> float:
    """By bisection from [0, 64]; 0 if not even 0 is refuted."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 64.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
