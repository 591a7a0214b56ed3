"""How much count likelihood flows across the edge of R(t, d) as the edge moves outwards.

Given the counts of one attack, only masses matter: the integral of the count likelihood g over
R(t, d).  Its derivative along a path (t, d) is an integral of g over the four straight edges of the
region, weighted by their speed.  All masses are built from these *fluxes* by adding positive
numbers, so nothing cancels, however strong or weak the attack (`mass_table.py` does the adding).

The lower edge with alpha as its long side is, for omega in [atan(e^(-t/2)), pi/2],

    alpha = (1 - d) sin^2 omega,    beta = e^-t (1 - d) cos^2 omega.

In such an angle both likelihoods are smooth, zero counts included: the inverse square roots of the
normal density cancel against the Jacobian.  The other three edges are this one with the roles of
alpha and beta exchanged, with (alpha, beta) reflected to (1 - alpha, 1 - beta), or both, which is
done to the counts instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import panels

FloatArray = NDArray[np.float64]

CHUNK_LINES = 1024
"""Positions integrated together: few enough for the arrays to stay in a core's cache."""

THREADED_LINES = 16 * CHUNK_LINES
"""Below this many, threads cost more than they save."""

NEGLIGIBLE = 45.0
"""An edge this far (natural log) below the highest of the four is left out: relative 3e-20."""


LARGEST_T = 150.0
END_MARGIN = 1e-9
"""Peaks are sought inside the edge by this margin, so that no derivative divides by zero."""


