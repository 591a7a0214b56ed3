"""Queries that every posterior answers about a parameter, from its distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer._display import Plotted, view_of
from epsilometer.inference.marginals import Marginal, check_probability

if TYPE_CHECKING:
    from epsilometer._table import Table


class MarginalQueries(Plotted, ABC):
    """Summaries of the distributions of parameters."""

    @abstractmethod
    def marginal(self, parameter: str) -> Marginal:
        """The distribution of one parameter; a point mass if the model holds it fixed."""

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
        """The marginal posterior density; a kernel estimate if there are only draws."""
        return self.marginal(parameter).density(value)

    def median(self, parameter: str) -> float:
        """The 50 % quantile."""
        return float(self.quantile(parameter, 0.5))

    def credible_interval(self, parameter: str, level: float = 0.9) -> tuple[float, float]:
        """The central interval: equal probability below and above it."""
        level = _validate.level(level)
        low, high = self.quantile(parameter, [0.5 - level / 2, 0.5 + level / 2])
        return float(low), float(high)

    def summary(self, *, level: float = 0.9) -> Table:
        """Median, ends of the central interval and mean of every parameter, as a table."""
        return view_of(self).table(self, _validate.level(level))
