"""Pools for the tests of attacks, and the papers' formulas as slow, simple loops."""

from __future__ import annotations

import math

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.pool_losses import PoolLosses


def pool(
    models: int = 12,
    points: int = 30,
    *,
    references: int = 0,
    queries: int = 1,
    leak: float = 1.0,
    seed: int = 1,
) -> PoolLosses:
    """Log odds are normal around the point's own mean; models with the point are higher by ``leak``."""
    rng = np.random.default_rng(seed)
    whole = points + references
    member = np.zeros((models, whole), dtype=bool)
    member[:, :points] = rng.random((models, points)) < 0.5
    odds = rng.normal(1.0, 1.5, whole) + leak * member + rng.normal(size=(models, whole))
    asked = odds[:, :, None] + 0.3 * rng.normal(size=(models, whole, queries))
    return PoolLosses(
        loss=np.logaddexp(0, -asked),
        member=member,
        references=references,
        fair_coins=True,
        features=rng.normal(size=(whole, 3)),
        labels=rng.integers(0, 2, whole),
    )


def auc(value: FloatArray, member: np.ndarray) -> float:
    """Area under the ROC curve; ties count half."""
    from scipy.stats import rankdata

    ranks, ones = rankdata(value.ravel()), member.ravel()
    n1, n0 = ones.sum(), (~ones).sum()
    return float((ranks[ones].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def log_odds(loss: float) -> float:
    return math.log(math.exp(-loss) / (1 - math.exp(-loss)))


def log_normal(x: float, mean: float, variance: float) -> float:
    return -((x - mean) ** 2) / (2 * variance) - 0.5 * math.log(2 * math.pi * variance)


def lira(
    losses: PoolLosses, teachers: IntArray, model: int, point: int, *, own: bool, offline: bool
) -> float:
    """LiRA of one point, query by query."""

    def sample(at: int, query: int, inside: bool) -> list[float]:
        return [
            log_odds(losses.loss[t, at, query]) for t in teachers if losses.member[t, at] == inside
        ]

    def pooled(query: int, inside: bool) -> float:
        squares = freedom = 0.0
        for at in range(losses.challenges):
            values = sample(at, query, inside)
            if values:
                squares += sum((v - sum(values) / len(values)) ** 2 for v in values)
                freedom += len(values) - 1
        return squares / freedom

    total = 0.0
    for query in range(losses.queries):
        x = log_odds(losses.loss[model, point, query])
        fits = {}
        for inside in (False, True):
            values = sample(point, query, inside)
            variance = pooled(query, inside)
            if own and len(values) >= 8:
                variance = max(float(np.var(values, ddof=1)), 1e-6 * variance)
            fits[inside] = (sum(values) / len(values), variance)
        if offline:
            mean, variance = fits[False]
            total += (x - mean) / math.sqrt(variance)
        else:
            total += log_normal(x, *fits[True]) - log_normal(x, *fits[False])
    return total / losses.queries


def rmia(
    losses: PoolLosses,
    teachers: IntArray,
    model: int,
    point: int,
    *,
    offline: bool,
    gamma: float = 2.0,
    a: float = 0.3,
) -> float:
    """RMIA of one point: every z in turn, one vote per query."""

    def usual(at: int, query: int) -> float:
        p = {
            side: [
                math.exp(-losses.loss[t, at, query])
                for t in teachers
                if losses.member[t, at] == side
            ]
            for side in (False, True)
        }
        if not p[False]:
            return sum(p[True]) / len(p[True])
        out = sum(p[False]) / len(p[False])
        if offline or not p[True]:
            return ((1 + a) * out + (1 - a)) / 2
        return (sum(p[True]) / len(p[True]) + out) / 2

    start = losses.challenges if losses.references else 0
    others = [z for z in range(start, losses.points) if z != point]
    beaten = 0
    for z in others:
        votes = 0
        for query in range(losses.queries):
            ratio = [
                math.exp(-losses.loss[model, at, query]) / usual(at, query) for at in (point, z)
            ]
            votes += ratio[0] / ratio[1] >= gamma
        beaten += 2 * votes > losses.queries
    return beaten / len(others)


def leaks(value: FloatArray, member: np.ndarray) -> list[float]:
    """Differences of means in standard errors, with variances shrunk as by four more models."""
    points = range(value.shape[1])
    sides = [[value[side[:, n], n] for n in points] for side in (~member, member)]
    pooled = [
        sum(np.var(each) * len(each) for each in side) / sum(len(each) - 1 for each in side)
        for side in sides
    ]
    found = []
    for without, with_point in zip(*sides, strict=True):
        error = sum(
            (np.var(each) * len(each) + 4 * spread) / (len(each) - 1 + 4) / len(each)
            for each, spread in zip((without, with_point), pooled, strict=True)
        )
        found.append(float((with_point.mean() - without.mean()) / np.sqrt(error)))
    return found
