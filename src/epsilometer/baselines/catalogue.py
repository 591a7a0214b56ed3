"""Every estimator that ships, in the order in which they are shown."""

from __future__ import annotations

from epsilometer.baselines.estimator import CountEstimator
from epsilometer.baselines.gaussian import GaussianRates
from epsilometer.baselines.guesses import OneRun, OneRunFdp
from epsilometer.baselines.intervals import ClopperPearson, Jeffreys
from epsilometer.baselines.joint_beta import JointBeta
from epsilometer.baselines.log_ratio import AdjustedLog, Bailey, InverseSinh, Katz
from epsilometer.baselines.one_run_fdp import GaussianDP
from epsilometer.baselines.score_estimators import (
    OneRunFdpScan,
    OneRunScan,
    RawCounts,
    RocScan,
    ScoreEstimator,
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
    OneRun(),
    OneRunFdp(),
    GaussianRates(),
)

FROM_SCORES: tuple[ScoreEstimator, ...] = (
    RocScan(),
    RocScan(strategy=Split()),
    OneRunScan(),
    OneRunScan(one_sided=False),
    OneRunFdpScan(),
    RocScan(estimator=GaussianRates()),
    OneRunFdpScan(family=GaussianDP()),
    RawCounts(),
)
