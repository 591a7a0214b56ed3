"""What every posterior answers, whichever model and engine made it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray, OnMessage
from epsilometer._display import Plotted, view_of
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.posteriors import trees
from epsilometer.posteriors.marginals import Marginal, PointMass, check_probability
from epsilometer.posteriors.provenance import Provenance

if TYPE_CHECKING:
    import xarray

    from epsilometer._table import Table
    from epsilometer.engines.mcmc.posterior import SamplePosterior


class Posterior(Plotted, ABC):
    """The posterior of epsilon and the strength of attacks, as ``em.estimate`` returns it.

    Check ``trustworthy`` before you quote it; ``warnings`` says what to know first.

    Attributes
    ----------
    model
        The model, with its delta and priors.
    provenance, engine
        How it was computed, and the engine settings, with which it can be estimated again; None if
        unknown.
    log_evidence
        Log probability of the data under the model; None if the engine does not compute it.
    """

    model: Any
    provenance: Provenance
    engine: Any

    @property
    @abstractmethod
    def data(self) -> Any:
        """The scores or counts that it was estimated from."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """The parameters that were estimated."""

    @property
    @abstractmethod
    def accurate(self) -> bool:
        """Whether the engine reached the requested accuracy."""

    @property
    @abstractmethod
    def engine_description(self) -> str:
        """The engine and its accuracy, as text."""

    @property
    @abstractmethod
    def quality(self) -> dict[str, object]:
        """The figures behind ``accurate``, and other engine-specific values, for JSON."""

    @abstractmethod
    def marginal(self, parameter: str) -> Marginal:
        """The distribution of one parameter; a point mass if the model holds it fixed."""

    @abstractmethod
    def prior_probability_above(self, epsilon: float) -> float:
        """The prior probability P(epsilon > value)."""

    @abstractmethod
    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Joint draws of all estimated parameters."""

    @abstractmethod
    def to_datatree(self) -> xarray.DataTree:
        """The posterior as a tree for ArviZ and xarray: groups posterior, observed_data and more."""

    @property
    def trustworthy(self) -> bool:
        """Whether the engine reached the requested accuracy and the data have no flaw."""
        return bool(self.accurate and not self.data.flaws)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why it should not be quoted, one sentence each; empty if nothing is known against it."""
        missed = f"Do not quote this result: {self.engine_description}."
        return (*(() if self.accurate else (missed,)), *self.data.flaws)

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

    def update(
        self, new_data: Any, *, engine: Any = None, on_message: OnMessage | None = None
    ) -> Any:
        """The posterior given these data and new ones: the estimate from all of them.

        Uses the same model and, unless ``engine`` is given, the same settings.

        Parameters
        ----------
        new_data
            Counts of more bases, or scores, which of an existing base are more models of it.
        engine
            Settings other than those the posterior was made with.
        on_message
            Called with a line of text from time to time, for a progress display.

        Raises
        ------
        InputError
            If the data are incompatible with the model, or the original settings are unknown.
        ContradictionError
            If old and new data contradict each other under the model.
        """
        settings = engine or self.engine
        if settings is None:
            raise InputError(
                "expected settings to update with: how this posterior was estimated is unknown."
            )
        if not isinstance(new_data, type(self.data)):
            raise InputError(
                f"expected {type(self.data).__name__} to update with, got {type(new_data).__name__}."
            )
        return settings.estimate(self.data.joined(new_data), self.model, on_message=on_message)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a NetCDF file; :func:`epsilometer.load` restores it."""
        trees.write(self.to_datatree(), path)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountPosterior(Posterior, ABC, view="results.POSTERIOR"):
    """The posterior of epsilon, the strength and, where estimated, the correlations and the spread.

    A parameter that the model holds fixed is a point mass: all its quantiles are its value.
    """

    counts: AttackCounts
    model: CountModel
    provenance: Provenance
    engine: Any = None
    log_evidence: float | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.model.parameters_of(self.counts)

    @property
    def data(self) -> AttackCounts:
        """The counts."""
        return self.counts

    @property
    def chains(self) -> SamplePosterior | None:
        """Itself if it consists of Markov chains, otherwise None."""
        return None

    @abstractmethod
    def _estimated(self, parameter: str) -> Marginal:
        """The marginal of a parameter that was estimated."""

    def prior_probability_above(self, epsilon: float) -> float:
        return self.model.epsilon.probability_above(epsilon)

    def marginal(self, parameter: str) -> Marginal:
        if parameter in self.parameters:
            return self._estimated(parameter)
        fixed = self.model.fixed_values(self.counts)
        if parameter in fixed:
            return PointMass(value=fixed[parameter])
        known = ", ".join(self.parameters)
        raise InputError(f"expected one of the parameters {known}, got {parameter!r}.")
