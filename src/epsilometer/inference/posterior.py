"""What every posterior answers, whichever engine made it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from epsilometer._arrays import FloatArray, Say
from epsilometer.errors import InputError
from epsilometer.inference import trees, updating
from epsilometer.inference.marginal_queries import MarginalQueries
from epsilometer.inference.marginals import Marginal, PointMass
from epsilometer.inference.provenance import Provenance
from epsilometer.inference.updating import Batch
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel

if TYPE_CHECKING:
    import xarray

    from epsilometer.inference.sample_posterior import SamplePosterior


class Engine(Protocol):
    """Settings that know how to estimate with them."""

    def supports(self, counts: AttackCounts, model: AuditModel) -> str | None:
        """Why the engine cannot estimate this model from such counts; None if it can."""

    def estimate(
        self,
        counts: AttackCounts,
        model: AuditModel,
        *,
        report: Say | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Any:
        """The posterior with these settings."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior(MarginalQueries, ABC):
    """The posterior of epsilon, the strength and, where estimated, the correlations and the spread.

    A parameter that the model holds fixed is answered as a point: all its quantiles are its value.

    Attributes
    ----------
    counts, model
        What was observed and what is assumed.
    provenance, engine
        How it was computed, and the settings it was made with, which know how to estimate again; None
        if they are not known.
    history
        What each of several batches of counts did; empty unless there were updates.
    log_evidence
        Log probability of the counts under the model; None if the engine does not have it.
    """

    counts: AttackCounts
    model: AuditModel
    provenance: Provenance
    engine: Engine | None = None
    history: tuple[Batch, ...] = ()
    log_evidence: float | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that were estimated."""
        return self.model.parameters_of(self.counts)

    @property
    @abstractmethod
    def trustworthy(self) -> bool:
        """Whether the engine reached the accuracy it was asked for."""

    @property
    @abstractmethod
    def engine_description(self) -> str:
        """Which engine, and how far its answer can be trusted."""

    @property
    @abstractmethod
    def quality(self) -> dict[str, object]:
        """The figures behind ``trustworthy``, and what else only this engine knows; for JSON."""

    @property
    def chains(self) -> SamplePosterior | None:
        """Itself if it is Markov chains, None otherwise."""
        return None

    @abstractmethod
    def _estimated(self, parameter: str) -> Marginal:
        """The marginal of a parameter that was estimated."""

    @abstractmethod
    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Joint draws of all estimated parameters."""

    @abstractmethod
    def to_datatree(self) -> xarray.DataTree:
        """The posterior as ArviZ and xarray know it: groups posterior, observed_data and more."""

    def prior_probability_above(self, epsilon: float) -> float:
        """P(epsilon > value) before any data."""
        return self.model.epsilon.probability_above(epsilon)

    def marginal(self, parameter: str) -> Marginal:
        """The distribution of one parameter; a point for one that the model holds fixed."""
        if parameter in self.parameters:
            return self._estimated(parameter)
        fixed = self.model.fixed_values(self.counts)
        if parameter in fixed:
            return PointMass(value=fixed[parameter])
        known = ", ".join(self.parameters)
        raise InputError(f"expected one of the parameters {known}, got {parameter!r}.")

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """What each batch of counts did, in order; one batch unless there were updates."""
        return self.history or (updating.only_batch(self),)

    def with_batches(self, batches: tuple[Batch, ...]) -> Self:
        """The same posterior with another account of how its counts came in."""
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
        report: Say | None = None,
    ) -> Posterior:
        """The posterior given these counts and new ones: what estimating from all of them gives.

        Same model and, unless ``engine`` has others, same settings; ``batches`` tells what the new
        counts did.

        Parameters
        ----------
        new_counts
            More rows.  Names that are only numbers from 0 are counted on from the rows that are there.
        label
            What the batch is called; its number unless given.
        engine
            Other settings than those the posterior was made with.
        report
            Called with a line of text now and then, for a progress display.

        Raises
        ------
        InputError
            If the counts do not suit the model, or the settings it was made with are not known.
        ContradictionError
            If old and new counts cannot both be under the model.
        """
        engine = engine or self.engine
        if engine is None:
            raise InputError(
                "expected settings to update with: how this was estimated is not known."
            )
        if not isinstance(new_counts, AttackCounts):
            raise InputError(
                f"expected AttackCounts to update with, got {type(new_counts).__name__}."
            )
        counts = updating.join_batches(self.counts, new_counts)
        after: Posterior = engine.estimate(counts, self.model, report=report)
        label = f"batch {len(self.batches) + 1}" if label is None else label
        new = updating.batch_between(self, after, rows=len(new_counts), label=label)
        return after.with_batches((*self.batches, new))

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a NetCDF file, from which :func:`epsilometer.load` restores it."""
        trees.write(self.to_datatree(), path)
