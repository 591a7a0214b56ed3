"""Attacks on shadow scores: each learns from shadow scores and returns p-values.

Shadow scores have one of two arrangements.  `Shadows` are separate from the challenges.
`CrossFedScores` are the challenges themselves: the shadows of each challenge are all others of the same
hypothesis, computed in closed form in one pass.  Attacks see no difference.  Missing scores are NaN
everywhere.  Shapes: scores of challenges (bases, challenges); moments broadcast against them.

A p-value covers every target rate: at target false-positive rate a the attack decides "member" if p <=
a. `ATTACKS` lists the attacks that ship; any object with a name and `learn` can be used instead.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from epsilometer._arrays import BoolArray, FloatArray, IntArray

#: A leave-one-out variance below this share of the total is recomputed because of cancellation.
LOST = 1e-6


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Number, mean and standard deviation (from the unbiased variance); NaN if there are too few."""

    count: FloatArray
    mean: FloatArray
    deviation: FloatArray


@dataclass(frozen=True, kw_only=True)
class _Standard:
    """Samples along the last axis as anchor + scale * value, with values within (-2, 2).

    The anchor is an element of the sample, so equal values have a spread of exactly 0; the scale is a
    power of two, so that no digit is lost and no square underflows or overflows.
    """

    present: BoolArray
    anchor: FloatArray
    scale: FloatArray
    #: 0 where missing.
    values: FloatArray

    @classmethod
    def of(cls, samples: FloatArray) -> _Standard:
        present = ~np.isnan(samples)
        if samples.shape[-1] == 0:
            none = np.full((*samples.shape[:-1], 1), np.nan)
            return cls(present=present, anchor=none, scale=np.ones_like(none), values=samples)
        first = present.argmax(axis=-1)[..., None]
        anchor = np.take_along_axis(samples, first, axis=-1)
        shifted = np.where(present, samples - anchor, 0.0)
        largest = np.abs(shifted).max(axis=-1, keepdims=True)
        scale = np.ldexp(1.0, np.frexp(np.where(largest > 0, largest, 1.0))[1] - 1)
        return cls(present=present, anchor=anchor, scale=scale, values=shifted / scale)

    def sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Number, mean of the values, and sum of squares about it; the last axis is kept."""
        count = self.present.sum(axis=-1, keepdims=True).astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.values.sum(axis=-1, keepdims=True) / count
            centred = np.where(self.present, self.values - mean, 0.0)
        return count, mean, (centred**2).sum(axis=-1, keepdims=True)


def moments(samples: FloatArray) -> Moments:
    """Moments along the last axis, which is dropped."""
    standard = _Standard.of(samples)
    count, mean, squares = standard.sums()
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = standard.scale * np.sqrt(squares / (count - 1))
    return Moments(
        count=count[..., 0],
        mean=(standard.anchor + standard.scale * mean)[..., 0],
        deviation=np.where(count >= 2, deviation, np.nan)[..., 0],
    )


class ShadowScores(abc.ABC):
    """Shadow scores under one hypothesis, as attacks see them."""

    _moments: Moments

    def moments(self) -> Moments:
        """Moments of the shadows of each challenge."""
        return self._moments

    @abc.abstractmethod
    def pooled_deviation(self) -> FloatArray:
        """Standard deviation within bases, pooled over all of them."""

    @abc.abstractmethod
    def count_at_least(self, scores: FloatArray) -> FloatArray:
        """Number of shadows of each challenge with at least its score."""


class Shadows(ShadowScores):
    """Shadow models that are separate from the challenges.

    Scores are (bases, shadows) when the challenges of a base share them, or (bases, challenges,
    shadows) when each has its own.
    """

    def __init__(self, values: FloatArray) -> None:
        self._values = values if values.ndim == 3 else values[:, None, :]
        self._moments = moments(self._values)

    def pooled_deviation(self) -> FloatArray:
        norm, freedom = _norm(self._moments)
        with np.errstate(invalid="ignore", divide="ignore"):
            total = freedom.sum(axis=0, keepdims=True)
            return np.asarray(np.hypot.reduce(norm, axis=0, keepdims=True) / np.sqrt(total))

    def count_at_least(self, scores: FloatArray) -> FloatArray:
        if self._values.shape[1] != 1:
            return np.asarray((self._values >= scores[..., None]).sum(axis=-1), dtype=np.float64)
        return _count_at_least(self._values[:, 0, :], scores)


class CrossFedScores(ShadowScores):
    """The challenges (bases, models) as shadows of each other, excluding themselves."""

    def __init__(self, scores: FloatArray) -> None:
        self._scores = scores
        self._whole = moments(scores)
        self._moments = self._leave_one_out()

    def _leave_one_out(self) -> Moments:
        standard = _Standard.of(self._scores)
        present = standard.present
        number, mean, squares = standard.sums()
        count = np.broadcast_to(number - 1, self._scores.shape)
        centred = np.where(present, standard.values - mean, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            # Sums over the others, about the mean of all: -c of the values, Q - c^2 of the squares.
            left = mean - centred / count
            variance = (squares - centred**2 * (count + 1) / count) / (count - 1)
            lost = present & (count >= 2) & ~(variance * count > LOST * squares)
        place = standard.anchor + standard.scale * left
        deviation = standard.scale * np.sqrt(np.maximum(variance, 0.0))
        for base, model in zip(*np.nonzero(lost), strict=True):
            # This model contributed nearly all of the spread: at most a few per base.
            others = moments(np.delete(self._scores[base], model))
            place[base, model], deviation[base, model] = others.mean, others.deviation
        return Moments(
            count=count,
            mean=np.where(present & (count >= 1), place, np.nan),
            deviation=np.where(present & (count >= 2), deviation, np.nan),
        )

    def pooled_deviation(self) -> FloatArray:
        norm, freedom = _norm(self._whole)
        left, left_freedom = _norm(self._moments)
        total = (freedom.sum() - freedom)[:, None] + left_freedom
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.hypot(_of_others(norm)[:, None], left) / np.sqrt(total))

    def count_at_least(self, scores: FloatArray) -> FloatArray:
        # Every score is at least itself; it is not its own shadow.
        return _count_at_least(self._scores, scores) - 1


def _norm(part: Moments) -> tuple[FloatArray, FloatArray]:
    """Root of the sum of squares about the mean, and degrees of freedom."""
    freedom = np.maximum(part.count - 1, 0)
    deviation = np.where(freedom > 0, np.nan_to_num(part.deviation), 0.0)
    return np.sqrt(freedom) * deviation, freedom


def _of_others(norms: FloatArray) -> FloatArray:
    """For each entry, the root of the sum of squares of all others, computed without subtraction."""
    before = np.concatenate([[0.0], np.hypot.accumulate(norms)[:-1]])
    after = np.concatenate([np.hypot.accumulate(norms[::-1])[::-1][1:], [0.0]])
    return np.asarray(np.hypot(before, after))


def _count_at_least(shadows: FloatArray, scores: FloatArray) -> FloatArray:
    below, sizes = ranks(shadows, scores, side="left")
    return np.asarray(sizes[:, None] - below, dtype=np.float64)


def ranks(
    samples: FloatArray, values: FloatArray, *, side: Literal["left", "right"]
) -> tuple[IntArray, IntArray]:
    """Number of samples in its row below each value (left) or up to it (right), and the row's size."""
    ordered = np.sort(samples, axis=-1)  # NaN goes to the end
    sizes = np.sum(~np.isnan(samples), axis=-1)
    counts = np.empty(values.shape, dtype=np.int64)
    for row, (present, size) in enumerate(zip(ordered, sizes, strict=True)):
        counts[row] = np.searchsorted(present[:size], values[row], side=side)
    return counts, sizes


