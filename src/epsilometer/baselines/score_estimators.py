"""The bounds of `scores.py` as estimators that can be listed, compared and calibrated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from epsilometer.baselines.estimator import CountEstimator, Described, Kind
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.one_run_fdp import ApproximateDP, Family
from epsilometer.baselines.scores import RANKS, CanaryScoreAuditor
from epsilometer.baselines.thresholds import Ranks, ThresholdStrategy

_ORDER = "independent scores, higher for members"
_COIN = "each canary in by a fair coin; scores higher for members"
_CURVE = "a Gaussian trade-off curve"


class ScoreEstimator(Described, Protocol):
    """An estimator that reads scores; as `CountEstimator`, but of one set of scores at a time."""

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        """Lower end."""


def _strategy_label(strategy: ThresholdStrategy) -> str:
    return "" if isinstance(strategy, Ranks) else f", {type(strategy).__name__}"


@dataclass(frozen=True)
class RocScan:
    """The best threshold for an estimator from counts, paid for."""

    estimator: CountEstimator = field(default_factory=ClopperPearson)
    strategy: ThresholdStrategy = RANKS
    kind: ClassVar[Kind] = Kind.EXACT_BOUND

    @property
    def gaussian(self) -> bool:
        return self.estimator.gaussian

    @property
    def label(self) -> str:
        """The estimator's name, and how the threshold is chosen unless by ranks."""
        return f"ROC scan, {self.estimator.label}{_strategy_label(self.strategy)}"

    @property
    def assumes(self) -> str:
        return f"{_CURVE}; {_ORDER}" if self.gaussian else _ORDER

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        """The bound."""
        return scores.epsilon_lower(
            self.estimator, significance, delta, threshold_strategy=self.strategy
        )


@dataclass(frozen=True)
class OneRunScan:
    """Steinke's bound at the best number of guesses, paid for."""

    strategy: ThresholdStrategy = RANKS
    one_sided: bool = True
    kind: ClassVar[Kind] = Kind.EXACT_BOUND
    gaussian: ClassVar[bool] = False
    assumes: ClassVar[str] = _COIN

    @property
    def label(self) -> str:
        ends = "" if self.one_sided else ", both ends"
        return f"one-run scan{ends}{_strategy_label(self.strategy)}"

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        """The bound."""
        return scores.epsilon_one_run(
            significance, delta, self.one_sided, threshold_strategy=self.strategy
        )


@dataclass(frozen=True)
class OneRunFdpScan:
    """Mahloujifar's bound at the best number of guesses, paid for."""

    strategy: ThresholdStrategy = RANKS
    family: Family = field(default_factory=ApproximateDP)
    kind: ClassVar[Kind] = Kind.EXACT_BOUND

    @property
    def gaussian(self) -> bool:
        return self.family.gaussian

    @property
    def label(self) -> str:
        curve = ", Gaussian" if self.gaussian else ""
        return f"one-run scan, f-DP{curve}{_strategy_label(self.strategy)}"

    @property
    def assumes(self) -> str:
        return f"{_CURVE}; {_COIN}" if self.gaussian else _COIN

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        """The bound."""
        return scores.epsilon_one_run_fdp(
            significance, delta, threshold_strategy=self.strategy, family=self.family
        )


@dataclass(frozen=True)
class RawCounts:
    """The largest log((TPR - delta) / FPR) with enough false positives: a number without an error."""

    min_count: int = 50
    kind: ClassVar[Kind] = Kind.POINT
    gaussian: ClassVar[bool] = False
    label: ClassVar[str] = "raw counts"
    assumes: ClassVar[str] = (
        "nothing, and says nothing about its error: above or below the truth by chance"
    )

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        """The estimate; ``significance`` has no part in it."""
        return scores.epsilon_raw_counts(self.min_count, delta)
