"""The protocol of count likelihoods, used by engines, checks and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts


@runtime_checkable
class Likelihood(Protocol):
    """How counts arise from error rates, as engines, checks and reports need it.

    A likelihood's own parameters are nuisance parameters: common to all bases, estimated together with
    epsilon, and passed by name.  By default, a class that inherits from this one has none and accepts
    any counts.
    """

    @property
    def name(self) -> str:
        """The name used in options and files."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its nuisance parameters."""
        return ()

    @property
    def description(self) -> tuple[str, ...]:
        """The assumptions, one sentence each."""

    @property
    def bounded(self) -> bool:
        """Whether the likelihood of any counts is bounded: a probability, not a density."""
        return True

    @property
    def independent(self) -> bool:
        """Whether decisions on one base are independent, as valid bounds from counts require."""
        return True

    def check(self, counts: AttackCounts) -> None:
        """Refuse counts that are incompatible with the likelihood."""
        return

    def smallest_epsilon(self, counts: AttackCounts) -> float:
        """The epsilon below which it is not used."""
        return 0.0

    def prior_size(self, counts: AttackCounts) -> tuple[float, ...]:
        """The numbers through which the prior of the nuisance parameters depends on the trials."""
        return ()

    def log_density(
        self, counts: AttackCounts, alpha: ArrayLike, beta: ArrayLike, **nuisance: float
    ) -> FloatArray:
        """Log likelihood of each base's counts; the last axis of alpha and beta is the base."""

    def log_prior(self, counts: AttackCounts, **nuisance: ArrayLike) -> FloatArray:
        """Log of the joint prior density of the nuisance parameters; -inf outside its support."""
        return np.zeros(())

    def prior_density(self, counts: AttackCounts, parameter: str, value: FloatArray) -> FloatArray:
        """The marginal prior density of one of its parameters."""
        raise InputError(f"expected a parameter of the likelihood, got {parameter!r}.")

    def sample_nuisance(self, counts: AttackCounts, *, rng: Generator) -> dict[str, float]:
        """Draw the nuisance parameters from their prior; only the trials of ``counts`` are used."""
        return {}

    def sample_counts(
        self,
        counts: AttackCounts,
        alpha: FloatArray,
        beta: FloatArray,
        nuisance: Mapping[str, ArrayLike],
        *,
        rng: Generator,
    ) -> tuple[IntArray, IntArray]:
        """Draw X and Y; the last axis of the rates is the base; only trials of ``counts`` are used."""

    def count_moments(self, counts: AttackCounts, nuisance: Mapping[str, FloatArray]) -> FloatPair:
        """Variance of a count relative to a binomial's, and the correlation of X and Y, for draws."""
        return np.ones(1), np.zeros(1)


def refuse_single_trials(counts: AttackCounts) -> None:
    """Refuse bases with a single trial, whose decisions cannot be correlated."""
    for name in ("trials_h0", "trials_h1"):
        column = getattr(counts, name)
        if column.min() < 2:
            label = counts.names[int(np.argmin(column))]
            raise InputError(
                f"challenge base {label!r}: the correlated likelihood expects {name} >= 2, "
                f"got {name}={int(column.min())}; use the binomial likelihood."
            )
