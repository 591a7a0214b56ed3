"""Every public name, once, with its module; submodules have the rest."""

from epsilometer import attacks as attacks
from epsilometer import baselines as baselines
from epsilometer import checks as checks
from epsilometer import datasets as datasets
from epsilometer import engines as engines
from epsilometer import errors as errors
from epsilometer import families as families
from epsilometer import goals as goals
from epsilometer import judgement as judgement
from epsilometer import likelihoods as likelihoods
from epsilometer import priors as priors
from epsilometer import rows as rows
from epsilometer import stores as stores
from epsilometer import testing as testing
from epsilometer import training as training
from epsilometer.api import compare as compare
from epsilometer.api import estimate as estimate
from epsilometer.api import judge as judge
from epsilometer.api import plan as plan
from epsilometer.api import prove as prove
from epsilometer.api import write_report as write_report
from epsilometer.attacks.losses import Losses as Losses
from epsilometer.attacks.pool_losses import PoolLosses as PoolLosses
from epsilometer.auditing.auditing import audit as audit
from epsilometer.engines.storage import load as load
from epsilometer.errors import EpsilometerError as EpsilometerError
from epsilometer.errors import EpsilometerWarning as EpsilometerWarning
from epsilometer.errors import InputError as InputError
from epsilometer.judgement.result import Result as Result
from epsilometer.judgement.verdict import Verdict as Verdict
from epsilometer.measurement.algorithm import Algorithm as Algorithm
from epsilometer.measurement.canaries import Canaries as Canaries
from epsilometer.measurement.designs import CrossFed as CrossFed
from epsilometer.measurement.designs import ShadowModels as ShadowModels
from epsilometer.measurement.engine import measure as measure
from epsilometer.measurement.one_run import OneRun as OneRun
from epsilometer.measurement.plan import Plan as Plan
from epsilometer.measurement.pool import Pool as Pool
from epsilometer.measurement.population import Population as Population
from epsilometer.model.counts import AttackCounts as AttackCounts
from epsilometer.model.models import CountModel as CountModel
from epsilometer.model.models import CurveModel as CurveModel
from epsilometer.model.scores import Scores as Scores
from epsilometer.posteriors.posterior import Posterior as Posterior
from epsilometer.proofs.proof import Proof as Proof
from epsilometer.training.dp_sgd import DpSgd as DpSgd
from epsilometer.training.gradient_canaries import GradientCanaries as GradientCanaries
from epsilometer.training.opacus_loop import Opacus as Opacus
from epsilometer.training.pytorch import PyTorch as PyTorch
from epsilometer.training.scikit_learn import ScikitLearn as ScikitLearn

__all__: list[str]
__version__: str
