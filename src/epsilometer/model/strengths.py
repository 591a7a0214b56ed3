"""How much of the algorithm's leak the attacks on each base found: base i leaks s_i times it.

Most of the prior assumes that all s_i are 1, as every other tool does.  Without that, equal bases would
always be read as equally weak.  The rest lets them differ: s_i ~ Beta(m c, (1 - m) c), where m has
density 2 (1 - m) and c is log-uniform from 1 to 128.  That density is small for nearly optimal attacks,
which the first part covers, and larger for attacks that find half of the leak.  Bases that differ
quickly rule out the first part.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError


class StrengthDistributions(NamedTuple):
    """Distributions of strengths, with prior probabilities that sum to one.

    ``means`` and ``concentrations`` are those of Beta distributions; with infinite concentration, all
    strengths are equal to the mean.  ``full`` is the probability that a strength is 1 instead.
    """

    means: FloatArray
    concentrations: FloatArray
    full: FloatArray
    weights: FloatArray


#: The largest concentration: strengths then differ by a few hundredths.
LARGEST_CONCENTRATION = 128.0


class Region(NamedTuple):
    """A subset of Beta distributions: ranges, from 0 to 1, of transformed means and log concentrations.

    The transformation of means is finer where all strengths are near 0 or 1, to which data are most
    sensitive.
    """

    first_mean: float = 0.0
    last_mean: float = 1.0
    first_concentration: float = 0.0
    last_concentration: float = 1.0


EVERYWHERE = Region()


def mean_at(place: FloatArray) -> FloatArray:
    """The mean at a transformed position of a :class:`Region`."""
    return np.asarray(place * place * (3 - 2 * place))


def probability_below_mean(mean: FloatArray) -> FloatArray:
    """Prior probability, among Beta distributions, of a smaller mean: its density is 2 (1 - m)."""
    return np.asarray(mean * (2 - mean))


def mean_of_probability(probability: FloatArray) -> FloatArray:
    """The inverse of :func:`probability_below_mean`."""
    return np.asarray(1 - np.sqrt(1 - probability))


@dataclass(frozen=True, kw_only=True)
class FreeStrengths:
    """Any strengths, equal or not.

    Parameters
    ----------
    best_possible
        Prior probability that every attack was the best possible, in [0, 1).
    full
        Otherwise, in half of the prior, the probability of each attack that it was, in [0, 1); in the
        other half none was.
    """

    best_possible: float = 0.8
    full: float = 0.0
    fixed_value: ClassVar[None] = None

    def __post_init__(self) -> None:
        value = _validate.unit_interval("best_possible", self.best_possible)
        if value == 1:
            raise InputError(
                "expected best_possible < 1; if all strengths are 1, use FixedStrength."
            )
        object.__setattr__(self, "best_possible", value)
        full = _validate.unit_interval("full", self.full)
        if full == 1:
            raise InputError("expected full < 1; if all strengths are 1, use FixedStrength.")
        object.__setattr__(self, "full", full)

    @property
    def description(self) -> str:
        return (
            "Attacks on different bases may differ in strength, and all may be weak; with prior "
            f"probability {self.best_possible:g} every one was the best possible."
        )

    def distributions(
        self, means: int, concentrations: int, region: Region = EVERYWHERE
    ) -> StrengthDistributions:
        """A grid of Beta distributions; the first has all strengths equal to 1.

        With a ``region`` only distributions inside it are used, and the weights sum to its probability.
        Those that differ only in the probability of full strength are next to each other.
        """
        x, w = np.polynomial.legendre.leggauss(means)
        u = region.first_mean + (region.last_mean - region.first_mean) * (x + 1) / 2
        m = mean_at(u)
        w = 2 * (1 - m) * 6 * u * (1 - u) * w * (region.last_mean - region.first_mean)
        y, v = np.polynomial.legendre.leggauss(concentrations)
        span = region.last_concentration - region.first_concentration
        c = LARGEST_CONCENTRATION ** (region.first_concentration + span * (y + 1) / 2)
        weights = np.outer(w / 2, span * v / 2).ravel() * (1 - self.best_possible)
        full = np.array([0.0, self.full] if self.full else [0.0])
        grid = np.repeat(m, concentrations), np.tile(c, means), weights / len(full)
        m, c, weights = (np.repeat(column, len(full)) for column in grid)
        return StrengthDistributions(
            np.append(1.0, m),
            np.append(np.inf, c),
            np.append(0.0, np.tile(full, means * concentrations)),
            np.append(self.best_possible, weights),
        )

    def sample(self, bases: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw the strengths of the bases of one audit."""
        if rng.random() < self.best_possible:
            return np.ones(bases)
        mean = float(mean_of_probability(np.array(rng.random())))
        concentration = LARGEST_CONCENTRATION ** rng.random()
        a, b = mean * concentration, (1 - mean) * concentration
        drawn = rng.beta(max(a, 1e-6), max(b, 1e-6), bases)
        full = self.full if rng.random() < 0.5 else 0.0
        return np.where(rng.random(bases) < full, 1.0, drawn)


@dataclass(frozen=True, kw_only=True)
class FixedStrength:
    """Every attack has the same given strength: 1 is what other tools assume."""

    value: float = 1.0

    def __post_init__(self) -> None:
        value = _validate.unit_interval("strength", self.value)
        if value == 0:
            raise InputError("expected strength > 0: attacks of strength 0 carry no information.")
        object.__setattr__(self, "value", value)

    @property
    def fixed_value(self) -> float:
        return self.value

    @property
    def description(self) -> str:
        if self.value == 1:
            return "Every attack is assumed to be the best possible, on the worst possible base."
        return f"Every attack is assumed to have strength {self.value:g}."

    def distributions(
        self, means: int, concentrations: int, region: Region = EVERYWHERE
    ) -> StrengthDistributions:
        """The only one."""
        return StrengthDistributions(*map(np.array, ([self.value], [np.inf], [0.0], [1.0])))

    def sample(self, bases: int, *, rng: np.random.Generator) -> FloatArray:
        """The same strength for all bases."""
        return np.full(bases, self.value)


Strengths = FreeStrengths | FixedStrength
#: Strength classes by the name used in files.
STRENGTHS: dict[str, type] = {kind.__name__: kind for kind in (FreeStrengths, FixedStrength)}
