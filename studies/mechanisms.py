"""Mechanisms whose privacy is known exactly, and the scores of the best attack on each.

A challenge point shifts the released value; the score of a trial is that value, or a quantity that
orders outcomes like the likelihood ratio.  Everything here concerns one point and its two hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.errors import InputError
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian


def least_epsilon(delta_at: Callable[[float], float], delta: float, *, tolerance: float) -> float:
    """Find where a delta that falls with epsilon, but never to 0, reaches the given one."""
    delta = _validate.delta(delta)
    if delta == 0:
        return math.inf
    if delta_at(0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_at(high) > delta:
        high *= 2
    return float(brentq(lambda epsilon: delta_at(epsilon) - delta, 0.0, high, xtol=tolerance))


class Mechanism(Protocol):
    """A known mechanism to audit."""

    name: ClassVar[str]

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at which the mechanism is (epsilon, delta)-DP."""

    def separation(self) -> float:
        """Smallest mu at which it is mu-GDP, the quantity that Gaussian bounds estimate."""

    def least_beta(self, alpha: ArrayLike) -> FloatArray:
        """Smallest false-negative rate of an attack with false-positive rate ``alpha``."""

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Scores of independent trials, with the point where ``member`` and without it elsewhere."""


@dataclass(frozen=True)
class Null:
    """Releases nothing about the point: standard normal scores under both hypotheses."""

    name: ClassVar[str] = "null"

    def epsilon(self, delta: float) -> float:
        return 0.0

    def separation(self) -> float:
        return 0.0

    def least_beta(self, alpha: ArrayLike) -> FloatArray:
        return np.asarray(1 - np.asarray(alpha, dtype=float))

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal(member.shape)


@dataclass(frozen=True)
class LaplaceMechanism:
    """Laplace noise of scale 1 on a value that the point shifts by epsilon."""

    pure_epsilon: float
    name: ClassVar[str] = "Laplace"

    def epsilon(self, delta: float) -> float:
        """Solves delta = 1 - exp((epsilon - pure_epsilon) / 2); 0 if the solution is negative."""
        return max(0.0, self.pure_epsilon + 2 * math.log1p(-_validate.delta(delta)))

    def separation(self) -> float:
        """From the rates where the trade-off curve meets the diagonal alpha = beta."""
        return float(-2 * ndtri(math.exp(-self.pure_epsilon / 2) / 2))

    def least_beta(self, alpha: ArrayLike) -> FloatArray:
        """Closed form for two Laplace distributions."""
        alpha = np.asarray(alpha, dtype=float)
        shrink = math.exp(-self.pure_epsilon)
        with np.errstate(divide="ignore"):
            middle = shrink / (4 * alpha)
        below = np.where(alpha < shrink / 2, 1 - alpha / shrink, middle)
        return np.asarray(np.where(alpha > 0.5, shrink * (1 - alpha), below))

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        return rng.laplace(size=member.shape) + self.pure_epsilon * member


@dataclass(frozen=True)
class GaussianMechanism:
    """Normal noise of scale 1 on a value that the point shifts by mu."""

    mu: float
    name: ClassVar[str] = "Gaussian"

    def epsilon(self, delta: float) -> float:
        """Epsilon of the Gaussian mechanism; infinite at delta = 0."""
        return float(epsilon_of_gaussian(self.mu, delta))

    def separation(self) -> float:
        return self.mu

    def least_beta(self, alpha: ArrayLike) -> FloatArray:
        """Phi(-Phi^-1(alpha) - mu)."""
        return np.asarray(ndtr(-ndtri(np.asarray(alpha, dtype=float)) - self.mu))

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal(member.shape) + self.mu * member


@dataclass(frozen=True)
class RandomisedResponse:
    """One bit, reported correctly with probability e^epsilon / (1 + e^epsilon): most scores are ties."""

    pure_epsilon: float
    name: ClassVar[str] = "randomised response"

    @property
    def _lie(self) -> float:
        """Probability that the reported bit is wrong."""
        return 1 / (1 + math.exp(self.pure_epsilon))

    def epsilon(self, delta: float) -> float:
        """Solves delta = (e^pure - e^epsilon) / (1 + e^pure); 0 if the solution is negative."""
        pure = math.exp(self.pure_epsilon)
        return max(0.0, math.log(max(pure - _validate.delta(delta) * (1 + pure), 1.0)))

    def separation(self) -> float:
        """From equal error rates in both directions."""
        return float(-2 * ndtri(self._lie))

    def least_beta(self, alpha: ArrayLike) -> FloatArray:
        """The lower edge of R(epsilon, 0)."""
        alpha = np.asarray(alpha, dtype=float)
        grow = math.exp(self.pure_epsilon)
        return np.maximum(1 - grow * alpha, (1 - alpha) / grow)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        return (member ^ (rng.random(member.shape) < self._lie)).astype(float)


@dataclass(frozen=True)
class SubsampledGaussian:
    """The Gaussian mechanism on a random sample: the point is used with probability ``rate``."""

    mu: float
    rate: float
    name: ClassVar[str] = "subsampled Gaussian"

    def _delta(self, epsilon: float) -> float:
        """The larger of the two hockey-stick divergences.

        The likelihood ratio 1 - rate + rate exp(mu x - mu^2 / 2) increases in x, so both are differences
        of tails at the points where it equals e^epsilon or e^-epsilon.
        """

        def tails(ratio: float, side: int) -> tuple[float, float]:
            """Probability on one side of the cut, without and with the point."""
            inside = (ratio - 1 + self.rate) / self.rate
            cut = -math.inf if inside <= 0 else math.log(inside) / self.mu + self.mu / 2
            without, used = float(ndtr(side * cut)), float(ndtr(side * (cut - self.mu)))
            return without, self.rate * used + (1 - self.rate) * without

        grow = math.exp(epsilon)
        above_without, above_with = tails(grow, -1)
        below_without, below_with = tails(math.exp(-epsilon), 1)
        return max(above_with - grow * above_without, below_without - grow * below_with)

    def epsilon(self, delta: float) -> float:
        """Where the divergence falls to delta; infinite at delta = 0."""
        return least_epsilon(self._delta, delta, tolerance=1e-12)

    def separation(self) -> float:
        """The mu of the mechanism without sampling, approached at false-positive rates near 0."""
        return self.mu

    def least_beta(self, alpha: ArrayLike) -> FloatArray:
        """For attacks that call high values members."""
        alpha = np.asarray(alpha, dtype=float)
        used = ndtr(-ndtri(alpha) - self.mu)
        return np.asarray(self.rate * used + (1 - self.rate) * (1 - alpha))

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        used = member & (rng.random(member.shape) < self.rate)
        return rng.standard_normal(member.shape) + self.mu * used


#: The field of a mechanism that attacks may find only a share of.
LEAKS = {"Laplace": "pure_epsilon", "Gaussian": "mu", "randomised response": "pure_epsilon"}


def weaker(mechanism: Mechanism, strength: float) -> Mechanism:
    """The same, as seen by attacks that find this share of its leak; its epsilon is another."""
    if hasattr(mechanism, "weaker"):
        found: Mechanism = mechanism.weaker(strength)
        return found
    if mechanism.name not in LEAKS:
        raise InputError(f"expected a mechanism with a leak to weaken, got {mechanism.name}.")
    field, known = LEAKS[mechanism.name], vars(mechanism)
    return type(mechanism)(**known | {field: strength * known[field]})


#: Those of the studies of bounds, proofs and verdicts.
MECHANISMS: tuple[Mechanism, ...] = (
    Null(),
    LaplaceMechanism(1.0),
    LaplaceMechanism(3.0),
    GaussianMechanism(1.0),
    RandomisedResponse(1.0),
    SubsampledGaussian(2.0, 0.2),
)
