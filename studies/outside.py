"""Mechanisms outside the families of the curve model, or between them, whose epsilon is known.

A step releases one outcome; the score of a trial is the sum of the log likelihood ratios of its steps,
which no attack can beat.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from epsilometer._arrays import BoolArray, FloatArray
from studies.mechanisms import least_epsilon

#: Step of log likelihood ratios, and points of a step's outcomes.
LOSS_STEP, POINTS = 5e-4, 400_001


class Steps(ABC):
    """A mechanism of some independent, equal steps; subclasses are frozen data classes."""

    name: ClassVar[str]
    steps: int

    @abstractmethod
    def step_losses(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log ratios of a step's outcomes, and log probabilities without and with the point."""

    @abstractmethod
    def step_scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Log ratios of random steps."""

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at which the mechanism is (epsilon, delta)-DP."""
        return _epsilon(self, delta)

    def separation(self) -> float:
        raise NotImplementedError

    def least_beta(self, alpha: ArrayLike) -> FloatArray:
        raise NotImplementedError

    def scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Scores of independent trials, with the point where ``member``."""
        return np.asarray(sum(self.step_scores(member, rng) for _ in range(self.steps)))


@lru_cache
def _epsilon(mechanism: Steps, delta: float) -> float:
    loss, log_without, log_with = mechanism.step_losses()
    sides = [
        _composed(loss, log_with, mechanism.steps),
        _composed(-loss, log_without, mechanism.steps),
    ]

    def delta_at(epsilon: float) -> float:
        # Numerical noise of the transform is far below any delta of interest.
        return max(float(mass @ -np.expm1(np.minimum(epsilon - at, 0.0))) for at, mass in sides)

    return least_epsilon(delta_at, delta, tolerance=1e-6)


def _composed(loss: FloatArray, log_mass: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """Sums of independent losses, rounded to a grid, and their probabilities."""
    mass = np.exp(log_mass - logsumexp(log_mass))
    kept = mass > 1e-300
    place = loss[kept] / LOSS_STEP
    first = int(np.floor(place.min()))
    low = np.floor(place).astype(int) - first
    part = place - np.floor(place)
    size = int(low.max()) + 2
    # Shared between both neighbours, so that means are exact.
    grid = np.asarray(np.bincount(low, (1 - part) * mass[kept], size), dtype=np.float64)
    grid += np.bincount(low + 1, part * mass[kept], size)
    length = steps * (size - 1) + 1
    if steps > 1:
        padded = 1 << (length - 1).bit_length()
        grid = np.fft.irfft(np.fft.rfft(grid, padded) ** steps, padded)[:length]
    at = np.asarray(LOSS_STEP * (steps * first + np.arange(length)), dtype=np.float64)
    return at, np.maximum(grid, 0.0)


# --- continuous noise -------------------------------------------------------------------------------

#: Log densities, up to a constant.
NOISES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "logistic": lambda x: -np.abs(x) - 2 * np.log1p(np.exp(-np.abs(x))),
    "hyperbolic secant": lambda x: -np.abs(x) - np.log1p(np.exp(-2 * np.abs(x))),
    "Laplace": lambda x: -np.abs(x),
    "cubic": lambda x: -(np.abs(x) ** 3),
    "Student 8": lambda x: -4.5 * np.log1p(x * x / 8),
}


@dataclass(frozen=True)
class ShiftedNoise(Steps):
    """Noise of a known density on a value that the point shifts; attacks see the shift ``seen``."""

    noise: str
    shift: float
    steps: int = 1
    seen: float | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.noise} noise"

    @property
    def _grid(self) -> FloatArray:
        return np.linspace(-45.0, 45.0 + self.shift, POINTS)

    def step_losses(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        x, log_density = self._grid, NOISES[self.noise]
        without, with_point = log_density(x), log_density(x - self.shift)
        return with_point - without, without, with_point

    def step_scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        shift = self.shift if self.seen is None else self.seen
        log_density = NOISES[self.noise]
        x = _noise(self.noise, rng.random(member.shape)) + shift * member
        # Without a shift every outcome has the same ratio: the value itself has the order of any.
        return log_density(x - shift) - log_density(x) if shift else x

    def weaker(self, strength: float) -> Self:
        """The same, seen by attacks that find this share of the leak."""
        return replace(self, seen=self.shift * strength)


def _noise(name: str, share: FloatArray) -> FloatArray:
    """Values of noise below which these shares lie."""
    x = np.linspace(-60.0, 60.0, POINTS)
    density = np.exp(NOISES[name](x) - NOISES[name](np.zeros(1)))
    reached = np.cumsum(density) - density / 2
    return np.interp(share, reached / density.sum(), x)


@dataclass(frozen=True)
class SampledGaussianSteps(Steps):
    """Steps of DP-SGD: noise of scale ``noise``, and the point in each with probability ``rate``."""

    noise: float
    rate: float
    steps: int
    name: ClassVar[str] = "DP-SGD"

    def _losses(self, x: FloatArray) -> FloatArray:
        losses = np.log(self.rate) + (x - 0.5) / self.noise**2
        return np.asarray(np.logaddexp(np.log1p(-self.rate), losses))

    def step_losses(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        x = np.linspace(-12 * self.noise, 12 * self.noise + 1, POINTS)
        without, loss = -((x / self.noise) ** 2) / 2, self._losses(x)
        return loss, without, without + loss

    def step_scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        used = member & (rng.random(member.shape) < self.rate)
        return self._losses(self.noise * rng.standard_normal(member.shape) + used)


@dataclass(frozen=True)
class TwoNormals(Steps):
    """N(0, 1) without the point, N(shift, spread^2) with it."""

    shift: float
    spread: float
    steps: int = 1
    name: ClassVar[str] = "two normals"

    def _losses(self, x: FloatArray) -> FloatArray:
        squares = x**2 - ((x - self.shift) / self.spread) ** 2
        return np.asarray(squares / 2 - np.log(self.spread))

    def step_losses(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        x = np.linspace(-12 * self.spread, 12 * self.spread + self.shift, POINTS)
        return self._losses(x), -(x**2) / 2, -(x**2) / 2 + self._losses(x)

    def step_scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_normal(member.shape)
        return self._losses(np.where(member, self.shift + self.spread * noise, noise))


# --- discrete outcomes -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Responses(Steps):
    """A choice among ``choices``, reported truly with odds of e^pure_epsilon against each other one."""

    pure_epsilon: float
    choices: int = 2
    steps: int = 1

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.choices}-ary response"

    def step_losses(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        grow = np.exp(self.pure_epsilon)
        without = np.array([1.0, grow, *[1.0] * (self.choices - 2)]) / (grow + self.choices - 1)
        with_point = without[[1, 0, *range(2, self.choices)]]
        return np.log(with_point / without), np.log(without), np.log(with_point)

    def step_scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        loss, *logs = self.step_losses()
        reached = np.cumsum(np.exp(logs), axis=1)
        share = rng.random(member.shape)
        which = [np.searchsorted(row, share) for row in reached]
        # Rounded, so that equal outcomes tie.
        return np.round(loss[np.where(member, which[1], which[0])], 9)


@dataclass(frozen=True)
class RareRelease(Steps):
    """Gaussian noise, and with a small probability the point itself."""

    mu: float
    chance: float
    steps: int = 1
    name: ClassVar[str] = "rare release"

    def epsilon(self, delta: float) -> float:
        """Infinite: the release has a larger probability than any delta considered here."""
        return float("inf") if delta < self.chance else 0.0

    def step_losses(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        raise NotImplementedError

    def step_scores(self, member: BoolArray, rng: np.random.Generator) -> FloatArray:
        released = member & (rng.random(member.shape) < self.chance)
        return np.asarray(rng.standard_normal(member.shape) + self.mu * member + 100.0 * released)


#: Those on which prior weights were chosen, and others on which they are judged.
CHOSEN_ON: tuple[Steps, ...] = (
    ShiftedNoise("logistic", 1.5),
    ShiftedNoise("Laplace", 0.4, 10),
    ShiftedNoise("hyperbolic secant", 1.5),
    Responses(0.5, 2, 4),
    Responses(2.0, 5),
    SampledGaussianSteps(1.0, 0.1, 30),
    TwoNormals(1.0, 1.5),
    ShiftedNoise("cubic", 1.0),
)
JUDGED_ON: tuple[Steps, ...] = (
    ShiftedNoise("logistic", 3.0),
    ShiftedNoise("Laplace", 0.5, 4),
    Responses(1.0, 2, 3),
    Responses(1.5, 10),
    SampledGaussianSteps(0.8, 0.05, 100),
    TwoNormals(0.5, 1.2),
    ShiftedNoise("Student 8", 1.5),
)
