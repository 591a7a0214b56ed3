"""The correlated binomial of Kupper and Haseman (1978): a binomial with its second moment corrected.

The paper mentions it as an alternative to the normal.  It is a probability only where no value is
negative, which for rates near 0 or 1 requires 0 <= tau <= 1 / (N - 1); that suffices for every rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtr, xlog1py, xlogy

from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.model.correlated import WithinCorrelation
from epsilometer.model.counts import AttackCounts

DRAWN_AT_ONCE = 1_000_000  # probabilities held in memory while counts are drawn


@dataclass(frozen=True, kw_only=True)
class KupperHaseman(WithinCorrelation):
    """Correlated binomial counts: overdispersed, with X and Y independent of each other.

    With q = 1 - p, the probability of x out of N at rate p is that of a binomial times

        1 + tau / 2 [x (x - 1) q / p - 2 x (N - x) + (N - x) (N - x - 1) p / q],

    which sums to 1, with mean N p and variance N p q (1 + (N - 1) tau) (Kupper and Haseman 1978,
    their second-order form of Bahadur's expansion).  There is no cross correlation.

    Prior: tau ~ normal(0, within_correlation_scale) truncated to 0 < tau < 1 / (largest N - 1).  Beyond
    that some rate would give some count a negative probability; so counts have at least the variance of
    binomial ones and at most twice that.  ``log_density`` is -inf where a probability would be
    negative.

    Parameters
    ----------
    within_correlation_scale
        Standard deviation of tau before truncation, as for the other correlated likelihoods.
    """

    name = "correlated-binomial"
    parameters = ("within_correlation",)

    @property
    def description(self) -> tuple[str, ...]:
        return (
            "Decisions on one challenge base are correlated: counts are correlated binomials (Kupper "
            "and Haseman), X and Y independent of each other.",
            "The within correlation has a normal prior with standard deviation "
            f"{self.within_correlation_scale:g}, truncated to where the model is valid at every rate: "
            "from 0 to 1 / (N - 1), which at most doubles the variance of a binomial.",
        )

    def within_correlation_bounds(self, counts: AttackCounts) -> tuple[float, float]:
        """The interval of possible tau: there it is a probability at every rate."""
        largest = max(int(counts.trials_h0.max()), int(counts.trials_h1.max()))
        return 0.0, 1.0 / (largest - 1)

    def prior_size(self, counts: AttackCounts) -> tuple[float, ...]:
        return self.within_correlation_bounds(counts)[1:]

    def prior_density(self, counts: AttackCounts, parameter: str, value: FloatArray) -> FloatArray:
        return np.exp(self.log_prior(counts, **{parameter: value}))

    def log_prior(self, counts: AttackCounts, **nuisance: ArrayLike) -> FloatArray:
        """Log of the prior density of tau; -inf outside its support."""
        tau = np.asarray(nuisance["within_correlation"], dtype=float)
        low, high = self.within_correlation_bounds(counts)
        scale = self.within_correlation_scale
        kept = float(ndtr(high / scale) - ndtr(low / scale))
        constant = -0.5 * math.log(2 * math.pi) - math.log(scale * kept)
        inside = (tau > low) & (tau < high)
        return np.where(inside, constant - 0.5 * (tau / scale) ** 2, -np.inf)

    def sample_nuisance(self, counts: AttackCounts, *, rng: Generator) -> dict[str, float]:
        return {
            "within_correlation": float(self._within_correlation_quantile(counts, rng.random()))
        }

    def sample_counts(
        self,
        counts: AttackCounts,
        alpha: FloatArray,
        beta: FloatArray,
        nuisance: Mapping[str, ArrayLike],
        *,
        rng: Generator,
    ) -> tuple[IntArray, IntArray]:
        """Draw X and Y by inverting their distribution functions."""
        tau = np.broadcast_to(np.asarray(nuisance["within_correlation"], dtype=float), alpha.shape)
        errors = []
        for rate, trials in ((alpha, counts.trials_h0), (beta, counts.trials_h1)):
            drawn = np.empty(rate.shape, dtype=np.int64)
            for base, n in enumerate(trials.tolist()):
                rates, correlation = rate[..., base].ravel(), tau[..., base].ravel()
                uniform, values = rng.random(len(rates)), np.empty(len(rates), dtype=np.int64)
                size = max(1, DRAWN_AT_ONCE // (n + 1))
                for start in range(0, len(rates), size):
                    part = slice(start, start + size)
                    chance = np.exp(
                        log_correlated_binomial(
                            np.arange(n + 1), n, rates[part, None], correlation[part, None]
                        )
                    )
                    below = np.cumsum(chance, axis=1)
                    values[part] = (below < uniform[part, None] * below[:, -1:]).sum(axis=1)
                drawn[..., base] = values.reshape(rate.shape[:-1])
            errors.append(drawn)
        return errors[0], errors[1]

    def count_moments(self, counts: AttackCounts, nuisance: Mapping[str, FloatArray]) -> FloatPair:
        """Moments for a base of average size."""
        tau = nuisance["within_correlation"]
        trials = 0.5 * float(counts.trials_h0.mean() + counts.trials_h1.mean())
        return 1 + (trials - 1) * tau, np.zeros_like(tau)

    def log_density(
        self, counts: AttackCounts, alpha: ArrayLike, beta: ArrayLike, **nuisance: float
    ) -> FloatArray:
        """Log probability of each base's counts; the last axis of alpha and beta is the base."""
        tau = nuisance["within_correlation"]
        sides = (
            (counts.false_positives, counts.trials_h0, alpha),
            (counts.false_negatives, counts.trials_h1, beta),
        )
        x, y = (log_correlated_binomial(k, n, np.asarray(p, float), tau) for k, n, p in sides)
        return np.asarray(x + y)


def correction(count: ArrayLike, trials: ArrayLike, rate: FloatArray, tau: ArrayLike) -> FloatArray:
    """The factor on the binomial probability, for rates in (0, 1); negative where it is invalid."""
    k, rest = np.asarray(count, dtype=float), np.asarray(trials, float) - np.asarray(count, float)
    odds = rate / (1 - rate)
    total = k * (k - 1) / odds - 2 * k * rest + rest * (rest - 1) * odds
    return np.asarray(1 + 0.5 * np.asarray(tau) * total)


def log_correlated_binomial(
    count: ArrayLike, trials: ArrayLike, rate: FloatArray, tau: ArrayLike
) -> FloatArray:
    """Log probability of a count; at rates 0 and 1 the count is certain.

    Examples
    --------
    >>> np.exp(log_correlated_binomial([0, 1, 2], 2, np.array(0.5), 0.2))
    array([0.3, 0.4, 0.3])
    """
    k, n = np.asarray(count, dtype=float), np.asarray(trials, dtype=float)
    rest = n - k
    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(rest + 1)
    plain = choose + xlogy(k, rate) + xlog1py(rest, -rate)
    inside = (rate > 0) & (rate < 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        more = np.log(correction(k, n, np.where(inside, rate, 0.5), tau))
    # A negative value means the count is impossible; rates 0 and 1 need no correction.
    return np.asarray(np.where(inside, plain + np.where(np.isnan(more), -np.inf, more), plain))
