"""LiRA, the likelihood-ratio attack.

Carlini et al., "Membership inference attacks from first principles" (IEEE S&P 2022).
The log odds of every point, under models trained with it and without it, are modelled as normal:

    online    mean over queries of  log N(phi; mu_in, s_in^2) - log N(phi; mu_out, s_out^2)
    offline   mean over queries of  (phi - mu_out) / s_out

The offline score has the same order as the paper's 1 - Pr[N(mu_out, s_out^2) > phi] and does not
saturate.

Choices where the paper is silent or differs from its published code:

- Each query has its own normal, and queries are averaged, as in the published code.  The paper uses a
  multivariate normal, whose covariance needs far more shadow models than queries.
- Means are used, as in the paper's algorithm; its code uses medians.  Variances are unbiased.
- With fewer than 64 shadow models all points share a variance (as the paper advises), one for models
with
  the point and one for models without: the within-point variance, pooled over points.  The published
  code uses the spread over all points and models, which includes differences between the points' means,
  and uses that of models with the point for both sides.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.pool_losses import PoolLosses, log_odds_of

#: A point with fewer shadow models on a side uses the pooled variance of that side.
LEAST_FOR_VARIANCE = 8

#: Lower limit of a point's own variance, as a share of the pooled one: all its losses may be equal.
SMALLEST_VARIANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Side:
    """Log odds under shadow models with a point, or without it: (points,) or (points, queries)."""

    count: FloatArray
    mean: FloatArray
    #: Sum of squares about the mean.
    squares: FloatArray

    def variance(self, pooled: FloatArray, *, own: bool) -> FloatArray:
        """Variance of every point: its own if requested and there are enough shadow models."""
        shared = np.broadcast_to(pooled, self.squares.shape)
        if not own:
            return shared
        enough = self.count >= LEAST_FOR_VARIANCE
        own_variance = self.squares / np.where(enough, self.count - 1, 1)[:, None]
        return np.where(
            enough[:, None], np.maximum(own_variance, SMALLEST_VARIANCE * shared), shared
        )


def sides(
    losses: PoolLosses, teachers: IntArray, *, averaged: bool = False, plain: bool = False
) -> tuple[Side, Side]:
    """Moments of log odds under shadow models, without and with each point; references are excluded.

    Per query, or of the average over queries, which then counts as one query.  ``plain`` uses negated
    losses instead of log odds.
    """
    points, queries = losses.challenges, 1 if averaged else losses.queries
    count = np.empty((2, points))
    mean, squares = np.empty((2, points, queries)), np.empty((2, points, queries))
    for part in losses.blocks(len(teachers), points=points):
        taken = losses.loss[teachers, part]
        odds = -taken if plain else log_odds_of(taken)
        odds = odds.mean(axis=2, keepdims=True) if averaged else odds
        # Relative to the first shadow model, so that equal log odds have a spread of exactly 0.
        anchor = odds[0]
        odds = odds - anchor
        inside = losses.member[teachers, part]
        for side, chosen in enumerate((~inside, inside)):
            weight = chosen.astype(float)
            count[side, part] = weight.sum(axis=0)
            divisor = np.maximum(count[side, part], 1)[:, None]
            mean[side, part] = np.einsum("mp,mpq->pq", weight, odds) / divisor
            squares[side, part] = np.einsum("mp,mpq->pq", weight, (odds - mean[side, part]) ** 2)
        mean[:, part] += anchor
    without, with_point = (
        Side(count=count[side], mean=mean[side], squares=squares[side]) for side in (0, 1)
    )
    return without, with_point


def pooled_variances(without: Side, with_point: Side) -> tuple[FloatArray, FloatArray]:
    """Within-point variance per query and side; pooled over both sides if a side has none; else 1."""
    squares = [side.squares.sum(axis=0) for side in (without, with_point)]
    freedom = [float(np.maximum(side.count - 1, 0).sum()) for side in (without, with_point)]
    variances = []
    for chosen, number in zip(squares, freedom, strict=True):
        total, divisor = (chosen, number) if number > 0 else (sum(squares), sum(freedom))
        variance = total / max(divisor, 1.0)
        variances.append(np.where(variance > 0, variance, 1.0))
    return variances[0], variances[1]


@dataclass(frozen=True, kw_only=True)
class _Normal:
    """Normals fitted to log odds; the settings of both variants."""

    own_variance_from: int = 64

    def __post_init__(self) -> None:
        _validate.whole_number("own_variance_from", self.own_variance_from)

    def check(self, losses: PoolLosses) -> None:
        losses.require_cross_entropy()


@dataclass(frozen=True, kw_only=True)
class Lira(_Normal):
    """Online LiRA: the likelihood ratio of two normals fitted to models with and without the point.

    A point whose shadow models are all with it, or all without it, scores 0 (a ratio of 1).

    Parameters
    ----------
    own_variance_from
        Number of shadow models from which every point has its own variances; 64 in the paper.
    """

    name: ClassVar[str] = "lira"
    least_teachers: ClassVar[int] = 4

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        fitted = sides(losses, teachers)
        shared = pooled_variances(*fitted)
        own = len(teachers) >= self.own_variance_from
        variance = [side.variance(pool, own=own) for side, pool in zip(fitted, shared, strict=True)]
        value = np.empty((len(judged), losses.challenges))
        for part in losses.blocks(len(judged), points=losses.challenges):
            odds = log_odds_of(losses.loss[judged, part])
            without, with_point = (
                -((odds - side.mean[part]) ** 2) / (2 * spread[part]) - np.log(spread[part]) / 2
                for side, spread in zip(fitted, variance, strict=True)
            )
            value[:, part] = (with_point - without).mean(axis=2)
        value[:, (fitted[0].count == 0) | (fitted[1].count == 0)] = 0.0
        return value


@dataclass(frozen=True, kw_only=True)
class LiraOffline(_Normal):
    """Offline LiRA: distance above the models without the point, in standard deviations.

    A point that every shadow model was trained on scores 0.

    Parameters
    ----------
    own_variance_from
        Number of shadow models from which every point has its own variance.
    """

    name: ClassVar[str] = "lira-offline"
    least_teachers: ClassVar[int] = 3

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        without, with_point = sides(losses, teachers)
        shared = pooled_variances(without, with_point)[0]
        variance = without.variance(shared, own=len(teachers) >= self.own_variance_from)
        value = np.empty((len(judged), losses.challenges))
        for part in losses.blocks(len(judged), points=losses.challenges):
            odds = log_odds_of(losses.loss[judged, part])
            value[:, part] = ((odds - without.mean[part]) / np.sqrt(variance[part])).mean(axis=2)
        value[:, without.count == 0] = 0.0
        return value
