"""The bounds of `scores.py` as estimators that can be listed, compared and calibrated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from epsilometer.baselines.estimator import CountEstimator, Described, Kind
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.one_run_fdp import ApproximateDP, Family
from epsilometer.baselines.scores import RANKS, CanaryScoreAuditor
from epsilometer.baselines.thresholds import Ranks, ThresholdStrategy


class ScoreEstimator(Described, Protocol):
    """An estimator that reads scores; as `CountEstimator`, but of one set of scores at a time."""

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        """Lower end."""


@dataclass(frozen=True)
class _Scan(ScoreEstimator):
    """A bound at the best of several thresholds, paid for as the strategy says."""

    strategy: ThresholdStrategy = RANKS

    kind = Kind.EXACT_BOUND
    needs = "each canary in by a fair coin; scores higher for members"

    @property
    def assumes(self) -> str:
        return f"a Gaussian trade-off curve; {self.needs}" if self.gaussian else self.needs

    def _labelled(self, name: str) -> str:
        """The name, and how the threshold is chosen unless by ranks."""
        return (
            name if isinstance(self.strategy, Ranks) else f"{name}, {type(self.strategy).__name__}"
        )


@dataclass(frozen=True)
class RocScan(_Scan):
    """An estimator from counts."""

    estimator: CountEstimator = field(default_factory=ClopperPearson)

    needs = "independent scores, higher for members"

    @property
    def gaussian(self) -> bool:
        return self.estimator.gaussian

    @property
    def label(self) -> str:
        return self._labelled(f"ROC scan, {self.estimator.label}")

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        return scores.epsilon_lower(
            self.estimator, significance, delta, threshold_strategy=self.strategy
        )


@dataclass(frozen=True)
class OneRunScan(_Scan):
    """Steinke's bound at the best number of guesses."""

    one_sided: bool = True

    @property
    def label(self) -> str:
        return self._labelled("one-run scan" if self.one_sided else "one-run scan, both ends")

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        return scores.epsilon_one_run(
            significance, delta, self.one_sided, threshold_strategy=self.strategy
        )


@dataclass(frozen=True)
class OneRunFdpScan(_Scan):
    """Mahloujifar's bound at the best number of guesses."""

    family: Family = field(default_factory=ApproximateDP)

    @property
    def gaussian(self) -> bool:
        return self.family.gaussian

    @property
    def label(self) -> str:
        return self._labelled("one-run scan, f-DP" + (", Gaussian" if self.gaussian else ""))

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        return scores.epsilon_one_run_fdp(
            significance, delta, threshold_strategy=self.strategy, family=self.family
        )


@dataclass(frozen=True)
class RawCounts(ScoreEstimator):
    """The largest log((TPR - delta) / FPR) with enough false positives: a number without an error."""

    min_count: int = 50

    label = "raw counts"
    kind = Kind.POINT
    assumes = "nothing, and says nothing about its error: above or below the truth by chance"

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        """The estimate; ``significance`` has no part in it."""
        return scores.epsilon_raw_counts(self.min_count, delta)
