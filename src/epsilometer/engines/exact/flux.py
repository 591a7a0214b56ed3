"""The flux of count likelihood across the edge of R(t, d) as the edge moves outwards.

Given the counts of one attack, only masses matter: the integral of the count likelihood g over
R(t, d).  Its derivative along a path (t, d) is an integral of g over the four straight edges of the
region, weighted by their speed.  All masses are sums of these positive *fluxes*, so nothing cancels,
however strong or weak the attack (`mass_tables.py` computes the sums).

The lower edge with alpha as its long side is, for omega in [atan(e^(-t/2)), pi/2],

    alpha = (1 - d) sin^2 omega,    beta = e^-t (1 - d) cos^2 omega.

In this angle both likelihoods are smooth, also for zero counts: the inverse square roots of the normal
density cancel against the Jacobian.  The other three edges are this one with the roles of alpha and
beta exchanged, with (alpha, beta) reflected to (1 - alpha, 1 - beta), or both; the counts are
transformed instead (`kernels.py`).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IndexArray
from epsilometer.engines.exact.kernels import Kernel
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.posteriors import panels

CHUNK_LINES = 1024  # positions integrated together: their arrays fit a core's cache
THREADED_LINES = 16 * CHUNK_LINES  # below this number, threads cost more than they save
NATS_BELOW_HIGHEST_EDGE = 45.0  # an edge farther below the highest of the four is left out: 3e-20
HOPELESS = 150.0  # the same if peaks are only guessed: guesses are off by tens of nats at most
LARGEST_T = 150.0  # beyond this, every flux decreases as e^-t
END_MARGIN = 1e-9  # peaks are sought inside the edge, where no derivative divides by zero


@lru_cache(maxsize=1)
def thread_pool() -> ThreadPoolExecutor:
    """Threads for large batches: NumPy releases the interpreter's lock in its loops."""
    return ThreadPoolExecutor(max_workers=max(1, min(8, os.cpu_count() or 1)))


def rounding(kernel: Kernel) -> float:
    """The rounding noise of log fluxes: exponents as large as the trials, in double precision."""
    _, n0, _, n1 = kernel.observed()
    return float(1e-14 * max(n0.max(), n1.max()))


def log_flux(
    kernel: Kernel,
    entry: IndexArray,
    t: FloatArray,
    d: FloatArray,
    t_speed: FloatArray,
    d_speed: FloatArray,
    resolution: Resolution,
) -> FloatArray:
    """Return log of d/du [integral of g over R(t(u), d(u))] with (t', d') = (t_speed, d_speed).

    The arguments after the kernel are flat and equally long: an entry of the kernel and a position of
    the edge.  Relative accuracy is about 1e-9 with 24 nodes over 7.5 standard deviations, degrading to
    1e-6 where the likelihood of one trial meets the ends of an edge.  -inf where the flux underflows.
    """
    result = np.empty(len(t))
    # Beyond this e^-t underflows; by then every flux decreases as e^-t.
    beyond = np.maximum(t - LARGEST_T, 0.0)
    t = t - beyond

    def fill(part: slice) -> None:
        # At the ends of an edge slopes are infinite and weights zero: that is intended.
        with np.errstate(all="ignore"):
            columns = (np.tile(array[part], 4) for array in (t, d, t_speed, d_speed))
            edges = _Edge(kernel.take(entry[part]).four_edges(), *columns)
            result[part] = edges.log_integrals(resolution)

    parts = [slice(start, start + CHUNK_LINES) for start in range(0, len(t), CHUNK_LINES)]
    list((map if len(t) < THREADED_LINES else thread_pool().map)(fill, parts))
    return result - beyond


class _Edge:
    """Edges for a batch of entries, the four sides of each in sequence, over m = tan(omega / 2).

    With m instead of omega, sine and cosine are quotients, five times cheaper than trigonometry.
    """

    def __init__(
        self, kernel: Kernel, t: FloatArray, d: FloatArray, t_speed: FloatArray, d_speed: FloatArray
    ) -> None:
        self.kernel, self.t, self.d = kernel, t, d
        self.t_speed, self.d_speed = t_speed, d_speed
        self.shrink = np.exp(-t)
        root = np.exp(-t / 2)
        self.start = root / (1 + np.sqrt(1 + root * root))

    def take(self, index: IndexArray) -> _Edge:
        columns = self.t, self.d, self.t_speed, self.d_speed
        return _Edge(self.kernel.take(index), *(column[index] for column in columns))

    def log_integrals(self, resolution: Resolution) -> FloatArray:
        """Log of the integral over all four sides; negligible sides are left out."""
        count = len(self.t) // 4
        first = self.guess()
        guessed = self.log_integrand(first).reshape(4, -1)
        near = np.flatnonzero((guessed > guessed.max(axis=0) - HOPELESS).ravel())
        edges = self.take(near)
        centre = edges.peak(first[near])
        height = np.full(4 * count, -np.inf)
        height[near] = edges.log_integrand(centre)
        highest = height.reshape(4, -1).max(axis=0)
        offset = np.tile(highest, 4)[near]
        kept = np.flatnonzero(height[near] > offset - NATS_BELOW_HIGHEST_EDGE)
        total = np.zeros(4 * count)
        total[near[kept]] = edges.take(kept).integral(centre[kept], offset[kept], resolution)
        logs = np.log(total.reshape(4, -1).sum(axis=0))
        return np.asarray(np.where(np.isfinite(highest), highest, 0.0) + logs)

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

    def peak(self, guess: FloatArray) -> FloatArray:
        """Position of the maximum: a few Newton steps for all, more where needed."""
        m, arrived = self.newton(guess, steps=2)
        lost = np.flatnonzero(~arrived)
        if len(lost):
            m[lost], arrived = self.take(lost).newton(guess[lost], steps=9)
            lost = lost[~arrived]
            if len(lost):
                m[lost] = self.take(lost).bracketed_peak()
        return m

    def newton(self, m: FloatArray, *, steps: int) -> tuple[FloatArray, BoolArray]:
        """Guarded Newton steps towards the maximum, and where they have converged.

        The slope is smooth on the scale of the whole edge even if the peak is narrow, so a few steps
        nearly always suffice.
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
        """The maximum by shrinking a bracket: slower, but safe."""
        from scipy.optimize.elementwise import find_root

        def slope(m: FloatArray, index: IndexArray) -> FloatArray:
            return self.take(index).derivatives(m)[0]

        low = self.start + END_MARGIN
        high = np.full_like(low, 1 - END_MARGIN)
        at_start, at_end = self.derivatives(low)[0] <= 0, self.derivatives(high)[0] >= 0
        root = find_root(slope, (low, high), args=(np.arange(len(low)),)).x
        return np.where(at_start, low, np.where(at_end, high, root))

    def integral(
        self, centre: FloatArray, offset: FloatArray, resolution: Resolution
    ) -> FloatArray:
        """Integral of exp(log_integrand - offset) over a window around the peak."""
        low, high = self._window(centre, resolution.edge_reach)
        points, weights = panels.gauss_legendre(resolution.edge_nodes)
        half = 0.5 * (high - low)
        # Attacks are on the last axis, so that NumPy's inner loops are long.
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
        # Downhill the slope speeds up the decay; uphill the true peak is slope / curvature away.
        downhill = 2 * drop / (rise + np.sqrt(rise * rise + 2 * curvature * drop))
        uphill = rise / curvature + np.sqrt(2 * drop / curvature)
        left = np.where(slope > 0, downhill, uphill)
        right = np.where(slope > 0, uphill, downhill)
        return np.maximum(centre - left, self.start), np.minimum(centre + right, 1.0)
