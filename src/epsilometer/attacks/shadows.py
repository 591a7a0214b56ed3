"""Shadow scores that attacks learn from, in one of two arrangements.

`Shadows` are separate from the challenges.  `CrossFed` shadows are the challenges themselves: the
shadows of each challenge are all others of the same hypothesis, computed in closed form in one pass.
Attacks see no difference.  Missing scores are NaN everywhere.

Shapes: scores of challenges (bases, challenges); moments broadcast against them.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Literal

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IntArray

LOST = 1e-6
"""A leave-one-out variance below this share of the total is recomputed because of cancellation."""


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
    values: FloatArray
    """0 where missing."""

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
            pooled = np.hypot.reduce(norm, axis=0, keepdims=True) / np.sqrt(
                freedom.sum(axis=0, keepdims=True)
            )
        return np.asarray(pooled)

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
            pooled = np.hypot(_of_others(norm)[:, None], left) / np.sqrt(total)
        return np.asarray(pooled)

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
