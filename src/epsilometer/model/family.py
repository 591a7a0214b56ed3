"""What a family of trade-off functions must provide, and curves: a family with a mixing rate.

`families.py` has the families.  In a mixture the point matters only with probability ``rate``.

The pair P0 and (1 - rate) P0 + rate P1 has two interpretations that no scores tell apart.  Either the
mechanism uses the point that often, as under subsampling, and epsilon is that of the mixture; or the
attack sees it that often, and epsilon is that of the full pair.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer.errors import InputError

#: Beyond this e^epsilon nears the limit of double precision.
LARGEST_CURVE_EPSILON = 600.0

#: False-positive rates on each side of a half, and leaks per factor of 2 from a smallest one, at which
#: is searched what a curve shows.
RATES_SEEN, LEAKS_SEEN, SMALLEST_SEEN = 16, 8, 1e-3


def _bisected(
    more: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Where ``more`` turns from true to false between these ends, to 60 bits."""
    for _ in range(60):
        middle = (low + high) / 2
        above = more(middle)
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return high


class Family(ABC):
    """What estimation needs from a family; arrays of leaks broadcast against the other argument."""

    #: Prior weight relative to the other families of a model.
    prior_weight: ClassVar[float] = 1.0
    #: The same for an algorithm that is known to sample its records.
    sampled_weight: ClassVar[float] = 1.0
    #: Prior probability of a mixture, given the family.
    mixed_share: ClassVar[float] = 0.0
    #: The smallest rate of its mixtures.
    least_rate: ClassVar[float] = 0.0
    #: The range of a shape in words, for users, and edges of its first cells; only a `Shape` has them.
    words: ClassVar[str] = ""
    edges: tuple[float, ...] = ()
    #: Whether the likelihood ratio takes finitely many values (`masses`), so that scores tie.
    pieces: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name used in options and tables."""

    def members(self, edges: tuple[float, ...] | None = None) -> list[tuple["Family", float]]:
        """Itself, as a `Shape` has many families."""
        return [(self, 1.0)]

    def gaussian_leak(self, leak: FloatArray) -> FloatArray | None:
        """About the leak of the Gaussian pair that scores tell apart as well; None if none is alike."""
        return None

    @property
    def shape(self) -> float | None:
        """What distinguishes it from other families of a `Shape`, if it is of one."""
        return None

    def jumps(self, leak: FloatArray) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Scores at which the log likelihood ratio jumps, and its values above and below each."""
        return []

    @abstractmethod
    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
        """Hockey-stick divergences at e^epsilon: with from without the point, and the reverse."""

    @abstractmethod
    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        """Least epsilon at which the pair is (epsilon, delta)-DP; infinite if there is none."""

    @abstractmethod
    def leak_of(self, epsilon: float, delta: float) -> float:
        """The leak with the given epsilon at this delta, or the largest leak below it."""

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


@dataclass(frozen=True, kw_only=True)
class Capped(Family):
    """A family between Gaussian curves and pure ones, with a largest log likelihood ratio.

    Parameters
    ----------
    ratio
        Largest log likelihood ratio in units of the leak, above 1.
    """

    ratio: float

    def __post_init__(self) -> None:
        if not 1 < _validate.positive("ratio", self.ratio) <= 20:
            raise InputError(f"expected 1 < ratio <= 20, got ratio={self.ratio}.")

    @property
    def shape(self) -> float:
        return self.ratio

    def gaussian_leak(self, leak: FloatArray) -> FloatArray:
        return leak


class MixtureInterpretation(StrEnum):
    """What the mixture is attributed to: the mechanism or the attack."""

    MECHANISM = "mechanism"
    ATTACK = "attack"


class Densities(NamedTuple):
    """Over the pooled share t, (points, leaks): of both hypotheses, and the integral of the first.

    Mixed in the proportions of the pool, the two densities sum to 1 everywhere.
    """

    without: FloatArray
    with_point: FloatArray
    below: FloatArray


