"""Estimators that are wrong on purpose: the laboratory must see that they are.

Not for use; a study without them could not tell a good check from one that never fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from epsilometer.baselines import thresholds
from epsilometer.baselines.estimator import CountEstimator, Kind
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.log_ratio import Katz
from epsilometer.baselines.scores import CanaryScoreAuditor


@dataclass(frozen=True)
class UncorrectedScan:
    """The threshold that looks best, judged as if it had been fixed beforehand."""

    estimator: CountEstimator = field(default_factory=ClopperPearson)
    kind: ClassVar[Kind] = Kind.EXACT_BOUND
    gaussian: ClassVar[bool] = False
    assumes: ClassVar[str] = "that choosing the best threshold costs nothing, which is wrong"

    @property
    def label(self) -> str:
        """As it is shown."""
        return f"control: uncorrected scan, {self.estimator.label}"

    def lower(self, scores: CanaryScoreAuditor, delta: float, significance: float = 0.05) -> float:
        """The largest bound over the hull, the whole error given to each of its vertices."""
        cuts = thresholds.hull_cuts(*scores.in_order)
        counts = scores.counts_of(cuts)
        return float(self.estimator.lower(counts, delta, significance).max())


CONTROLS = (UncorrectedScan(), UncorrectedScan(Katz()))
