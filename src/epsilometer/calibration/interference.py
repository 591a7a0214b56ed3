"""Mechanisms of known privacy that release the scores of all canaries of one training run.

Each maps coins (which canaries are in) to one score a canary.  Scores may depend on each other, and on
the coins of other canaries.  The truth is the least epsilon at delta for *flipping one canary's coin
while all others stay*, in the worst case over the canary and over the other coins: the quantity that
differential privacy is about, and that one-run bounds are below.

With normal noise of covariance S and means A m the two outputs are normals whose means differ by the
column a of A that belongs to the canary.  They are as far apart as two normals of unit variance at a
distance of sqrt(a' S^-1 a): the curve is Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from scipy.stats import binom, norm

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.model.gaussian_mechanism import (
    epsilon_of_gaussian,
    gaussian_delta,
    least_epsilon,
)


class Interference(Protocol):
    """What an audit in one run of a known mechanism needs; `pool.py` says what one of a pool does."""

    name: ClassVar[str]

    @property
    def gaussian(self) -> bool:
        """Whether flipping a coin has a Gaussian trade-off curve, in the worst case."""

    @property
    def independent(self) -> bool:
        """Whether scores are independent given the coins, and each depends on its own coin only."""

    @property
    def group(self) -> int:
        """Canaries that interfere with each other come in clusters of this size; 1 for any number."""

    def epsilon(self, delta: float) -> float:
        """Least epsilon at which flipping one coin is (epsilon, delta)-private."""

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Scores of one run, given who is in."""


def clusters(canaries: int, group: int) -> IntArray:
    """The cluster of each canary; neighbours are next to each other."""
    return np.arange(canaries) // group


def _check_group(group: int) -> None:
    _validate.whole_number("group", group, least=2)


@dataclass(frozen=True, kw_only=True)
class Separate:
    """Normal noise of its own on every score, which the coin moves by mu; with mu = 0 nothing leaks."""

    mu: float
    name: ClassVar[str] = "independent"
    gaussian: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    group: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _validate.non_negative("mu", self.mu)

    def epsilon(self, delta: float) -> float:
        """That of the Gaussian mechanism."""
        return float(epsilon_of_gaussian(self.mu, delta))

    def point_epsilon(self, delta: float) -> float:
        """One score has it all."""
        return self.epsilon(delta)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        return self.mu * member + rng.standard_normal(member.shape)


@dataclass(frozen=True, kw_only=True)
class SharedNoise:
    """Noise of variance 1 whose correlation within a cluster is ``correlation``.

    Whoever sees the whole cluster can take the common part of the noise away; a single score cannot.
    With mu = 0 nothing leaks.
    """

    mu: float
    group: int
    correlation: float
    name: ClassVar[str] = "shared noise"
    gaussian: ClassVar[bool] = True
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _validate.non_negative("mu", self.mu)
        _check_group(self.group)
        _validate.open_unit_interval("correlation", self.correlation)

    def separation(self) -> float:
        """The root of (S^-1)_ii times mu, S = (1 - r) I + r 11' of g rows.

        By Sherman and Morrison (S^-1)_ii = (1 + (g - 2) r) / ((1 - r) (1 + (g - 1) r)).
        """
        g, r = self.group, self.correlation
        return self.mu * float(np.sqrt((1 + (g - 2) * r) / ((1 - r) * (1 + (g - 1) * r))))

    def epsilon(self, delta: float) -> float:
        """That of the Gaussian mechanism with this separation."""
        return float(epsilon_of_gaussian(self.separation(), delta))

    def point_epsilon(self, delta: float) -> float:
        """One score: the noise has variance 1, whoever shares it."""
        return float(epsilon_of_gaussian(self.mu, delta))

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        which = clusters(len(member), self.group)
        common = rng.standard_normal(which[-1] + 1)[which]
        own = rng.standard_normal(len(member))
        noise = np.sqrt(self.correlation) * common + np.sqrt(1 - self.correlation) * own
        return np.asarray(self.mu * member + noise)


