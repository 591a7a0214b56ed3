"""The protocol of every posterior, whichever model and engine made it."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import FloatArray
from epsilometer.posteriors.marginals import Marginal
from epsilometer.posteriors.provenance import Provenance
from epsilometer.posteriors.updating import Batch

if TYPE_CHECKING:
    import xarray


class Posterior(Protocol):
    """The posterior of epsilon and the strength of attacks, as ``em.estimate`` returns it.

    Check ``trustworthy`` before you quote it; ``warnings`` says what to know first.
    """

    @property
    def data(self) -> Any:
        """The scores or counts that it was estimated from."""

    @property
    def model(self) -> Any:
        """The model, with its delta and priors."""

    @property
    def provenance(self) -> Provenance:
        """How it was computed."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that were estimated."""

    @property
    def accurate(self) -> bool:
        """Whether the engine reached the requested accuracy."""

    @property
    def trustworthy(self) -> bool:
        """Whether it is accurate and its data have no flaw."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why it should not be quoted, one sentence each; empty if nothing is known against it."""

    @property
    def engine_description(self) -> str:
        """The engine and its accuracy, as text."""

    @property
    def quality(self) -> dict[str, object]:
        """The figures behind ``accurate``, for JSON."""

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The effect of each batch of data."""

    def marginal(self, parameter: str) -> Marginal:
        """The distribution of one parameter."""

    def quantile(self, parameter: str, probability: ArrayLike) -> FloatArray:
        """The value below which the posterior puts the given probability."""

    def median(self, parameter: str) -> float:
        """The 50 % quantile."""

    def mean(self, parameter: str) -> float:
        """The posterior mean."""

    def credible_interval(self, parameter: str, level: float = 0.9) -> tuple[float, float]:
        """The central interval: equal probability below and above it."""

    def probability_above(self, parameter: str, value: float) -> float:
        """The posterior probability that the parameter exceeds ``value``."""

    def prior_probability_above(self, epsilon: float) -> float:
        """The prior probability P(epsilon > value)."""

    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Joint draws of all estimated parameters."""

    def update(self, new_data: Any, /) -> Posterior:
        """The posterior given these data and new ones."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a NetCDF file; ``em.load`` restores it."""

    def to_datatree(self) -> xarray.DataTree:
        """The posterior as a tree for ArviZ and xarray."""
