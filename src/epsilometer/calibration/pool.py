"""Audits of pools whose truth is known: points share models, and their scores depend on each other.

Every model is a run of a mechanism of `interference.py` on fair coins of all points.  There are two
truths. A claim concerns the algorithm: a flip of one coin while all others are fixed, with everything
visible; proofs are compared with that.  One score, with the other coins random, reveals no more than
``point_epsilon``; posteriors by point are compared with that, since it is all they can see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from epsilometer.calibration.interference import Interference
from epsilometer.calibration.one_run import BoundTally, IntervalTally
from epsilometer.errors import InputError
from epsilometer.model.pool_scores import PoolScores
from epsilometer.proofs import bets
from epsilometer.proofs.refuting import refuted_up_to
from epsilometer.proofs.shared_models import SharedModels


class PoolMechanism(Interference, Protocol):
    """A mechanism whose single scores also have a known curve."""

    def point_epsilon(self, delta: float) -> float:
        """Smallest epsilon at which one score is (epsilon, delta)-private, the other coins random."""


PROOF, BY_POINT, BY_MODEL = "prove", "by point alone", "by model alone"
MULTIPLIED = "points multiplied"
"""The control: bets by point, multiplied as if every point had its own models."""

BOUNDS = (PROOF, BY_POINT, BY_MODEL, MULTIPLIED)


@dataclass(frozen=True, kw_only=True)
class PoolCell:
    """``models`` models on random halves of ``points`` points."""

    delta: float = 1e-5
    mechanism: PoolMechanism
    models: int
    points: int
    runs: int

    def __post_init__(self) -> None:
        if self.points % self.mechanism.group:
            raise InputError(
                f"expected whole clusters of {self.mechanism.group}, got points={self.points}."
            )

    def draw(self, rng: np.random.Generator) -> PoolScores:
        """Scores of one pool."""
        member = rng.random((self.models, self.points)) < 0.5
        value = np.stack([self.mechanism.scores(coins, rng) for coins in member])
        return PoolScores(value=value, member=member, fair_coins=True)


@dataclass(frozen=True, kw_only=True)
class PoolBoundCell(PoolCell):
    """Proven bounds, and those that multiplying points would give."""

    chunk: ClassVar[int] = 50

    @property
    def weight(self) -> int:
        """Approximate relative duration of a chunk."""
        return self.points * self.models // 20

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies by method."""
        truth = self.mechanism.epsilon(self.delta)
        tallies = dict.fromkeys(BOUNDS, BoundTally())
        for _ in range(runs):
            for label, bound in bounds_of(self.draw(rng), self.delta, significance).items():
                tallies[label] += BoundTally.of(bound, truth=truth)
        return {label: tally.as_dict() for label, tally in tallies.items()}


def bounds_of(pool: PoolScores, delta: float, error: float) -> dict[str, float]:
    """The bound of each method for a pool."""
    shared_models = SharedModels.of_pool(pool)

    def multiplied(epsilon: float) -> float:
        return float(bets.mixed(shared_models.log_capitals(epsilon, delta), independent=True))

    return {
        PROOF: refuted_up_to(lambda x: shared_models.log_e_value(x, delta, error), error),
        BY_POINT: refuted_up_to(lambda x: shared_models.log_e_value_by_point(x, delta), error),
        BY_MODEL: shared_models.bound_by_model(delta, error),
        MULTIPLIED: refuted_up_to(multiplied, error),
    }


@dataclass(frozen=True, kw_only=True)
class PoolIntervalCell(PoolCell):
    """Intervals of the curve model by point, which treats points as independent."""

    chunk: ClassVar[int] = 10

    @property
    def weight(self) -> int:
        """Approximate relative duration of a chunk."""
        return 10 * self.points * self.models

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies by model; each end of an interval has error probability ``significance``."""
        from epsilometer.calibration.one_run import analysis_models
        from epsilometer.engines.curve.engine import CurveSettings

        truth, settings = self.mechanism.point_epsilon(self.delta), CurveSettings()
        wanted = [significance, 0.5, 1 - significance]
        label, model = next(iter(analysis_models(self.delta).items()))
        tally = IntervalTally()
        for _ in range(runs):
            scores = self.draw(rng).by_point()
            quantiles = settings.estimate_quickly(scores, model).quantile("epsilon", wanted)
            tally += IntervalTally.of(quantiles, truth=truth)
        return {label: tally.as_dict()}