#: From scores (bases, challenges) to p-values of the same shape.
DecisionRule = Callable[[FloatArray], FloatArray]


class Attack(Protocol):
    """Learns from shadow scores under both hypotheses; decides on the scores of challenges."""

    @property
    def name(self) -> str: ...

    @property
    def least_shadows(self) -> tuple[int, int]:
        """Fewest shadow models that it needs under H0 and H1."""

    def learn(self, shadows_h0: ShadowScores, shadows_h1: ShadowScores) -> DecisionRule: ...


@dataclass(frozen=True, kw_only=True)
class LikelihoodRatio:
    """The paper's attack (LearnAndDecide): normal fits and their most powerful test; online LiRA."""

    name: ClassVar[str] = "likelihood-ratio"
    least_shadows: ClassVar[tuple[int, int]] = (2, 2)

    def learn(self, shadows_h0: ShadowScores, shadows_h1: ShadowScores) -> DecisionRule:
        return _most_powerful(shadows_h0.moments(), shadows_h1.moments())


@dataclass(frozen=True, kw_only=True)
class PooledVariance:
    """LiRA with one variance per hypothesis for all bases, for few shadow models.

    Each base has its own means.  Two shadows per base suffice; one is enough if another base has two.
    """

    name: ClassVar[str] = "pooled-variance"
    least_shadows: ClassVar[tuple[int, int]] = (1, 1)

    def learn(self, shadows_h0: ShadowScores, shadows_h1: ShadowScores) -> DecisionRule:
        h0 = replace(shadows_h0.moments(), deviation=shadows_h0.pooled_deviation())
        h1 = replace(shadows_h1.moments(), deviation=shadows_h1.pooled_deviation())
        return _most_powerful(h0, h1)


