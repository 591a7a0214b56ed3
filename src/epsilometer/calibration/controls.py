"""Deliberately wrong estimators, which a study must detect.

Not for use; without them a study could not distinguish a good check from one that never fails.
"""

from __future__ import annotations

from epsilometer.baselines import thresholds
from epsilometer.baselines.catalogue import ScoreEstimator
from epsilometer.baselines.estimator import CountEstimator
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.log_ratio import Katz
from epsilometer.baselines.scores import CanaryScoreAuditor


def uncorrected_scan(estimator: CountEstimator) -> ScoreEstimator:
    """The threshold that looks best, treated as if it had been fixed in advance."""

    def lower(scores: CanaryScoreAuditor, delta: float, significance: float) -> float:
        # Each vertex of the hull gets the whole error.
        counts = scores.counts_of(thresholds.hull_cuts(*scores.in_order))
        return float(estimator.lower(counts, delta, significance).max())

    return ScoreEstimator(
        label=f"control: uncorrected scan, {estimator.label}",
        assumes="that no correction for choosing the best threshold is needed, which is wrong",
        lower=lower,
    )


CONTROLS = (uncorrected_scan(ClopperPearson()), uncorrected_scan(Katz()))
