"""What every estimator of this folder answers, and in which words it describes itself."""

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
    """What an estimator's numbers are."""

    EXACT_BOUND = "bound"
    """Errs at most as often as stated, for any number of trials."""
    APPROXIMATE_BOUND = "approximate bound"
    """Errs about as often as stated when there are many trials."""
    CREDIBLE = "credible interval"
    """Probability after the counts, under a prior."""
    POINT = "estimate"
    """One number without a statement of its error."""


class CountEstimator(Protocol):
    """An estimator that reads error counts, all challenge bases at once.

    All answers are about the base's own attack: the least epsilon that allows such error rates.  That
    is a lower bound of the algorithm's epsilon; the upper end is none, for another attack or base may
    do better.
    """

    kind: ClassVar[Kind]

    @property
    def label(self) -> str:
        """Its name."""

    @property
    def assumes(self) -> str:
        """What must hold for its answer to mean what it says."""

    @property
    def gaussian(self) -> bool:
        """Whether the answer is about the Gaussian mechanism that covers the algorithm."""
        return False

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        """Lower end for each base; errs with probability at most ``significance``."""
        return self._ends(counts, delta, check_significance(significance))[0]

    def interval(self, counts: AttackCounts, delta: float, significance: float = 0.1) -> FloatPair:
        """Both ends for each base, each erring with half of ``significance``; inf: no upper end."""
        return self._ends(counts, delta, check_significance(significance) / 2)

    @abstractmethod
    def _ends(self, counts: AttackCounts, delta: float, error: float) -> FloatPair:
        """The ends, each erring with probability ``error``."""


class LowerEndOnly(CountEstimator):
    """What has no upper end; `lower` is its own."""

    def _ends(self, counts: AttackCounts, delta: float, error: float) -> FloatPair:
        return self.lower(counts, delta, error), np.full(len(counts), np.inf)


def check_significance(value: object) -> float:
    """Return ``value`` if it can be the probability that a bound errs: 0 < significance < 1."""
    return _validate.open_unit_interval("significance", value)


def check_positive_delta(value: object, *, who: str) -> float:
    """Return ``value`` if it is a delta above 0, which ``who`` needs."""
    delta = _validate.delta(value)
    if delta == 0:
        raise InputError(
            f"expected delta > 0, got delta=0.0: {who} takes the mechanism for a Gaussian one, "
            "whose epsilon at delta 0 is infinite."
        )
    return delta
