"""Mechanisms of known privacy that release the scores of all canaries of one training run.

Each maps coins (which canaries are included) to one score per canary.  Scores may depend on each other
and on the coins of other canaries.  The truth is the smallest epsilon at delta for *flipping one
canary's coin while all others are fixed*, in the worst case over the canary and over the other coins:
the quantity that differential privacy bounds, and that one-run bounds must not exceed.

With normal noise of covariance S and means A m, the two outputs are normals whose means differ by the
canary's column a of A.  They are as far apart as two unit-variance normals at a distance of
sqrt(a' S^-1 a): the curve is Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from scipy.stats import binom, norm

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.model.families import Gaussian
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from studies.mechanisms import LaplaceMechanism, least_epsilon


class Interference(Protocol):
    """A known mechanism for one-run audits; for pools, `PoolMechanism`."""

    name: ClassVar[str]

    @property
    def gaussian(self) -> bool:
        """Whether flipping a coin has a Gaussian trade-off curve in the worst case."""

    @property
    def independent(self) -> bool:
        """Whether scores are independent given the coins, and each depends only on its own coin."""

    @property
    def group(self) -> int:
        """Size of the clusters in which canaries interfere; 1 if any number of canaries is allowed."""

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at which flipping one coin is (epsilon, delta)-private."""

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Scores of one run, given which canaries are included."""


class PoolMechanism(Interference, Protocol):
    """A mechanism whose single scores also have a known curve."""

    def point_epsilon(self, delta: float) -> float:
        """Smallest epsilon at which one score is (epsilon, delta)-private, the other coins random."""


def clusters(canaries: int, group: int) -> IntArray:
    """The cluster of each canary; clusters are contiguous."""
    return np.arange(canaries) // group


@dataclass(frozen=True, kw_only=True)
class _Gaussian:
    """Flipping a coin has the curve of the Gaussian mechanism, at a known separation of means."""

    mu: float
    gaussian: ClassVar[bool] = True
    independent: ClassVar[bool] = False

    def separation(self) -> float:
        """How far a flip moves the means, in units of the noise that is left."""
        return self.mu

    def epsilon(self, delta: float) -> float:
        """Epsilon of the Gaussian mechanism with this separation."""
        return float(epsilon_of_gaussian(self.separation(), delta))

    def point_epsilon(self, delta: float) -> float:
        """Epsilon of one score, whose noise has variance 1."""
        return float(epsilon_of_gaussian(self.mu, delta))


@dataclass(frozen=True, kw_only=True)
class Separate(_Gaussian):
    """Independent normal noise on every score, which the coin shifts by mu; mu = 0 leaks nothing."""

    name: ClassVar[str] = "independent"
    independent: ClassVar[bool] = True
    group: ClassVar[int] = 1

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        return self.mu * member + rng.standard_normal(member.shape)


@dataclass(frozen=True, kw_only=True)
class SeparateLaplace:
    """Independent Laplace noise of scale 1 on every score, which the coin shifts: not a normal curve."""

    pure_epsilon: float
    name: ClassVar[str] = "independent Laplace"
    gaussian: ClassVar[bool] = False
    independent: ClassVar[bool] = True
    group: ClassVar[int] = 1

    def epsilon(self, delta: float) -> float:
        return LaplaceMechanism(self.pure_epsilon).epsilon(delta)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        return LaplaceMechanism(self.pure_epsilon).scores(member, rng)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Orthogonal gradients in DP-SGD: log likelihood ratios of all steps, by the exact law.

    In each step an included canary takes part with probability ``rate``, which adds 1 to normal noise of
    scale ``noise``.  ``gaussian``: the curve is below that of normal noise with the same epsilon, for
    every epsilon up to it; see `tests/studies/test_conditional.py`.
    """

    noise: float
    rate: float
    steps: int
    name: ClassVar[str] = "DP-SGD"
    gaussian: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    group: ClassVar[int] = 1

    def epsilon(self, delta: float) -> float:
        """That of dp_accounting, to about 1e-3."""
        return float(self.losses().get_epsilon_for_delta(delta))

    def losses(self) -> Any:
        """The distribution of the privacy loss, in both directions."""
        return _losses(self.noise, self.rate, self.steps)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        found, variance = np.zeros(len(member)), self.noise**2
        for _ in range(self.steps):
            shift = member & (rng.random(len(member)) < self.rate)
            seen = self.noise * rng.standard_normal(len(member)) + shift
            found += np.log1p(self.rate * np.expm1((seen - 0.5) / variance))
        return found


