"""Auditing f-differential privacy in one run (Mahloujifar, Melis and Chaudhuri 2024).

The same guesses as in `one_run.py`, judged by a recursion over how many of them can be right when the
algorithm's trade-off curve is f.  The curve comes from a family with one parameter; the largest
parameter that the guesses refute becomes an epsilon at delta.

The recursion: ``right`` and ``wrong`` stand for the probability that a canary is guessed rightly
(wrongly) and at least i of the guesses are right, starting from what a probability ``level`` of seeing
v or more would leave at i = v.  Going down in i, the curve forces ``wrong`` up to the least
false-positive rate at ``right``, and counting forces ``right`` up by i / (r - i) times that (theorem 9
and algorithm 3 of that paper).  More than r / m in all cannot be: then the curve is refuted.

Which family is the assumption.  `ApproximateDP` makes the weakest, (epsilon, delta)-DP itself, and
bounds epsilon for any algorithm.  `GaussianDP` takes the algorithm for a Gaussian mechanism, as
jax_privacy does: tighter if it is one, and otherwise about the Gaussian mechanism that covers it, whose
epsilon may be far above the algorithm's own.
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
from epsilometer.baselines.one_run import TOLERANCE, check_guesses, check_levels
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

_FIRST_BRACKET, _LARGEST_PARAMETER = 1.0, 512.0
"""Doubled from the first to the largest, whose exponential is still a double."""


@dataclass(frozen=True)
class ApproximateDP:
    """The curve of (epsilon, delta)-DP; its parameter is epsilon.  Holds for every algorithm."""

    gaussian = False

    def least_false_positive_rate(
        self, true_positive_rate: FloatArray, parameter: FloatArray, delta: float
    ) -> FloatArray:
        """Where the two edges of R(epsilon, delta) leave room."""
        shallow = (true_positive_rate - delta) * np.exp(-parameter)
        steep = 1 - delta - np.exp(np.minimum(parameter, 700.0)) * (1 - true_positive_rate)
        return np.maximum(0.0, np.maximum(shallow, steep))

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """What the parameter says about epsilon at delta: it is epsilon."""
        return parameter


@dataclass(frozen=True)
class GaussianDP:
    """The curve of two normal distributions a distance apart; its parameter is that distance, mu."""

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
"""Trade-off curves that fall as their parameter grows; at 0 nothing can be told apart."""


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
        Probability that the bound errs, in (0, 1); an array for several.
    family
        `ApproximateDP()` unless given.

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
        root = find_root(excess, (low, high), args=few, tolerances={"xatol": TOLERANCE})
        # Refuted even at the largest: that is as much as is claimed.
        parameter[refuted] = np.where(above, high, root.x)
    return family.epsilon(parameter.reshape(shape), delta)
