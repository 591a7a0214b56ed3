"""Checks of a posterior, and of the whole pipeline."""

from epsilometer.checks.comparison import AlternativeModel as AlternativeModel
from epsilometer.checks.comparison import ModelComparison as ModelComparison
from epsilometer.checks.comparison import compare_models as compare_models
from epsilometer.checks.influence import Influence as Influence
from epsilometer.checks.influence import leave_one_out as leave_one_out
from epsilometer.checks.predictive import PredictiveCheck as PredictiveCheck
from epsilometer.checks.predictive import check_predictions as check_predictions
from epsilometer.checks.roc_curves import RocCheck as RocCheck
from epsilometer.checks.roc_curves import check_rocs as check_rocs
from epsilometer.checks.selftest import check_pipeline as check_pipeline
from epsilometer.checks.sensitivity import AlternativePrior as AlternativePrior
from epsilometer.checks.sensitivity import prior_sensitivity as prior_sensitivity

__all__: list[str]
