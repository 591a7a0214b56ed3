"""What every posterior answers, whichever engine made it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from os import PathLike
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.inference.provenance import Provenance
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import IndependentRows
from epsilometer.model.joint import AuditModel
from epsilometer.model.priors import Fixed

if TYPE_CHECKING:
    import xarray

    from epsilometer.inference.exact import ExactSettings
    from epsilometer.inference.mcmc import McmcSettings
    from epsilometer.inference.updating import Batch

FloatArray = NDArray[np.float64]

PARAMETERS = ("epsilon", "strength", "within_correlation", "cross_correlation", "spread")


class Posterior(ABC):
    """The posterior of epsilon, the strength and, where estimated, the correlations and the spread.

    A parameter that the model holds fixed is answered as a point: all its quantiles are its value.
    """

    def __init__(self, *, counts: AttackCounts, model: AuditModel, provenance: Provenance) -> None:
        self.counts = counts
        self.model = model
        self.provenance = provenance
        self._batches: tuple[Batch, ...] | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that were estimated."""
        return self.model.parameters_of(self.counts)

    @property
    @abstractmethod
    def trustworthy(self) -> bool:
        """Whether the engine reached the accuracy it was asked for."""

    @abstractmethod
    def quantile(self, parameter: str, probability: ArrayLike) -> FloatArray:
        """The value below which the posterior puts the given probability."""

    @abstractmethod
    def probability_above(self, parameter: str, value: float) -> float:
        """The posterior probability that the parameter exceeds ``value``."""

    @abstractmethod
    def mean(self, parameter: str) -> float:
        """The posterior mean."""

    @abstractmethod
    def standard_deviation(self, parameter: str) -> float:
        """The posterior standard deviation."""

    @abstractmethod
    def density(self, parameter: str, value: ArrayLike) -> FloatArray:
        """The marginal posterior density; estimated from draws where there is nothing better."""

    @abstractmethod
    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Joint draws of all estimated parameters."""

    @abstractmethod
    def to_datatree(self) -> xarray.DataTree:
        """The posterior as ArviZ and xarray know it: groups posterior, observed_data and more."""

    def median(self, parameter: str) -> float:
        """The 50 % quantile."""
        return float(self.quantile(parameter, 0.5))

    def credible_interval(self, parameter: str, level: float = 0.9) -> tuple[float, float]:
        """The central interval: as much probability below it as above it."""
        level = _validate.level(level)
        low, high = self.quantile(parameter, [0.5 - level / 2, 0.5 + level / 2])
        return float(low), float(high)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What each batch of counts did, in order; one batch unless there were updates."""
        if self._batches is None:
            from epsilometer.inference.updating import only_batch

            self._batches = (only_batch(self),)
        return self._batches

    def with_batches(self, batches: tuple[Batch, ...]) -> Self:
        """The same posterior with another account of how its counts came in."""
        rows = sum(batch.rows for batch in batches)
        if rows != len(self.counts):
            raise InputError(f"expected batches of {len(self.counts)} rows in all, got {rows}.")
        found = copy(self)
        found._batches = tuple(batches)
        return found

    def update(
        self,
        new_counts: AttackCounts,
        *,
        label: str | None = None,
        engine: ExactSettings | McmcSettings | None = None,
        report: Callable[[str], None] | None = None,
    ) -> Posterior:
        """The posterior given these counts and new ones: what estimating from all of them gives.

        Same model and, unless ``engine`` has others, same settings; ``batches`` tells what the new
        counts did.  ``label`` names them, ``report`` is called with a line of text now and then.
        """
        from epsilometer.inference import updating

        return updating.update(self, new_counts, label=label, engine=engine, report=report)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a NetCDF file, from which :func:`epsilometer.load` restores it."""
        from epsilometer.inference import storage

        storage.save(self, path)

    def _fixed_value(self, parameter: str) -> float | None:
        """The value of a parameter that is fixed, None if it is estimated."""
        if parameter in self.parameters:
            return None
        if parameter in ("epsilon", "strength"):
            prior = getattr(self.model, parameter)
            if isinstance(prior, Fixed):
                return prior.value
        if parameter == "spread" and self.model.scatters(self.counts):
            dependence = self.model.dependence
            assert not isinstance(dependence, IndependentRows)
            if isinstance(dependence.spread, Fixed):
                return dependence.spread.value
        known = ", ".join(self.parameters)
        raise InputError(f"expected one of the parameters {known}, got {parameter!r}.")


def prior_share(model: AuditModel, counts: AttackCounts) -> float:
    """The prior probability of the epsilons at which the likelihood is used; evidences are over it.

    It is 1 but for the correlated likelihood, which is not used below half a count.
    """
    if isinstance(model.epsilon, Fixed):
        return 1.0
    return model.epsilon.probability_above(model.likelihood.smallest_epsilon(counts))


def check_probability(probability: ArrayLike) -> FloatArray:
    """Probabilities as an array, refused outside [0, 1]."""
    array = np.asarray(probability, dtype=float)
    if not np.all((array >= 0) & (array <= 1)):
        raise InputError(f"expected 0 <= probability <= 1, got {array.tolist()}.")
    return array
