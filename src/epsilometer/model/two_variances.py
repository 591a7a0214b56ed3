"""Normal scores of two variances, ordered by their likelihood ratio."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer.model.family import Family
from epsilometer.model.shifted import leak_with


@dataclass(frozen=True, kw_only=True)
class TwoVariances(Family):
    """N(0, 1) and N(leak, (1 + spread leak)^2), or the two exchanged: training also moves the spread.

    The likelihood ratio is a parabola in the value, so the score is the distance from its vertex.

    Parameters
    ----------
    spread
        Increase of the standard deviation per unit of leak, above 0.
    exchanged
        Whether the narrower distribution is the one with the point.
    """

    spread: float = 0.25
    exchanged: bool = False
    prior_weight: ClassVar[float] = 1.4

    def __post_init__(self) -> None:
        object.__setattr__(self, "spread", _validate.positive("spread", self.spread))

    @property
    def name(self) -> str:
        return f"two-variance {self.spread:.4g}{' exchanged' if self.exchanged else ''}"

    @property
    def shape(self) -> float:
        return self.spread

    def gaussian_leak(self, leak: FloatArray) -> FloatArray:
        return leak / np.sqrt((1 + self._width(leak) ** 2) / 2)

    def _width(self, leak: FloatArray) -> FloatArray:
        return np.asarray(1 + self.spread * leak)

    def _centre(self, leak: FloatArray) -> FloatArray:
        """Distance of 0 from the vertex; that of the leak is larger by the square of the width."""
        return np.asarray(1 / (self.spread * (2 + self.spread * leak)))

    def _beyond(self, distance: FloatArray, leak: FloatArray) -> FloatPair:
        """Probability of a larger distance from the vertex, of the narrower and the wider one."""
        near, width = self._centre(leak), self._width(leak)
        far = near * width**2
        narrow = ndtr(near - distance) + ndtr(-near - distance)
        return narrow, ndtr((far - distance) / width) + ndtr((-far - distance) / width)

    def _within(self, distance: FloatArray, leak: FloatArray) -> FloatPair:
        """Probability of a smaller distance, which is not a complement, so that it does not cancel."""
        near, width = self._centre(leak), self._width(leak)
        far = near * width**2
        narrow = ndtr(distance - near) - ndtr(-distance - near)
        return narrow, ndtr((distance - far) / width) - ndtr((-distance - far) / width)

    def above(self, score: FloatArray, leak: FloatArray) -> FloatPair:
        if not self.exchanged:
            return self._beyond(score, leak)
        narrow, wide = self._within(-score, leak)
        return wide, narrow

    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        near, width = self._centre(leak), self._width(leak)
        with np.errstate(invalid="ignore"):
            ratio = leak * (score**2 / (near * width**2) - near) / 2 - np.log(width)
        ratio = np.where(leak == 0, 0.0, ratio)
        return -ratio if self.exchanged else ratio

    def scores_at(self, share: FloatArray, leak: FloatArray, part: float) -> FloatArray:
        from epsilometer.model.two_variance_kernels import distances_with

        out = np.empty((len(share), len(leak)))
        wanted, wider = (1 - share, 1 - part) if self.exchanged else (share, part)
        distances_with(wanted, self._centre(leak), self._width(leak), wider, out)
        return -out if self.exchanged else out

    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
        from epsilometer.model.two_variance_kernels import all_divergences

        mu, eps = np.broadcast_arrays(np.asarray(leak, float), np.asarray(epsilon, float))
        leaks, epsilons = mu.ravel(), eps.ravel()
        wide, narrow = np.empty(leaks.shape), np.empty(leaks.shape)
        all_divergences(self._centre(leaks), self._width(leaks), leaks, epsilons, wide, narrow)
        forward, backward = (narrow, wide) if self.exchanged else (wide, narrow)
        return forward.reshape(mu.shape), backward.reshape(mu.shape)

    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        from epsilometer.model.two_variance_kernels import epsilons

        mu = np.asarray(leak, dtype=float)
        if _validate.delta(delta) == 0:
            return np.where(mu > 0, np.inf, 0.0)
        leaks = mu.ravel()
        out = np.empty(leaks.shape)
        epsilons(self._centre(leaks), self._width(leaks), leaks, delta, out)
        return out.reshape(mu.shape)

    def leak_of(self, epsilon: float, delta: float) -> float:
        return 0.0 if delta == 0 else leak_with(self, epsilon, delta)

    def sample(self, leak: ArrayLike, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_normal(member.shape)
        leaks = np.asarray(leak, dtype=float)
        moved = leaks + self._width(leaks) * noise
        value = np.where(member ^ self.exchanged, moved, noise)
        distance = np.abs(value + self._centre(leaks))
        return -distance if self.exchanged else distance
