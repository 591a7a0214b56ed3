"""What a test of a claim provides, and the searches for the largest epsilon that it refutes.

How far could a proof reach at best?  With n pairs of models, all of them separated, no test with this
error refutes more than log(2 n / log(1 / error)): a claim of (epsilon, 0)-DP allows such an outcome with
probability (1 + exp(-epsilon))^(-2 n).  The tests of this folder reach a little less.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import FloatArray
from epsilometer.proofs.evidence import Evidence

#: Step of epsilon in which e-values are followed upwards; they change little in between.
EPSILON_STEP = 0.05

#: Accuracy of the proven epsilon; it is rounded down.
ACCURACY = 1e-4

#: Rounding error of a log e-value.
LOG_E_VALUE_ROUNDING = 1e-9

#: Largest epsilon that is tried: no data refute more, and exp(-epsilon) is far above the rounding of 1.
LARGEST_CLAIM = 30.0

#: Audits of more models, or canaries, are not asked for.
MOST_MODELS = 1_000_000

#: Share of the missing epsilon that a larger audit is tried for, and the least step: what learning costs
#: is smaller in larger audits, so that the first one that is enough is not much too large.
SHARE_OF_STEP, LEAST_STEP = 0.8, 0.05


class ClaimTest(ABC):
    """Computes e-values against a claim: their mean is at most 1 if the claim is true."""

    @property
    def any_time(self) -> bool:
        """Whether it is valid at any time; otherwise for one planned analysis."""
        return False

    @property
    @abstractmethod
    def assumes(self) -> str:
        """The assumptions, in words."""

    @abstractmethod
    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        """Log e-value against (epsilon, delta)-DP."""

    def refutes(self, epsilon: float, delta: float, error: float) -> bool:
        """Whether the e-value against (epsilon, delta)-DP is at least 1 / error."""
        return self.log_e_value(epsilon, delta, error) >= least_log_e_value(error)

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence | None:
        """Where the e-value against (epsilon, delta)-DP comes from, if it can be divided."""
        return None

    def at_best(self, times: float = 1.0) -> ClaimTest:
        """The same test with the best possible outcome, of so many times as many models or decisions."""
        raise NotImplementedError

    def most_provable(self, delta: float, error: float, times: float = 1.0) -> float:
        """The largest epsilon that the best possible outcome would prove.

        With ``times`` as many models of every base, or canaries of every run.
        """
        best = self.at_best(times)
        return ceiling(lambda epsilon: best.refutes(epsilon, delta, error))


def log_mean(log_e_values: ArrayLike, axis: int = 0) -> FloatArray:
    """Log of the mean of e-values: an e-value, however they depend on each other."""
    logs = np.asarray(log_e_values)
    return np.asarray(np.logaddexp.reduce(logs, axis=axis) - np.log(logs.shape[axis]))


def with_bound(log_e_value: float, epsilon: float, bound: float, error: float) -> float:
    """Log of the mean of an e-value and of one from a bound that has half of the error.

    The second is 2 / error below the bound and 0 above.
    """
    fixed = math.log(2 / error) if epsilon < bound else -math.inf
    return float(log_mean([log_e_value, fixed]))


def least_log_e_value(error: float) -> float:
    """The log e-value from which on a claim is refuted."""
    return -math.log(error) - LOG_E_VALUE_ROUNDING


def largest_refuted(test: ClaimTest, delta: float, error: float) -> float:
    """The epsilon up to which every claim is refuted by a test."""
    return refuted_up_to(lambda epsilon: test.refutes(epsilon, delta, error))


def refuted_up_to(refuted: Callable[[float], bool]) -> float:
    """The epsilon up to which every value is refuted; 0 if 0 is not.

    The true epsilon is refuted with probability at most the error, so the first value that is not
    refuted is at or below it except with that probability.  It is searched in steps: e-values nearly
    always fall with epsilon, and studies test the bounds themselves.
    """
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, EPSILON_STEP
    while refuted(high):
        low, high = high, high + EPSILON_STEP
        if high > LARGEST_CLAIM:
            return low
    return _halved(refuted, low, high)


def ceiling(refuted: Callable[[float], bool]) -> float:
    """The epsilon up to which the best possible outcome refutes every claim.

    E-values of best outcomes fall with epsilon: no need to follow every step.
    """
    low, high = 0.0, 1.0
    while high < LARGEST_CLAIM and refuted(high):
        low, high = high, 2 * high
    return min(_halved(refuted, low, high), LARGEST_CLAIM)


def _halved(refuted: Callable[[float], bool], low: float, high: float) -> float:
    """The end of what is refuted, between these two."""
    while high - low > ACCURACY:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def times_enough(most_provable: Callable[[float], float], claim: float, size: int) -> float | None:
    """How many times as many models could refute a claim, to about 5 %; None if MOST_MODELS could not.

    ``most_provable`` is what audits could prove that are so many times as large as one of this ``size``.
    """
    times = 1.0
    while times * size <= MOST_MODELS:
        missing = claim - most_provable(times)
        if missing < 0:
            return times
        times *= math.exp(max(SHARE_OF_STEP * missing, LEAST_STEP))
    return None
