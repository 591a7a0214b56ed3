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

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root
from scipy.special import ndtr, ndtri

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.baselines.estimator import check_positive_delta
from epsilometer.baselines.one_run import EPSILON_TOLERANCE, check_guesses, check_levels
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

_FIRST_BRACKET, _LARGEST_PARAMETER = 1.0, 512.0
"""Initial and largest upper end of the bracket, which is doubled; exp of the largest is finite."""


@dataclass(frozen=True)
class ApproximateDP:
    """The curve of (epsilon, delta)-DP, with parameter epsilon.  Holds for every algorithm."""

    gaussian = False

    def least_false_positive_rate(
        self, true_positive_rate: FloatArray, parameter: FloatArray, delta: float
    ) -> FloatArray:
        """Determined by the two edges of R(epsilon, delta)."""
        shallow = (true_positive_rate - delta) * np.exp(-parameter)
        steep = 1 - delta - np.exp(np.minimum(parameter, 700.0)) * (1 - true_positive_rate)
        return np.maximum(0.0, np.maximum(shallow, steep))

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """Epsilon at delta: the parameter itself."""
        return parameter


@dataclass(frozen=True)
class GaussianDP:
    """The curve of two unit-variance normal distributions, with parameter mu, their distance."""

    gaussian = True

    def least_false_positive_rate(
        self, true_positive_rate: FloatArray, parameter: FloatArray, delta: float
    ) -> FloatArray:
        """Phi(Phi^-1(TPR) - mu)."""
        return np.asarray(ndtr(ndtri(true_positive_rate) - parameter))

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
