"""How error counts arise from error rates: independent binomials, or correlated normals.

:class:`IndependentBinomial` is the paper's equation (1), for attacks whose challenges each had their
own shadow models.  :class:`CorrelatedNormal` is its equation (8), for cross-fed shadow models, where
decisions on one base share models: within_correlation is tau, cross_correlation is rho.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtr, ndtri, xlog1py, xlogy

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts


@runtime_checkable
class Likelihood(Protocol):
    """How counts arise from error rates, and all that engines, checks and words need to know of it.

    Parameters of the likelihood's own are nuisance parameters: common to all bases, estimated with
    epsilon, and passed about by name.  A class that inherits from this one has none, and is about any
    counts, unless it says otherwise.
    """

    @property
    def name(self) -> str:
        """As options and files know it."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its nuisance parameters."""
        return ()

    @property
    def words(self) -> tuple[str, ...]:
        """What is assumed, one sentence each."""

    @property
    def bounded(self) -> bool:
        """Whether the likelihood of any counts is bounded: a probability, not a density."""
        return True

    @property
    def independent(self) -> bool:
        """Whether decisions on one base are independent; valid bounds from counts need that."""
        return True

    def check(self, counts: AttackCounts) -> None:
        """Refuse counts that it cannot be about."""
        return

    def smallest_epsilon(self, counts: AttackCounts) -> float:
        """The epsilon below which it is not used."""
        return 0.0

    def prior_size(self, counts: AttackCounts) -> tuple[float, ...]:
        """What the prior of the nuisance parameters takes from the counts' sizes, in numbers."""
        return ()

    def log_density(
        self, counts: AttackCounts, alpha: ArrayLike, beta: ArrayLike, **nuisance: float
    ) -> FloatArray:
        """Log likelihood of each base's counts; the last axis of alpha and beta is the base."""

    def log_prior(self, counts: AttackCounts, **nuisance: ArrayLike) -> FloatArray:
        """Log of the joint prior density of the nuisance parameters; -inf outside its support."""
        return np.zeros(())

    def prior_density(self, counts: AttackCounts, parameter: str, value: FloatArray) -> FloatArray:
        """The marginal prior density of one of its parameters."""
        raise InputError(f"expected a parameter of the likelihood, got {parameter!r}.")

    def sample_nuisance(self, counts: AttackCounts, *, rng: Generator) -> dict[str, float]:
        """Draw the nuisance parameters from their prior; of ``counts`` only the trials are used."""
        return {}

    def sample_counts(
        self,
        counts: AttackCounts,
        alpha: FloatArray,
        beta: FloatArray,
        nuisance: Mapping[str, ArrayLike],
        *,
        rng: Generator,
    ) -> tuple[IntArray, IntArray]:
        """Draw X and Y; the last axis of the rates is the base, of ``counts`` only the trials matter."""

    def count_moments(self, counts: AttackCounts, nuisance: Mapping[str, FloatArray]) -> FloatPair:
        """Variance of a count over a binomial's, and the correlation of X and Y, for draws."""
        return np.ones(1), np.zeros(1)


@dataclass(frozen=True, kw_only=True)
class IndependentBinomial(Likelihood):
    """X ~ Binomial(N0, alpha) and Y ~ Binomial(N1, beta), independent."""

    name = "binomial"
    words = ("All decisions are independent: the counts are binomial.",)

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