@dataclass(frozen=True, kw_only=True)
class SpillOver:
    """A member raises its own score by mu and those of its cluster by ``spill`` mu; noise is apart."""

    mu: float
    group: int
    spill: float
    name: ClassVar[str] = "spill-over"
    gaussian: ClassVar[bool] = True
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _validate.positive("mu", self.mu)
        _check_group(self.group)
        _validate.positive("spill", self.spill)

    def separation(self) -> float:
        """Length of a column of A: mu sqrt(1 + (g - 1) spill^2)."""
        return self.mu * float(np.sqrt(1 + (self.group - 1) * self.spill**2))

    def epsilon(self, delta: float) -> float:
        """That of the Gaussian mechanism with this separation."""
        return float(epsilon_of_gaussian(self.separation(), delta))

    def point_epsilon(self, delta: float) -> float:
        """One score, the other coins unknown: normals mixed over how many of the cluster are in.

        The integral of (p1 - e^epsilon p0)+ on a grid; turning scores and coins round swaps p1 and p0.
        """
        others = np.arange(self.group)
        weight = binom.pmf(others, self.group - 1, 0.5)
        used = others[weight > 1e-15]
        step = self.mu * self.spill
        grid = np.linspace(step * used[0] - 9, step * used[-1] + self.mu + 9, 20_001)
        densities = [
            sum(weight[k] * norm.pdf(grid - self.mu * coin - step * k) for k in used)
            for coin in (0.0, 1.0)
        ]

        def delta_at(epsilon: float) -> float:
            rest = np.maximum(densities[1] - np.exp(epsilon) * densities[0], 0.0)
            return float(np.trapezoid(rest, grid))

        return least_epsilon(delta_at, delta, tolerance=1e-9)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        which = clusters(len(member), self.group)
        others = np.bincount(which, weights=member)[which] - member
        signal = self.mu * (member + self.spill * others)
        return np.asarray(signal + rng.standard_normal(len(member)))


@dataclass(frozen=True, kw_only=True)
class SharedCapacity:
    """A cluster has room for ``room`` members: with K in, each shows mu min(1, room / K)."""

    mu: float
    group: int
    room: int
    name: ClassVar[str] = "shared capacity"
    gaussian: ClassVar[bool] = True
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _validate.positive("mu", self.mu)
        _check_group(self.group)
        if not 1 <= _validate.whole_number("room", self.room) <= self.group:
            raise InputError(f"expected 1 <= room <= {self.group}, got room={self.room}.")

    def signal(self, members: ArrayLike) -> FloatArray:
        """What a member shows if so many of its cluster are in."""
        return np.asarray(self.mu * np.minimum(1.0, self.room / np.maximum(members, 1.0)))

    def separations(self) -> FloatArray:
        """How far a flip moves the means if k = 0 .. group - 1 of the others are in.

        With c(K) the signal, c(k + 1) at the canary and c(k + 1) - c(k) at each of k others:
        sqrt(c(k + 1)^2 + k (c(k + 1) - c(k))^2).
        """
        k = np.arange(self.group, dtype=float)
        after = self.signal(k + 1)
        return np.asarray(np.sqrt(after**2 + k * (after - self.signal(k)) ** 2))

    def epsilon(self, delta: float) -> float:
        """That of the Gaussian mechanism with the largest separation: where there is room for all."""
        return float(epsilon_of_gaussian(self.separations().max(), delta))

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        which = clusters(len(member), self.group)
        members = np.bincount(which, weights=member)[which]
        return np.asarray(self.signal(members) * member + rng.standard_normal(len(member)))


@dataclass(frozen=True, kw_only=True)
class SharedScale:
    """A run memorises strongly with probability ``share``, else weakly; noise is apart.

    The truth takes the scale as known.  With all other canaries in, n - 1 scores tell the two scales
    apart but for a probability of Phi(-(strong - weak) sqrt(n - 1) / 2): 1e-10 or less from n = 75 at a
    difference of 1.5.  Knowing it exactly can only add to what is known.
    """

    strong: float
    weak: float
    share: float
    name: ClassVar[str] = "shared scale"
    gaussian: ClassVar[bool] = False
    independent: ClassVar[bool] = False
    group: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _validate.positive("weak", self.weak)
        if not _validate.positive("strong", self.strong) > self.weak:
            raise InputError(f"expected strong > weak, got strong={self.strong}, weak={self.weak}.")
        _validate.open_unit_interval("share", self.share)

    def _delta(self, epsilon: float) -> float:
        """Mean of the deltas of both scales: they are as likely whatever the coin."""
        parts = (
            gaussian_delta(epsilon, sensitivity=mu, noise=1) for mu in (self.strong, self.weak)
        )
        strong, weak = parts
        return self.share * strong + (1 - self.share) * weak

    def epsilon(self, delta: float) -> float:
        """Where the mean delta falls to the one given; infinite at delta = 0."""
        return least_epsilon(self._delta, delta, tolerance=1e-10)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        scale = self.strong if rng.random() < self.share else self.weak
        return scale * member + rng.standard_normal(member.shape)


