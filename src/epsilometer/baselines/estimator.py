"""The interface of all estimators in this folder, and the kinds of statements they make.

Of several challenge bases, one estimate is the best of them, corrected for selection, or that of all
pooled.  Both concern the algorithm, whose epsilon is at least that of every base's attack.
"""

from abc import abstractmethod
from dataclasses import replace
from enum import StrEnum
from typing import ClassVar, Protocol

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts


class Kind(StrEnum):
    """What kind of number an estimator gives."""

    #: Error rate at most as stated, for any number of trials.
    EXACT_BOUND = "bound"
    #: Error rate approximately as stated if there are many trials.
    APPROXIMATE_BOUND = "approximate bound"
    #: Posterior probability under a prior.
    CREDIBLE = "credible interval"
    #: A number without a stated error.
    POINT = "estimate"


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

    @property
    def one_sided(self) -> bool:
        """Whether it uses TPR / FPR only, not TNR / FNR."""
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


def best_base(
    estimator: CountEstimator, counts: AttackCounts, delta: float, significance: float = 0.05
) -> float:
    """Largest lower bound of any base, each with an equal share of the error (union bound).

    Examples
    --------
    >>> from epsilometer.baselines.intervals import ClopperPearson
    >>> counts = AttackCounts(
    ...     false_positives=[10, 40], trials_h0=100, false_negatives=[10, 40], trials_h1=100
    ... )
    >>> round(best_base(ClopperPearson(), counts, 0.0), 4)
    1.4645
    """
    share = check_significance(significance) / len(counts)
    return float(estimator.lower(counts, delta, share).max())


def best_interval(
    estimator: CountEstimator, counts: AttackCounts, delta: float, significance: float = 0.1
) -> tuple[float, float]:
    """Interval for the epsilon of the strongest attack.

    For the largest lower end the error is shared among the bases, since any of them may be too high.
    The largest upper end needs no correction: it holds if that of the strongest attack does.
    """
    share = check_significance(significance) / len(counts)
    low, _ = estimator.interval(counts, delta, share)
    _, high = estimator.interval(counts, delta, significance)
    return float(low.max()), float(high.max())


def pooled(counts: AttackCounts) -> AttackCounts:
    """The counts of all bases added up, as one base.

    The region R is convex, so the mean error rates of attacks on a private algorithm also lie in it; and
    a sum of trials with different rates has less variance than a binomial with their mean (Hoeffding
    1956), so exact limits remain valid.  Both rates must be means with the same weights, so all bases
    must have the same ratio of trials_h0 to trials_h1.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10, 40], trials_h0=100, false_negatives=[10, 40], trials_h1=100
    ... )
    >>> pooled(counts).false_positives.tolist()
    [50]
    """
    h0, h1 = counts.trials_h0.tolist(), counts.trials_h1.tolist()
    if any(a * h1[0] != b * h0[0] for a, b in zip(h0, h1, strict=True)):
        raise InputError(
            "expected the same ratio of trials_h0 to trials_h1 in all bases to pool them, got several."
        )
    names = ("all bases",) * len(counts)
    return replace(counts, names=names, groups=names).pooled()
