"""Decisions from scores of a pool: p-values by rank, and from them counts and curves of every point."""

from __future__ import annotations

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.attacks.result import AttackResult
from epsilometer.attacks.rules import Threshold
from epsilometer.attacks.shadows import CrossFedScores, Shadows
from epsilometer.model.measured import POOL
from epsilometer.model.pool_scores import PoolScores


def attack_result(scores: PoolScores, attack: str) -> AttackResult:
    """Call a model a member if few other models without the point have as high a score.

    The p-value of a score is its rank among the scores of the other models without the point, so counts
    depend on each other, within and between points.
    """
    pooled = scores.take(np.flatnonzero(_both(scores.member)))
    sides = [_padded(pooled.value, side) for side in (~pooled.member, pooled.member)]
    rule = Threshold()
    p_values = (
        rule.learn(CrossFedScores(sides[0]), Shadows(sides[1]))(sides[0]),
        rule.learn(Shadows(sides[0]), CrossFedScores(sides[1]))(sides[1]),
    )
    return AttackResult(
        names=pooled.names,
        statistic="pool",
        attack=attack,
        p_values_h0=p_values[0],
        p_values_h1=p_values[1],
        scores_h0=sides[0],
        scores_h1=sides[1],
        left_out=tuple(name for name in scores.names if name not in set(pooled.names)),
        design=POOL,
    )


def _both(member: BoolArray) -> BoolArray:
    """Points that have models with and without them."""
    return np.asarray(member.any(axis=0) & ~member.all(axis=0))


def _padded(value: FloatArray, side: BoolArray) -> FloatArray:
    """Scores of one side, one row per point, in the order of models, padded with NaN."""
    sizes = side.sum(axis=0)
    table = np.full((value.shape[1], int(sizes.max())), np.nan)
    for point in range(value.shape[1]):
        table[point, : sizes[point]] = value[side[:, point], point]
    return table