@cache
def _losses(noise: float, rate: float, steps: int) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    step = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=1e-3, use_connect_dots=True
    )
    return step.self_compose(steps)


@dataclass(frozen=True, kw_only=True)
class SharedNoise(_Gaussian):
    """Noise of variance 1 with correlation ``correlation`` within a cluster.

    An adversary who sees the whole cluster can remove the common part of the noise; from a single score
    this is impossible.  With mu = 0 nothing leaks.
    """

    group: int
    correlation: float
    name: ClassVar[str] = "shared noise"

    def separation(self) -> float:
        """Separation: mu times the square root of (S^-1)_ii, with S = (1 - r) I + r 11' of size g.

        By the Sherman-Morrison formula, (S^-1)_ii = (1 + (g - 2) r) / ((1 - r) (1 + (g - 1) r)).
        """
        g, r = self.group, self.correlation
        return self.mu * float(np.sqrt((1 + (g - 2) * r) / ((1 - r) * (1 + (g - 1) * r))))

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        which = clusters(len(member), self.group)
        common = rng.standard_normal(which[-1] + 1)[which]
        own_noise = rng.standard_normal(len(member))
        noise = np.sqrt(self.correlation) * common + np.sqrt(1 - self.correlation) * own_noise
        return np.asarray(self.mu * member + noise)


@dataclass(frozen=True, kw_only=True)
class SpillOver(_Gaussian):
    """A member raises its own score by mu, those of its cluster by ``spill`` mu; independent noise."""

    group: int
    spill: float
    name: ClassVar[str] = "spill-over"

    def separation(self) -> float:
        """Length of a column of A: mu sqrt(1 + (g - 1) spill^2)."""
        return self.mu * float(np.sqrt(1 + (self.group - 1) * self.spill**2))

    def point_epsilon(self, delta: float) -> float:
        """Epsilon of one score with unknown other coins: normals mixed over the number of members.

        The integral of (p1 - e^epsilon p0)+ on a grid; negating scores and coins swaps p1 and p0.
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
class SharedCapacity(_Gaussian):
    """A cluster has capacity for ``room`` members: with K included, each shows mu min(1, room / K)."""

    group: int
    room: int
    name: ClassVar[str] = "shared capacity"

    def signal(self, members: ArrayLike) -> FloatArray:
        """Signal of a member if ``members`` of its cluster are included."""
        return np.asarray(self.mu * np.minimum(1.0, self.room / np.maximum(members, 1.0)))

    def separations(self) -> FloatArray:
        """How far a flip moves the means if k = 0 .. group - 1 of the others are included.

        With c(K) the signal, c(k + 1) at the canary and c(k + 1) - c(k) at each of k others:
        sqrt(c(k + 1)^2 + k (c(k + 1) - c(k))^2).
        """
        k = np.arange(self.group, dtype=float)
        after = self.signal(k + 1)
        return np.asarray(np.sqrt(after**2 + k * (after - self.signal(k)) ** 2))

    def separation(self) -> float:
        """The largest of them: capacity for all."""
        return float(self.separations().max())

    def point_epsilon(self, delta: float) -> float:
        """Not known: the other members change the signal of a score."""
        raise NotImplementedError

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        which = clusters(len(member), self.group)
        members = np.bincount(which, weights=member)[which]
        return np.asarray(self.signal(members) * member + rng.standard_normal(len(member)))


@dataclass(frozen=True, kw_only=True)
class SharedScale:
    """A run memorises strongly with probability ``share``, otherwise weakly; independent noise.

    The truth treats the scale as known.  With all other canaries included, n - 1 scores identify the
    scale except with probability Phi(-(strong - weak) sqrt(n - 1) / 2): 1e-10 or less from n = 75 at a
    difference of 1.5.  Knowing it exactly can only help the adversary.
    """

    strong: float
    weak: float
    share: float
    name: ClassVar[str] = "shared scale"
    gaussian: ClassVar[bool] = False
    independent: ClassVar[bool] = False
    group: ClassVar[int] = 1

    def _delta(self, epsilon: float) -> float:
        """Mean of the deltas of both scales, whose probabilities do not depend on the coin."""
        strong, weak = map(float, Gaussian().delta([self.strong, self.weak], epsilon)[0])
        return self.share * strong + (1 - self.share) * weak

    def epsilon(self, delta: float) -> float:
        """Where the mean delta falls to the given one; infinite at delta = 0."""
        return least_epsilon(self._delta, delta, tolerance=1e-10)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        scale = self.strong if rng.random() < self.share else self.weak
        return scale * member + rng.standard_normal(member.shape)


@dataclass(frozen=True, kw_only=True)
class SharedLuck(_Gaussian):
    """A Gaussian curve for every canary, but one shared reliability per cluster.

    A normal value around +mu/2 or -mu/2 is equivalent to its size R and its sign: R is independent of
    the coin, and the sign is correct with odds e^(mu R) to 1.  Here R is drawn once per cluster, and
    signs per canary.  Flipping one coin has exactly the curve of the Gaussian mechanism, but a run looks
    like randomised response with epsilon mu R for the R that was drawn.
    """

    group: int
    name: ClassVar[str] = "shared luck"

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        which = clusters(len(member), self.group)
        size = np.abs(self.mu / 2 + rng.standard_normal(which[-1] + 1))[which]
        flipped = rng.random(len(member)) < expit(-self.mu * size)
        return np.asarray(np.where(member ^ flipped, size, -size))


@dataclass(frozen=True, kw_only=True)
class BlurredLuck(SharedLuck):
    """The same, with sizes that differ by up to a hundredth whatever the coins: no scores are equal."""

    name: ClassVar[str] = "shared luck, no ties"

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        return super().scores(member, rng) * (1 + 0.01 * rng.random(member.shape))


@dataclass(frozen=True, kw_only=True)
class Release:
    """With ``probability`` a run releases each coin with probability ``share``; otherwise nothing.

    ``share`` = 1 is a catastrophic failure: everything or nothing.  ``probability`` = 1 is its
    independent counterpart.  A coin is released with probability share times probability, whatever the
    coins: from this delta on epsilon is 0, and below it no epsilon suffices.
    """

    probability: float
    share: float
    name: ClassVar[str] = "release"
    gaussian: ClassVar[bool] = False
    group: ClassVar[int] = 1

    @property
    def independent(self) -> bool:
        return self.probability == 1

    def epsilon(self, delta: float) -> float:
        """0 from delta = share times probability on, up to rounding; infinite below."""
        released = self.share * self.probability
        return 0.0 if _validate.delta(delta) >= released * (1 - 1e-12) else float("inf")

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Within (-1, 1) if nothing is released; above for released members, below for others."""
        released = (rng.random() < self.probability) & (rng.random(member.shape) < self.share)
        truth = np.where(member, 1.5, -1.5) + rng.uniform(-0.5, 0.5, member.shape)
        return np.where(released, truth, rng.uniform(-1, 1, member.shape))


