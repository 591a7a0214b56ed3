"""How error counts arise from error rates: all likelihoods, by name.

:class:`IndependentBinomial` is the paper's equation (1), for attacks in which every challenge had its
own shadow models.  Those of correlated counts, for cross-fed shadow models, are in `correlated` and
`correlated_binomial`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlog1py, xlogy

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.model.correlated import (
    CorrelatedCells,
    CorrelatedCounts,
    CorrelatedNormal,
    normal_counts,
)
from epsilometer.model.correlated_binomial import KupperHaseman
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihood_protocol import Likelihood

__all__ = [
    "LIKELIHOODS",
    "CorrelatedCells",
    "CorrelatedCounts",
    "CorrelatedNormal",
    "IndependentBinomial",
    "KupperHaseman",
    "Likelihood",
    "normal_counts",
]


@dataclass(frozen=True, kw_only=True)
class IndependentBinomial(Likelihood):
    """X ~ Binomial(N0, alpha) and Y ~ Binomial(N1, beta), independent."""

    name = "binomial"
    description = ("All decisions are independent: the counts are binomial.",)

    def sample_counts(
        self,
        counts: AttackCounts,
        alpha: FloatArray,
        beta: FloatArray,
        nuisance: Mapping[str, ArrayLike],
        *,
        rng: Generator,
    ) -> tuple[IntArray, IntArray]:
        return rng.binomial(counts.trials_h0, alpha), rng.binomial(counts.trials_h1, beta)

    def sample(
        self,
        alpha: FloatArray,
        beta: FloatArray,
        *,
        trials_h0: ArrayLike,
        trials_h1: ArrayLike,
        rng: Generator,
    ) -> AttackCounts:
        """Draw counts for attacks with the given error rates."""
        return AttackCounts(
            false_positives=rng.binomial(np.broadcast_to(trials_h0, alpha.shape), alpha),
            trials_h0=trials_h0,
            false_negatives=rng.binomial(np.broadcast_to(trials_h1, beta.shape), beta),
            trials_h1=trials_h1,
        )

    def log_density(
        self, counts: AttackCounts, alpha: ArrayLike, beta: ArrayLike, **nuisance: float
    ) -> FloatArray:
        """Log probability of each base's counts; the last axis of alpha and beta is the base."""
        total: FloatArray = np.asarray(0.0)
        for count, trials, rate in (
            (counts.false_positives, counts.trials_h0, np.asarray(alpha, dtype=float)),
            (counts.false_negatives, counts.trials_h1, np.asarray(beta, dtype=float)),
        ):
            rest = trials - count
            choose = gammaln(trials + 1) - gammaln(count + 1) - gammaln(rest + 1)
            total = total + choose + xlogy(count, rate) + xlog1py(rest, -rate)
        return np.asarray(total)


LIKELIHOODS = {
    kind.__name__: kind
    for kind in (IndependentBinomial, CorrelatedCells, KupperHaseman, CorrelatedNormal)
}
"""Likelihood classes by the name used in files; register new ones here."""
