"""Epsilon of the Gaussian mechanism that two error rates imply.

If the algorithm is mu-GDP, an attack has Phi^-1(1 - alpha) - Phi^-1(beta) <= mu (Dong, Roth and Su
2022).  Upper limits of both rates, each with half of the error, give a lower bound of mu, and from it
the epsilon at delta (Nasr et al. 2023).  It bounds the algorithm's own epsilon only if the algorithm's
trade-off curve is Gaussian; a Laplace mechanism with epsilon = 1 is covered by mu = 1.03, whose epsilon
at delta = 1e-5 is 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.baselines.estimator import Kind, check_positive_delta
from epsilometer.baselines.rates import FromRateLimits
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian


def separation(alpha: ArrayLike, beta: ArrayLike) -> FloatArray:
    """Separation mu at which a Gaussian mechanism just allows these rates; 0 if they sum to 1.

    Infinite if a rate is 0.

    Examples
    --------
    >>> round(float(separation(0.3085375387, 0.3085375387)), 6)
    1.0
    """
    alpha, beta = np.asarray(alpha, dtype=float), np.asarray(beta, dtype=float)
    with np.errstate(invalid="ignore"):  # rates of 0 and 1, which sum to 1
        return np.asarray(np.where(alpha + beta < 1, -ndtri(alpha) - ndtri(beta), 0.0))


@dataclass(frozen=True)
class GaussianRates(FromRateLimits):
    """Epsilon at delta from Clopper-Pearson limits of the rates, assuming a Gaussian mechanism.

    Examples
    --------
    >>> from epsilometer import AttackCounts
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=100, false_negatives=[10], trials_h1=100
    ... )
    >>> round(float(GaussianRates().lower(counts, 1e-5)[0]), 4)
    9.1439
    """

    label = "Gaussian DP"
    kind = Kind.EXACT_BOUND
    assumes = "a Gaussian trade-off curve, independent trials, a decision rule fixed in advance"
    gaussian = True

    def _epsilons(self, alpha: FloatPair, beta: FloatPair, delta: float) -> FloatPair:
        delta = check_positive_delta(delta, who=self.label)
        at_low, at_high = (
            # A reflected attack is equally informative.
            (separation(a, b), separation(1 - a, 1 - b))
            for a, b in zip(alpha, beta, strict=True)
        )
        near, far = np.maximum(at_high[0], at_low[1]), np.maximum(at_low[0], at_high[1])
        upper = np.full(far.shape, np.inf)
        known = np.isfinite(far)
        upper[known] = epsilon_of_gaussian(far[known], delta)
        return epsilon_of_gaussian(near, delta), upper
