"""How error counts arise from error rates: all likelihoods, by name.

:class:`IndependentBinomial` is the paper's equation (1), for attacks in which every challenge had its
own shadow models.  The others are for cross-fed shadow models, where decisions on one base share models
and counts are correlated: both have the moments of the paper's equation (8), where within_correlation
is tau and cross_correlation is rho.  :class:`CorrelatedNormal` is that equation as published, a normal
density; :class:`CorrelatedCells` is the probability that such a normal variable rounds to the counts.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtr, ndtri, xlog1py, xlogy

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts

#: Values of a likelihood's own parameters, by name.
Nuisance = Mapping[str, ArrayLike]


class Likelihood(ABC):
    """How counts arise from error rates, as engines, checks and reports need it.

    A likelihood's own parameters are nuisance parameters: common to all bases, estimated together with
    epsilon, and passed by name.  By default there are none, and any counts are accepted.
    """

    #: The name used in options and files.
    name: ClassVar[str]
    #: Names of its nuisance parameters.
    parameters: ClassVar[tuple[str, ...]] = ()
    #: Whether the likelihood of any counts is bounded: a probability, not a density.
    bounded: ClassVar[bool] = True
    #: Whether decisions on one base are independent, as valid bounds from counts require.
    independent: ClassVar[bool] = True

    @property
    @abstractmethod
    def description(self) -> tuple[str, ...]:
        """The assumptions, one sentence each."""

    def check(self, counts: AttackCounts) -> None:
        """Refuse counts that are incompatible with the likelihood."""
        return

    def smallest_epsilon(self, counts: AttackCounts) -> float:
        """The epsilon below which it is not used."""
        return 0.0

    def prior_size(self, counts: AttackCounts) -> tuple[float, ...]:
        """The numbers through which the prior of the nuisance parameters depends on the trials."""
        return ()

    @abstractmethod
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
        """Draw the nuisance parameters from their prior; only the trials of ``counts`` are used."""
        return {}

    @abstractmethod
    def sample_counts(
        self, counts: AttackCounts, rates: FloatPair, nuisance: Nuisance, *, rng: Generator
    ) -> tuple[IntArray, IntArray]:
        """Draw X and Y; the last axis of the rates is the base; only trials of ``counts`` are used."""

    def count_moments(self, counts: AttackCounts, nuisance: Mapping[str, FloatArray]) -> FloatPair:
        """Variance of a count relative to a binomial's, and the correlation of X and Y, for draws."""
        return np.ones(1), np.zeros(1)


@dataclass(frozen=True, kw_only=True)
class IndependentBinomial(Likelihood):
    """X ~ Binomial(N0, alpha) and Y ~ Binomial(N1, beta), independent."""

    name = "binomial"
    description = ("All decisions are independent: the counts are binomial.",)

    def sample_counts(
        self, counts: AttackCounts, rates: FloatPair, nuisance: Nuisance, *, rng: Generator
    ) -> tuple[IntArray, IntArray]:
        return rng.binomial(counts.trials_h0, rates[0]), rng.binomial(counts.trials_h1, rates[1])

    def log_density(
        self, counts: AttackCounts, alpha: ArrayLike, beta: ArrayLike, **nuisance: float
    ) -> FloatArray:
        """Log probability of each base's counts; the last axis of alpha and beta is the base."""
        total: FloatArray = np.asarray(0.0)
        for (count, trials), rates in zip(counts.by_hypothesis, (alpha, beta), strict=True):
            rate, rest = np.asarray(rates, dtype=float), trials - count
            choose = gammaln(trials + 1) - gammaln(count + 1) - gammaln(rest + 1)
            total = total + choose + xlogy(count, rate) + xlog1py(rest, -rate)
        return np.asarray(total)


