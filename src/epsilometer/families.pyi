"""Families of trade-off curves, their mixtures, and the strengths of attacks."""

from epsilometer.model.families import Gaussian as Gaussian
from epsilometer.model.families import HardCap as HardCap
from epsilometer.model.families import HardCaps as HardCaps
from epsilometer.model.families import Laplace as Laplace
from epsilometer.model.families import MixedCap as MixedCap
from epsilometer.model.families import MixedCaps as MixedCaps
from epsilometer.model.families import RandomizedResponse as RandomizedResponse
from epsilometer.model.families import SmoothCap as SmoothCap
from epsilometer.model.families import SmoothCaps as SmoothCaps
from epsilometer.model.families import ThinTail as ThinTail
from epsilometer.model.families import TwoVariances as TwoVariances
from epsilometer.model.families import VarianceRatios as VarianceRatios
from epsilometer.model.family import Curves as Curves
from epsilometer.model.family import MixtureInterpretation as MixtureInterpretation
from epsilometer.model.mixing import FreeMixing as FreeMixing
from epsilometer.model.mixing import KnownMixing as KnownMixing
from epsilometer.model.mixing import NoMixing as NoMixing
from epsilometer.model.strengths import FixedStrength as FixedStrength
from epsilometer.model.strengths import FreeStrengths as FreeStrengths

__all__: list[str]
