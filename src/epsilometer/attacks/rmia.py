"""RMIA, the robust membership-inference attack.

Zarifzadeh, Liu and Shokri, "Low-cost high-power membership inference attacks" (ICML 2024).
A point x is compared with many others, z, under the model theta that is judged:

    score(x) = Pr_z[ (Pr(x | theta) / Pr(x)) / (Pr(z | theta) / Pr(z)) >= gamma ]

Pr(x | theta) = exp(-loss).  Pr(x) is what a model would say of x that has it with probability 1/2:

    online    (mean over teachers with x + mean over teachers without x) / 2
    offline   ((1 + a) mean over teachers without x + 1 - a) / 2

The second is the first where a model with x is taken to say a p + 1 - a if one without it says p.
Published settings, from the configurations beside the authors' code (Privacy Meter, 2024): gamma = 2
throughout; a = 0.3 for CIFAR-10 and CINIC-10, 0.6 for CIFAR-100, 0.2 for Purchase-100.  These are with
a softened softmax of temperature 2 (1 for CIFAR-100) and means over teachers trimmed by a fifth at
either end; here probabilities are the model's own, for losses are all there is, and means are plain.

With several queries z is beaten if it is in more than half of them, as in the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.pool_losses import PoolLosses

MOST_COMPARED = 2500
"""How many points each is compared with where votes over queries must be counted pair by pair."""

NO_OTHER = 0.5
"""The score of a point that there is nothing to compare with."""


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What both forms are told, and can read."""

    gamma: float = 2.0
    a: float = 0.3

    def __post_init__(self) -> None:
        _validate.positive("gamma", self.gamma)
        _validate.unit_interval("a", self.a)

    def check(self, losses: PoolLosses) -> None:
        losses.require_cross_entropy()


@dataclass(frozen=True, kw_only=True)
class Rmia(_Settings):
    """RMIA online: teachers with the point and without it count alike, whatever their numbers.

    z are the reference points, or all other points if there are none.  A point with no teacher on one
    side, as every reference, has the Pr(x) of `RmiaOffline`; one that all teachers were trained on has
    their mean.  Scores are multiples of 1 over the number of z, so many may be equal.

    Parameters
    ----------
    gamma
        By how much x must beat z; above 0.
    a
        Of the line that stands in for teachers with a point; 0 <= a <= 1.
    """

    name: ClassVar[str] = "rmia"
    least_teachers: ClassVar[int] = 2

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        without, with_point = log_means(losses, teachers)
        both = np.logaddexp(without, with_point) - np.log(2)
        lone = np.where(np.isneginf(without), with_point, _line(without, self.a))
        one_sided = np.isneginf(without) | np.isneginf(with_point)
        return _scores(losses, judged, np.where(one_sided, lone, both), self.gamma)


@dataclass(frozen=True, kw_only=True)
class RmiaOffline(_Settings):
    """RMIA offline: Pr(x) from teachers without the point alone.

    z are the reference points, or all other points if there are none.  A point that all teachers were
    trained on has their mean for Pr(x).

    Parameters
    ----------
    gamma
        By how much x must beat z; above 0.
    a
        Of the line from teachers without the point to those with it; 0 <= a <= 1.
    """

    name: ClassVar[str] = "rmia-offline"
    least_teachers: ClassVar[int] = 1

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        without, with_point = log_means(losses, teachers)
        usual = np.where(np.isneginf(without), with_point, _line(without, self.a))
        return _scores(losses, judged, usual, self.gamma)


def log_means(losses: PoolLosses, teachers: IntArray) -> tuple[FloatArray, FloatArray]:
    """Log of the mean probability under teachers without each point and with it: (points, queries).

    Minus infinity where there is no such teacher.
    """
    found = np.empty((2, losses.points, losses.queries))
    for part in losses.blocks(len(teachers), points=losses.points):
        log_p, inside = -losses.loss[teachers, part], losses.member[teachers, part]
        for side, chosen in enumerate((~inside, inside)):
            shown = np.where(chosen[:, :, None], log_p, -np.inf)
            largest = shown.max(axis=0)
            shift = np.where(np.isneginf(largest), 0.0, largest)
            size = np.maximum(chosen.sum(axis=0), 1)[:, None]
            with np.errstate(divide="ignore"):
                found[side, part] = shift + np.log(np.exp(shown - shift).sum(axis=0) / size)
    return found[0], found[1]


def _line(log_p: FloatArray, a: float) -> FloatArray:
    """log(((1 + a) p + 1 - a) / 2)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(log_p + np.log1p(a), np.log1p(-a)) - np.log(2))


def _scores(losses: PoolLosses, judged: IntArray, usual: FloatArray, gamma: float) -> FloatArray:
    """Share of z that each point beats under each judged model; ``usual`` is log Pr of all points."""
    challenges = losses.challenges
    others = np.arange(challenges if losses.references else 0, losses.points)
    if losses.queries > 1:
        others = others[:: -(-len(others) // MOST_COMPARED)]
    own = np.full(challenges, -1)
    if not losses.references:
        own[others] = np.arange(len(others))
    sizes = len(others) - (own >= 0)
    value = np.empty((len(judged), challenges))
    for row, model in enumerate(judged):
        ratio = -losses.loss[model] - usual
        least = ratio[:challenges] - np.log(gamma)
        if losses.queries == 1:
            ordered = np.sort(ratio[others, 0])
            beaten = np.searchsorted(ordered, least[:, 0], side="right")
            # No point is compared with itself: its ratio to itself is 1.
            beaten -= (own >= 0) & (least[:, 0] >= ratio[:challenges, 0])
        else:
            beaten = _votes(np.ascontiguousarray(least), np.ascontiguousarray(ratio[others].T), own)
        value[row] = np.where(sizes > 0, beaten / np.maximum(sizes, 1), NO_OTHER)
    return value


@njit(nogil=True, cache=True)
def _votes(least: FloatArray, others: FloatArray, own: IntArray) -> IntArray:
    """How many others, (queries, z), are no larger in more than half of the queries."""
    points, queries = least.shape
    found = np.zeros(points, dtype=np.int64)
    votes = np.empty(others.shape[1], dtype=np.int16)
    for point in range(points):
        votes[:] = 0
        for query in range(queries):
            limit = least[point, query]
            row = others[query]
            for z in range(len(votes)):
                votes[z] += row[z] <= limit
        if own[point] >= 0:
            votes[own[point]] = 0
        total = 0
        for z in range(len(votes)):
            total += 2 * votes[z] > queries
        found[point] = total
    return found
