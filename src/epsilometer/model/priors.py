"""Priors for epsilon and for the strength: small frozen classes, or a fixed value.

Every scale is a standard deviation or a mean, never a variance (the paper's half-normal "variance 10"
is ``scale=10**0.5``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

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


class _Continuous(Prior):
    """Base of the priors with a density: a distribution of SciPy."""

    @property
    @abstractmethod
    def law(self) -> Any:
        """The distribution."""

    def log_density(self, value: ArrayLike) -> FloatArray:
        return np.asarray(self.law.logpdf(value))

    def quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(self.law.ppf(probability))

    def upper_quantile(self, probability: ArrayLike) -> FloatArray:
        return np.asarray(self.law.isf(probability))

    def probability_above(self, value: float) -> float:
        with np.errstate(over="ignore"):  # of values near the largest number
            return float(self.law.sf(value))


@dataclass(frozen=True, kw_only=True)
class _Positive(_Continuous):
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

    def rescaled(self, factor: float) -> Self:
        scale = fields(self)[0].name
        return replace(self, **{scale: factor * getattr(self, scale)})


@dataclass(frozen=True, kw_only=True)
class HalfNormal(_Positive):
    """|Z| scale for a standard normal Z: the paper's prior for epsilon, with scale sqrt(10)."""

    scale: float = DEFAULT_EPSILON_SCALE
    words = "half-normal with scale {scale:.4g}"

    @cached_property
    def law(self) -> Any:
        return stats.halfnorm(scale=self.scale)


@dataclass(frozen=True, kw_only=True)
class HalfCauchy(_Positive):
    """|X| for a Cauchy-distributed X: half of it is below the scale, and its tail is heavy."""

    scale: float = 3.0
    words = "half-Cauchy with scale {scale:.4g}"

    @cached_property
    def law(self) -> Any:
        return stats.halfcauchy(scale=self.scale)


@dataclass(frozen=True, kw_only=True)
class Exponential(_Positive):
    """Exponential with the given mean: a heavier tail than the half-normal."""

    mean: float
    words = "exponential with mean {mean:.4g}"

    @cached_property
    def law(self) -> Any:
        return stats.expon(scale=self.mean)


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

    @cached_property
    def law(self) -> Any:
        return stats.lognorm(self.log_scale, scale=self.median)


@dataclass(frozen=True, kw_only=True)
class Uniform(_Positive):
    """Uniform on [0, upper]: larger epsilons are impossible."""

    upper: float
    words = "uniform between 0 and {upper:.4g}"

    @property
    def end(self) -> float:
        return self.upper

    @cached_property
    def law(self) -> Any:
        return stats.uniform(scale=self.upper)


@dataclass(frozen=True, kw_only=True)
class Beta(_Continuous, StrengthPrior):
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

    @cached_property
    def law(self) -> Any:
        return stats.beta(self.a, self.b)

    def rescaled(self, factor: float) -> Beta:
        """Return the same prior: strengths have no scale."""
        return self

    def sample(self, size: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw values."""
        return rng.beta(self.a, self.b, size)


#: Prior classes by the name used in files; register new ones here.
PRIORS = {
    kind.__name__: kind
    for kind in (HalfNormal, HalfCauchy, Exponential, LogNormal, Uniform, Beta, Fixed)
}
