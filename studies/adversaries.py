"""Auditors who look after every pair and do what suits them, on mechanisms whose claim is true.

Part of the study of proofs: a claim counts as refuted if it is refuted at any look.  Controls are
auditors whose data leave out what did not suit them; the proof must refute the claim there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.attacks.statistics import failed_scores
from epsilometer.model.base_scores import pairs_of
from epsilometer.model.scores import Scores
from epsilometer.proofs.bettors import bettors_against
from epsilometer.proofs.capital import along
from epsilometer.proofs.outcomes import outcomes_of
from epsilometer.proofs.pairs import LEADERS, PairTest
from studies.draws import draw_bases
from studies.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    Null,
    RandomisedResponse,
)
from studies.runner import Cell, Tallies

ADVERSARIES = "adversaries.csv"

FREE, ORDERED = "looks after every pair", "the same, planned order"
ABANDONED = "abandons bases that win nothing"
LATE, LATE_ORDERED = "adds bases late", "the same, planned order, bases added"
LOWEST, WORST = "failed models have the lowest score", "failed models have the worst score"
DROPPED = "control: failed models are dropped, or retried until they succeed"
HALF, HALF_DROPPED = "a partner is not trained", "control: a pair without its partner is dropped"

#: Pairs after which a base that wins nothing is abandoned, and bases that one auditor may begin.
PATIENCE, MOST_BASES = 15, 20


@dataclass(frozen=True)
class Attained:
    """The least private mechanism of (epsilon, delta)-DP, with four outputs (Kairouz et al. 2015)."""

    pure_epsilon: float
    atom: float
    name: ClassVar[str] = "attains the claim"

    def epsilon(self, delta: float) -> float:
        """Largest at its own delta, infinite below."""
        if delta < self.atom:
            return math.inf
        odds = math.exp(self.pure_epsilon)
        return math.log(max(1.0, odds - (delta - self.atom) * (1 + odds) / (1 - self.atom)))

    def separation(self) -> float:
        return math.inf

    def least_beta(self, alpha: Any) -> FloatArray:
        rate, odds = np.asarray(alpha, dtype=float), math.exp(self.pure_epsilon)
        steep, flat = 1 - self.atom - odds * rate, (1 - self.atom - rate) / odds
        return np.maximum(np.maximum(steep, flat), 0.0)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        lie = rng.random(member.shape) < 1 / (1 + math.exp(self.pure_epsilon))
        sure = rng.random(member.shape) < self.atom
        return np.where(sure, np.where(member, 2.0, -1.0), member ^ lie)


@dataclass(frozen=True, kw_only=True)
class _True(Cell):
    """A true claim, and the most capital that an auditor ever had against it."""

    delta: float = 1e-5
    mechanism: Mechanism
    bases: int
    models: int

    chunk: ClassVar[int] = 50
    table: ClassVar[str] = ADVERSARIES

    def place(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism.name,
            "setting": self.setting(),
            "delta": self.delta,
            "true_epsilon": round(self.mechanism.epsilon(self.delta), 6),
            "bases": self.bases,
            "models": self.models,
        }

    def tallied(self, won: dict[str, float], significance: float) -> Tallies:
        needed = -math.log(significance)
        return {name: {"runs": 1, "refuted": int(most >= needed)} for name, most in won.items()}


@dataclass(frozen=True, kw_only=True)
class AdversaryCell(_True):
    """An auditor who chooses which base to train next, and when to stop."""

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        truth = self.mechanism.epsilon(self.delta)
        scores = draw_bases(self.mechanism, bases=MOST_BASES, models=self.models, rng=rng)
        outcomes = outcomes_of([base.complete_pairs for base in scores.bases])
        bettors = bettors_against(truth, self.delta)

        def most(order: list[tuple[int, int]], power: float = 1.0) -> float:
            path = along(outcomes, np.array(order), bettors, power, math.inf)
            return max(0.0, float(path.max()))

        by_base = [(base, pair) for base in range(MOST_BASES) for pair in range(self.models)]
        first = [(base, pair) for base, pair in by_base if base < self.bases]
        abandoned = []
        for base in range(MOST_BASES):
            own = [place for place in by_base if place[0] == base]
            path = along(outcomes, np.array(own), bettors, 1.0, math.inf)
            losing = np.flatnonzero(path[PATIENCE:] <= 0)
            abandoned += own[: PATIENCE + 1 + losing[0]] if len(losing) else own
        won = {
            FREE: most(sorted(first, key=lambda place: place[::-1])),
            ORDERED: most(first, LEADERS),
            ABANDONED: most(abandoned),
            LATE: most(by_base),
            LATE_ORDERED: most(by_base, LEADERS),
        }
        return self.tallied(won, significance)


@dataclass(frozen=True)
class Failing:
    """Fails in a way that depends on the data, and is 1-DP if a failure is an outcome."""

    #: Probabilities of failing, of the telling output and of the other one, without and with the point.
    without: ClassVar[tuple[float, ...]] = (0.5, 0.05, 0.45)
    with_point: ClassVar[tuple[float, ...]] = (
        1 - 0.05 * math.e - 0.45 / math.e,
        0.05 * math.e,
        0.45 / math.e,
    )
    name: ClassVar[str] = "failures depend on the data"

    def epsilon(self, delta: float) -> float:
        del delta
        return 1.0

    def separation(self) -> float:
        return math.inf

    def least_beta(self, alpha: Any) -> FloatArray:
        raise NotImplementedError

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """NaN where it failed."""
        drawn = [
            rng.choice([np.nan, 1.0, 0.0], member.shape, p=p)
            for p in (self.without, self.with_point)
        ]
        return np.where(member, drawn[1], drawn[0])


@dataclass(frozen=True, kw_only=True)
class FailureCell(_True):
    """Models that fail, in the three ways in which auditors may treat them."""

    mechanism: Mechanism = Failing()

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        sides = [np.array([False, True])[:, None] & np.ones(self.models, dtype=bool)] * self.bases
        drawn = [self.mechanism.scores(side, rng) for side in sides]
        won = {}
        for name, how in ((LOWEST, "lowest"), (WORST, "worst"), (DROPPED, "dropped")):
            pairs = []
            for side, values in zip(sides, drawn, strict=True):
                failed = np.isnan(values)
                if how == "dropped":
                    kept = [row[~gone] for row, gone in zip(values, failed, strict=True)]
                    size = min(map(len, kept))
                    pairs.append((kept[0][:size], kept[1][:size]))
                else:
                    pairs.append(tuple(np.where(failed, failed_scores(side, how), values)))
            won[name] = float(PairTest(outcomes=outcomes_of(pairs)).path(1.0, self.delta).max())
        return self.tallied(won, significance)


@dataclass(frozen=True, kw_only=True)
class HalfCell(_True):
    """An auditor who does not train the partner of a model without the point that seems to have it."""

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        truth, without, with_point, numbers = self.mechanism.epsilon(self.delta), [], [], []
        for _ in range(self.bases):
            sides = [
                self.mechanism.scores(np.full(self.models, coin), rng) for coin in (False, True)
            ]
            kept = np.flatnonzero((sides[0] <= np.median(sides[0])) | (np.arange(self.models) < 4))
            without.append(sides[0])
            with_point.append(sides[1][kept])
            numbers.append(kept)
        scores = Scores(without=without, with_point=with_point)
        paired = scores.with_pairs(pairs_of(np.arange(self.models), kept) for kept in numbers)
        dropped = [(a[kept], b) for a, b, kept in zip(without, with_point, numbers, strict=True)]
        won = {
            HALF: PairTest.of(paired.bases).log_e_value(truth, self.delta, significance),
            HALF_DROPPED: PairTest(outcomes=outcomes_of(dropped)).log_e_value(
                truth, self.delta, significance
            ),
        }
        return self.tallied(won, significance)


def cells(*, quick: bool = False) -> list[Cell]:
    """Every setting: auditors of true claims, failures, and pairs without a partner."""
    if quick:
        return [
            AdversaryCell(mechanism=RandomisedResponse(1.0), bases=5, models=40, runs=100),
            FailureCell(bases=10, models=200, runs=50),
            HalfCell(mechanism=RandomisedResponse(1.0), bases=2, models=200, runs=50),
        ]
    mechanisms: list[tuple[Mechanism, float]] = [
        (Null(), 0.0),
        (Null(), 1e-5),
        (LaplaceMechanism(1.0), 1e-5),
        (GaussianMechanism(1.0), 1e-5),
        (RandomisedResponse(1.0), 1e-5),
        (RandomisedResponse(3.0), 1e-5),
        (Attained(1.0, 0.01), 0.01),
        (Attained(3.0, 0.1), 0.1),
    ]
    found: list[Cell] = [
        AdversaryCell(mechanism=mechanism, delta=delta, bases=5, models=100, runs=2000)
        for mechanism, delta in mechanisms
    ]
    found += [FailureCell(bases=bases, models=400, runs=400) for bases in (1, 20)]
    found += [
        HalfCell(mechanism=RandomisedResponse(epsilon), bases=5, models=200, runs=400)
        for epsilon in (1.0, 3.0)
    ]
    return found
