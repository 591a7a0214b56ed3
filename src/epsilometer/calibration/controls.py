"""Estimators that are wrong on purpose: the laboratory must see that they are.

Not for use; a study without them could not tell a good check from one that never fails.
"""

from __future__ import annotations

from epsilometer.baselines import thresholds
from epsilometer.baselines.estimator import CountEstimator
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.log_ratio import Katz
from epsilometer.baselines.score_estimators import ScoreEstimator
from epsilometer.baselines.scores import CanaryScoreAuditor


def uncorrected_scan(estimator: CountEstimator) -> ScoreEstimator:
    """The threshold that looks best, judged as if it had been fixed beforehand."""

    def lower(scores: CanaryScoreAuditor, delta: float, significance: float) -> float:
        # The whole error is given to each vertex of the hull.
        counts = scores.counts_of(thresholds.hull_cuts(*scores.in_order))
        return float(estimator.lower(counts, delta, significance).max())

    return ScoreEstimator(
        label=f"control: uncorrected scan, {estimator.label}",
        assumes="that choosing the best threshold costs nothing, which is wrong",
        lower=lower,
    )


CONTROLS = (uncorrected_scan(ClopperPearson()), uncorrected_scan(Katz()))