class Kernel(Protocol):
    """The count likelihood of many attacks at once, as a function of (alpha, beta)."""

    def take(self, index: NDArray[np.intp]) -> Self:
        """The attacks at the given positions."""
        ...

    def four_ways(self) -> Self:
        """Four times as many entries, one set for each edge.

        As it is, as a function of (beta, alpha), and both as functions of (1 - alpha, 1 - beta).
        """
        ...

    def log_weight(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        """log(g sqrt(alpha beta)), for arrays whose last axis is the attack.

        The square root belongs to the edge's Jacobian; it is taken here because it cancels against
        the normal density's own, so that neither has to be evaluated at 0.
        """
        ...

    def derivatives(self, alpha: FloatArray, beta: FloatArray) -> Derivatives:
        """First and second partial derivatives of log g."""
        ...

    def nearest_alpha(self, intercept: FloatArray, shrink: FloatArray) -> FloatArray:
        """A guess at the alpha of greatest g on the line beta = shrink (intercept - alpha)."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Derivatives:
    """Derivatives of log g: by alpha, by beta, and the three second ones."""

    alpha: FloatArray
    beta: FloatArray
    alpha_alpha: FloatArray
    beta_beta: FloatArray
    alpha_beta: FloatArray | float


def _nearest_alpha(
    rates: tuple[FloatArray, FloatArray],
    precisions: tuple[FloatArray, FloatArray],
    correlation: FloatArray | float,
    intercept: FloatArray,
    shrink: FloatArray,
) -> FloatArray:
    """The point of a line nearest to the observed rates, by reweighted least squares."""
    alpha, beta = rates
    for _ in range(2):
        root_0 = np.sqrt(precisions[0] / (alpha * (1 - alpha) + 0.1 / (1 + precisions[0])))
        root_1 = shrink * np.sqrt(precisions[1] / (beta * (1 - beta) + 0.1 / (1 + precisions[1])))
        # Scores along the line: z = root_0 (rate - alpha), w = root_1 (alpha - crossing).
        crossing = intercept - rates[1] / np.maximum(shrink, 1e-300)
        pull_0 = root_0 * np.maximum(root_0 + correlation * root_1, 0.05 * root_0)
        pull_1 = root_1 * np.maximum(root_1 + correlation * root_0, 0.05 * root_1)
        alpha = (pull_0 * rates[0] + pull_1 * crossing) / (pull_0 + pull_1)
        alpha = np.clip(alpha, 0.0, intercept)
        beta = np.minimum(shrink * (intercept - alpha), 1.0)
        beta = np.maximum(beta, 0.0)
    return np.asarray(alpha)


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """A set of equally long arrays, one entry an attack."""

    def take(self, index: NDArray[np.intp]) -> Self:
        return type(self)(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def exchanged(self) -> Self:
        """The same likelihood as a function of (beta, alpha)."""
        raise AssertionError("every kernel defines its own")

    def reflected(self) -> Self:
        """The same likelihood as a function of (1 - alpha, 1 - beta)."""
        raise AssertionError("every kernel defines its own")

    def four_ways(self) -> Self:
        mirror = self.reflected()
        parts = (self, self.exchanged(), mirror, mirror.exchanged())
        return type(self)(
            **{
                f.name: np.concatenate([getattr(part, f.name) for part in parts])
                for f in fields(self)
            }
        )


@dataclass(frozen=True, kw_only=True)
class BinomialKernel(_Columns):
    """Independent binomial counts, equation (1) of the paper."""

    false_positives: FloatArray
    trials_h0: FloatArray
    false_negatives: FloatArray
    trials_h1: FloatArray
    log_constant: FloatArray

    def log_largest(self) -> FloatArray:
        """The log of the likelihood at the observed rates: it is nowhere larger."""
        from scipy.special import xlog1py, xlogy

        total = self.log_constant
        for count, trials in (
            (self.false_positives, self.trials_h0),
            (self.false_negatives, self.trials_h1),
        ):
            total = total + xlogy(count, count / trials) + xlog1py(trials - count, -count / trials)
        return np.asarray(total)

    def exchanged(self) -> Self:
        return type(self)(
            false_positives=self.false_negatives,
            trials_h0=self.trials_h1,
            false_negatives=self.false_positives,
            trials_h1=self.trials_h0,
            log_constant=self.log_constant,
        )

    def reflected(self) -> Self:
        return type(self)(
            false_positives=self.trials_h0 - self.false_positives,
            trials_h0=self.trials_h0,
            false_negatives=self.trials_h1 - self.false_negatives,
            trials_h1=self.trials_h1,
            log_constant=self.log_constant,
        )

    def log_weight(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        total = self.log_constant + 0.0
        for count, trials, p in (
            (self.false_positives, self.trials_h0, alpha),
            (self.false_negatives, self.trials_h1, beta),
        ):
            # Floors inside the logarithms stand for 0 log 0 = 0.
            total = total + (count + 0.5) * np.log(np.maximum(p, 1e-300))
            total += (trials - count) * np.log(np.maximum(1 - p, 1e-300))
        return np.asarray(total)

    def derivatives(self, alpha: FloatArray, beta: FloatArray) -> Derivatives:
        parts = []
        for count, trials, p in (
            (self.false_positives, self.trials_h0, alpha),
            (self.false_negatives, self.trials_h1, beta),
        ):
            hit, miss = count / p, (trials - count) / (1 - p)
            parts.append((hit - miss, -hit / p - miss / (1 - p)))
        (first_alpha, second_alpha), (first_beta, second_beta) = parts
        return Derivatives(
            alpha=first_alpha,
            beta=first_beta,
            alpha_alpha=second_alpha,
            beta_beta=second_beta,
            alpha_beta=0.0,
        )

    def nearest_alpha(self, intercept: FloatArray, shrink: FloatArray) -> FloatArray:
        return _nearest_alpha(
            (self.false_positives / self.trials_h0, self.false_negatives / self.trials_h1),
            (self.trials_h0, self.trials_h1),
            0.0,
            intercept,
            shrink,
        )


@dataclass(frozen=True, kw_only=True)
class NormalKernel(_Columns):
    """The bivariate normal of correlated counts, equation (8) of the paper, for any N0 and N1.

    ``rate_*`` are the observed rates X/N0 and Y/N1; ``precision_*`` is N / (1 + (N - 1) tau), so that
    the variance of the observed rate is alpha (1 - alpha) / precision; ``correlation`` is Corr(X, Y).
    """

    rate_h0: FloatArray
    precision_h0: FloatArray
    rate_h1: FloatArray
    precision_h1: FloatArray
    correlation: FloatArray
    log_constant: FloatArray

    def exchanged(self) -> Self:
        return type(self)(
            rate_h0=self.rate_h1,
            precision_h0=self.precision_h1,
            rate_h1=self.rate_h0,
            precision_h1=self.precision_h0,
            correlation=self.correlation,
            log_constant=self.log_constant,
        )

    def reflected(self) -> Self:
        return type(self)(
            rate_h0=1 - self.rate_h0,
            precision_h0=self.precision_h0,
            rate_h1=1 - self.rate_h1,
            precision_h1=self.precision_h1,
            correlation=self.correlation,
            log_constant=self.log_constant,
        )

    def log_weight(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        rest_h0, rest_h1 = 1 - alpha, 1 - beta
        r = self.correlation
        scale = 0.5 / (1 - r * r)
        # Scores divided by the root of 2 (1 - r^2), so that the exponent needs no further factor.
        z = np.sqrt(self.precision_h0 * scale) * (self.rate_h0 - alpha)
        w = np.sqrt(self.precision_h1 * scale) * (self.rate_h1 - beta)
        z /= np.sqrt(np.maximum(alpha * rest_h0, 1e-300))
        w /= np.sqrt(np.maximum(beta * rest_h1, 1e-300))
        total = (2 * r) * z * w - z * z - w * w
        total += self.log_constant
        total -= 0.5 * np.log(np.maximum(rest_h0 * rest_h1, 1e-300))
        return np.asarray(total)

    def derivatives(self, alpha: FloatArray, beta: FloatArray) -> Derivatives:
        r = self.correlation
        parts = []
        for rate, precision, p in (
            (self.rate_h0, self.precision_h0, alpha),
            (self.rate_h1, self.precision_h1, beta),
        ):
            inverse = 1 / (p * (1 - p))
            root = np.sqrt(precision * inverse)
            tilt = 1 - 2 * p
            lean = rate + (1 - 2 * rate) * p
            score = root * (rate - p)
            first = -0.5 * root * lean * inverse
            second = -0.5 * root * inverse * ((1 - 2 * rate) - 1.5 * lean * tilt * inverse)
            # The density's own 1 / sqrt(p (1 - p)).
            log_first = -0.5 * tilt * inverse
            log_second = inverse + 0.5 * tilt * tilt * inverse * inverse
            parts.append((score, first, second, log_first, log_second))
        (z, z1, z2, a1, a2), (w, w1, w2, b1, b2) = parts
        scale = 1 / (1 - r * r)
        pull_z, pull_w = scale * (z - r * w), scale * (w - r * z)
        return Derivatives(
            alpha=a1 - pull_z * z1,
            beta=b1 - pull_w * w1,
            alpha_alpha=a2 - scale * z1 * z1 - pull_z * z2,
            beta_beta=b2 - scale * w1 * w1 - pull_w * w2,
            alpha_beta=scale * r * z1 * w1,
        )

    def nearest_alpha(self, intercept: FloatArray, shrink: FloatArray) -> FloatArray:
        return _nearest_alpha(
            (self.rate_h0, self.rate_h1),
            (self.precision_h0, self.precision_h1),
            self.correlation,
            intercept,
            shrink,
        )


@dataclass(frozen=True, kw_only=True)
class EdgeAccuracy:
    """How finely an edge is integrated: Gauss nodes, over so many standard deviations each side."""

    nodes: int
    reach: float


@lru_cache(maxsize=1)
def thread_pool() -> ThreadPoolExecutor:
    """NumPy releases the interpreter in its loops, so threads share the work on large batches."""
    return ThreadPoolExecutor(max_workers=max(1, min(8, os.cpu_count() or 1)))


def map_chunks(task: Callable[[slice], None], count: int, chunk: int) -> None:
    """Run ``task`` on consecutive slices of range(count), in threads when there are several."""
    parts = [slice(start, min(start + chunk, count)) for start in range(0, count, chunk)]
    if count < THREADED_LINES:
        for part in parts:
            task(part)
    else:
        list(thread_pool().map(task, parts))


Family = Sequence[Sequence[Kernel]]
"""Likelihoods of the same attacks at several correlations: groups whose members differ only in
precision, so that along an edge they peak at (nearly) the same place."""


def rounding(family: Family) -> float:
    """The relative noise of fluxes: exponents as large as the trials, in double precision."""
    kernel = family[0][0]
    if not isinstance(kernel, BinomialKernel):
        return 0.0
    return float(1e-14 * max(kernel.trials_h0.max(), kernel.trials_h1.max()))


def log_flux(
    family: Family,
    attack: NDArray[np.intp],
    t: FloatArray,
    d: FloatArray,
    t_speed: FloatArray,
    d_speed: FloatArray,
    accuracy: EdgeAccuracy,
) -> FloatArray:
    """Return log of d/du [integral of g over R(t(u), d(u))] with (t', d') = (t_speed, d_speed).

    The arguments after the family are flat and equally long: one entry is one attack at one position
    of the edge.  The result is (entry, member, group).  Relative accuracy is about 1e-9 with 24
    nodes over 7.5 standard deviations, degrading to 1e-6 where the likelihood of one trial meets the
    ends of an edge.  -inf where the flux underflows.
    """
    result = np.empty((len(t), len(family[0]), len(family)))
    # Beyond this e^-t underflows; by then every flux falls off as e^-t.
    beyond = np.maximum(t - LARGEST_T, 0.0)
    t = t - beyond

    def fill(part: slice) -> None:
        place = (t[part], d[part], t_speed[part], d_speed[part])
        # At the ends of an edge slopes are infinite and weights zero: that is meant.
        with np.errstate(all="ignore"):
            for number, group in enumerate(family):
                members = [kernel.take(attack[part]) for kernel in group]
                result[part, :, number] = _log_flux_chunk(members, place, accuracy)

    map_chunks(fill, len(t), CHUNK_LINES)
    return result - beyond[:, None, None]


def _log_flux_chunk(
    members: Sequence[Kernel],
    place: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    accuracy: EdgeAccuracy,
) -> FloatArray:
    """Log flux (entry, member): peaks are sought for the middle member and serve the others."""
    place = tuple(np.tile(array, 4) for array in place)  # type: ignore[assignment]
    count = len(place[0]) // 4
    result = np.empty((count, len(members)))
    middle = len(members) // 2
    first = _Edge(members[middle].four_ways(), *place)
    centre = first.peak()
    for number, kernel in enumerate(members):
        edge = first if number == middle else _Edge(kernel.four_ways(), *place)
        height = edge.log_integrand(centre)
        highest = height.reshape(4, -1).max(axis=0)
        offset = np.tile(highest, 4)
        kept = np.flatnonzero(height > offset - NEGLIGIBLE)
        total = np.zeros(4 * count)
        total[kept] = edge.take(kept).integral(centre[kept], offset[kept], accuracy)
        logs = np.log(total.reshape(4, -1).sum(axis=0))
        result[:, number] = np.where(np.isfinite(highest), highest, 0.0) + logs
    return result


class _Edge:
    """One of the four edges for a batch of attacks, as an integral over m = tan(omega / 2).

    m rather than omega itself: sine and cosine are then quotients, five times cheaper than trigonometry.
    """

    def __init__(
        self, kernel: Kernel, t: FloatArray, d: FloatArray, t_speed: FloatArray, d_speed: FloatArray
    ) -> None:
        self.kernel, self.t, self.d = kernel, t, d
        self.t_speed, self.d_speed = t_speed, d_speed
        self.shrink = np.exp(-t)
        root = np.exp(-t / 2)
        self.start = root / (1 + np.sqrt(1 + root * root))

    def take(self, index: NDArray[np.intp]) -> _Edge:
        return _Edge(
            self.kernel.take(index),
            self.t[index],
            self.d[index],
            self.t_speed[index],
            self.d_speed[index],
        )

    def log_integrand(self, m: FloatArray) -> FloatArray:
        d, shrink = self.d, self.shrink
        square = m * m
        inverse = 1 / (1 + square)
        cosine = (1 - square) * inverse
        beta = (shrink * (1 - d)) * cosine
        beta *= cosine
        sine = 2 * m * inverse
        alpha = (1 - d) * sine
        alpha *= sine
        inverse *= self.t_speed * beta + self.d_speed * shrink
        jacobian = np.log(inverse)
        jacobian += 0.5 * self.t + np.log(4.0)
        jacobian += self.kernel.log_weight(alpha, beta)
        return jacobian

    def derivatives(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and second derivative of :meth:`log_integrand`."""
        room, shrink = 1 - self.d, self.shrink
        square = m * m
        inverse = 1 / (1 + square)
        sine, cosine = 2 * m * inverse, (1 - square) * inverse
        product = sine * cosine
        beta = shrink * room * cosine * cosine
        at = self.kernel.derivatives(room * sine * sine, beta)
        speed = self.t_speed / (self.t_speed * beta + self.d_speed * shrink)
        across = at.alpha - shrink * (at.beta + speed)
        curve = (
            at.alpha_alpha
            - 2 * shrink * at.alpha_beta
            + shrink * shrink * (at.beta_beta - speed * speed)
        )
        alpha_1 = 4 * room * product * inverse
        alpha_2 = 8 * room * inverse * inverse * (1 - 2 * sine * sine - product * m)
        # log of the Jacobian sine * cosine / (1 + m^2).
        lever = (1 - 2 * sine * sine) / product
        first = alpha_1 * across + 2 * inverse * (lever - m)
        second = (
            alpha_1 * alpha_1 * curve
            + alpha_2 * across
            - 4 * inverse * inverse * (1 / (product * product) - 2 + m * lever)
            - 2 * inverse
            + 4 * square * inverse * inverse
        )
        return first, second

    def peak(self) -> FloatArray:
        """Position of the maximum: few Newton steps for all, more for those in need."""
        m, arrived = self.newton(self.guess(), steps=2)
        lost = np.flatnonzero(~arrived)
        if len(lost):
            rest = self.take(lost)
            m[lost], arrived = rest.newton(rest.guess(), steps=9)
            lost = lost[~arrived]
            if len(lost):
                m[lost] = self.take(lost).bracketed_peak()
        return m

    def newton(self, m: FloatArray, *, steps: int) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Guarded Newton steps towards the maximum, and where they have come near enough.

        The slope is smooth on the scale of the whole edge even when the peak is narrow, so a few
        steps nearly always do.
        """
        start, end = self.start + END_MARGIN, 1 - END_MARGIN
        low, high = start.copy(), np.full_like(m, end)
        for _ in range(steps):
            first, second = self.derivatives(m)
            rising = first > 0
            low, high = np.where(rising, m, low), np.where(rising, high, m)
            step = first / np.minimum(second, -1e-2)
            middle = 0.5 * (low + high)
            below = np.where(low > start, middle, low)
            above = np.where(high < end, middle, high)
            target = m - step
            m = np.where(target <= low, below, np.where(target >= high, above, target))
        first, second = self.derivatives(m)
        arrived = (first * first <= -0.5 * second) | ((m <= start) & (first <= 0))
        return m, arrived | ((m >= end) & (first >= 0))

    def guess(self) -> FloatArray:
        """The point of the edge nearest to the observed rates."""
        alpha = self.kernel.nearest_alpha(1 - self.d, self.shrink)
        sine = np.sqrt(np.clip(alpha / (1 - self.d), 1e-6, 1 - 1e-6))
        m = sine / (1 + np.sqrt(1 - sine * sine))
        room = 1 - self.start
        return np.asarray(np.clip(m, self.start + 1e-3 * room, 1 - 1e-2 * room))

    def bracketed_peak(self) -> FloatArray:
        """The maximum by bisection and then the Illinois method: slower, cannot go astray."""
        low = self.start + END_MARGIN
        high = np.full_like(low, 1 - END_MARGIN)
        slope_low, slope_high = self.derivatives(low)[0], self.derivatives(high)[0]
        at_start, at_end = slope_low <= 0, slope_high >= 0
        m = 0.5 * (low + high)
        for step in range(40):
            slope = self.derivatives(m)[0]
            rising = slope > 0
            # Illinois: an end kept twice counts half, or it would be kept for ever.
            slope_high = np.where(rising, 0.5 * slope_high, slope)
            slope_low = np.where(rising, slope, 0.5 * slope_low)
            low, high = np.where(rising, m, low), np.where(rising, high, m)
            m = 0.5 * (low + high)
            if step >= 5:
                secant = low - slope_low * (high - low) / (slope_high - slope_low)
                m = np.where((secant > low) & (secant < high), secant, m)
        return np.where(at_start, self.start + END_MARGIN, np.where(at_end, 1 - END_MARGIN, m))

    def integral(
        self, centre: FloatArray, offset: FloatArray, accuracy: EdgeAccuracy
    ) -> FloatArray:
        """Integral of exp(log_integrand - offset) over a window around the peak."""
        low, high = self._window(centre, accuracy.reach)
        points, weights = panels.gauss_legendre(accuracy.nodes)
        half = 0.5 * (high - low)
        # Attacks run along the last axis, so that NumPy's inner loops are long.
        m = low + half * (1 + points[:, None])
        # Far out in a tail (e^-10^9 and beyond) the peak may be missed; it must not overflow.
        logs = np.minimum(self.log_integrand(m) - offset, 20.0)
        return np.asarray(half * (weights @ np.exp(logs)))

    def _window(self, centre: FloatArray, reach: float) -> tuple[FloatArray, FloatArray]:
        """Ends of the interval outside which the integrand is below e^(-reach^2/2) of its peak."""
        drop = 0.5 * reach * reach
        slope, second = self.derivatives(centre)
        curvature = np.maximum(-second, 1e-2)
        rise = np.abs(slope)
        # Downhill the slope helps the fall; uphill the true peak is still slope / curvature away.
        downhill = 2 * drop / (rise + np.sqrt(rise * rise + 2 * curvature * drop))
        uphill = rise / curvature + np.sqrt(2 * drop / curvature)
        left = np.where(slope > 0, downhill, uphill)
        right = np.where(slope > 0, uphill, downhill)
        return np.maximum(centre - left, self.start), np.minimum(centre + right, 1.0)
