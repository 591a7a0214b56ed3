"""Count likelihoods as functions of the error rates: values, derivatives, and positions of peaks.

A kernel holds the likelihood of many attacks, each at every node of the nuisance grid: entry
``node * attacks + attack``.  Kernels do not know over which regions they are integrated, or how.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from epsilometer._arrays import Columns, FloatArray, IndexArray


class Derivatives(NamedTuple):
    """Derivatives of log g: by alpha, by beta, and the three second ones."""

    alpha: FloatArray
    beta: FloatArray
    alpha_alpha: FloatArray
    beta_beta: FloatArray
    alpha_beta: FloatArray | float


@dataclass(frozen=True, kw_only=True)
class PlaneKernel(Columns):
    """The count likelihood of many attacks, as needed for plane quadrature; fluxes need more."""

    @abstractmethod
    def observed(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Observed rates and effective numbers of trials: alpha's, then beta's."""

    @abstractmethod
    def log_largest(self) -> FloatArray:
        """An upper bound of each entry's log likelihood, inf if there is none."""

    @abstractmethod
    def log_angle_density(
        self, entries: IndexArray, theta: FloatArray, phi: FloatArray
    ) -> FloatArray:
        """Log density (entry, theta, phi) in the angles alpha = sin^2 theta, beta = sin^2 phi."""

    def windows(self, entry: int, reach: float) -> list[FloatArray]:
        """Angles, of alpha and of beta, within ``reach`` standard deviations of the observed rates."""
        rate_0, worth_0, rate_1, worth_1 = (column[entry] for column in self.observed())
        sides = (rate_0, worth_0), (rate_1, worth_1)
        return [angle_windows(rate, worth, 0.0, reach) for rate, worth in sides]


def angle_windows(
    rate: FloatArray | float, trials: FloatArray | float, extra: FloatArray | float, reach: float
) -> FloatArray:
    """Angles (..., 2) between which a rate is within ``reach`` standard deviations.

    The variance of the observed rate is p (1 - p) / trials + extra, so the ends solve a quadratic
    equation, that of Wilson's interval with an extra term.
    """
    square = reach * reach / trials
    more = 1 + square
    centre = (rate + square / 2) / more
    spread = square * rate * (1 - rate) + square * square / 4 + reach * reach * extra * more
    radius = np.sqrt(spread) / more
    ends = np.stack([centre - radius, centre + radius], axis=-1)
    # Rounding errors at the very ends would cut off half a cell.
    ends = np.where(ends < 1e-14, 0.0, np.where(ends > 1 - 1e-14, 1.0, ends))
    return np.asarray(np.arcsin(np.sqrt(ends)))


