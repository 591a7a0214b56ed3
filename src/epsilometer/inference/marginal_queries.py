"""The questions that every posterior answers about a parameter, from its distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod

from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.inference.marginals import Marginal, check_probability


class MarginalQueries(ABC):
    """What follows from the distributions of parameters."""

    @abstractmethod
    def marginal(self, parameter: str) -> Marginal:
        """The distribution of one parameter; a point for one that the model holds fixed."""

    def quantile(self, parameter: str, probability: ArrayLike) -> FloatArray:
        """The value below which the posterior puts the given probability."""
        return self.marginal(parameter).quantile(check_probability(probability))

    def probability_above(self, parameter: str, value: float) -> float:
        """The posterior probability that the parameter exceeds ``value``."""
        return self.marginal(parameter).probability_above(value)

    def mean(self, parameter: str) -> float:
        """The posterior mean."""
        return self.marginal(parameter).mean()

    def standard_deviation(self, parameter: str) -> float:
        """The posterior standard deviation."""
        return self.marginal(parameter).standard_deviation()

    def density(self, parameter: str, value: ArrayLike) -> FloatArray:
        """The marginal posterior density; estimated from draws where there is nothing better."""
        return self.marginal(parameter).density(value)

    def median(self, parameter: str) -> float:
        """The 50 % quantile."""
        return float(self.quantile(parameter, 0.5))

    def credible_interval(self, parameter: str, level: float = 0.9) -> tuple[float, float]:
        """The central interval: as much probability below it as above it."""
        level = _validate.level(level)
        low, high = self.quantile(parameter, [0.5 - level / 2, 0.5 + level / 2])
        return float(low), float(high)
