"""The joint-beta credible interval of Zanella-Beguelin et al. (2023), by exact quadrature.

The two error rates of an attack get independent Jeffreys priors, so after the counts they follow
Beta(X + 1/2, N0 - X + 1/2) and Beta(Y + 1/2, N1 - Y + 1/2).  Epsilon is the least one that allows the
rates, so P(epsilon <= e) is the mass of R(e, delta) under their product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import betainc, betainccinv, betaincinv, betaln, ndtri, xlog1py, xlogy

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.baselines.estimator import Kind, check_significance
from epsilometer.model.counts import AttackCounts
from epsilometer.model.region import critical_epsilon

# Tails of a rate's distribution that are left out; far below the accuracy of the quantiles.
_NEGLIGIBLE = 1e-17
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
# Newton's method doubles its digits, so a step this short leaves an error below the width at which
# halving would stop; a hundred halvings alone would get there.
_SHORT, _TOLERANCE, _MOST_STEPS = 1e-6, 1e-10, 100


class _Rate(NamedTuple):
    """Beta distributions of one rate, a row each, with where they have their mass."""

    events: FloatArray
    rest: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def after(cls, count: FloatArray, trials: FloatArray) -> _Rate:
        events, rest = count + 0.5, trials - count + 0.5
        low = np.asarray(betaincinv(events, rest, _NEGLIGIBLE), dtype=float)
        high = np.asarray(betainccinv(events, rest, _NEGLIGIBLE), dtype=float)
        return cls(events, rest, low, high)

    def reflected(self) -> _Rate:
        """Of one minus the rate."""
        return _Rate.after(self.rest - 0.5, self.events + self.rest - 1)

    def rows(self, chosen: BoolArray) -> _Rate:
        return _Rate(*(column[chosen] for column in self))


def _beyond_edge(
    first: _Rate, second: _Rate, epsilon: FloatArray, delta: float
) -> tuple[FloatArray, FloatArray]:
    """Mass of {first > c, first + e^epsilon second < 1 - delta}, c the corner, and its fall in epsilon.

    The integral over the first rate of its density times the other's distribution function at the
    edge.  Only the stretch where that function is neither 0 nor 1 needs quadrature; the rest is a
    difference of distribution functions.  With rate = sin^2(theta), and theta flattened at both ends
    of the stretch, the square-root singularities of Jeffreys' densities are gone.
    """
    shrink = np.exp(-epsilon)
    corner = (1 - delta) * shrink / (1 + shrink)
    grow = np.exp(np.minimum(epsilon, 700.0))
    start = np.clip(np.maximum(corner, first.low), 0.0, 1.0)
    stop = np.clip(np.minimum(1 - delta, first.high), 0.0, 1.0)
    # The edge is above second.high up to here, and below second.low from there on.
    full_until = np.clip(1 - delta - grow * second.high, start, np.maximum(stop, start))
    none_from = np.clip(1 - delta - grow * second.low, start, np.maximum(stop, start))
    lower_part = np.where(start > corner, 0.0, corner)
    mass = betainc(first.events, first.rest, full_until) - betainc(
        first.events, first.rest, lower_part
    )
    mass = np.where(full_until > start, mass, 0.0)
    fall = np.zeros_like(mass)
    busy = none_from > full_until
    if busy.any():
        a, b = first.rows(busy), second.rows(busy)
        begin = np.arcsin(np.sqrt(full_until[busy]))[:, None]
        end = np.arcsin(np.sqrt(none_from[busy]))[:, None]
        angle = np.pi / 4 * (_NODES + 1)
        theta = begin + (end - begin) * np.sin(angle) ** 2
        weights = _WEIGHTS * np.pi / 4 * np.sin(2 * angle) * (end - begin)
        rate = np.sin(theta) ** 2
        # d rate = 2 sin cos d theta
        log_density = (
            xlogy(a.events[:, None] - 0.5, rate)
            + xlog1py(a.rest[:, None] - 0.5, -rate)
            - betaln(a.events, a.rest)[:, None]
        )
        density = 2 * np.exp(log_density)
        edge = np.clip((1 - delta - rate) * shrink[busy][:, None], 0.0, 1.0)
        inner = betainc(b.events[:, None], b.rest[:, None], edge)
        mass[busy] += np.sum(weights * density * inner, axis=1)
        log_inner = (
            xlogy(b.events[:, None], edge)
            + xlog1py(b.rest[:, None] - 1, -edge)
            - betaln(b.events, b.rest)[:, None]
        )
        fall[busy] = np.sum(weights * density * np.exp(log_inner), axis=1)
    return np.asarray(mass, dtype=float), fall


def _below(
    alpha: _Rate, beta: _Rate, epsilon: FloatArray, delta: float
) -> tuple[FloatArray, FloatArray]:
    """Mass of the rates below the lower edge of R(epsilon, delta), and how fast it falls."""
    shrink = np.exp(-epsilon)
    corner = (1 - delta) * shrink / (1 + shrink)
    square = betainc(alpha.events, alpha.rest, corner) * betainc(beta.events, beta.rest, corner)
    one, one_fall = _beyond_edge(alpha, beta, epsilon, delta)
    two, two_fall = _beyond_edge(beta, alpha, epsilon, delta)
    return square + one + two, one_fall + two_fall


class _Posterior:
    """Distribution of epsilon for each base."""

    def __init__(self, sides: tuple[tuple[_Rate, _Rate], ...], delta: float) -> None:
        self._sides = sides
        self._delta = delta

    @classmethod
    def after(cls, counts: AttackCounts, delta: float) -> _Posterior:
        alpha = _Rate.after(counts.false_positives.astype(float), counts.trials_h0.astype(float))
        beta = _Rate.after(counts.false_negatives.astype(float), counts.trials_h1.astype(float))
        sides = ((alpha, beta), (alpha.reflected(), beta.reflected()))
        return cls(sides, _validate.delta(delta))

    def rows(self, chosen: BoolArray) -> _Posterior:
        sides = tuple((alpha.rows(chosen), beta.rows(chosen)) for alpha, beta in self._sides)
        return _Posterior(sides, self._delta)

    def above(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(epsilon' > epsilon) and the density there."""
        total, density = np.zeros_like(epsilon), np.zeros_like(epsilon)
        for alpha, beta in self._sides:
            # This side lies within alpha + beta < 1 - delta.
            reached = alpha.low + beta.low < 1 - self._delta
            if reached.any():
                mass, fall = _below(
                    alpha.rows(reached), beta.rows(reached), epsilon[reached], self._delta
                )
                total[reached] += mass
                density[reached] += fall
        return total, density

    def furthest(self, tail: float) -> FloatArray:
        """An epsilon exceeded with a probability below ``tail``.

        e^epsilon beta < 1 or e^epsilon alpha < 1 is needed, on either side: four rates in all.
        """
        least = [
            betaincinv(rate.events, rate.rest, tail / 4) for side in self._sides for rate in side
        ]
        return np.asarray(-np.log(np.maximum(np.min(least, axis=0), 1e-300)))

    def quantile(self, probability: float) -> FloatArray:
        """Newton's method for the normal quantile of P, which is nearly straight in epsilon.

        Steps that leave the bracket are replaced by its middle.
        """
        high = self.furthest(1 - probability)
        result = np.zeros_like(high)
        at_zero, _ = self.above(result)
        active = 1 - at_zero < probability  # elsewhere the atom at 0 holds the quantile
        rows, low, high = self.rows(active), result[active], high[active]
        point, where = self._middle()[active], np.flatnonzero(active)
        point = np.clip(point, 1e-3 * high, high)
        wanted = float(ndtri(probability))
        before = np.full(point.shape, np.inf)
        last = np.full(point.shape, np.inf)
        for _ in range(_MOST_STEPS):
            if not where.size:
                break
            mass, density = rows.above(point)
            score = -ndtri(np.clip(mass, 1e-300, 1 - 1e-16))
            excess = score - wanted
            low, high = np.where(excess < 0, point, low), np.where(excess < 0, high, point)
            slope = density * np.sqrt(2 * np.pi) * np.exp(np.minimum(score**2 / 2, 700.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                step = point - excess / slope
            inside = np.isfinite(step) & (step > low) & (step < high)
            # Newton may jump to and fro; then it must give way to halving.
            inside &= np.abs(step - point) < before / 2
            new = np.where(inside, step, (low + high) / 2)
            scale = np.maximum(1.0, point)
            # After a Newton step this short the next would be about its square.
            done = inside & (np.abs(new - point) <= _SHORT * scale)
            done |= high - low <= _TOLERANCE * scale
            result[where] = new
            go_on = ~done
            before, last = last[go_on], np.abs(new - point)[go_on]
            rows, where = rows.rows(go_on), where[go_on]
            low, high, point = low[go_on], high[go_on], new[go_on]
        return result

    def _middle(self) -> FloatArray:
        """The critical epsilon at the mean rates, where the search starts."""
        alpha, beta = (rate.events / (rate.events + rate.rest) for rate in self._sides[0])
        return critical_epsilon(alpha, beta, self._delta)


@dataclass(frozen=True)
class JointBeta:
    """Quantiles of epsilon, the rates having independent Jeffreys posteriors.

    Good to about 1e-7.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    ... )
    >>> low, high = JointBeta().interval(counts, 0.01, significance=0.1)
    >>> round(float(low[0]), 6), round(float(high[0]), 6)
    (0.2887, 0.509413)
    """

    label: ClassVar[str] = "joint beta"
    kind: ClassVar[Kind] = Kind.CREDIBLE
    assumes: ClassVar[str] = (
        "independent trials, Jeffreys priors of both rates, a rule fixed beforehand"
    )
    gaussian: ClassVar[bool] = False

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        """The ``significance`` quantile for each base."""
        posterior = _Posterior.after(counts, delta)
        return posterior.quantile(check_significance(significance))

    def interval(
        self, counts: AttackCounts, delta: float, significance: float = 0.1
    ) -> tuple[FloatArray, FloatArray]:
        """The quantiles that leave half of ``significance`` on each side."""
        half = check_significance(significance) / 2
        posterior = _Posterior.after(counts, delta)
        return posterior.quantile(half), posterior.quantile(1 - half)

    def probability_above(self, counts: AttackCounts, delta: float, epsilon: float) -> FloatArray:
        """Probability that epsilon exceeds ``epsilon``, for each base."""
        posterior = _Posterior.after(counts, delta)
        at = np.full(len(counts), _validate.non_negative("epsilon", epsilon))
        return posterior.above(at)[0]