@dataclass(frozen=True, kw_only=True)
class SharedLuck:
    """A Gaussian curve for every canary, and one reliability for the whole cluster.

    A normal value about +mu/2 or -mu/2 is the same as its size R and its sign: R says nothing of the
    coin, and the sign is true with odds e^(mu R) to 1.  Here R is drawn once for a cluster, and signs
    for each canary.  Flipping one coin has exactly the curve of the Gaussian mechanism, but what a run
    shows is randomised response at an epsilon of mu R, whatever R it has met.
    """

    mu: float
    group: int
    name: ClassVar[str] = "shared luck"
    gaussian: ClassVar[bool] = True
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _validate.positive("mu", self.mu)
        _check_group(self.group)

    def epsilon(self, delta: float) -> float:
        """That of the Gaussian mechanism."""
        return float(epsilon_of_gaussian(self.mu, delta))

    def point_epsilon(self, delta: float) -> float:
        """One score is the Gaussian mechanism's."""
        return self.epsilon(delta)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        which = clusters(len(member), self.group)
        size = np.abs(self.mu / 2 + rng.standard_normal(which[-1] + 1))[which]
        lies = rng.random(len(member)) < expit(-self.mu * size)
        return np.asarray(np.where(member ^ lies, size, -size))


@dataclass(frozen=True, kw_only=True)
class Release:
    """With ``probability`` a run releases each coin with probability ``share``; else nothing.

    ``share`` = 1 is the catastrophe: everything or nothing.  ``probability`` = 1 is its independent
    twin.
    A coin is released with probability share times probability, whatever the coins: from this delta
    on epsilon is 0, and below it no epsilon will do.
    """

    probability: float
    share: float
    name: ClassVar[str] = "release"
    gaussian: ClassVar[bool] = False
    group: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("probability", "share"):
            if not _validate.unit_interval(name, getattr(self, name)) > 0:
                raise InputError(f"expected {name} > 0, got {name}=0.")

    @property
    def independent(self) -> bool:
        return self.probability == 1

    def epsilon(self, delta: float) -> float:
        """0 from delta = share times probability on, up to rounding; infinite below."""
        released = self.share * self.probability
        return 0.0 if _validate.delta(delta) >= released * (1 - 1e-12) else float("inf")

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Between -1 and 1 where nothing is released; above for released members, below for others."""
        released = (rng.random() < self.probability) & (rng.random(member.shape) < self.share)
        told = np.where(member, 1.5, -1.5) + rng.uniform(-0.5, 0.5, member.shape)
        return np.where(released, told, rng.uniform(-1, 1, member.shape))


@dataclass(frozen=True, kw_only=True)
class Failures:
    """Randomised response for every canary, but a run fails with ``probability`` and tells the truth.

    ``shared``: a run fails as a whole; else each canary fails on its own, which is the independent twin.
    A score says by its size whether it is of a failure, so others add nothing to it: with q the
    probability, delta at epsilon is q + (1 - q) (e^e0 - e^epsilon)+ / (1 + e^e0).
    """

    response: float
    probability: float
    shared: bool = True
    name: ClassVar[str] = "failures"
    gaussian: ClassVar[bool] = False
    group: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _validate.non_negative("response", self.response)
        _validate.open_unit_interval("probability", self.probability)

    @property
    def independent(self) -> bool:
        return not self.shared

    def epsilon(self, delta: float) -> float:
        """That of randomised response from delta = q on, up to rounding; infinite below."""
        rest = _validate.delta(delta) - self.probability
        if rest < -1e-12 * self.probability:
            return float("inf")
        odds = np.exp(self.response)
        left = odds - max(rest, 0.0) / (1 - self.probability) * (1 + odds)
        return float(np.log(max(left, 1.0)))

    def point_epsilon(self, delta: float) -> float:
        """One score has it all."""
        return self.epsilon(delta)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Sizes below 1 where randomised response spoke, above where the run failed."""
        each = rng.random(member.shape) < self.probability
        failed = np.full(member.shape, rng.random() < self.probability) if self.shared else each
        lies = ~failed & (rng.random(member.shape) < expit(-self.response))
        size = rng.random(member.shape) + failed
        return np.where(member ^ lies, size, -size)