@dataclass(frozen=True, kw_only=True)
class Failures:
    """Randomised response for every canary, but with ``probability`` a run fails and reveals the truth.

    ``shared``: a run fails as a whole; otherwise each canary fails independently, the independent
    counterpart.  The size of a score shows whether it is from a failure, so other scores add nothing:
    with q the probability, delta at epsilon is q + (1 - q) (e^e0 - e^epsilon)+ / (1 + e^e0).
    """

    response: float
    probability: float
    shared: bool = True
    name: ClassVar[str] = "failures"
    gaussian: ClassVar[bool] = False
    group: ClassVar[int] = 1

    @property
    def independent(self) -> bool:
        return not self.shared

    def epsilon(self, delta: float) -> float:
        """Epsilon of randomised response from delta = q on, up to rounding; infinite below."""
        rest = _validate.delta(delta) - self.probability
        if rest < -1e-12 * self.probability:
            return float("inf")
        odds = np.exp(self.response)
        left = odds - max(rest, 0.0) / (1 - self.probability) * (1 + odds)
        return float(np.log(max(left, 1.0)))

    def point_epsilon(self, delta: float) -> float:
        """The same: one score carries all information."""
        return self.epsilon(delta)

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Sizes below 1 for randomised response, above 1 for failures."""
        failures = rng.random(member.shape) < self.probability
        failed = np.full(member.shape, rng.random() < self.probability) if self.shared else failures
        flipped = ~failed & (rng.random(member.shape) < expit(-self.response))
        size = rng.random(member.shape) + failed
        return np.where(member ^ flipped, size, -size)