def p_value(
    observed: ArrayLike,
    *,
    mean_h0: ArrayLike,
    deviation_h0: ArrayLike,
    mean_h1: ArrayLike,
    deviation_h1: ArrayLike,
) -> FloatArray:
    """Smallest significance level at which the likelihood-ratio test rejects H0 (appendix D).

    Let u = (x - mean_h0) / deviation_h0, and m and r the mean and deviation under H1 in those units.
    The log-likelihood ratio is a quadratic in u that takes the same value at v = -u - 2 m / (r^2 - 1).
    H0 is rejected outside (u, v) if r >= 1 and inside if r < 1, so the p-value is a sum or a difference
    of two normal probabilities.  In this form nothing cancels as r -> 1: v goes to infinity and the test
    becomes the one-sided test for equal variances.

    The paper's algorithm has the sign of the denominator of R reversed; its appendix, used here, is
    correct.

    Parameters
    ----------
    observed, mean_h0, deviation_h0, mean_h1, deviation_h1
        Arrays that broadcast; standard deviations >= 0.  NaN in any of them gives NaN.

    Returns
    -------
    FloatArray
        In [0, 1], accurate to 1e-15.  Uniform under H0 if deviation_h0 > 0.  Limits: if H0 has no
        spread, everything but mean_h0 is rejected (p = 0, else p = 1); if H1 has no spread, a
        neighbourhood of mean_h1 is rejected; equal hypotheses are never distinguished (p = 1).

    Examples
    --------
    >>> float(p_value(1.6448536, mean_h0=0, deviation_h0=1, mean_h1=2, deviation_h1=1).round(6))
    0.05
    """
    given = (observed, mean_h0, deviation_h0, mean_h1, deviation_h1)
    parts = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in given))
    x, mean_0, deviation_0, mean_1, deviation_1 = parts
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        here = (x - mean_0) / deviation_0
        shift = (mean_1 - mean_0) / deviation_0
        # r^2 - 1 as (r - 1)(r + 1), exact near 0.
        excess = (
            (deviation_1 - deviation_0) / deviation_0 * ((deviation_1 + deviation_0) / deviation_0)
        )
        far = np.where(mean_1 > mean_0, -np.inf, np.inf)
        there = np.where(excess == 0, far, -here - 2 * shift / excess)
        low, high = np.minimum(here, there), np.maximum(here, there)
        outside = ndtr(low) + ndtr(-high)
        # Computing the interval from the nearer tail keeps small probabilities accurate.
        flip = low > 0
        inside = ndtr(np.where(flip, -low, high)) - ndtr(np.where(flip, -high, low))
    p = np.where(excess >= 0, outside, inside)
    equal = (mean_0 == mean_1) & (deviation_0 == deviation_1)
    # A deviation so small that dividing by it overflows counts as no spread.
    p = np.where((deviation_0 == 0) | np.isnan(p), np.where(x == mean_0, 1.0, 0.0), p)
    p = np.where(equal, 1.0, p)
    return np.where(np.isnan(parts).any(axis=0), np.nan, np.clip(p, 0.0, 1.0))


def _most_powerful(h0: Moments, h1: Moments) -> DecisionRule:
    test = partial(p_value, mean_h0=h0.mean, deviation_h0=h0.deviation)
    return partial(test, mean_h1=h1.mean, deviation_h1=h1.deviation)


@dataclass(frozen=True, kw_only=True)
class Offline:
    """Offline LiRA: a one-sided test with a normal fit under H0; models with the point are not used."""

    name: ClassVar[str] = "offline"
    least_shadows: ClassVar[tuple[int, int]] = (2, 0)

    def learn(self, shadows_h0: ShadowScores, shadows_h1: ShadowScores) -> DecisionRule:
        h0 = shadows_h0.moments()

        def rule(scores: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                p = ndtr((h0.mean - scores) / h0.deviation)
            # Without any spread the quotient is infinite, or 0 / 0 for a score that is not above.
            return np.where((h0.deviation == 0) & (scores == h0.mean), 1.0, p)

        return rule


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The plain LOSS attack: a threshold on the score, set by the ranks of the scores under H0.

    p = (1 + shadows under H0 with at least this score) / (1 + shadows under H0).  It assumes no
    distribution and meets its target exactly, in steps of one shadow model.
    """

    name: ClassVar[str] = "threshold"
    least_shadows: ClassVar[tuple[int, int]] = (1, 0)

    def learn(self, shadows_h0: ShadowScores, shadows_h1: ShadowScores) -> DecisionRule:

        def rule(scores: FloatArray) -> FloatArray:
            count = np.maximum(shadows_h0.moments().count, 0)
            p = (1 + shadows_h0.count_at_least(scores)) / (1 + count)
            return np.where(np.isnan(scores), np.nan, p)

        return rule


#: Attacks that can be selected by name.
ATTACKS: dict[str, Attack] = {
    attack.name: attack for attack in (LikelihoodRatio(), PooledVariance(), Offline(), Threshold())
}