@dataclass(frozen=True, kw_only=True)
class Kernel(PlaneKernel):
    """The count likelihood g of many attacks at once, as a function of (alpha, beta).

    ``observed_*`` is the observed count or rate, and ``trials_*`` the effective number of trials.
    Correlated counts also have a ``correlation``, Corr(X, Y).
    """

    observed_h0: FloatArray
    trials_h0: FloatArray
    observed_h1: FloatArray
    trials_h1: FloatArray
    log_constant: FloatArray

    def sides(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Observed values and trials: alpha's, then beta's."""
        return (self.observed_h0, self.trials_h0), (self.observed_h1, self.trials_h1)

    @abstractmethod
    def log_weight(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        """log(g sqrt(alpha beta)), for arrays whose last axis is the attack.

        The square root belongs to the edge's Jacobian; it is included here because it cancels against
        the normal density's own, so that neither has to be evaluated at 0.
        """

    @abstractmethod
    def derivatives(self, alpha: FloatArray, beta: FloatArray) -> Derivatives:
        """First and second partial derivatives of log g."""

    def reflected(self) -> Self:
        """The same likelihood as a function of (1 - alpha, 1 - beta); of counts, unless overridden."""
        (x, n0), (y, n1) = self.sides()
        return replace(self, observed_h0=n0 - x, observed_h1=n1 - y)

    def exchanged(self) -> Self:
        """The same likelihood as a function of (beta, alpha)."""
        (x, n0), (y, n1) = self.sides()
        return replace(self, observed_h0=y, trials_h0=n1, observed_h1=x, trials_h1=n0)

    def four_edges(self) -> Self:
        """Four times as many entries, one set per edge: unchanged, exchanged, reflected, both."""
        mirror = self.reflected()
        return self.followed_by(self.exchanged(), mirror, mirror.exchanged())

    def nearest_alpha(self, intercept: FloatArray, shrink: FloatArray) -> FloatArray:
        """A guess at the alpha of greatest g on the line beta = shrink (intercept - alpha).

        The point of the line closest to the observed rates, by reweighted least squares.
        """
        rate_0, n0, rate_1, n1 = self.observed()
        alpha, beta, correlation = rate_0, rate_1, getattr(self, "correlation", 0.0)
        for _ in range(2):
            root_0 = np.sqrt(n0 / (alpha * (1 - alpha) + 0.1 / (1 + n0)))
            root_1 = shrink * np.sqrt(n1 / (beta * (1 - beta) + 0.1 / (1 + n1)))
            # Scores along the line: z = root_0 (rate - alpha), w = root_1 (alpha - crossing).
            crossing = intercept - rate_1 / np.maximum(shrink, 1e-300)
            pull_0 = root_0 * np.maximum(root_0 + correlation * root_1, 0.05 * root_0)
            pull_1 = root_1 * np.maximum(root_1 + correlation * root_0, 0.05 * root_1)
            alpha = (pull_0 * rate_0 + pull_1 * crossing) / (pull_0 + pull_1)
            alpha = np.clip(alpha, 0.0, intercept)
            beta = np.minimum(shrink * (intercept - alpha), 1.0)
            beta = np.maximum(beta, 0.0)
        return np.asarray(alpha)


@dataclass(frozen=True, kw_only=True)
class BinomialKernel(Kernel):
    """Independent binomial counts, equation (1) of the paper."""

    def observed(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        (x, n0), (y, n1) = self.sides()
        return x / n0, n0, y / n1, n1

    def log_angle_density(
        self, entries: IndexArray, theta: FloatArray, phi: FloatArray
    ) -> FloatArray:
        alpha, beta = np.sin(theta)[:, None, None] ** 2, np.sin(phi)[:, None] ** 2
        # The weight already includes half of the Jacobian 4 sqrt(alpha (1 - alpha) beta (1 - beta)).
        half = 0.5 * np.log(np.maximum((1 - alpha) * (1 - beta), 1e-300)) + np.log(4.0)
        return np.moveaxis(self.take(entries).log_weight(alpha, beta) + half, -1, 0)

    def log_largest(self) -> FloatArray:
        """The log likelihood at the observed rates, its maximum."""
        from scipy.special import xlog1py, xlogy

        total = self.log_constant
        for count, trials in self.sides():
            total = total + xlogy(count, count / trials) + xlog1py(trials - count, -count / trials)
        return np.asarray(total)

    def log_weight(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        total = self.log_constant + 0.0
        for (count, trials), p in zip(self.sides(), (alpha, beta), strict=True):
            # Floors inside the logarithms implement 0 log 0 = 0.
            total = total + (count + 0.5) * np.log(np.maximum(p, 1e-300))
            total += (trials - count) * np.log(np.maximum(1 - p, 1e-300))
        return np.asarray(total)

    def derivatives(self, alpha: FloatArray, beta: FloatArray) -> Derivatives:
        parts = []
        for (count, trials), p in zip(self.sides(), (alpha, beta), strict=True):
            hit, miss = count / p, (trials - count) / (1 - p)
            parts.append((hit - miss, -hit / p - miss / (1 - p)))
        (first_alpha, second_alpha), (first_beta, second_beta) = parts
        return Derivatives(first_alpha, first_beta, second_alpha, second_beta, alpha_beta=0.0)


@dataclass(frozen=True, kw_only=True)
class NormalKernel(Kernel):
    """The bivariate normal of correlated counts, equation (8) of the paper, for any N0 and N1.

    ``observed_*`` are the observed rates X/N0 and Y/N1; ``trials_*`` is N / (1 + (N - 1) tau), so that
    the variance of the observed rate is alpha (1 - alpha) / trials.
    """

    correlation: FloatArray

    def observed(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        return self.observed_h0, self.trials_h0, self.observed_h1, self.trials_h1

    def log_largest(self) -> FloatArray:
        """There is no bound."""
        return np.full(len(self), np.inf)

    def log_angle_density(
        self, entries: IndexArray, theta: FloatArray, phi: FloatArray
    ) -> FloatArray:
        # The density's inverse square roots cancel against the Jacobian, up to a factor of 4.
        first = entries[0]
        z = np.sqrt(self.trials_h0[first]) * _score(self.observed_h0[first], theta)
        w = np.sqrt(self.trials_h1[first]) * _score(self.observed_h1[first], phi)
        r = self.correlation[entries]
        squares, product = (z * z)[:, None] + w * w, z[:, None] * w
        logs = (-0.5 / (1 - r * r))[:, None, None] * squares
        logs += (r / (1 - r * r))[:, None, None] * product
        logs += (self.log_constant[entries] + np.log(4.0))[:, None, None]
        return np.asarray(logs)

    def reflected(self) -> Self:
        return replace(self, observed_h0=1 - self.observed_h0, observed_h1=1 - self.observed_h1)

    def log_weight(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        rest_h0, rest_h1 = 1 - alpha, 1 - beta
        r = self.correlation
        scale = 0.5 / (1 - r * r)
        # Scores divided by the root of 2 (1 - r^2), so that the exponent needs no further factor.
        z = np.sqrt(self.trials_h0 * scale) * (self.observed_h0 - alpha)
        w = np.sqrt(self.trials_h1 * scale) * (self.observed_h1 - beta)
        z /= np.sqrt(np.maximum(alpha * rest_h0, 1e-300))
        w /= np.sqrt(np.maximum(beta * rest_h1, 1e-300))
        total = (2 * r) * z * w - z * z - w * w
        total += self.log_constant
        total -= 0.5 * np.log(np.maximum(rest_h0 * rest_h1, 1e-300))
        return np.asarray(total)

    def derivatives(self, alpha: FloatArray, beta: FloatArray) -> Derivatives:
        r = self.correlation
        parts = []
        for (rate, precision), p in zip(self.sides(), (alpha, beta), strict=True):
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


def _score(rate: float, angle: FloatArray) -> FloatArray:
    """(rate - p) / sqrt(p (1 - p)) at p = sin^2 angle, finite at the ends if rate is 0 or 1."""
    sine, cosine = np.sin(angle), np.cos(angle)
    product = np.maximum(sine * cosine, 1e-9)
    score = (rate - sine * sine) / product
    # At the ends themselves 0/0: the limit is 0; otherwise the score is beyond any reach.
    score = np.where((rate == 0) & (sine < 1e-7), 0.0, score)
    return np.where((rate == 1) & (cosine < 1e-7), 0.0, score)


@dataclass(frozen=True, kw_only=True)
class Guess(Columns):
    """Approximate critical epsilon of each entry, and its uncertainty given the counts.

    Smoothed rates, reflected below the diagonal, the larger first; ``width`` is the standard deviation
    of log((1 - alpha) / beta), the scale in epsilon that the counts can resolve, and ``strip_width``
    that of alpha + beta, the scale in delta.  Guesses only seed refinements.
    """

    large: FloatArray
    small: FloatArray
    width: FloatArray
    strip_width: FloatArray

    @classmethod
    def of(cls, kernel: Kernel) -> Guess:
        rate_0, n0, rate_1, n1 = kernel.observed()
        a, b = (rate_0 * n0 + 0.5) / (n0 + 1), (rate_1 * n1 + 0.5) / (n1 + 1)
        flip = a + b > 1
        a, b = np.where(flip, 1 - a, a), np.where(flip, 1 - b, b)
        swap = b > a
        large, small = np.where(swap, b, a), np.where(swap, a, b)
        n_large, n_small = np.where(swap, n1, n0), np.where(swap, n0, n1)
        variance = large / ((1 - large) * (n_large + 1)) + (1 - small) / (small * (n_small + 1))
        strip = large * (1 - large) / (n_large + 1) + small * (1 - small) / (n_small + 1)
        width, strip_width = np.minimum(np.sqrt(variance), 3.0), np.sqrt(strip)
        return cls(large=large, small=small, width=width, strip_width=strip_width)

    def critical_epsilon(self, d: FloatArray | float) -> FloatArray:
        """The least t whose region R(t, d) contains the smoothed rates, at least 0."""
        room = np.maximum(1 - d - self.large, 1e-3)
        return np.maximum(np.log(room / self.small), 0.0)

    def sharpness(self, delta: float) -> float:
        """The sharpness of the sharpest entry."""
        return float(self.sharpness_of_each(delta).max())

    def sharpness_of_each(self, delta: float) -> FloatArray:
        """The effect of d in [0, delta], in units of the uncertainty left by the counts.

        It lowers a critical epsilon, and where that is 0 it widens the strip R(0, d) past the rates.
        """
        lowered = (self.critical_epsilon(0.0) - self.critical_epsilon(delta)) / self.width
        passes = delta > 1 - self.large - self.small - 6 * self.strip_width
        return np.asarray(lowered + np.where(passes, delta / self.strip_width, 0.0))
