"""Attacks on shadow scores: each learns from shadow scores and returns p-values.

A p-value covers every target rate: at target false-positive rate a the attack decides "member" if p <=
a. `ATTACKS` lists the attacks that ship; any object with a name and `learn` can be used instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import ndtr

from epsilometer._arrays import FloatArray
from epsilometer.attacks.normal_test import p_value
from epsilometer.attacks.shadows import Moments, ShadowScores

DecisionRule = Callable[[FloatArray], FloatArray]
"""From scores (bases, challenges) to p-values of the same shape."""


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


def _most_powerful(h0: Moments, h1: Moments) -> DecisionRule:
    test = partial(p_value, mean_h0=h0.mean, deviation_h0=h0.deviation)
    return partial(test, mean_h1=h1.mean, deviation_h1=h1.deviation)


@dataclass(frozen=True, kw_only=True)
class Offline:
    """Offline LiRA: a one-sided test with a normal fit under H0; models with the point are not used."""

    name: ClassVar[str] = "offline"
    least_shadows: ClassVar[tuple[int, int]] = (2, 0)

    def learn(self, shadows_h0: ShadowScores, shadows_h1: ShadowScores) -> DecisionRule:
        del shadows_h1
        h0 = shadows_h0.moments()

        def rule(scores: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                p = ndtr((h0.mean - scores) / h0.deviation)
            constant = np.where(scores > h0.mean, 0.0, 1.0)
            p = np.where(h0.deviation == 0, constant, p)
            missing = np.isnan(scores) | np.isnan(h0.mean) | np.isnan(h0.deviation)
            return np.where(missing, np.nan, p)

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
        del shadows_h1

        def rule(scores: FloatArray) -> FloatArray:
            count = np.maximum(shadows_h0.moments().count, 0)
            p = (1 + shadows_h0.count_at_least(scores)) / (1 + count)
            return np.where(np.isnan(scores), np.nan, p)

        return rule


ATTACKS: dict[str, Attack] = {
    attack.name: attack for attack in (LikelihoodRatio(), PooledVariance(), Offline(), Threshold())
}
"""Attacks that can be selected by name."""
