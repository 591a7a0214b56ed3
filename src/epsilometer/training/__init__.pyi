"""Trainings that ship, apart from those at the top."""

from epsilometer.training.clipped_mean import ClippedMean as ClippedMean
from epsilometer.training.network import FixedInitialisation as FixedInitialisation
from epsilometer.training.network import Network as Network
from epsilometer.training.network import RandomInitialisation as RandomInitialisation
from epsilometer.training.output_perturbation import NoiseLevels as NoiseLevels
from epsilometer.training.output_perturbation import OutputPerturbation as OutputPerturbation

__all__: list[str]
