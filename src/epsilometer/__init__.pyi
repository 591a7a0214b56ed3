"""Every public name, once, with its module: types for tools, and where to look at run time."""

from epsilometer._table import Table as Table
from epsilometer.attacks.lira import Lira as Lira
from epsilometer.attacks.lira import LiraOffline as LiraOffline
from epsilometer.attacks.losses import Losses as Losses
from epsilometer.attacks.operating_points import OperatingPoint as OperatingPoint
from epsilometer.attacks.operating_points import split_counts as split_counts
from epsilometer.attacks.own_losses import PoolLogOdds as PoolLogOdds
from epsilometer.attacks.own_losses import PoolLoss as PoolLoss
from epsilometer.attacks.own_losses import PopulationAttack as PopulationAttack
from epsilometer.attacks.pool_attacks import PoolAttack as PoolAttack
from epsilometer.attacks.pool_attacks import cross_fitted_scores as cross_fitted_scores
from epsilometer.attacks.pool_attacks import held_out_scores as held_out_scores
from epsilometer.attacks.pool_attacks import most_leaking as most_leaking
from epsilometer.attacks.pool_losses import PoolLosses as PoolLosses
from epsilometer.attacks.quantile import QuantileAttack as QuantileAttack
from epsilometer.attacks.result import AttackResult as AttackResult
from epsilometer.attacks.rmia import Rmia as Rmia
from epsilometer.attacks.rmia import RmiaOffline as RmiaOffline
from epsilometer.attacks.rules import LikelihoodRatio as LikelihoodRatio
from epsilometer.attacks.rules import Offline as Offline
from epsilometer.attacks.rules import PooledVariance as PooledVariance
from epsilometer.attacks.rules import Threshold as Threshold
from epsilometer.attacks.scoring import scores_of as scores_of
from epsilometer.attacks.statistics import CustomStatistic as CustomStatistic
from epsilometer.attacks.statistics import Logit as Logit
from epsilometer.attacks.statistics import Loss as Loss
from epsilometer.attacks.statistics import Statistic as Statistic
from epsilometer.audit.config import AuditConfig as AuditConfig
from epsilometer.audit.config import read_audit as read_audit
from epsilometer.audit.estimating import estimate as estimate
from epsilometer.audit.estimating import prove as prove
from epsilometer.baselines.bases import best_base as best_base
from epsilometer.baselines.bases import pooled as pooled
from epsilometer.baselines.gaussian import GaussianRates as GaussianRates
from epsilometer.baselines.guesses import OneRun as OneRun
from epsilometer.baselines.guesses import OneRunFdp as OneRunFdp
from epsilometer.baselines.intervals import ClopperPearson as ClopperPearson
from epsilometer.baselines.intervals import Jeffreys as Jeffreys
from epsilometer.baselines.joint_beta import JointBeta as JointBeta
from epsilometer.baselines.log_ratio import AdjustedLog as AdjustedLog
from epsilometer.baselines.log_ratio import Bailey as Bailey
from epsilometer.baselines.log_ratio import InverseSinh as InverseSinh
from epsilometer.baselines.log_ratio import Katz as Katz
from epsilometer.baselines.one_run import epsilon_one_run as epsilon_one_run
from epsilometer.baselines.one_run import one_run_p_value as one_run_p_value
from epsilometer.baselines.one_run_fdp import ApproximateDP as ApproximateDP
from epsilometer.baselines.one_run_fdp import GaussianDP as GaussianDP
from epsilometer.baselines.one_run_fdp import epsilon_one_run_fdp as epsilon_one_run_fdp
from epsilometer.baselines.scores import CanaryScoreAuditor as CanaryScoreAuditor
from epsilometer.baselines.thresholds import Bonferroni as Bonferroni
from epsilometer.baselines.thresholds import Explicit as Explicit
from epsilometer.baselines.thresholds import MultiSplit as MultiSplit
from epsilometer.baselines.thresholds import Ranks as Ranks
from epsilometer.baselines.thresholds import Split as Split
from epsilometer.calibration.selftest import check_pipeline as check_pipeline
from epsilometer.comparing import compare_counts as compare_counts
from epsilometer.comparing import compare_scores as compare_scores
from epsilometer.datasets.named import load_population as load_population
from epsilometer.errors import ContradictionError as ContradictionError
from epsilometer.errors import EpsilometerError as EpsilometerError
from epsilometer.errors import ExecutorError as ExecutorError
from epsilometer.errors import InputError as InputError
from epsilometer.errors import NotConvergedError as NotConvergedError
from epsilometer.errors import StoreError as StoreError
from epsilometer.errors import TrainingError as TrainingError
from epsilometer.inference.checks.comparison import AlternativeModel as AlternativeModel
from epsilometer.inference.checks.comparison import ModelComparison as ModelComparison
from epsilometer.inference.checks.comparison import compare_models as compare_models
from epsilometer.inference.checks.influence import Influence as Influence
from epsilometer.inference.checks.influence import leave_one_out as leave_one_out
from epsilometer.inference.checks.predictive import PredictiveCheck as PredictiveCheck
from epsilometer.inference.checks.predictive import check_predictions as check_predictions
from epsilometer.inference.checks.sensitivity import AlternativePrior as AlternativePrior
from epsilometer.inference.checks.sensitivity import prior_sensitivity as prior_sensitivity
from epsilometer.inference.claimed_curve import ClaimedCurve as ClaimedCurve
from epsilometer.inference.claimed_curve import CurveVerdict as CurveVerdict
from epsilometer.inference.delta_curve import DeltaCurve as DeltaCurve
from epsilometer.inference.delta_curve import estimate_curve as estimate_curve
from epsilometer.inference.exact.engine import ExactSettings as ExactSettings
from epsilometer.inference.judging import judge as judge
from epsilometer.inference.judging import judge_curve as judge_curve
from epsilometer.inference.mcmc.driver import McmcSettings as McmcSettings
from epsilometer.inference.posterior import Posterior as Posterior
from epsilometer.inference.profile.checks import RocCheck as RocCheck
from epsilometer.inference.profile.checks import check_rocs as check_rocs
from epsilometer.inference.profile.curve import ProfileCurve as ProfileCurve
from epsilometer.inference.profile.engine import ProfileSettings as ProfileSettings
from epsilometer.inference.profile.posterior import ProfilePosterior as ProfilePosterior
from epsilometer.inference.region_probability import region_probability as region_probability
from epsilometer.inference.result import Origin as Origin
from epsilometer.inference.storage import load as load
from epsilometer.inference.updating import Batch as Batch
from epsilometer.inference.verdict import Grounds as Grounds
from epsilometer.inference.verdict import Outcome as Outcome
from epsilometer.inference.verdict import Thresholds as Thresholds
from epsilometer.inference.verdict import Verdict as Verdict
from epsilometer.measurement.algorithm import Algorithm as Algorithm
from epsilometer.measurement.bases import ChallengeBase as ChallengeBase
from epsilometer.measurement.bases import Include as Include
from epsilometer.measurement.bases import Replace as Replace
from epsilometer.measurement.canaries import Canaries as Canaries
from epsilometer.measurement.canary_kinds import CustomCanaries as CustomCanaries
from epsilometer.measurement.challenges import CustomPoints as CustomPoints
from epsilometer.measurement.challenges import Outliers as Outliers
from epsilometer.measurement.checking import check_training as check_training
from epsilometer.measurement.designs import MeasureMIA as MeasureMIA
from epsilometer.measurement.designs import MeasureMIAFast as MeasureMIAFast
from epsilometer.measurement.designs import cross_feed as cross_feed
from epsilometer.measurement.engine import Measurement as Measurement
from epsilometer.measurement.engine import measure as measure
from epsilometer.measurement.first_models import TrainingCheck as TrainingCheck
from epsilometer.measurement.one_run import MeasureOneRun as MeasureOneRun
from epsilometer.measurement.plan import Plan as Plan
from epsilometer.measurement.pool import MeasurePool as MeasurePool
from epsilometer.measurement.population import Dataset as Dataset
from epsilometer.measurement.population import Point as Point
from epsilometer.measurement.population import Population as Population
from epsilometer.measurement.progress import Progress as Progress
from epsilometer.measurement.sqlite_store import SqliteStore as SqliteStore
from epsilometer.measurement.store import MemoryStore as MemoryStore
from epsilometer.measurement.training_claims import claim_from_training as claim_from_training
from epsilometer.model.correlated import CorrelatedCells as CorrelatedCells
from epsilometer.model.correlated import CorrelatedNormal as CorrelatedNormal
from epsilometer.model.correlated_binomial import KupperHaseman as KupperHaseman
from epsilometer.model.counts import AttackCounts as AttackCounts
from epsilometer.model.dependence import IndependentRows as IndependentRows
from epsilometer.model.dependence import NormalScatter as NormalScatter
from epsilometer.model.dependence import PooledGroups as PooledGroups
from epsilometer.model.dependence import ScatteredMembers as ScatteredMembers
from epsilometer.model.dependence import UniformScatter as UniformScatter
from epsilometer.model.families import GaussianCurves as GaussianCurves
from epsilometer.model.families import LaplaceCurves as LaplaceCurves
from epsilometer.model.families import ResponseCurves as ResponseCurves
from epsilometer.model.families import TwoVarianceCurves as TwoVarianceCurves
from epsilometer.model.joint import AuditModel as AuditModel
from epsilometer.model.joint import log_joint as log_joint
from epsilometer.model.likelihoods import IndependentBinomial as IndependentBinomial
from epsilometer.model.measured import MeasuredBy as MeasuredBy
from epsilometer.model.mixtures import Curves as Curves
from epsilometer.model.mixtures import FreeMixing as FreeMixing
from epsilometer.model.mixtures import KnownMixing as KnownMixing
from epsilometer.model.mixtures import NoMixing as NoMixing
from epsilometer.model.mixtures import Reading as Reading
from epsilometer.model.pool_scores import PoolScores as PoolScores
from epsilometer.model.priors import Beta as Beta
from epsilometer.model.priors import Exponential as Exponential
from epsilometer.model.priors import Fixed as Fixed
from epsilometer.model.priors import HalfNormal as HalfNormal
from epsilometer.model.priors import LogNormal as LogNormal
from epsilometer.model.priors import Uniform as Uniform
from epsilometer.model.profile import ProfileModel as ProfileModel
from epsilometer.model.scores import Scores as Scores
from epsilometer.model.strengths import FixedStrength as FixedStrength
from epsilometer.model.strengths import FreeStrengths as FreeStrengths
from epsilometer.planning.canary_simulation import AssumedCurve as AssumedCurve
from epsilometer.planning.goals import CrossFedModels as CrossFedModels
from epsilometer.planning.goals import DecidedClaim as DecidedClaim
from epsilometer.planning.goals import IntervalWidth as IntervalWidth
from epsilometer.planning.goals import SeparateShadows as SeparateShadows
from epsilometer.planning.one_run import OneRunCanaries as OneRunCanaries
from epsilometer.planning.one_run import OneRunPlan as OneRunPlan
from epsilometer.planning.one_run import PlannedCanaries as PlannedCanaries
from epsilometer.planning.one_run import ProofSize as ProofSize
from epsilometer.planning.one_run import plan_one_run as plan_one_run
from epsilometer.planning.plan import AuditPlan as AuditPlan
from epsilometer.planning.plan import PlannedDesign as PlannedDesign
from epsilometer.planning.plan import plan_audit as plan_audit
from epsilometer.planning.scenarios import AssumedScenario as AssumedScenario
from epsilometer.planning.scenarios import PilotScenario as PilotScenario
from epsilometer.proofs.proof import Proof as Proof
from epsilometer.report.writing import write_report as write_report
from epsilometer.training.clipped_mean import ClippedMean as ClippedMean
from epsilometer.training.dp_sgd import DpSgd as DpSgd
from epsilometer.training.gradient_canaries import GradientCanaries as GradientCanaries
from epsilometer.training.network import FixedInitialisation as FixedInitialisation
from epsilometer.training.network import Network as Network
from epsilometer.training.network import RandomInitialisation as RandomInitialisation
from epsilometer.training.opacus_loop import Opacus as Opacus
from epsilometer.training.output_perturbation import NoiseLevels as NoiseLevels
from epsilometer.training.output_perturbation import OutputPerturbation as OutputPerturbation
from epsilometer.training.pytorch import PyTorch as PyTorch
from epsilometer.training.scikit_learn import ScikitLearn as ScikitLearn

# Deprecated names of version 0.1: they work, with a warning, and are removed in 0.3.
Assumed = AssumedScenario
Assumption = AlternativeModel
FromPilot = PilotScenario
OtherPrior = AlternativePrior
OwnCanaries = CustomCanaries
OwnPoints = CustomPoints
Rule = OperatingPoint
Settled = DecidedClaim
Trial = TrainingCheck
Width = IntervalWidth
deal_counts = split_counts
fresh_scores = held_out_scores
promise_of = claim_from_training

__all__: list[str]
__version__: str
_RENAMED: dict[str, str]