def normal_counts(
    trials: IntArray | int, rate: FloatArray, inflation: FloatArray | float, normal: FloatArray
) -> IntArray:
    """Counts from standard normals, variance ``inflation`` times binomial; rounded, clipped to 0..N."""
    counts = trials * rate + np.sqrt(trials * inflation * rate * (1 - rate)) * normal
    return np.clip(np.rint(counts), 0, trials).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class CorrelatedCounts(Likelihood):
    """Moments, priors and draws shared by the likelihoods of correlated counts.

    Var X = alpha (1 - alpha) N0 (1 + (N0 - 1) tau), Var Y is analogous with N1 and beta, and
    Cov(X, Y) = rho N0 N1 sqrt(alpha (1 - alpha) beta (1 - beta)); tau and rho are common to all bases.

    Priors, as in the paper: tau ~ normal(0, within_correlation_scale) truncated to where every variance
    is positive, -1 / (largest N - 1) < tau < 1; given tau, rho is uniform where every covariance matrix
    is positive definite, |rho| <= :meth:`cross_correlation_bound`.

    Parameters
    ----------
    within_correlation_scale
        Standard deviation of tau before truncation; the paper's variance 1e-4 is 0.01.
    """

    within_correlation_scale: float = 0.01

    parameters = ("within_correlation", "cross_correlation")
    independent = False
    #: One sentence on the joint distribution of the two counts of a base.
    shape: ClassVar[str]

    def __post_init__(self) -> None:
        scale = _validate.positive("within_correlation_scale", self.within_correlation_scale)
        object.__setattr__(self, "within_correlation_scale", scale)

    def check(self, counts: AttackCounts) -> None:
        """Refuse bases with a single trial: one decision has nothing to correlate with."""
        for name in ("trials_h0", "trials_h1"):
            column = getattr(counts, name)
            if column.min() < 2:
                label = counts.names[int(np.argmin(column))]
                raise InputError(
                    f"challenge base {label!r}: the correlated likelihood expects {name} >= 2, "
                    f"got {name}={int(column.min())}; use the binomial likelihood."
                )

    def within_correlation_bounds(self, counts: AttackCounts) -> tuple[float, float]:
        """The open interval of possible tau: where every variance is positive."""
        return -1.0 / (counts.largest_trials - 1), 1.0

    def _within_correlation_quantile(self, counts: AttackCounts, share: ArrayLike) -> FloatArray:
        """Quantiles of the prior of tau."""
        low, high = self.within_correlation_bounds(counts)
        scale = self.within_correlation_scale
        at_low, at_high = ndtr(low / scale), ndtr(high / scale)
        return np.asarray(scale * ndtri(at_low + np.asarray(share) * (at_high - at_low)))

    @property
    def description(self) -> tuple[str, ...]:
        return (
            self.shape,
            "The within correlation has a normal prior with standard deviation "
            f"{self.within_correlation_scale:g}, truncated to possible values; given it, the cross "
            "correlation is uniform.",
        )

    def cross_correlation_bound(
        self, counts: AttackCounts, within_correlation: ArrayLike
    ) -> FloatArray:
        """The largest |rho| that is valid for every base, for each given tau."""
        sizes = np.unique(np.stack([counts.trials_h0, counts.trials_h1], axis=1), axis=0)
        tau = np.asarray(within_correlation, dtype=float)[..., None]
        return np.asarray(_correlation_unit(sizes[:, 0], sizes[:, 1], tau).min(axis=-1))

    def prior_size(self, counts: AttackCounts) -> tuple[float, ...]:
        """The least tau, and the bound of rho at tau = 0 and above: all that depends on the trials."""
        low, _ = self.within_correlation_bounds(counts)
        scale = self.within_correlation_scale
        bounds = self.cross_correlation_bound(counts, np.array([0.5 * low, 0.0, scale]))
        return (low, *bounds.tolist())

    def prior_density(self, counts: AttackCounts, parameter: str, value: FloatArray) -> FloatArray:
        if parameter == "within_correlation":
            return np.exp(self._log_within_prior(counts, value))
        # Given tau the cross correlation is uniform within its bound: average over tau.
        tau = self._within_correlation_quantile(counts, (np.arange(2000) + 0.5) / 2000)
        bound = self.cross_correlation_bound(counts, tau)
        allowed = np.abs(value)[..., None] < bound
        return np.asarray((allowed / (2 * bound)).mean(axis=-1))

    def log_prior(self, counts: AttackCounts, **nuisance: ArrayLike) -> FloatArray:
        """Log of the joint prior density of (tau, rho); -inf outside its support."""
        tau, rho = (np.asarray(nuisance[name], dtype=float) for name in self.parameters)
        within = self._log_within_prior(counts, tau)
        bound = self.cross_correlation_bound(counts, np.where(np.isfinite(within), tau, 0.0))
        return np.where(np.abs(rho) < bound, within - np.log(2 * bound), -np.inf)

    def _log_within_prior(self, counts: AttackCounts, tau: FloatArray) -> FloatArray:
        low, high = self.within_correlation_bounds(counts)
        scale = self.within_correlation_scale
        kept = float(ndtr(high / scale) - ndtr(low / scale))
        constant = -0.5 * math.log(2 * math.pi) - math.log(scale) - math.log(kept)
        z = tau / scale
        return np.where((tau > low) & (tau < high), constant - 0.5 * z * z, -np.inf)

    def sample_nuisance(self, counts: AttackCounts, *, rng: Generator) -> dict[str, float]:
        tau = float(self._within_correlation_quantile(counts, rng.random()))
        bound = float(self.cross_correlation_bound(counts, tau))
        return {"within_correlation": tau, "cross_correlation": float(rng.uniform(-bound, bound))}

    def sample_counts(
        self, counts: AttackCounts, rates: FloatPair, nuisance: Nuisance, *, rng: Generator
    ) -> tuple[IntArray, IntArray]:
        """Draw X and Y jointly normal, rounded and clipped to 0..N."""
        n0, n1 = counts.trials_h0, counts.trials_h1
        tau, rho = (np.asarray(nuisance[name]) for name in self.parameters)
        # Variance inflation; close to the bound of tau rounding may leave 0 or less.
        more = [np.maximum(1 + (n - 1) * tau, np.finfo(float).eps) for n in (n0, n1)]
        correlation = np.clip(rho * np.sqrt(n0 / more[0]) * np.sqrt(n1 / more[1]), -1.0, 1.0)
        z, w = rng.standard_normal((2, *rates[0].shape))
        w = correlation * z + np.sqrt(1 - correlation**2) * w
        return normal_counts(n0, rates[0], more[0], z), normal_counts(n1, rates[1], more[1], w)

    def count_moments(self, counts: AttackCounts, nuisance: Mapping[str, FloatArray]) -> FloatPair:
        """Moments for a base of average size."""
        tau, rho = nuisance["within_correlation"], nuisance["cross_correlation"]
        trials = 0.5 * float(counts.trials_h0.mean() + counts.trials_h1.mean())
        # Close to the bound of tau rounding may leave 0 or less.
        ratio = np.maximum(1 + (trials - 1) * tau, np.finfo(float).eps)
        return ratio, np.clip(rho / self.cross_correlation_bound(counts, tau), -1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class CorrelatedNormal(CorrelatedCounts):
    """A bivariate normal density for (X, Y), equation (8) as published; N0 and N1 may differ.

    It is the density of the continuous normal, not renormalised to the integers 0..N, and is
    unbounded as a rate approaches 0 or 1.  :class:`CorrelatedCells` has neither problem.  Moments and
    priors are those of :class:`CorrelatedCounts`.
    """

    name = "correlated-published"
    shape = (
        "Decisions on one challenge base are correlated: its two counts are jointly normal, with "
        "the density as published."
    )
    # The normal density is unbounded as a rate approaches 0 or 1.
    bounded = False

    def smallest_epsilon(self, counts: AttackCounts) -> float:
        """The epsilon below which this likelihood is not used: half a count in the largest trials.

        There R(epsilon, delta) is narrower than a single count.  The normal density, unlike a
        probability of counts, is unbounded as a rate approaches 0 or 1, and averaged over so thin a
        region it can outweigh everything else: an artefact that would not support epsilon = 0.
        """
        return 0.5 / counts.largest_trials

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


@dataclass(frozen=True, kw_only=True)
class CorrelatedCells(CorrelatedCounts):
    """A bivariate normal, rounded and clipped to 0..N: a probability for every pair of counts.

    The probability of (x, y) is that of the cell from x - 1/2 to x + 1/2 and from y - 1/2 to y + 1/2;
    the cells of 0 and N include the tails.  So it sums to 1, no value is above 1, and ``sample_counts``
    draws from it exactly.  A rate of 0 or 1 has no variance: its count is certain.  Far from 0 and N it
    equals the density of :class:`CorrelatedNormal`; moments and priors are those of
    :class:`CorrelatedCounts`, before rounding.
    """

    name = "correlated"
    shape = (
        "Decisions on one challenge base are correlated: its two counts are jointly normal, rounded "
        "to whole numbers from 0 to N."
    )

    def log_density(
        self, counts: AttackCounts, alpha: ArrayLike, beta: ArrayLike, **nuisance: float
    ) -> FloatArray:
        """Log probability of each base's counts; the last axis of alpha and beta is the base.

        Absolute accuracy 1e-7; in far tails the relative accuracy is 1e-7.

        Examples
        --------
        >>> counts = AttackCounts(
        ...     false_positives=[0], trials_h0=50, false_negatives=[5], trials_h1=50
        ... )
        >>> at = {"within_correlation": 0.0, "cross_correlation": 0.01}
        >>> CorrelatedCells().log_density(counts, 0.0, 0.1, **at).round(4)
        array([-1.6802])
        """
        from epsilometer.model.normal_cells import log_cells  # compiled code is slow to import

        tau, rho = nuisance["within_correlation"], nuisance["cross_correlation"]
        n0, n1 = counts.trials_h0, counts.trials_h1
        unit = _correlation_unit(n0, n1, np.asarray(tau, dtype=float))
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = np.where(unit > 0, rho / unit, 0.0)
        of_x = (counts.false_positives, n0, alpha, 1 + (n0 - 1) * tau)
        of_y = (counts.false_negatives, n1, beta, 1 + (n1 - 1) * tau)
        arguments = np.stack(np.broadcast_arrays(*of_x, *of_y, correlation)).astype(float)
        logs = log_cells(arguments.reshape(len(arguments), -1))
        return np.asarray(logs.reshape(arguments.shape[1:]))


def _correlation_unit(trials_h0: IntArray, trials_h1: IntArray, tau: FloatArray) -> FloatArray:
    """The rho at which the counts of a base of this size would be perfectly correlated."""
    inflation_h0, inflation_h1 = (
        np.maximum(1 + (n - 1) * tau, 0.0) for n in (trials_h0, trials_h1)
    )
    return np.sqrt(inflation_h0 / trials_h0 * inflation_h1 / trials_h1)


#: Likelihood classes by the name used in files; register new ones here.
LIKELIHOODS = {
    kind.__name__: kind for kind in (IndependentBinomial, CorrelatedCells, CorrelatedNormal)
}
