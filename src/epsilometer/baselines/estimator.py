"""The interface of all estimators in this folder, and the kinds of statements they make."""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum
from typing import ClassVar, Protocol

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts


class Kind(StrEnum):
    """What kind of number an estimator gives."""

    EXACT_BOUND = "bound"
    """Error rate at most as stated, for any number of trials."""
    APPROXIMATE_BOUND = "approximate bound"
    """Error rate approximately as stated if there are many trials."""
    CREDIBLE = "credible interval"
    """Posterior probability under a prior."""
    POINT = "estimate"
    """A number without a stated error."""


class CountEstimator(Protocol):
    """An estimator from error counts, for all challenge bases at once.

    All results concern the base's own attack: the smallest epsilon that allows its error rates.  That is
    a lower bound of the algorithm's epsilon; the upper end is not an upper bound, since another attack
    or base may do better.
    """

    kind: ClassVar[Kind]

    @property
    def label(self) -> str:
        """Its name."""

    @property
    def assumes(self) -> str:
        """The assumptions under which its result is valid."""

    @property
    def gaussian(self) -> bool:
        """Whether the result concerns the Gaussian mechanism that covers the algorithm."""
        return False

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        """Lower end for each base; error probability at most ``significance``."""
        return self._ends(counts, delta, check_significance(significance))[0]

    def interval(self, counts: AttackCounts, delta: float, significance: float = 0.1) -> FloatPair:
        """Both ends for each base, each with half of ``significance``; inf if there is no upper end."""
        return self._ends(counts, delta, check_significance(significance) / 2)

    @abstractmethod
    def _ends(self, counts: AttackCounts, delta: float, error: float) -> FloatPair:
        """The ends, each with error probability ``error``."""


class LowerEndOnly(CountEstimator):
    """An estimator without an upper end; subclasses define `lower`."""

    def _ends(self, counts: AttackCounts, delta: float, error: float) -> FloatPair:
        return self.lower(counts, delta, error), np.full(len(counts), np.inf)


def check_significance(value: object) -> float:
    """Return ``value`` if it can be the error probability of a bound: 0 < significance < 1."""
    return _validate.open_unit_interval("significance", value)


def check_positive_delta(value: object, *, who: str) -> float:
    """Return ``value`` if it is a delta above 0, as ``who`` requires."""
    delta = _validate.delta(value)
    if delta == 0:
        raise InputError(
            f"expected delta > 0, got delta=0.0: {who} assumes a Gaussian mechanism, "
            "whose epsilon at delta 0 is infinite."
        )
    return delta
