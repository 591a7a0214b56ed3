"""What a family of trade-off functions must provide; see `families.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair

LARGEST_CURVE_EPSILON = 600.0
"""Beyond this e^epsilon nears the limit of double precision."""


class Family(ABC):
    """What estimation needs from a family; arrays of leaks broadcast against the other argument."""

    prior_weight: ClassVar[float]
    """Prior weight relative to the other families of a model."""
    sampled_weight: ClassVar[float]
    """The same for an algorithm that is known to sample its records."""
    mixed_share: ClassVar[float]
    """Prior probability of a mixture, given the family."""
    pieces: ClassVar[bool] = False
    """Whether the likelihood ratio takes finitely many values (`masses`), so that scores tie."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name used in options and tables."""

    @abstractmethod
    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
        """Hockey-stick divergences at e^epsilon: with from without the point, and the reverse."""

    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        """Least epsilon at which the pair is (epsilon, delta)-DP; infinite if there is none."""
        # Where the larger divergence falls to delta, to 1e-10.
        leaks = np.asarray(leak, dtype=float)
        delta = _validate.delta(delta)
        if delta == 0:
            return np.where(leaks > 0, np.inf, 0.0)

        def left(epsilon: FloatArray) -> BoolArray:
            return np.asarray(np.maximum(*self.delta(leaks, epsilon)) > delta)

        high = np.ones(leaks.shape)
        while np.any(grows := left(high) & (high < LARGEST_CURVE_EPSILON)):
            high = np.where(grows, 2 * high, high)
        low = np.zeros(leaks.shape)
        for _ in range(60):
            middle = (low + high) / 2
            more = left(middle)
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        return np.where(left(np.zeros(leaks.shape)), high, 0.0)

    def leak_of(self, epsilon: float, delta: float) -> float:
        """The leak with the given epsilon at this delta, or the largest leak below it."""
        # By bisection of the larger divergence at e^epsilon, to 1e-12 relative.
        if delta == 0:
            return 0.0

        def reaches(leak: float) -> bool:
            return max(float(divergence) for divergence in self.delta(leak, epsilon)) >= delta

        low, high = 0.0, 1.0
        while not reaches(high) and high < LARGEST_CURVE_EPSILON:
            low, high = high, 2 * high
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (low, middle) if reaches(middle) else (middle, high)
            if high - low <= 1e-12 * high:
                break
        return high

    @abstractmethod
    def scores_at(self, share: FloatArray, leak: FloatArray, part: float) -> FloatArray:
        """Upper quantile: the score exceeded by a ``share`` of (1 - part) P0 + part P1.

        ``share`` has shape (points,), ``leak`` (leaks,); the result (points, leaks).
        """

    @abstractmethod
    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        """Log likelihood ratio of the pair, with the point over without it."""

    @abstractmethod
    def above(self, score: FloatArray, leak: FloatArray) -> FloatPair:
        """Probability of a higher score, without and with the point."""

    def masses(self, leak: float) -> FloatPair:
        """For ``pieces``: probabilities of each value, highest first, without and with the point."""
        raise NotImplementedError("a continuous score has no finite list of values.")

    @abstractmethod
    def sample(self, leak: ArrayLike, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        """Scores of independent trials, with the point where ``member`` is true."""
