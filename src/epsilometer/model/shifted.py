"""Families whose noise is symmetric, and shifted by the point: Gaussian, and tails unlike it.

The density of the noise is log-concave, so the likelihood ratio increases with the score, and both
divergences are equal.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc, expit, gammaincc, log_ndtr, ndtr

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer.errors import InputError
from epsilometer.model.family import LARGEST_CURVE_EPSILON, Capped, Family
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

#: Newton's steps: most, and the change of a score below which they end.
MOST_STEPS, SMALL_STEP = 60, 1e-9


def solved(
    step: Callable[[FloatArray], FloatPair], low: FloatArray, high: FloatArray, x: FloatArray
) -> FloatArray:
    """Where a decreasing function is 0, by Newton's method safeguarded by bisection.

    ``step`` returns the sign of the function, and the change of x that Newton's method proposes.
    """
    for _ in range(MOST_STEPS):
        sign, change = step(x)
        low, high = np.where(sign > 0, x, low), np.where(sign > 0, high, x)
        new = x + change
        new = np.where((new >= low) & (new <= high), new, (low + high) / 2)
        moved = np.abs(new - x)
        x = new
        if not len(x) or moved.max() < SMALL_STEP:
            break
    return x


#: Points of the table of a noise.
TABLE_SIZE = 2048


@lru_cache(maxsize=4096)
def leak_with(family: Family, epsilon: float, delta: float) -> float:
    """The leak with this epsilon at this delta, for families whose epsilon is fast to compute."""

    def missing(leak: float) -> float:
        return float(family.epsilon(np.array([leak]), delta)[0]) - epsilon

    low, high = 0.0, 1.0
    while missing(high) < 0 and high < 2 * LARGEST_CURVE_EPSILON:
        low, high = high, 2 * high
    return float(brentq(missing, low, high, xtol=1e-300, rtol=1e-13)) if missing(high) > 0 else high


class Shifted(Family):
    """Symmetric noise, and the same noise shifted; loops over it are in `noise_kernels.py`."""

    #: Step of the table of the noise, in which both are smooth.
    _step: ClassVar[float] = 0.02

    @abstractmethod
    def _shift(self, leak: FloatArray) -> FloatArray:
        """The shift of a leak."""

    @abstractmethod
    def _log_tail(self, x: FloatArray) -> FloatArray:
        """Log probability of noise above x >= 0."""

    @abstractmethod
    def _log_density(self, x: FloatArray) -> FloatArray:
        """Log density of the noise."""

    @abstractmethod
    def _slope(self, x: FloatArray) -> FloatArray:
        """Derivative of the log density."""

    @lru_cache(maxsize=256)  # noqa: B019 (families are small and hashable)
    def _table(self) -> FloatArray:
        x = np.asarray(self._step * np.arange(TABLE_SIZE), dtype=np.float64)
        tail, density = self._log_tail(x), self._log_density(x)
        return np.stack([tail, -np.exp(density - tail), density, self._slope(x)], axis=1)

    def _tail(self, x: FloatArray) -> FloatArray:
        from epsilometer.model.noise_kernels import tails

        values = np.asarray(x, dtype=float)
        out = np.empty(values.size)
        tails(self._table(), self._step, values.ravel(), out)
        return out.reshape(values.shape)

    def scores_at(self, share: FloatArray, leak: FloatArray, part: float) -> FloatArray:
        from epsilometer.model.noise_kernels import upper_quantiles

        # Without shifted noise they are the same for every leak.
        shift = self._shift(leak) if part > 0 else np.zeros(1)
        out = np.empty((len(share), len(shift)))
        upper_quantiles(self._table(), self._step, share, shift, part, out)
        return np.broadcast_to(out, (len(share), len(leak)))

    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            ratio = self._log_density(score - self._shift(leak)) - self._log_density(score)
        return np.asarray(np.where(leak == 0, 0.0, ratio))

    def above(self, score: FloatArray, leak: FloatArray) -> FloatPair:
        return self._tail(score), self._tail(score - self._shift(leak))

    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        from epsilometer.model.noise_kernels import epsilons

        leaks = np.asarray(leak, dtype=float)
        delta = _validate.delta(delta)
        if delta == 0:
            return self._largest_epsilon(leaks)
        shift = self._shift(leaks).ravel()
        out = np.empty(shift.shape)
        farthest = float(self.scores_at(np.array([delta]), np.zeros(1), 0.0)[0, 0])
        epsilons(self._table(), self._step, shift, delta, farthest, out)
        return out.reshape(leaks.shape)

    def _largest_epsilon(self, leak: FloatArray) -> FloatArray:
        """Epsilon at delta 0."""
        return np.where(leak > 0, np.inf, 0.0)

    def leak_of(self, epsilon: float, delta: float) -> float:
        if delta == 0 and math.isinf(float(self._largest_epsilon(np.array(1.0)))):
            return 0.0
        return leak_with(self, epsilon, delta)

    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
        mu, eps = np.broadcast_arrays(np.asarray(leak, float), np.asarray(epsilon, float))
        cut = self._score_with(eps, mu)
        with np.errstate(over="ignore", invalid="ignore"):
            lost = np.exp(eps + np.log(np.maximum(self._tail(cut), 1e-320)))
        delta = np.maximum(self._tail(cut - self._shift(mu)) - lost, 0.0)
        delta = np.where((mu > 0) & np.isfinite(cut), delta, 0.0)
        return delta, delta

    @abstractmethod
    def _score_with(self, epsilon: FloatArray, leak: FloatArray) -> FloatArray:
        """The score where the log ratio is epsilon; infinite if it is smaller everywhere."""

    def sample(self, leak: ArrayLike, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        noise = self.scores_at(rng.random(member.size), np.zeros(1), 0.0).reshape(member.shape)
        return noise + np.where(member, self._shift(np.asarray(leak, dtype=float)), 0.0)


@dataclass(frozen=True, kw_only=True)
class Gaussian(Shifted):
    """N(0, 1) and N(leak, 1): the Gaussian mechanism, and the limit of many small steps.

    Examples
    --------
    >>> round(float(Gaussian().epsilon(1.0, 1e-5)), 4)
    4.3772
    """

    name: ClassVar[str] = "gaussian"
    description: ClassVar[str] = "Gaussian"
    prior_weight: ClassVar[float] = 2.0
    sampled_weight: ClassVar[float] = 18.0
    mixed_share: ClassVar[float] = 0.5

    def _shift(self, leak: FloatArray) -> FloatArray:
        return leak

    def _tail(self, x: FloatArray) -> FloatArray:
        return np.asarray(ndtr(-x))

    def _log_tail(self, x: FloatArray) -> FloatArray:
        return np.asarray(log_ndtr(-x))

    def _log_density(self, x: FloatArray) -> FloatArray:
        return np.asarray(-x * x / 2 - math.log(2 * math.pi) / 2)

    def _slope(self, x: FloatArray) -> FloatArray:
        return -x

    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(leak == 0, 0.0, leak * (score - leak / 2)))

    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
        mu, eps = np.asarray(leak, dtype=float), np.asarray(epsilon, dtype=float)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            lost = np.exp(eps + log_ndtr(-mu / 2 - eps / mu))
            delta = np.maximum(ndtr(mu / 2 - eps / mu) - lost, 0.0)
        delta = np.where(mu > 0, delta, 0.0)
        return delta, delta

    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        return epsilon_of_gaussian(leak, delta)

    def _score_with(self, epsilon: FloatArray, leak: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return epsilon / leak + leak / 2

    def sample(self, leak: ArrayLike, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal(member.shape) + np.where(member, leak, 0.0)


@dataclass(frozen=True, kw_only=True)
class SmoothCap(Capped, Shifted):
    """Noise whose logistic function is Beta(p, p): between Laplace and Gaussian.

    The log likelihood ratio is at most ``ratio`` times the leak, and the leak is the shift in standard
    deviations of the nearest normal noise: 1 is Laplace noise, sqrt(2) hyperbolic secant, sqrt(3)
    logistic, and a large ratio Gaussian.
    """

    @property
    def name(self) -> str:
        return f"smooth cap {self.ratio:.4g}"

    @property
    def _p(self) -> float:
        return (self.ratio**2 - 1) / 2

    def _shift(self, leak: FloatArray) -> FloatArray:
        return np.asarray(leak * (self.ratio / self._p))

    @property
    def _step(self) -> float:  # type: ignore[override]
        return 0.02 / max(1.0, math.sqrt(self._p))

    def _log_tail(self, x: FloatArray) -> FloatArray:
        tail = betainc(self._p, self._p, expit(-x))
        # Where it underflows, the tail is exponential.
        far = self._log_density(x) - np.log(self._p)
        return np.where(tail > 1e-290, np.log(np.maximum(tail, 1e-290)), far)

    def _log_density(self, x: FloatArray) -> FloatArray:
        p = self._p
        normalisation = math.lgamma(2 * p) - 2 * math.lgamma(p)
        size = np.abs(x)
        return np.asarray(normalisation - p * size - 2 * p * np.log1p(np.exp(-size)))

    def _slope(self, x: FloatArray) -> FloatArray:
        return np.asarray(-self._p * np.tanh(x / 2))

    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            ratio = super().log_ratio(score, leak)
        end = self.ratio * np.asarray(leak)
        ends = np.where(np.isinf(score), np.sign(score) * end, ratio)
        return np.clip(ends, -end, end)

    def _largest_epsilon(self, leak: FloatArray) -> FloatArray:
        return np.asarray(self.ratio * leak)

    def leak_of(self, epsilon: float, delta: float) -> float:
        return epsilon / self.ratio if delta == 0 else super().leak_of(epsilon, delta)

    def _score_with(self, epsilon: FloatArray, leak: FloatArray) -> FloatArray:
        # (e^x + 1) / (e^x e^-h + e^h) = e^(epsilon / 2p - h), with h half of the shift.
        half, size = self._shift(leak) / 2, epsilon / (2 * self._p)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            rise = np.log(np.expm1(size + half)) - np.log(-np.expm1(size - half))
        return np.where(size < half, rise, np.inf)


@dataclass(frozen=True, kw_only=True)
class ThinTail(Shifted):
    """Noise with the density exp(-|x|^power), whose tails are thinner than Gaussian ones.

    Parameters
    ----------
    power
        At least 1.5; 2 is Gaussian noise.
    """

    power: float = 3.0
    prior_weight: ClassVar[float] = 0.3
    description: ClassVar[str] = "tails thinner than Gaussian"

    def __post_init__(self) -> None:
        if not 1.5 <= _validate.positive("power", self.power) <= 20:
            raise InputError(f"expected 1.5 <= power <= 20, got power={self.power}.")

    @property
    def name(self) -> str:
        return "thin-tails" if self.power == 3 else f"thin-tails {self.power:g}"

    def _shift(self, leak: FloatArray) -> FloatArray:
        return leak

    def gaussian_leak(self, leak: FloatArray) -> FloatArray:
        return 1.5 * leak

    def _log_tail(self, x: FloatArray) -> FloatArray:
        tail = gammaincc(1 / self.power, x**self.power) / 2
        far = self._log_density(x) - np.log(np.maximum(-self._slope(x), 1.0))
        return np.where(tail > 1e-290, np.log(np.maximum(tail, 1e-290)), far)

    def _log_density(self, x: FloatArray) -> FloatArray:
        return np.asarray(
            -(np.abs(x) ** self.power) - math.log(2) - math.lgamma(1 + 1 / self.power)
        )

    def _slope(self, x: FloatArray) -> FloatArray:
        return np.asarray(-self.power * np.sign(x) * np.abs(x) ** (self.power - 1))

    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        ratio = super().log_ratio(score, leak)
        return np.where(np.isnan(ratio), np.sign(score) * np.inf, ratio)

    def _score_with(self, epsilon: FloatArray, leak: FloatArray) -> FloatArray:
        low, width = leak / 2, np.ones(leak.shape)
        leak = np.maximum(leak, 1e-300)
        while np.any(short := (self.log_ratio(low + width, leak) < epsilon) & (width < 1e100)):
            width = np.where(short, 2 * width, width)
        high = low + width
        for _ in range(60):
            middle = (low + high) / 2
            under = self.log_ratio(middle, leak) < epsilon
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return high
