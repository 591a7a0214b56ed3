"""What attacks learn from: scores of shadow models, in one of two arrangements.

`Shadows` are separate from the challenges.  `CrossFed` shadows are the challenges themselves: each
challenge sees all of its hypothesis but itself, by closed forms in one pass.  Attacks see no
difference.  Missing scores are NaN everywhere.

Shapes: scores of challenges (bases, challenges); moments broadcast against them.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np

from epsilometer.attacks.losses import FloatArray

LOST = 1e-6
"""A leave-one-out variance below this share of the whole is computed anew: digits were lost."""


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Number, mean and unbiased variance of shadow scores; NaN where there are too few."""

    count: FloatArray
    mean: FloatArray
    variance: FloatArray


def moments(values: FloatArray) -> Moments:
    """Moments along the last axis, which is dropped.

    Values are centred before they are squared, at first about a member of the sample, so that equal
    values have a variance of exactly 0.
    """
    present = ~np.isnan(values)
    count = present.sum(axis=-1).astype(float)
    if values.shape[-1] == 0:
        nothing = np.full(count.shape, np.nan)
        return Moments(count=count, mean=nothing, variance=nothing)
    anchor = np.take_along_axis(values, present.argmax(axis=-1)[..., None], axis=-1)
    shifted = np.where(present, values - anchor, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = shifted.sum(axis=-1) / count
        centred = np.where(present, shifted - mean[..., None], 0.0)
        variance = (centred**2).sum(axis=-1) / (count - 1)
    variance = np.where(count >= 2, variance, np.nan)
    return Moments(count=count, mean=anchor[..., 0] + mean, variance=variance)


class ShadowScores(abc.ABC):
    """The questions an attack may ask of shadow scores under one hypothesis."""

    @abc.abstractmethod
    def moments(self) -> Moments:
        """Moments of the shadows of each challenge."""

    @abc.abstractmethod
    def pooled_variance(self) -> FloatArray:
        """Variance within bases, pooled over all of them."""

    @abc.abstractmethod
    def count_at_least(self, scores: FloatArray) -> FloatArray:
        """How many shadows of each challenge have at least its score."""

    @abc.abstractmethod
    def samples(self) -> FloatArray:
        """The scores themselves, (bases, challenges or 1, shadows); large when cross-fed."""


class Shadows(ShadowScores):
    """Shadow models apart from the challenges.

    Parameters
    ----------
    values
        (bases, shadows) when the challenges of a base share them, or (bases, challenges, shadows)
        when each has its own.
    """

    def __init__(self, values: FloatArray) -> None:
        self._values = values if values.ndim == 3 else values[:, None, :]
        self._moments = moments(self._values)

    def moments(self) -> Moments:
        return self._moments

    def pooled_variance(self) -> FloatArray:
        squares, freedom = _squares(self._moments)
        with np.errstate(invalid="ignore", divide="ignore"):
            pooled: FloatArray = squares.sum(axis=0, keepdims=True) / freedom.sum(
                axis=0, keepdims=True
            )
        return pooled

    def count_at_least(self, scores: FloatArray) -> FloatArray:
        if self._values.shape[1] != 1:
            return np.asarray((self._values >= scores[..., None]).sum(axis=-1), dtype=np.float64)
        return _count_at_least(self._values[:, 0, :], scores)

    def samples(self) -> FloatArray:
        return self._values


class CrossFed(ShadowScores):
    """The challenges (bases, models) as shadows of each other: each sees all but itself."""

    def __init__(self, scores: FloatArray) -> None:
        self._scores = scores
        self._whole = moments(scores)
        self._moments = self._leave_one_out()

    def _leave_one_out(self) -> Moments:
        whole = self._whole
        present = ~np.isnan(self._scores)
        count = np.broadcast_to(whole.count[:, None] - 1, self._scores.shape)
        centred = np.where(present, self._scores - whole.mean[:, None], 0.0)
        squares = (whole.variance * (whole.count - 1))[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            # Sums over the others, about the mean of all: -c of the values, Q - c^2 of the squares.
            mean = whole.mean[:, None] - centred / count
            variance = (squares - centred**2 * (count + 1) / count) / (count - 1)
        lost = present & (count >= 2) & ~(variance > LOST * whole.variance[:, None])
        for base, model in zip(*np.nonzero(lost), strict=True):
            # Nearly all of the spread was this one model's: at most a few in a base.
            others = moments(np.delete(self._scores[base], model))
            mean[base, model], variance[base, model] = others.mean, others.variance
        return Moments(
            count=count,
            mean=np.where(present & (count >= 1), mean, np.nan),
            variance=np.where(present & (count >= 2), variance, np.nan),
        )

    def moments(self) -> Moments:
        return self._moments

    def pooled_variance(self) -> FloatArray:
        squares, freedom = _squares(self._whole)
        left, left_freedom = _squares(self._moments)
        with np.errstate(invalid="ignore", divide="ignore"):
            pooled: FloatArray = (squares.sum() - squares[:, None] + left) / (
                freedom.sum() - freedom[:, None] + left_freedom
            )
        return pooled

    def count_at_least(self, scores: FloatArray) -> FloatArray:
        # Every score is at least itself; it is not its own shadow.
        return _count_at_least(self._scores, scores) - 1

    def samples(self) -> FloatArray:
        models = self._scores.shape[1]
        others = np.array([np.delete(np.arange(models), j) for j in range(models)], dtype=int)
        return self._scores[:, others.reshape(models, models - 1)]


def _squares(part: Moments) -> tuple[FloatArray, FloatArray]:
    """Sum of squares about the mean, and degrees of freedom; 0 where there is no variance."""
    freedom = np.maximum(part.count - 1, 0)
    return np.where(freedom > 0, np.nan_to_num(part.variance) * freedom, 0.0), freedom


def _count_at_least(shadows: FloatArray, scores: FloatArray) -> FloatArray:
    ordered = np.sort(shadows, axis=-1)  # NaN goes to the end
    sizes = np.sum(~np.isnan(shadows), axis=-1)
    below = np.empty(scores.shape)
    for row, (values, size) in enumerate(zip(ordered, sizes, strict=True)):
        below[row] = np.searchsorted(values[:size], scores[row], side="left")
    return np.asarray(sizes[:, None] - below, dtype=np.float64)