def normal_counts(
    trials: IntArray | int, rate: FloatArray, wider: FloatArray | float, normal: FloatArray
) -> IntArray:
    """Counts from standard normals, ``wider`` than binomial by that factor; rounded, cut to 0..N."""
    counts = trials * rate + np.sqrt(trials * wider * rate * (1 - rate)) * normal
    return np.clip(np.rint(counts), 0, trials).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class CorrelatedNormal(Likelihood):
    """A bivariate normal for (X, Y) with correlated decisions, N0 and N1 free to differ.

    Var X = alpha (1 - alpha) N0 (1 + (N0 - 1) tau), Var Y alike with N1 and beta, and
    Cov(X, Y) = rho N0 N1 sqrt(alpha (1 - alpha) beta (1 - beta)); tau and rho are common to all bases.

    Priors, as in the paper: tau ~ normal(0, within_correlation_scale) cut to where every variance is
    positive, -1 / (largest N - 1) < tau < 1; given tau, rho is uniform where every covariance matrix
    is positive definite, |rho| <= :meth:`cross_correlation_bound`.

    The density is that of the continuous normal; it is not renormalised to the integers 0..N.

    Parameters
    ----------
    within_correlation_scale
        Standard deviation of tau before the cut; the paper's variance 1e-4 is 0.01.
    """

    within_correlation_scale: float = 0.01

    name = "correlated"
    parameters = ("within_correlation", "cross_correlation")
    # The normal density is unbounded where a rate meets 0 or 1.
    bounded = False
    independent = False

    def __post_init__(self) -> None:
        scale = _validate.positive("within_correlation_scale", self.within_correlation_scale)
        object.__setattr__(self, "within_correlation_scale", scale)

    @property
    def words(self) -> tuple[str, ...]:
        return (
            "Decisions on one challenge base are correlated: its two counts are jointly normal.",
            "The within correlation has a normal prior, standard deviation "
            f"{self.within_correlation_scale:g}, cut to what is possible; the cross correlation is "
            "uniform given it.",
        )

    def check(self, counts: AttackCounts) -> None:
        """Refuse bases with a single trial: decisions cannot be correlated with themselves."""
        for name in ("trials_h0", "trials_h1"):
            column = getattr(counts, name)
            if column.min() < 2:
                label = counts.names[int(np.argmin(column))]
                raise InputError(
                    f"challenge base {label!r}: the correlated likelihood expects {name} >= 2, "
                    f"got {name}={int(column.min())}; use the binomial likelihood."
                )

    def smallest_epsilon(self, counts: AttackCounts) -> float:
        """The epsilon below which this likelihood is not used: half a count in the largest trials.

        There R(epsilon, delta) is narrower than a single count.  The normal density, unlike a
        probability of counts, is unbounded where a rate meets 0 or 1, and averaged over so thin a
        region it can outweigh everything else: an artefact, not evidence for epsilon = 0.
        """
        return 0.5 / max(int(counts.trials_h0.max()), int(counts.trials_h1.max()))

    def within_correlation_bounds(self, counts: AttackCounts) -> tuple[float, float]:
        """The open interval in which tau may lie."""
        largest = max(int(counts.trials_h0.max()), int(counts.trials_h1.max()))
        return -1.0 / (largest - 1), 1.0

    def cross_correlation_bound(
        self, counts: AttackCounts, within_correlation: ArrayLike
    ) -> FloatArray:
        """The largest |rho| that suits every base, for each given tau."""
        sizes = np.unique(np.stack([counts.trials_h0, counts.trials_h1], axis=1), axis=0)
        tau = np.asarray(within_correlation, dtype=float)[..., None]
        return np.asarray(_correlation_unit(sizes[:, 0], sizes[:, 1], tau).min(axis=-1))

    def prior_size(self, counts: AttackCounts) -> tuple[float, ...]:
        """The least tau, and the bound of rho at tau = 0 and above: all that depends on trials."""
        low, _ = self.within_correlation_bounds(counts)
        scale = self.within_correlation_scale
        bounds = self.cross_correlation_bound(counts, np.array([0.5 * low, 0.0, scale]))
        return (low, *bounds.tolist())

    def _within_correlation_quantile(self, counts: AttackCounts, share: ArrayLike) -> FloatArray:
        """The tau below which that share of its prior lies."""
        low, high = self.within_correlation_bounds(counts)
        scale = self.within_correlation_scale
        at_low, at_high = ndtr(low / scale), ndtr(high / scale)
        return np.asarray(scale * ndtri(at_low + np.asarray(share) * (at_high - at_low)))

    def prior_density(self, counts: AttackCounts, parameter: str, value: FloatArray) -> FloatArray:
        if parameter == "within_correlation":
            scale = self.within_correlation_scale
            low, high = self.within_correlation_bounds(counts)
            peak = 1 / (scale * np.sqrt(2 * np.pi) * (ndtr(high / scale) - ndtr(low / scale)))
            inside = (value > low) & (value < high)
            return np.where(inside, peak * np.exp(-0.5 * (value / scale) ** 2), 0.0)
        # Given tau the cross correlation is uniform within its bound: average over tau.
        tau = self._within_correlation_quantile(counts, (np.arange(2000) + 0.5) / 2000)
        bound = self.cross_correlation_bound(counts, tau)
        allowed = np.abs(value)[..., None] < bound
        return np.asarray((allowed / (2 * bound)).mean(axis=-1))

    def log_prior(self, counts: AttackCounts, **nuisance: ArrayLike) -> FloatArray:
        """Log of the joint prior density of (tau, rho); -inf outside its support."""
        tau = np.asarray(nuisance["within_correlation"], dtype=float)
        rho = np.asarray(nuisance["cross_correlation"], dtype=float)
        low, high = self.within_correlation_bounds(counts)
        scale = self.within_correlation_scale
        kept = float(ndtr(high / scale) - ndtr(low / scale))
        inside = (tau > low) & (tau < high)
        bound = self.cross_correlation_bound(counts, np.where(inside, tau, 0.0))
        inside &= np.abs(rho) < bound
        z = tau / scale
        constant = -0.5 * math.log(2 * math.pi) - math.log(scale) - math.log(kept)
        return np.where(inside, constant - 0.5 * z * z - np.log(2 * bound), -np.inf)

    def sample_nuisance(self, counts: AttackCounts, *, rng: Generator) -> dict[str, float]:
        tau = float(self._within_correlation_quantile(counts, rng.random()))
        bound = float(self.cross_correlation_bound(counts, tau))
        rho = float(rng.uniform(-bound, bound))
        return {"within_correlation": tau, "cross_correlation": rho}

    def sample_counts(
        self,
        counts: AttackCounts,
        alpha: FloatArray,
        beta: FloatArray,
        nuisance: Mapping[str, ArrayLike],
        *,
        rng: Generator,
    ) -> tuple[IntArray, IntArray]:
        """Draw X and Y jointly normal, rounded and cut to 0..N."""
        n0, n1 = counts.trials_h0, counts.trials_h1
        tau = np.asarray(nuisance["within_correlation"])
        rho = np.asarray(nuisance["cross_correlation"])
        # How much wider than binomial; next to the bound of tau rounding may leave 0 or less.
        least = np.finfo(float).eps
        wider_h0 = np.maximum(1 + (n0 - 1) * tau, least)
        wider_h1 = np.maximum(1 + (n1 - 1) * tau, least)
        correlation = rho * np.sqrt(n0 / wider_h0) * np.sqrt(n1 / wider_h1)
        correlation = np.clip(correlation, -1.0, 1.0)
        z, w = rng.standard_normal((2, *alpha.shape))
        w = correlation * z + np.sqrt(1 - correlation**2) * w
        return normal_counts(n0, alpha, wider_h0, z), normal_counts(n1, beta, wider_h1, w)

    def count_moments(self, counts: AttackCounts, nuisance: Mapping[str, FloatArray]) -> FloatPair:
        """Those of a base of average size."""
        tau, rho = nuisance["within_correlation"], nuisance["cross_correlation"]
        trials = 0.5 * float(counts.trials_h0.mean() + counts.trials_h1.mean())
        # Next to the bound of tau rounding may leave 0 or less.
        ratio = np.maximum(1 + (trials - 1) * tau, np.finfo(float).eps)
        return ratio, np.clip(rho / self.cross_correlation_bound(counts, tau), -1.0, 1.0)

    def log_density(
        self, counts: AttackCounts, alpha: ArrayLike, beta: ArrayLike, **nuisance: float
    ) -> FloatArray:
        """Log density of each base's counts; the last axis of alpha and beta is the base."""
        alpha, beta = np.asarray(alpha, dtype=float), np.asarray(beta, dtype=float)
        tau, rho = nuisance["within_correlation"], nuisance["cross_correlation"]
        n0, n1 = counts.trials_h0, counts.trials_h1
        var_x = alpha * (1 - alpha) * n0 * (1 + (n0 - 1) * tau)
        var_y = beta * (1 - beta) * n1 * (1 + (n1 - 1) * tau)
        r = rho / _correlation_unit(n0, n1, np.asarray(tau))
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (counts.false_positives - n0 * alpha) / np.sqrt(var_x)
            w = (counts.false_negatives - n1 * beta) / np.sqrt(var_y)
            quadratic = (z * z + w * w - 2 * r * z * w) / (1 - r * r)
            constant = -math.log(2 * math.pi) - 0.5 * np.log(var_x * var_y) - 0.5 * np.log1p(-r * r)
            logs = constant - 0.5 * quadratic
        return np.where((var_x > 0) & (var_y > 0), logs, -np.inf)


def _correlation_unit(trials_h0: IntArray, trials_h1: IntArray, tau: FloatArray) -> FloatArray:
    """The rho at which the counts of a base of this size would be perfectly correlated."""
    wider_h0, wider_h1 = (np.maximum(1 + (n - 1) * tau, 0.0) for n in (trials_h0, trials_h1))
    return np.sqrt(wider_h0 / trials_h0 * wider_h1 / trials_h1)


LIKELIHOODS = {kind.__name__: kind for kind in (IndependentBinomial, CorrelatedNormal)}
"""Every likelihood by the name that files know it by; a new one is registered here."""
