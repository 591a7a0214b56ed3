"""Epsilometer: the privacy of a training algorithm, judged by attacks on it.

From counts of false positives and false negatives of membership-inference attacks, the full Bayesian
posterior of epsilon together with the strength of the attacks.  And before that: training the models
that attacks need, and counting the errors of attacks on their losses.

>>> import epsilometer as em
>>> counts = em.AttackCounts(
...     false_positives=[40], trials_h0=100, false_negatives=[40], trials_h1=100
... )
>>> posterior = em.estimate(counts, em.AuditModel(delta=0.01))
>>> low, high = posterior.credible_interval("epsilon", 0.9)

Names are looked up on first use, so that importing the package stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.result import AttackResult
    from epsilometer.attacks.rules import LikelihoodRatio, Offline, PooledVariance, Threshold
    from epsilometer.attacks.several_rules import Rule, deal_counts
    from epsilometer.attacks.statistics import CustomStatistic, Logit, Loss, Statistic
    from epsilometer.baselines.bases import best_base, pooled
    from epsilometer.baselines.gaussian import GaussianRates
    from epsilometer.baselines.guesses import OneRun, OneRunFdp
    from epsilometer.baselines.intervals import ClopperPearson, Jeffreys
    from epsilometer.baselines.joint_beta import JointBeta
    from epsilometer.baselines.log_ratio import AdjustedLog, Bailey, InverseSinh, Katz
    from epsilometer.baselines.one_run import epsilon_one_run, one_run_p_value
    from epsilometer.baselines.one_run_fdp import ApproximateDP, GaussianDP, epsilon_one_run_fdp
    from epsilometer.baselines.scores import CanaryScoreAuditor
    from epsilometer.baselines.thresholds import Bonferroni, Explicit, MultiSplit, Ranks, Split
    from epsilometer.calibration.selftest import check_pipeline
    from epsilometer.cli.audit_config import AuditConfig, read_audit
    from epsilometer.datasets.named import load_population
    from epsilometer.errors import (
        ContradictionError,
        EpsilometerError,
        ExecutorError,
        InputError,
        NotConvergedError,
        StoreError,
    )
    from epsilometer.inference.claimed_curve import ClaimedCurve, CurveVerdict, judge_curve
    from epsilometer.inference.delta_curve import DeltaCurve, estimate_curve
    from epsilometer.inference.estimate import estimate
    from epsilometer.inference.exact import ExactSettings
    from epsilometer.inference.influence import Influence, leave_one_out
    from epsilometer.inference.mcmc import McmcSettings
    from epsilometer.inference.model_comparison import Assumption, ModelComparison, compare_models
    from epsilometer.inference.posterior import Posterior
    from epsilometer.inference.predictive import PredictiveCheck, check_predictions
    from epsilometer.inference.sensitivity import OtherPrior, prior_sensitivity
    from epsilometer.inference.storage import load
    from epsilometer.inference.updating import Batch
    from epsilometer.inference.verdict import Outcome, Thresholds, Verdict, judge
    from epsilometer.measurement.algorithm import Algorithm
    from epsilometer.measurement.bases import ChallengeBase, Include, Replace
    from epsilometer.measurement.designs import MeasureMIA, MeasureMIAFast, cross_feed
    from epsilometer.measurement.engine import Measurement, Progress, measure
    from epsilometer.measurement.plan import Plan
    from epsilometer.measurement.population import Dataset, Point, Population
    from epsilometer.measurement.sqlite_store import SqliteStore
    from epsilometer.measurement.store import MemoryStore
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.dependence import (
        IndependentRows,
        NormalScatter,
        PooledGroups,
        ScatteredMembers,
        UniformScatter,
    )
    from epsilometer.model.joint import AuditModel, log_joint
    from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial
    from epsilometer.model.priors import Beta, Exponential, Fixed, HalfNormal, LogNormal, Uniform
    from epsilometer.planning.goals import CrossFedModels, SeparateShadows, Settled, Width
    from epsilometer.planning.plan import AuditPlan, PlannedDesign, plan_audit
    from epsilometer.planning.scenarios import Assumed, FromPilot
    from epsilometer.report.comparison import compare_counts, compare_scores
    from epsilometer.report.evidence import Origin
    from epsilometer.report.figures.region import region_probability
    from epsilometer.report.page import write_report
    from epsilometer.training.clipped_mean import ClippedMean
    from epsilometer.training.dp_sgd import DpSgd
    from epsilometer.training.network import FixedInitialisation, Network, RandomInitialisation
    from epsilometer.training.output_perturbation import NoiseLevels, OutputPerturbation
    from epsilometer.training.pytorch import PyTorch
    from epsilometer.training.scikit_learn import ScikitLearn

_HOMES = {
    "AdjustedLog": "baselines.log_ratio",
    "Algorithm": "measurement.algorithm",
    "ApproximateDP": "baselines.one_run_fdp",
    "Assumed": "planning.scenarios",
    "Assumption": "inference.model_comparison",
    "AttackCounts": "model.counts",
    "AttackResult": "attacks.result",
    "AuditConfig": "cli.audit_config",
    "AuditModel": "model.joint",
    "AuditPlan": "planning.plan",
    "Bailey": "baselines.log_ratio",
    "Batch": "inference.updating",
    "Beta": "model.priors",
    "Bonferroni": "baselines.thresholds",
    "CanaryScoreAuditor": "baselines.scores",
    "ChallengeBase": "measurement.bases",
    "ClaimedCurve": "inference.claimed_curve",
    "ClippedMean": "training.clipped_mean",
    "ClopperPearson": "baselines.intervals",
    "ContradictionError": "errors",
    "CorrelatedNormal": "model.likelihoods",
    "CrossFedModels": "planning.goals",
    "CurveVerdict": "inference.claimed_curve",
    "CustomStatistic": "attacks.statistics",
    "Dataset": "measurement.population",
    "DeltaCurve": "inference.delta_curve",
    "DpSgd": "training.dp_sgd",
    "EpsilometerError": "errors",
    "ExactSettings": "inference.exact",
    "ExecutorError": "errors",
    "Explicit": "baselines.thresholds",
    "Exponential": "model.priors",
    "Fixed": "model.priors",
    "FixedInitialisation": "training.network",
    "FromPilot": "planning.scenarios",
    "GaussianDP": "baselines.one_run_fdp",
    "GaussianRates": "baselines.gaussian",
    "HalfNormal": "model.priors",
    "Include": "measurement.bases",
    "IndependentBinomial": "model.likelihoods",
    "IndependentRows": "model.dependence",
    "Influence": "inference.influence",
    "InputError": "errors",
    "InverseSinh": "baselines.log_ratio",
    "Jeffreys": "baselines.intervals",
    "JointBeta": "baselines.joint_beta",
    "Katz": "baselines.log_ratio",
    "LikelihoodRatio": "attacks.rules",
    "LogNormal": "model.priors",
    "Logit": "attacks.statistics",
    "Loss": "attacks.statistics",
    "Losses": "attacks.losses",
    "McmcSettings": "inference.mcmc",
    "MeasureMIA": "measurement.designs",
    "MeasureMIAFast": "measurement.designs",
    "Measurement": "measurement.engine",
    "MemoryStore": "measurement.store",
    "ModelComparison": "inference.model_comparison",
    "MultiSplit": "baselines.thresholds",
    "Network": "training.network",
    "NoiseLevels": "training.output_perturbation",
    "NormalScatter": "model.dependence",
    "NotConvergedError": "errors",
    "Offline": "attacks.rules",
    "OneRun": "baselines.guesses",
    "OneRunFdp": "baselines.guesses",
    "Origin": "report.evidence",
    "OtherPrior": "inference.sensitivity",
    "Outcome": "inference.verdict",
    "OutputPerturbation": "training.output_perturbation",
    "Plan": "measurement.plan",
    "PlannedDesign": "planning.plan",
    "Point": "measurement.population",
    "PooledGroups": "model.dependence",
    "PooledVariance": "attacks.rules",
    "Population": "measurement.population",
    "Posterior": "inference.posterior",
    "PredictiveCheck": "inference.predictive",
    "Progress": "measurement.engine",
    "PyTorch": "training.pytorch",
    "RandomInitialisation": "training.network",
    "Ranks": "baselines.thresholds",
    "Replace": "measurement.bases",
    "Rule": "attacks.several_rules",
    "ScatteredMembers": "model.dependence",
    "ScikitLearn": "training.scikit_learn",
    "SeparateShadows": "planning.goals",
    "Settled": "planning.goals",
    "Split": "baselines.thresholds",
    "SqliteStore": "measurement.sqlite_store",
    "Statistic": "attacks.statistics",
    "StoreError": "errors",
    "Threshold": "attacks.rules",
    "Thresholds": "inference.verdict",
    "Uniform": "model.priors",
    "UniformScatter": "model.dependence",
    "Verdict": "inference.verdict",
    "Width": "planning.goals",
    "best_base": "baselines.bases",
    "check_pipeline": "calibration.selftest",
    "check_predictions": "inference.predictive",
    "compare_counts": "report.comparison",
    "compare_models": "inference.model_comparison",
    "compare_scores": "report.comparison",
    "cross_feed": "measurement.designs",
    "deal_counts": "attacks.several_rules",
    "epsilon_one_run": "baselines.one_run",
    "epsilon_one_run_fdp": "baselines.one_run_fdp",
    "estimate": "inference.estimate",
    "estimate_curve": "inference.delta_curve",
    "judge": "inference.verdict",
    "judge_curve": "inference.claimed_curve",
    "leave_one_out": "inference.influence",
    "load": "inference.storage",
    "load_population": "datasets.named",
    "log_joint": "model.joint",
    "measure": "measurement.engine",
    "one_run_p_value": "baselines.one_run",
    "plan_audit": "planning.plan",
    "pooled": "baselines.bases",
    "prior_sensitivity": "inference.sensitivity",
    "read_audit": "cli.audit_config",
    "region_probability": "report.figures.region",
    "write_report": "report.page",
}

__all__ = [
    "AdjustedLog",
    "Algorithm",
    "ApproximateDP",
    "Assumed",
    "Assumption",
    "AttackCounts",
    "AttackResult",
    "AuditConfig",
    "AuditModel",
    "AuditPlan",
    "Bailey",
    "Batch",
    "Beta",
    "Bonferroni",
    "CanaryScoreAuditor",
    "ChallengeBase",
    "ClaimedCurve",
    "ClippedMean",
    "ClopperPearson",
    "ContradictionError",
    "CorrelatedNormal",
    "CrossFedModels",
    "CurveVerdict",
    "CustomStatistic",
    "Dataset",
    "DeltaCurve",
    "DpSgd",
    "EpsilometerError",
    "ExactSettings",
    "ExecutorError",
    "Explicit",
    "Exponential",
    "Fixed",
    "FixedInitialisation",
    "FromPilot",
    "GaussianDP",
    "GaussianRates",
    "HalfNormal",
    "Include",
    "IndependentBinomial",
    "IndependentRows",
    "Influence",
    "InputError",
    "InverseSinh",
    "Jeffreys",
    "JointBeta",
    "Katz",
    "LikelihoodRatio",
    "LogNormal",
    "Logit",
    "Loss",
    "Losses",
    "McmcSettings",
    "MeasureMIA",
    "MeasureMIAFast",
    "Measurement",
    "MemoryStore",
    "ModelComparison",
    "MultiSplit",
    "Network",
    "NoiseLevels",
    "NormalScatter",
    "NotConvergedError",
    "Offline",
    "OneRun",
    "OneRunFdp",
    "Origin",
    "OtherPrior",
    "Outcome",
    "OutputPerturbation",
    "Plan",
    "PlannedDesign",
    "Point",
    "PooledGroups",
    "PooledVariance",
    "Population",
    "Posterior",
    "PredictiveCheck",
    "Progress",
    "PyTorch",
    "RandomInitialisation",
    "Ranks",
    "Replace",
    "Rule",
    "ScatteredMembers",
    "ScikitLearn",
    "SeparateShadows",
    "Settled",
    "Split",
    "SqliteStore",
    "Statistic",
    "StoreError",
    "Threshold",
    "Thresholds",
    "Uniform",
    "UniformScatter",
    "Verdict",
    "Width",
    "best_base",
    "check_pipeline",
    "check_predictions",
    "compare_counts",
    "compare_models",
    "compare_scores",
    "cross_feed",
    "deal_counts",
    "epsilon_one_run",
    "epsilon_one_run_fdp",
    "estimate",
    "estimate_curve",
    "judge",
    "judge_curve",
    "leave_one_out",
    "load",
    "load_population",
    "log_joint",
    "measure",
    "one_run_p_value",
    "plan_audit",
    "pooled",
    "prior_sensitivity",
    "read_audit",
    "region_probability",
    "write_report",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'epsilometer' has no attribute {name!r}")
    return getattr(import_module(f"epsilometer.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
