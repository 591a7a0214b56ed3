"""The joint-beta credible interval of Zanella-Beguelin et al. (2023), by exact quadrature.

The two error rates of an attack have independent Jeffreys priors, so their posteriors are
Beta(X + 1/2, N0 - X + 1/2) and Beta(Y + 1/2, N1 - Y + 1/2).  Epsilon is the smallest value that allows
the rates, so P(epsilon <= e) is the mass of R(e, delta) under their product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize.elementwise import find_root
from scipy.special import betainc, betainccinv, betaincinv, betaln, ndtri, xlog1py, xlogy

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair, IndexArray
from epsilometer.baselines.estimator import CountEstimator, Kind, check_significance
from epsilometer.model.counts import AttackCounts

# Tail mass of a rate's distribution that is neglected; far below the accuracy of the quantiles.
_NEGLIGIBLE_DENSITY = 1e-17
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
#: Of quantiles.
TOLERANCES: Any = {"xatol": 1e-10, "xrtol": 1e-10}


class _Rates(NamedTuple):
    """Beta distributions of alpha, beta, 1 - alpha and 1 - beta, one column per base."""

    events: FloatArray
    rest: FloatArray
    low: FloatArray
    #: Range that contains their mass.
    high: FloatArray

    @classmethod
    def after(cls, counts: AttackCounts) -> _Rates:
        errors, trials = np.stack(counts.by_hypothesis, axis=1)
        right = trials - errors
        events, rest = np.concatenate([errors, right]) + 0.5, np.concatenate([right, errors]) + 0.5
        low = np.asarray(betaincinv(events, rest, _NEGLIGIBLE_DENSITY), dtype=float)
        high = np.asarray(betainccinv(events, rest, _NEGLIGIBLE_DENSITY), dtype=float)
        return cls(events, rest, low, high)

    def columns(self, chosen: IndexArray) -> _Rates:
        return _Rates(*(array[:, chosen] for array in self))


def _above(first: _Rates, epsilon: FloatArray, delta: float) -> FloatArray:
    """P(epsilon' > epsilon): the mass beyond both edges of R.

    With c the corner of R, the mass below an edge is that of the square up to (c, c) plus that of
    {first > c, first + e^epsilon second < 1 - delta}, with each rate in turn as the first.  The latter
    is the integral over the first rate of its density times the other's distribution function at the
    edge. Only the range where that function is neither 0 nor 1 needs quadrature; the rest is a
    difference of distribution functions.  The substitution rate = sin^2(theta), with theta flattened at
    both ends of the range, removes the square-root singularities of the Jeffreys densities.
    """
    second = _Rates(*(array[[1, 0, 3, 2]] for array in first))
    shrink = np.broadcast_to(np.exp(-epsilon), first.events.shape)
    corner = (1 - delta) * shrink / (1 + shrink)
    grow = np.exp(np.minimum(epsilon, 700.0))
    start = np.clip(np.maximum(corner, first.low), 0.0, 1.0)
    stop = np.maximum(np.clip(np.minimum(1 - delta, first.high), 0.0, 1.0), start)
    # Up to full_until the edge is above second.high; from none_from on it is below second.low.
    full_until = np.clip(1 - delta - grow * second.high, start, stop)
    none_from = np.clip(1 - delta - grow * second.low, start, stop)
    in_corner = betainc(first.events, first.rest, corner)
    mass = betainc(first.events, first.rest, full_until) - np.where(start > corner, 0.0, in_corner)
    mass = np.where(full_until > start, mass, 0.0)
    busy = none_from > full_until
    if busy.any():
        a, a_rest, b, b_rest, scale = (
            array[busy][:, None]
            for array in (first.events, first.rest, second.events, second.rest, shrink)
        )
        begin = np.arcsin(np.sqrt(full_until[busy]))[:, None]
        end = np.arcsin(np.sqrt(none_from[busy]))[:, None]
        angle = np.pi / 4 * (_NODES + 1)
        rate = np.sin(begin + (end - begin) * np.sin(angle) ** 2) ** 2
        weights = _WEIGHTS * np.pi / 4 * np.sin(2 * angle) * (end - begin)
        # d rate = 2 sin cos d theta
        log_density = xlogy(a - 0.5, rate) + xlog1py(a_rest - 0.5, -rate) - betaln(a, a_rest)
        edge = np.clip((1 - delta - rate) * scale, 0.0, 1.0)
        mass[busy] += np.sum(weights * 2 * np.exp(log_density) * betainc(b, b_rest, edge), axis=1)
    squares = in_corner[::2] * in_corner[1::2]
    return np.asarray((squares + mass[::2] + mass[1::2]).sum(axis=0))


def _quantile(rates: _Rates, delta: float, probability: float) -> FloatArray:
    """The root of the normal quantile of P, which is nearly linear in epsilon.

    The bracket ends where e^epsilon times any of the four rates is below 1 with probability at most
    1 - probability.
    """
    least = np.min(betaincinv(rates.events, rates.rest, (1 - probability) / 4), axis=0)
    high = np.asarray(-np.log(np.maximum(least, 1e-300))) + 1.0

    def excess(epsilon: FloatArray, base: IndexArray) -> FloatArray:
        above = np.clip(_above(rates.columns(base), epsilon, delta), 1e-300, 1 - 1e-16)
        return np.asarray(-ndtri(above) - ndtri(probability))

    result = np.zeros_like(high)
    # Otherwise the quantile is the atom at 0.
    active = np.flatnonzero(1 - _above(rates, result, delta) < probability)
    if active.size:
        bracket = result[active], high[active]
        result[active] = find_root(excess, bracket, args=(active,), tolerances=TOLERANCES).x
    return result


@dataclass(frozen=True)
class JointBeta(CountEstimator):
    """Quantiles of epsilon under independent Jeffreys posteriors of the rates.

    The interval has half of ``significance`` on each side.  Accurate to about 1e-7.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    ... )
    >>> low, high = JointBeta().interval(counts, 0.01, significance=0.1)
    >>> round(float(low[0]), 6), round(float(high[0]), 6)
    (0.2887, 0.509413)
    """

    label = "joint beta"
    kind = Kind.CREDIBLE
    assumes = "independent trials, Jeffreys priors for both rates, a decision rule fixed in advance"

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        """The ``significance`` quantile for each base: half the time of both ends."""
        delta = _validate.delta(delta)
        return _quantile(_Rates.after(counts), delta, check_significance(significance))

    def _ends(self, counts: AttackCounts, delta: float, error: float) -> FloatPair:
        rates, delta = _Rates.after(counts), _validate.delta(delta)
        return _quantile(rates, delta, error), _quantile(rates, delta, 1 - error)

    def probability_above(self, counts: AttackCounts, delta: float, epsilon: float) -> FloatArray:
        """Probability that epsilon exceeds ``epsilon``, for each base."""
        delta = _validate.delta(delta)
        at = np.full(len(counts), _validate.non_negative("epsilon", epsilon))
        return _above(_Rates.after(counts), at, delta)
