"""Attacks on a single model: by the loss of a point, or by its rank among reference points.

They learn from no other model, so scores do not depend on any coins.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.pool_losses import PoolLosses, log_odds_of
from epsilometer.attacks.rules import ranks
from epsilometer.errors import InputError

#: A point is compared with references of its own label if there are at least this many.
OWN_LABEL_FROM = 20


@dataclass(frozen=True, kw_only=True)
class PoolLoss:
    """The loss of the point, negated, averaged over queries (Yeom et al., 2018)."""

    name: ClassVar[str] = "loss"
    least_teachers: ClassVar[int] = 0

    def check(self, losses: PoolLosses) -> None:
        """Any losses are supported."""

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        return np.asarray(-losses.loss[judged, : losses.challenges].mean(axis=2))


@dataclass(frozen=True, kw_only=True)
class PoolLogOdds:
    """log(p / (1 - p)) of cross-entropy losses -log p, averaged over queries.

    With one query it orders points as the loss does; with several queries the weighting differs.
    """

    name: ClassVar[str] = "logit"
    least_teachers: ClassVar[int] = 0

    def check(self, losses: PoolLosses) -> None:
        losses.require_cross_entropy()

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        value = np.empty((len(judged), losses.challenges))
        for row, model in enumerate(judged):
            value[row] = log_odds_of(losses.loss[model, : losses.challenges]).mean(axis=1)
        return value


@dataclass(frozen=True, kw_only=True)
class PopulationAttack:
    """Share of reference points with a larger loss under the same model (Ye et al., 2022).

    References are those with the label of the point if there are at least 20, otherwise all; equal
    losses count half, and queries are averaged.  1 minus the score estimates the false-positive rate at
    which the point would be called a member.
    """

    name: ClassVar[str] = "population"
    least_teachers: ClassVar[int] = 0

    def check(self, losses: PoolLosses) -> None:
        if not losses.references:
            raise InputError("expected reference points for the attack population, got none.")

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        value = np.empty((len(judged), losses.challenges))
        groups = _groups(losses)
        for row, model in enumerate(judged):
            for points, references in groups:
                others, own = losses.loss[model, references].T, losses.loss[model, points].T
                below, up_to = (ranks(others, own, side=side)[0] for side in ("left", "right"))
                share = 1 - (below + up_to) / (2 * len(references))
                value[row, points] = share.mean(axis=0)
        return value


def _groups(losses: PoolLosses) -> list[tuple[IntArray, IntArray]]:
    """Groups of points with the references that they are compared with."""
    points = np.arange(losses.challenges)
    references = np.arange(losses.challenges, losses.points)
    if losses.labels is None or losses.labels.ndim != 1:
        return [(points, references)]
    _, label = np.unique(losses.labels, return_inverse=True)
    many = np.bincount(label[references], minlength=label.max() + 1) >= OWN_LABEL_FROM
    groups = [
        (points[label[points] == code], references[label[references] == code])
        for code in np.flatnonzero(many)
    ]
    return [*groups, (points[~many[label[points]]], references)]
