"""Families of trade-off curves, their mixtures, and the strengths of attacks."""

from epsilometer.model.families import Gaussian as Gaussian
from epsilometer.model.families import Laplace as Laplace
from epsilometer.model.families import RandomizedResponse as RandomizedResponse
from epsilometer.model.families import TwoVariances as TwoVariances
from epsilometer.model.mixtures import Curves as Curves
from epsilometer.model.mixtures import FreeMixing as FreeMixing
from epsilometer.model.mixtures import KnownMixing as KnownMixing
from epsilometer.model.mixtures import MixtureInterpretation as MixtureInterpretation
from epsilometer.model.mixtures import NoMixing as NoMixing
from epsilometer.model.strengths import FixedStrength as FixedStrength
from epsilometer.model.strengths import FreeStrengths as FreeStrengths

__all__: list[str]
