"""Likelihoods of error counts, and the dependence of attacks in one group."""

from epsilometer.model.correlated import CorrelatedCells as CorrelatedCells
from epsilometer.model.correlated import CorrelatedNormal as CorrelatedNormal
from epsilometer.model.correlated_binomial import KupperHaseman as KupperHaseman
from epsilometer.model.count_model import log_joint as log_joint
from epsilometer.model.dependence import IndependentRows as IndependentRows
from epsilometer.model.dependence import NormalScatter as NormalScatter
from epsilometer.model.dependence import PooledGroups as PooledGroups
from epsilometer.model.dependence import ScatteredMembers as ScatteredMembers
from epsilometer.model.dependence import UniformScatter as UniformScatter
from epsilometer.model.likelihoods import IndependentBinomial as IndependentBinomial

__all__: list[str]
