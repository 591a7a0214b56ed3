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
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root
from scipy.special import ndtr, ndtri

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.baselines.estimator import check_positive_delta, check_significance
from epsilometer.baselines.one_run import check_guesses
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

_TOLERANCE = 1e-9
"""Of the parameter, absolute: far below what anybody reports."""

_FIRST_BRACKET, _LARGEST_PARAMETER = 1.0, 512.0
"""Doubled from the first to the largest, whose exponential is still a double."""


class Guessed(NamedTuple):
    """Canaries, guesses, right ones, and the allowed error: arrays of one length."""

    m: FloatArray
    r: FloatArray
    v: FloatArray
    level: FloatArray


class Family(Protocol):
    """Trade-off curves that fall as their parameter grows; at 0 nothing can be told apart."""

    def least_false_positive_rate(
        self, true_positive_rate: FloatArray, parameter: FloatArray, delta: float
    ) -> FloatArray:
        """Least false-positive rate of a test with this true-positive rate."""

    def excess(self, parameter: FloatArray, guessed: Guessed, delta: float) -> FloatArray:
        """Above 0 where the curve at ``parameter`` is refuted; see the head of this module."""

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """What the parameter says about epsilon at delta."""


@dataclass(frozen=True)
class ApproximateDP:
    """The curve of (epsilon, delta)-DP; its parameter is epsilon.  Holds for every algorithm."""

    def least_false_positive_rate(
        self, true_positive_rate: FloatArray, parameter: FloatArray, delta: float
    ) -> FloatArray:
        """Where the two edges of R(epsilon, delta) leave room."""
        shallow = (true_positive_rate - delta) * np.exp(-parameter)
        with np.errstate(over="ignore", invalid="ignore"):
            steep = 1 - delta - np.exp(np.minimum(parameter, 700.0)) * (1 - true_positive_rate)
        return np.maximum(0.0, np.fmax(shallow, steep))

    def excess(self, parameter: FloatArray, guessed: Guessed, delta: float) -> FloatArray:
        """Above 0 where (parameter, delta)-DP is refuted."""
        from epsilometer.baselines.one_run_fdp_kernels import excess_of_approximate_dp

        return np.asarray(excess_of_approximate_dp(parameter, *guessed, delta))

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """The parameter itself."""
        return parameter


@dataclass(frozen=True)
class GaussianDP:
    """The curve of two normal distributions a distance apart; its parameter is that distance, mu."""

    def least_false_positive_rate(
        self, true_positive_rate: FloatArray, parameter: FloatArray, delta: float
    ) -> FloatArray:
        """Phi(Phi^-1(TPR) - mu)."""
        return np.asarray(ndtr(ndtri(true_positive_rate) - parameter))

    def excess(self, parameter: FloatArray, guessed: Guessed, delta: float) -> FloatArray:
        """Above 0 where the Gaussian mechanism with that separation is refuted."""
        from epsilometer.baselines.one_run_fdp_kernels import excess_of_gaussian_dp

        first = ndtri(guessed.level * guessed.v / guessed.m)
        return np.asarray(excess_of_gaussian_dp(parameter, *guessed, first))

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """Epsilon of the Gaussian mechanism at delta."""
        return epsilon_of_gaussian(parameter, check_positive_delta(delta, who="GaussianDP"))


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
    family = ApproximateDP() if family is None else family
    delta = _validate.delta(delta)
    level = np.asarray(significance, dtype=float)
    for end in (level.min(), level.max()):
        check_significance(float(end))
    m, r, v = check_guesses(canaries, guesses, correct)
    shape = np.broadcast_shapes(m.shape, level.shape)
    every = Guessed(
        *(np.ascontiguousarray(np.broadcast_to(x, shape)).ravel() for x in (m, r, v, level))
    )
    parameter = np.zeros(len(every.m))
    refuted = (family.excess(parameter, every, delta) > 0) & (every.r > 0)
    if refuted.any():
        guessed = Guessed(*(x[refuted] for x in every))
        low, high = np.zeros(guessed.m.shape), np.full(guessed.m.shape, _FIRST_BRACKET)
        while True:
            above = family.excess(high, guessed, delta) > 0
            if not above.any() or high.max() >= _LARGEST_PARAMETER:
                break
            low, high = np.where(above, high, low), np.where(above, 2 * high, high)
        root = find_root(
            partial(_solved, family, delta),
            (low, high),
            args=guessed,
            tolerances={"xatol": _TOLERANCE},
        )
        # Refuted even at the largest: that is as much as is claimed.
        parameter[refuted] = np.where(above, high, root.x)
    return family.epsilon(parameter.reshape(shape), delta)


def _solved(family: Family, delta: float, parameter: FloatArray, *data: FloatArray) -> FloatArray:
    """The excess as the root finder asks for it, whatever shapes it makes of its arrays."""
    shape = np.broadcast(parameter, *data).shape
    first, *rest = (np.ascontiguousarray(x).ravel() for x in np.broadcast_arrays(parameter, *data))
    return family.excess(first, Guessed(*rest), delta).reshape(shape)
