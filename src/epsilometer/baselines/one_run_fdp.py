"""Auditing f-differential privacy in one run (Mahloujifar, Melis and Chaudhuri 2024).

Uses the same guesses as `one_run.py`, with a recursion over how many of them can be correct if the
algorithm's trade-off curve is f.  The curve comes from a one-parameter family; the largest parameter
that the guesses refute is converted to an epsilon at delta.

In the recursion, ``right`` and ``wrong`` are the probabilities that a canary is guessed correctly
(incorrectly) and at least i guesses are correct, starting at i = v from the values implied by a
probability ``level`` of v or more.  As i decreases, the curve forces ``wrong`` up to the smallest
false-positive rate at ``right``, and counting forces ``right`` up by i / (r - i) times that (theorem 9
and algorithm 3 of that paper).  If the total exceeds r / m, the curve is refuted.

The family is the assumption.  `ApproximateDP` makes the weakest, (epsilon, delta)-DP itself, and bounds
epsilon for any algorithm.  `GaussianDP` assumes a Gaussian mechanism, as jax_privacy does: tighter if
this is true, and otherwise about the Gaussian mechanism that covers the algorithm, whose epsilon may be
far above the algorithm's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root
from scipy.special import ndtri

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.baselines.estimator import (
    Kind,
    LowerEndOnly,
    check_positive_delta,
    check_significance,
)
from epsilometer.baselines.one_run import (
    EPSILON_TOLERANCE,
    FAIR_COIN,
    check_guesses,
    check_levels,
    guessed_members,
)
from epsilometer.model.counts import AttackCounts
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

_FIRST_BRACKET, _LARGEST_PARAMETER = 1.0, 512.0
"""Initial and largest upper end of the bracket, which is doubled; exp of the largest is finite."""


@dataclass(frozen=True)
class ApproximateDP:
    """The curve of (epsilon, delta)-DP, with parameter epsilon.  Holds for every algorithm.

    At a true-positive rate t, the least false-positive rate is the larger of (t - delta) e^-epsilon and
    1 - delta - e^epsilon (1 - t): the two edges of R(epsilon, delta).
    """

    gaussian = False

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """Epsilon at delta: the parameter itself."""
        return parameter


@dataclass(frozen=True)
class GaussianDP:
    """The curve of two unit-variance normal distributions, with parameter mu, their distance.

    At a true-positive rate t, the least false-positive rate is Phi(Phi^-1(t) - mu).
    """

    gaussian = True

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """Epsilon of the Gaussian mechanism at delta."""
        return epsilon_of_gaussian(parameter, check_positive_delta(delta, who="GaussianDP"))


Family = ApproximateDP | GaussianDP
"""Trade-off curves that decrease in their parameter; at 0 membership is indistinguishable."""


def epsilon_one_run_fdp(
    canaries: ArrayLike,
    guesses: ArrayLike,
    correct: ArrayLike,
    delta: float,
    significance: ArrayLike = 0.05,
    *,
    family: Family | None = None,
) -> FloatArray:
    """Epsilon at delta of the largest parameter that the guesses refute; 0 if none.

    Parameters
    ----------
    canaries, guesses, correct
        m >= r >= v >= 0, any shapes that broadcast.
    delta
        In [0, 1); above 0 for `GaussianDP`.
    significance
        Error probability of the bound, in (0, 1); may be an array.
    family
        Default: `ApproximateDP()`.

    Examples
    --------
    >>> round(float(epsilon_one_run_fdp(1000, 100, 100, 1e-5, family=GaussianDP())), 5)
    5.54903
    """
    from epsilometer.baselines.one_run_fdp_kernels import excess as kernel

    family = ApproximateDP() if family is None else family
    delta = _validate.delta(delta)
    guessed = check_guesses(canaries, guesses, correct, check_levels(significance))
    shape = guessed[0].shape
    m, r, v, level = (x.flatten() for x in guessed)

    def excess(
        parameter: FloatArray, m: FloatArray, r: FloatArray, v: FloatArray, level: FloatArray
    ) -> FloatArray:
        first = ndtri(level * v / m)
        return np.asarray(kernel(parameter, m, r, v, level, first, delta, family.gaussian))

    parameter = np.zeros(len(m))
    refuted = (excess(parameter, m, r, v, level) > 0) & (r > 0)
    if refuted.any():
        few = m[refuted], r[refuted], v[refuted], level[refuted]
        low, high = parameter[refuted], np.full(few[0].shape, _FIRST_BRACKET)
        while True:
            above = excess(high, *few) > 0
            if not above.any() or high.max() >= _LARGEST_PARAMETER:
                break
            low, high = np.where(above, high, low), np.where(above, 2 * high, high)
        root = find_root(excess, (low, high), args=few, tolerances={"xatol": EPSILON_TOLERANCE})
        # Refuted even at the largest parameter: report that one.
        parameter[refuted] = np.where(above, high, root.x)
    return family.epsilon(parameter.reshape(shape), delta)


@dataclass(frozen=True)
class OneRunFdpBound(LowerEndOnly):
    """Mahloujifar's bound from error counts: the guesses are those of `OneRunBound`.

    Parameters
    ----------
    family
        Family of trade-off curves; `ApproximateDP()` holds for every algorithm.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=500, false_negatives=[410], trials_h1=500
    ... )
    >>> round(float(OneRunFdpBound().lower(counts, 1e-5)[0]), 4)
    1.6143
    """

    family: Family = field(default_factory=ApproximateDP)

    kind = Kind.EXACT_BOUND

    @property
    def label(self) -> str:
        return "one run, f-DP, Gaussian" if self.gaussian else "one run, f-DP"

    @property
    def assumes(self) -> str:
        return f"a Gaussian trade-off curve, {FAIR_COIN}" if self.gaussian else FAIR_COIN

    @property
    def gaussian(self) -> bool:
        return self.family.gaussian

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        guessed, error = guessed_members(counts), check_significance(significance)
        return epsilon_one_run_fdp(*guessed, delta, error, family=self.family)
