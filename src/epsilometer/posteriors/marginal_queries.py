"""Queries that every posterior answers about a parameter, from its distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer._display import Plotted, view_of
from epsilometer.posteriors.marginals import Marginal, check_probability

if TYPE_CHECKING:
    from epsilometer._table import Table


class MarginalQueries(Plotted, ABC):
    """What every posterior says of itself, and summaries of the distributions of its parameters."""

    @property
    @abstractmethod
    def data(self) -> Any:
        """The scores or counts that it was estimated from."""

    @property
    @abstractmethod
    def accurate(self) -> bool:
        """Whether the engine reached the requested accuracy."""

    @property
    @abstractmethod
    def engine_description(self) -> str:
        """The engine and its accuracy, as text."""

    @property
    def trustworthy(self) -> bool:
        """Whether the engine reached the requested accuracy and the data have no flaw."""
        return bool(self.accurate and not self.data.flaws)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why it should not be quoted, one sentence each; empty if nothing is known against it."""
        missed = f"Do not quote this result: {self.engine_description}."
        return (*(() if self.accurate else (missed,)), *self.data.flaws)

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
        table: Table = view_of(self).table(self, _validate.level(level))
        return table
