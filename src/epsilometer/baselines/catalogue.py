"""All estimators that ship, in display order."""

from __future__ import annotations

from epsilometer.baselines.estimator import CountEstimator
from epsilometer.baselines.gaussian import GaussianRates
from epsilometer.baselines.guesses import OneRunBound, OneRunFdpBound
from epsilometer.baselines.intervals import ClopperPearson, Jeffreys
from epsilometer.baselines.joint_beta import JointBeta
from epsilometer.baselines.log_ratio import AdjustedLog, Bailey, InverseSinh, Katz
from epsilometer.baselines.one_run_fdp import GaussianDP
from epsilometer.baselines.score_estimators import (
    ScoreEstimator,
    one_run_fdp_scan,
    one_run_scan,
    raw_counts,
    roc_scan,
)
from epsilometer.baselines.thresholds import Split

FROM_COUNTS: tuple[CountEstimator, ...] = (
    ClopperPearson(),
    Jeffreys(),
    JointBeta(),
    Katz(),
    AdjustedLog(),
    Bailey(),
    InverseSinh(),
    OneRunBound(),
    OneRunFdpBound(),
    GaussianRates(),
)

FROM_SCORES: tuple[ScoreEstimator, ...] = (
    roc_scan(ClopperPearson()),
    roc_scan(ClopperPearson(), Split()),
    one_run_scan(),
    one_run_scan(one_sided=False),
    one_run_fdp_scan(),
    roc_scan(GaussianRates()),
    one_run_fdp_scan(GaussianDP()),
    raw_counts(),
)
