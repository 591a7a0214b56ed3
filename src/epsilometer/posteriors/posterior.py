"""The interface of all posteriors, whichever engine made them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from epsilometer._arrays import FloatArray, OnMessage
from epsilometer.errors import InputError
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors import trees, updating
from epsilometer.posteriors.marginal_queries import MarginalQueries
from epsilometer.posteriors.marginals import Marginal, PointMass
from epsilometer.posteriors.provenance import Provenance
from epsilometer.posteriors.updating import Batch

if TYPE_CHECKING:
    import xarray

    from epsilometer.engines.mcmc.posterior import SamplePosterior


class Engine(Protocol):
    """Settings of an engine, with a method that runs it."""

    def supports(self, counts: AttackCounts, model: CountModel) -> str | None:
        """Why the engine cannot estimate this model from these counts; None if it can."""

    def estimate(
        self,
        counts: AttackCounts,
        model: CountModel,
        *,
        on_message: OnMessage | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Any:
        """Estimate the posterior with these settings."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountPosterior(MarginalQueries, ABC, view="posteriors.COUNT"):
    """The posterior of epsilon, the strength and, where estimated, the correlations and the spread.

    A parameter that the model holds fixed is a point mass: all its quantiles are its value.

    Attributes
    ----------
    counts, model
        The data and the model.
    provenance, engine
        How it was computed, and the engine settings, with which it can be estimated again; None if
        unknown.
    history
        The effect of each batch of counts; empty unless there were updates.
    log_evidence
        Log probability of the counts under the model; None if the engine does not compute it.
    """

    counts: AttackCounts
    model: CountModel
    provenance: Provenance
    engine: Engine | None = None
    history: tuple[Batch, ...] = ()
    log_evidence: float | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that were estimated."""
        return self.model.parameters_of(self.counts)

    @property
    def data(self) -> AttackCounts:
        """The counts."""
        return self.counts

    @property
    @abstractmethod
    def engine_description(self) -> str:
        """The engine and its accuracy, as text."""

    @property
    @abstractmethod
    def quality(self) -> dict[str, object]:
        """The figures behind ``accurate``, and other engine-specific values, for JSON."""

    @property
    def chains(self) -> SamplePosterior | None:
        """Itself if it consists of Markov chains, otherwise None."""
        return None

    @abstractmethod
    def _estimated(self, parameter: str) -> Marginal:
        """The marginal of a parameter that was estimated."""

    @abstractmethod
    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Joint draws of all estimated parameters."""

    @abstractmethod
    def to_datatree(self) -> xarray.DataTree:
        """The posterior as a tree for ArviZ and xarray: groups posterior, observed_data and more."""

    def prior_probability_above(self, epsilon: float) -> float:
        """The prior probability P(epsilon > value)."""
        return self.model.epsilon.probability_above(epsilon)

    def marginal(self, parameter: str) -> Marginal:
        """The distribution of one parameter; a point mass if the model holds it fixed."""
        if parameter in self.parameters:
            return self._estimated(parameter)
        fixed = self.model.fixed_values(self.counts)
        if parameter in fixed:
            return PointMass(value=fixed[parameter])
        known = ", ".join(self.parameters)
        raise InputError(f"expected one of the parameters {known}, got {parameter!r}.")

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """The effect of each batch of counts, in order; one batch unless there were updates."""
        return self.history or (updating.only_batch(self),)

    def with_batches(self, batches: tuple[Batch, ...]) -> Self:
        """The same posterior with a different history of batches."""
        rows = sum(batch.rows for batch in batches)
        if rows != len(self.counts):
            raise InputError(f"expected batches of {len(self.counts)} rows in all, got {rows}.")
        return replace(self, history=tuple(batches))

    def update(
        self,
        new_counts: AttackCounts,
        *,
        label: str | None = None,
        engine: Engine | None = None,
        on_message: OnMessage | None = None,
    ) -> CountPosterior:
        """The posterior given these counts and new ones, equal to estimating from all of them.

        Uses the same model and, unless ``engine`` is given, the same settings; ``batches`` records the
        effect of the new counts.

        Parameters
        ----------
        new_counts
            More rows.  Default names (numbers from 0) continue from the existing rows.
        label
            Name of the batch.  Default: its number.
        engine
            Settings other than those the posterior was made with.
        on_message
            Called with a line of text from time to time, for a progress display.

        Raises
        ------
        InputError
            If the counts are incompatible with the model, or the original settings are unknown.
        ContradictionError
            If old and new counts contradict each other under the model.
        """
        engine = engine or self.engine
        if engine is None:
            raise InputError(
                "expected settings to update with: how this posterior was estimated is unknown."
            )
        if not isinstance(new_counts, AttackCounts):
            raise InputError(
                f"expected AttackCounts to update with, got {type(new_counts).__name__}."
            )
        counts = updating.join_batches(self.counts, new_counts)
        after: CountPosterior = engine.estimate(counts, self.model, on_message=on_message)
        label = f"batch {len(self.batches) + 1}" if label is None else label
        new = updating.batch_between(self, after, rows=len(new_counts), label=label)
        return after.with_batches((*self.batches, new))

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a NetCDF file; :func:`epsilometer.load` restores it."""
        trees.write(self.to_datatree(), path)