@dataclass(frozen=True, kw_only=True)
class Curves:
    """A family with a mixing rate and its interpretation; rate 1 is the family alone.

    Examples
    --------
    >>> from epsilometer.model.families import Gaussian
    >>> sampled = Curves(family=Gaussian(), rate=0.2, interpretation=MixtureInterpretation.MECHANISM)
    >>> round(float(sampled.epsilon(2.0, 1e-5)), 3)
    7.62
    """

    family: Family
    rate: float = 1.0
    interpretation: MixtureInterpretation = MixtureInterpretation.MECHANISM

    @property
    def mixed(self) -> bool:
        """Whether there is a mixture at all."""
        return self.rate < 1

    @property
    def subsampled(self) -> bool:
        """Whether the mixture is attributed to the mechanism."""
        return self.mixed and self.interpretation is MixtureInterpretation.MECHANISM

    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        """Least epsilon of the mechanism; infinite if there is none."""
        if not self.subsampled:
            return self.family.epsilon(leak, delta)
        q, leaks = self.rate, np.asarray(leak, dtype=float)
        epsilon = np.zeros(leaks.shape)
        if delta < q:
            # q H(1 + (e^epsilon - 1) / q) = delta, for outcomes that the point makes likelier.
            whole = self.family.epsilon(leaks, delta / q)
            small = np.log1p(q * np.expm1(np.minimum(whole, 500.0)))
            epsilon = np.where(whole > 500, whole + math.log(q), small)
        reverse = self._reverse(leaks, epsilon) > delta
        if np.any(reverse):
            high = np.full(leaks.shape, -math.log1p(-q))
            found = _bisected(lambda eps: self._reverse(leaks, eps) > delta, epsilon, high)
            epsilon = np.where(reverse, found, epsilon)
        return epsilon

    def _reverse(self, leak: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Divergence of P0 from the mixture at e^epsilon: 0 for epsilon >= -log(1 - rate)."""
        left = -np.expm1(np.minimum(epsilon + math.log1p(-self.rate), 500.0))
        some = left > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = epsilon + math.log(self.rate) - np.log(np.where(some, left, 1.0))
        # The hockey stick of the pair at a factor below 1, where outcomes are likelier by 1 - factor.
        factor = np.exp(np.minimum(inner, 500.0))
        backward = self.family.delta(leak, np.maximum(inner, 0.0))[1]
        forward = self.family.delta(leak, np.maximum(-inner, 0.0))[0]
        value = np.where(inner >= 0, backward, 1 - factor + factor * forward)
        return np.where(some, left * value, 0.0)

    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatArray:
        """Least delta at which the mechanism is (epsilon, delta)-DP."""
        if not self.subsampled:
            return np.maximum(*self.family.delta(leak, epsilon))
        q = self.rate
        leaks, eps = np.broadcast_arrays(np.asarray(leak, float), np.asarray(epsilon, float))
        inner = np.log1p(np.expm1(np.minimum(eps, 500.0)) / q)
        forward = q * self.family.delta(leaks, inner)[0]
        return np.maximum(forward, self._reverse(leaks, eps))

    def largest_leak(self, epsilon: float, delta: float) -> float:
        """The leak with the given epsilon at this delta; 0 if no leak has one."""
        if not self.subsampled:
            return self.family.leak_of(epsilon, delta)
        if delta >= self.rate:
            return 0.0
        whole = math.log1p(math.expm1(min(epsilon, 500.0)) / self.rate)
        return self.family.leak_of(whole, delta / self.rate)

    def densities(self, share: FloatArray, leak: FloatArray, members: float = 0.5) -> Densities:
        """Densities of both hypotheses over the pooled share t, as the attacks see them.

        t pools both hypotheses, with a proportion ``members`` of scores with the point.  The
        interpretation plays no role.
        """
        score = self.family.scores_at(share, leak, members * self.rate)
        both = self._densities(self.family.log_ratio(score, leak), members)
        for jump in self.family.jumps(leak):
            self._smooth(both, share, score, leak, members, jump)
        return Densities(*both, self.family.above(score, leak)[0])

    def _densities(self, log_ratio: FloatArray, members: float) -> FloatPair:
        """Densities without and with the point, where the family has this log ratio."""
        with np.errstate(over="ignore", divide="ignore"):
            ratio = 1 - self.rate + self.rate * np.exp(log_ratio)
            # Each is computed separately: as a complement of the other, small values would be lost.
            return 1 / (1 - members + members * ratio), 1 / (members + (1 - members) / ratio)

    def _smooth(
        self,
        both: FloatPair,
        share: FloatArray,
        score: FloatArray,
        leak: FloatArray,
        members: float,
        jump: tuple[FloatArray, FloatArray, FloatArray],
    ) -> None:
        """Replace densities next to a jump by their means over the cell of a share.

        Otherwise a sum over shares would jump whenever the jump passes one of them.
        """
        cut, *ratios = jump
        without, with_point = self.family.above(cut, leak)
        place = without + members * self.rate * (with_point - without)
        edges = np.concatenate([share[:1], (share[1:] + share[:-1]) / 2, share[-1:]])
        cell = np.clip(np.searchsorted(edges, place) - 1, 0, len(share) - 1)
        low, high = edges[cell], edges[cell + 1]
        # The part of the cell on the other side of the jump.
        column = np.arange(len(leak))
        part = np.where(score[cell, column] >= cut, place - high, place - low) / (high - low)
        for densities, above, below in zip(
            both, *(self._densities(ratio, members) for ratio in ratios), strict=True
        ):
            densities[cell, column] += part * (above - below)

    def seen_true_positives(self, false_positives: FloatArray, leak: FloatArray) -> FloatArray:
        """True-positive rates that the attacks see, shape (rates, leaks): 1 - f at these rates."""
        if self.family.pieces:  # straight between corners: thresholds are randomised within a piece
            return self._seen_of_pieces(false_positives, leak)
        # The score at a false-positive rate is the upper quantile of P0 alone.
        score = self.family.scores_at(false_positives, leak, 0.0)
        seen = self.family.above(score, leak)[1]
        return np.asarray((1 - self.rate) * false_positives[:, None] + self.rate * seen)

    def _seen_of_pieces(self, false_positives: FloatArray, leak: FloatArray) -> FloatArray:
        true_positives = np.empty((len(false_positives), len(leak)))
        for column, column_leak in enumerate(leak.tolist()):
            without, with_point = self.family.masses(column_leak)
            # A piece that only members have is reached at a false-positive rate of 0.
            corner = np.append(without[1:] > 0, True)
            x, y = np.cumsum(without)[corner], np.cumsum(with_point)[corner]
            if without[0] > 0:
                x, y = np.append(0.0, x), np.append(0.0, y)
            true_positives[:, column] = np.interp(false_positives, x, y)
        return (1 - self.rate) * false_positives[:, None] + self.rate * true_positives

    def seen_epsilon(self, leak: FloatArray, delta: float, rate: float) -> FloatArray:
        """What error rates of at least ``rate`` show: at most log(1 / rate), however large the leak.

        The largest log((TPR - delta) / FPR) over thresholds with FPR >= rate, or
        log((TNR - delta) / FNR) over those with FNR >= rate.
        """
        false_positives = np.concatenate(
            [np.geomspace(rate, 0.5, RATES_SEEN), 1 - np.geomspace(0.5, rate, RATES_SEEN)[1:]]
        )
        # Smooth, and nearly linear in small leaks, so few suffice: always the same, for equal answers.
        last = math.ceil(LEAKS_SEEN * math.log2(max(float(np.max(leak)), 2 * SMALLEST_SEEN)))
        first = math.floor(LEAKS_SEEN * math.log2(SMALLEST_SEEN))
        some = np.append(0.0, np.exp2(np.arange(first, last + 1) / LEAKS_SEEN))
        true_positives = self.seen_true_positives(false_positives, some)
        false = false_positives[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.log(np.maximum(true_positives - delta, 0.0) / false)
            below = np.log(
                np.maximum(1 - false - delta, 0.0) / np.maximum(1 - true_positives, rate)
            )
        seen = np.maximum(np.nanmax(np.maximum(above, below), axis=0), 0.0)
        seen[0] = 0.0
        return np.asarray(PchipInterpolator(some, np.maximum.accumulate(seen))(leak))

    def delta_at_rate(self, leak: FloatArray, false_positive_rate: float) -> FloatArray:
        """The delta whose epsilon is the slope of the trade-off function at a false-positive rate.

        At smaller deltas epsilon depends on smaller rates, about which the data may say nothing.
        """
        # For pieces: the slope of the piece that contains the rate.
        score = self.family.scores_at(np.array([false_positive_rate]), leak, 0.0)
        slope = self.family.log_ratio(score, leak)[0]
        if self.subsampled:
            with np.errstate(over="ignore"):
                slope = np.log1p(self.rate * np.expm1(slope))
        return self.delta(leak, np.maximum(slope, 0.0))

    def sample(self, leak: ArrayLike, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        """Scores as the attacks see them."""
        seen = member & (rng.random(member.shape) < self.rate) if self.mixed else member
        return self.family.sample(leak, seen, rng=rng)
