"""Priors for epsilon and for the strength: small frozen classes, or a fixed value.

Every scale is a standard deviation or a mean, never a variance (the paper's half-normal "variance 10"
is ``scale=10**0.5``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincc, betainccinv, betaincinv, ndtri

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError

DEFAULT_EPSILON_SCALE = math.sqrt(10.0)


@runtime_checkable
class Prior(Protocol):
    """The prior distribution of one parameter, on part of [0, inf).

    A fixed value is a prior too: a distribution with one point.  By default, a class that inherits from
    this one is estimated, unbounded, and sampled by inversion.
    """

    @property
    def fixed_value(self) -> float | None:
        """The value if the parameter is held fixed, None if it is estimated."""
        return None

    @property
    def end(self) -> float:
        """The largest possible value; inf if there is none."""
        return math.inf

    @property
    def description(self) -> str:
        """Text that completes "Before the data, the parameter is ..."."""

    @property
    def compiled(self) -> tuple[str, float, float] | None:
        """Name and two numbers of the density for compiled samplers; None if they do not have it."""

    def log_density(self, value: ArrayLike) -> FloatArray:
        """Natural logarithm of the normalised density; -inf outside the support."""

    def quantile(self, probability: ArrayLike) -> FloatArray:
        """The value below which the given probability lies."""

    def upper_quantile(self, probability: ArrayLike) -> FloatArray:
        """The value above which the given probability lies, accurate far into the tail."""

    def probability_above(self, value: float) -> float:
        """P(parameter > value) before any data."""

    def rescaled(self, factor: float) -> Prior:
        """The prior of ``factor`` times the parameter."""

    def sample(self, size: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw values."""
        return self.quantile(rng.random(size))


@runtime_checkable
class StrengthPrior(Prior, Protocol):
    """A prior on [0, 1]."""

    @property
    def end_powers(self) -> tuple[float, float]:
        """Powers (p, q) such that the density behaves like s^p near 0 and (1 - s)^q near 1."""


@dataclass(frozen=True, kw_only=True)
class Fixed(StrengthPrior):
    """A known or assumed parameter: ``Fixed(value=0.99)``."""

    value: float

    # Any density works: samplers do not move a fixed parameter.
    compiled = ("uniform", math.inf, 0.0)
    end_powers = (0.0, 0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _validate.non_negative("value", self.value))

    @property
    def fixed_value(self) -> float:
        return self.value

    end = fixed_value

    @property
    def description(self) -> str:
        return f"held at {self.value:g}"

    def log_density(self, value: ArrayLike) -> FloatArray:
        """0 at the value, -inf elsewhere: with respect to a unit mass there."""
        return np.where(np.asarray(value, dtype=float) == self.value, 0.0, -np.inf)

    def quantile(self, probability: ArrayLike) -> FloatArray:
        return np.full(np.shape(probability), self.value)

    upper_quantile = quantile

    def probability_above(self, value: float) -> float:
        """1 if the fixed value is above, else 0."""
        return float(self.value > value)

    def rescaled(self, factor: float) -> Fixed:
        return Fixed(value=factor * self.value)

    def sample(self, size: int, *, rng: np.random.Generator) -> FloatArray:
        return np.full(size, self.value)


@dataclass(frozen=True, kw_only=True)
class _Positive(Prior):
    """Base of the priors for epsilon: fields are positive numbers, and the first is the scale."""

    #: The description, with the fields to be filled in; it begins with the name of the density.
    words: ClassVar[str]

    def __post_init__(self) -> None:
        for part in fields(self):
            value = _validate.positive(part.name, getattr(self, part.name))
            object.__setattr__(self, part.name, value)

    @property
    def description(self) -> str:
        return self.words.format(**vars(self))

    @property
    def compiled(self) -> tuple[str, float, float]:
        return self.words.split()[0], getattr(self, fields(self)[0].name), 0.0

    def log_density(self, value: ArrayLike) -> FloatArray:
        points = np.asarray(value, dtype=float)
        inside = points >= 0
        logs = self._log_density(np.where(inside, points, 1.0))
        return np.where(inside, logs, -np.inf)

    @abstractmethod
    def _log_density(self, value: FloatArray) -> FloatArray:
        """Log density for values >= 0."""

    def probability_above(self, value: float) -> float:
        """P(epsilon > value) before any data."""
        return 1.0 if value < 0 else self._probability_above(float(value))

    @abstractmethod
    def _probability_above(self, value: float) -> float:
        """P(epsilon > value) for values >= 0."""

    def rescaled(self, factor: float) -> Self:
        scale = fields(self)[0].name
        return replace(self, **{scale: factor * getattr(self, scale)})


@dataclass(frozen=True, kw_only=True)
class HalfNormal(_Positive):
    """|Z| scale for a standard normal Z: the paper's prior for epsilon, with scale sqrt(10)."""

    scale: float = DEFAULT_EPSILON_SCALE
    words = "half-normal with scale {scale:.4g}"

    def _log_density(self, value: FloatArray) -> FloatArray:
        z = value / self.scale
        return np.asarray(0.5 * math.log(2 / math.pi) - math.log(self.scale) - 0.5 * z * z)

    def quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(self.scale * ndtri(0.5 + 0.5 * np.asarray(probability, dtype=float)))

    def upper_quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(-self.scale * ndtri(0.5 * np.asarray(probability, dtype=float)))

    def _probability_above(self, value: float) -> float:
        return math.erfc(value / self.scale / math.sqrt(2))


