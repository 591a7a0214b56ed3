"""What engines, checks and words ask of a likelihood of counts; those there are live beside it."""

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
    """How counts arise from error rates, and all that engines, checks and words need to know of it.

    Parameters of the likelihood's own are nuisance parameters: common to all bases, estimated with
    epsilon, and passed about by name.  A class that inherits from this one has none, and is about any
    counts, unless it says otherwise.
    """

    @property
    def name(self) -> str:
        """As options and files know it."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its nuisance parameters."""
        return ()

    @property
    def description(self) -> tuple[str, ...]:
        """What is assumed, one sentence each."""

    @property
    def bounded(self) -> bool:
        """Whether the likelihood of any counts is bounded: a probability, not a density."""
        return True

    @property
    def independent(self) -> bool:
        """Whether decisions on one base are independent; valid bounds from counts need that."""
        return True

    def check(self, counts: AttackCounts) -> None:
        """Refuse counts that it cannot be about."""
        return

    def smallest_epsilon(self, counts: AttackCounts) -> float:
        """The epsilon below which it is not used."""
        return 0.0

    def prior_size(self, counts: AttackCounts) -> tuple[float, ...]:
        """What the prior of the nuisance parameters takes from the counts' sizes, in numbers."""
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
        """Draw the nuisance parameters from their prior; of ``counts`` only the trials are used."""
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
        """Draw X and Y; the last axis of the rates is the base, of ``counts`` only the trials matter."""

    def count_moments(self, counts: AttackCounts, nuisance: Mapping[str, FloatArray]) -> FloatPair:
        """Variance of a count over a binomial's, and the correlation of X and Y, for draws."""
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
