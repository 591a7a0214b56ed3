"""Likelihoods of error counts, and the dependence of attacks in one group."""

from epsilometer.model.dependence import IndependentRows as IndependentRows
from epsilometer.model.dependence import NormalScatter as NormalScatter
from epsilometer.model.dependence import PooledGroups as PooledGroups
from epsilometer.model.dependence import ScatteredMembers as ScatteredMembers
from epsilometer.model.dependence import UniformScatter as UniformScatter
from epsilometer.model.likelihoods import CorrelatedCells as CorrelatedCells
from epsilometer.model.likelihoods import CorrelatedNormal as CorrelatedNormal
from epsilometer.model.likelihoods import IndependentBinomial as IndependentBinomial

__all__: list[str]