@dataclass(frozen=True, kw_only=True)
class Exponential(_Positive):
    """Exponential with the given mean: a heavier tail than the half-normal."""

    mean: float
    words = "exponential with mean {mean:.4g}"

    def _log_density(self, value: FloatArray) -> FloatArray:
        return np.asarray(-value / self.mean - math.log(self.mean))

    def quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(-self.mean * np.log1p(-np.asarray(probability, dtype=float)))

    def upper_quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(-self.mean * np.log(np.asarray(probability, dtype=float)))

    def _probability_above(self, value: float) -> float:
        return math.exp(-value / self.mean)


@dataclass(frozen=True, kw_only=True)
class LogNormal(_Positive):
    """exp of a normal: ``median`` in units of epsilon, ``log_scale`` the deviation of log epsilon."""

    median: float = 1.0
    log_scale: float = 1.0
    words = "log-normal with median {median:.4g} and log scale {log_scale:.4g}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.log_scale > 5:
            raise InputError(f"expected log_scale <= 5, got log_scale={self.log_scale}.")

    @property
    def compiled(self) -> tuple[str, float, float]:
        return "log-normal", math.log(self.median), self.log_scale

    def _log_density(self, value: FloatArray) -> FloatArray:
        log_value = np.log(np.where(value > 0, value, 1.0))
        z = (log_value - math.log(self.median)) / self.log_scale
        constant = -0.5 * math.log(2 * math.pi) - math.log(self.log_scale)
        return np.asarray(np.where(value > 0, constant - log_value - 0.5 * z * z, -np.inf))

    def quantile(self, probability: ArrayLike) -> FloatArray:
        z = ndtri(np.asarray(probability, dtype=float))
        return np.asarray(self.median * np.exp(self.log_scale * z))

    def upper_quantile(self, probability: ArrayLike) -> FloatArray:
        z = ndtri(np.asarray(probability, dtype=float))
        return np.asarray(self.median * np.exp(-self.log_scale * z))

    def _probability_above(self, value: float) -> float:
        if value == 0:
            return 1.0
        z = (math.log(value) - math.log(self.median)) / self.log_scale
        return 0.5 * math.erfc(z / math.sqrt(2))


@dataclass(frozen=True, kw_only=True)
class Uniform(_Positive):
    """Uniform on [0, upper]: larger epsilons are impossible."""

    upper: float
    words = "uniform between 0 and {upper:.4g}"

    @property
    def end(self) -> float:
        return self.upper

    def _log_density(self, value: FloatArray) -> FloatArray:
        return np.where(value <= self.upper, -math.log(self.upper), -np.inf)

    def quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(self.upper * np.asarray(probability, dtype=float))

    def upper_quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(self.upper * (1 - np.asarray(probability, dtype=float)))

    def _probability_above(self, value: float) -> float:
        return max(0.0, 1 - value / self.upper)


@dataclass(frozen=True, kw_only=True)
class Beta(StrengthPrior):
    """Beta(a, b) on [0, 1]: the paper's prior for the strength; uniform by default."""

    a: float = 1.0
    b: float = 1.0

    end = 1.0

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            value = _validate.positive(name, getattr(self, name))
            # Outside this range the quadrature's weights over- or underflow.
            if not 0.05 <= value <= 1000:
                raise InputError(f"expected 0.05 <= {name} <= 1000, got {name}={value}.")
            object.__setattr__(self, name, value)

    @property
    def description(self) -> str:
        if self.a == self.b == 1:
            return "equally likely to be any value from 0 to 1"
        return f"Beta({self.a:g}, {self.b:g})"

    @property
    def compiled(self) -> tuple[str, float, float]:
        return "beta", self.a, self.b

    @property
    def end_powers(self) -> tuple[float, float]:
        """s^(a - 1) at 0 and (1 - s)^(b - 1) at 1."""
        return self.a - 1, self.b - 1

    def log_density(self, value: ArrayLike) -> FloatArray:
        """Log density on [0, 1]; -inf outside, and at an end where the density is 0."""
        points = np.asarray(value, dtype=float)
        inside = (points >= 0) & (points <= 1)
        s = np.where(inside, points, 0.5)
        constant = math.lgamma(self.a + self.b) - math.lgamma(self.a) - math.lgamma(self.b)
        logs = np.full(s.shape, constant)
        with np.errstate(divide="ignore"):
            if self.a != 1:
                logs = logs + (self.a - 1) * np.log(s)
            if self.b != 1:
                logs = logs + (self.b - 1) * np.log1p(-s)
        return np.where(inside, logs, -np.inf)

    def quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(betaincinv(self.a, self.b, np.asarray(probability, dtype=float)))

    def upper_quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(betainccinv(self.a, self.b, np.asarray(probability, dtype=float)))

    def probability_above(self, value: float) -> float:
        """P(strength > value) before any data."""
        return float(betaincc(self.a, self.b, min(max(value, 0.0), 1.0)))

    def rescaled(self, factor: float) -> Beta:
        """Return the same prior: strengths have no scale."""
        return self

    def sample(self, size: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw values."""
        return rng.beta(self.a, self.b, size)


#: Prior classes by the name used in files; register new ones here.
PRIORS = {
    kind.__name__: kind for kind in (HalfNormal, Exponential, LogNormal, Uniform, Beta, Fixed)
}
