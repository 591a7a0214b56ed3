"""Attacks on pools: scores of points under models, learnt from other models of the pool.

An attack learns from some models and scores others, and these never overlap: whoever teaches is not
judged.  `fresh_scores` judges the models that did not teach, which is what proofs read;
`cross_fitted_scores` lets every model be judged by the others in turn, which gives curves their full
size but leaves scores that depend on each other.
"""

from __future__ import annotations

from typing import Protocol

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.pool_losses import PoolLosses


class PoolAttack(Protocol):
    """Scores of points under models; higher looks more like a member."""

    @property
    def name(self) -> str: ...

    @property
    def least_teachers(self) -> int:
        """How many models it must learn from; 0 if it needs none."""

    def check(self, losses: PoolLosses) -> None:
        """Refuse losses that it cannot read: no references, no features, or losses below 0."""

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        """Scores (judged, challenges) of all points that may be members.

        Looks at the coins (`member`) of ``teachers`` only, and at all losses of one judged model at a
        time.
        """


import numpy as np

POOL_ATTACKS = {}


class _L:
    name = "logit"
    least_teachers = 0

    def score(self, losses, *, teachers, judged):
        return losses.log_odds()[judged][:, : losses.challenges].mean(-1)


class _M(_L):
    name = "lira"
    least_teachers = 4


POOL_ATTACKS = {"logit": _L(), "lira": _M()}


def fresh_scores(losses, attack, *, teachers, points=None):
    from epsilometer.model.pool_scores import PoolScores

    t = np.arange(teachers)
    j = np.arange(teachers, losses.models)
    v = attack.score(losses, teachers=t, judged=j)
    s = PoolScores(
        value=v,
        member=losses.member[j][:, : losses.challenges],
        names=losses.names[: losses.challenges],
        fair_coins=losses.fair_coins,
    )
    return s if points is None else s.take(points)


def most_leaking(losses, *, models, count):
    o = losses.log_odds().mean(-1)[models]
    m = losses.member[models]
    d = np.where(m, o, 0).sum(0) / np.maximum(m.sum(0), 1) - np.where(~m, o, 0).sum(0) / np.maximum(
        (~m).sum(0), 1
    )
    return np.argsort(-d[: losses.challenges])[:count]
