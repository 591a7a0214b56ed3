"""Which records are challenge points: random ones, mislabelled copies, outliers, or one's own choice.

A choice looks at records only, never at a model or a loss: so whatever it picks, what is measured and
proven afterwards holds.  How data sets are drawn around a point is in `bases.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from epsilometer import _files, _validate
from epsilometer._arrays import IntArray
from epsilometer.errors import InputError
from epsilometer.measurement import canary_kinds
from epsilometer.measurement.outliers import outlier_scores
from epsilometer.measurement.population import Dataset, Population, array_fingerprint

CHALLENGES = 5
"""Leads the spawn key of the stream that a choice is made from."""

LARGEST_INDEX = 2**62
"""No population has as many records."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Chosen:
    """Challenge points: records of a population, which crafted points were appended to.

    Attributes
    ----------
    population
        Records as given, with the crafted points behind them.
    indices
        (count,): where each point is in it.
    origins
        (count,): the record that each point is a changed copy of; -1 where there is none.
    """

    population: Population
    indices: IntArray
    origins: IntArray

    def __len__(self) -> int:
        return len(self.indices)

    def apart(self, number: int | None = None) -> IntArray:
        """Records that D must not have beside a point, or beside any: itself, and its original."""
        which = slice(None) if number is None else [number]
        found = np.concatenate([self.indices[which], self.origins[which]])
        return np.unique(found[found >= 0])

    def fingerprint(self, number: int) -> str | None:
        """SHA-256 of a point that was crafted; None for a record."""
        if self.indices[number] < self.population.records:
            return None
        point = self.population.point(int(self.indices[number]))
        parts = [point.features] if point.label is None else [point.features, point.label]
        return ",".join(array_fingerprint(np.asarray(part)) for part in parts)


@runtime_checkable
class ChallengeKind(Protocol):
    """Which records are challenge points."""

    @property
    def name(self) -> str: ...

    @property
    def random(self) -> bool:
        """Whether a point is drawn together with its D, so that nothing need be chosen before."""

    @property
    def number(self) -> int | None:
        """How many points there are, where the kind itself says so."""

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        """The first ``count`` points of this kind."""


@dataclass(frozen=True, kw_only=True)
class RandomPoints:
    """Records at random: what an average person in the data risks."""

    name: ClassVar[str] = "random"
    random: ClassVar[bool] = True
    number: ClassVar[None] = None

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        return _records(population, _drawn(population, count, rng, self.name))


@dataclass(frozen=True, kw_only=True)
class Mislabelled:
    """Copies of random records under a label that is not theirs; D never has the original."""

    name: ClassVar[str] = "mislabelled"
    random: ClassVar[bool] = False
    number: ClassVar[None] = None

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        origins = _drawn(population, count, rng, self.name)
        _, labels = canary_kinds.Mislabelled().craft(population.given, origins, count, rng)
        copies = Dataset(features=population.features[origins], labels=labels)
        return _crafted(population, copies, origins)


@dataclass(frozen=True, kw_only=True)
class Outliers:
    """Records far from the others, or among those of another label; the farthest first.

    With labels they are ranked by a^2 / b: a is the mean distance to the nearest records of the same
    label, b that to the nearest of other labels; without by a.  Features are divided by their ranges.
    The ranking is the same for every seed.

    Parameters
    ----------
    neighbours
        How many records are the nearest; at least 1.
    """

    neighbours: int = 10
    name: ClassVar[str] = "outliers"
    random: ClassVar[bool] = False
    number: ClassVar[None] = None

    def __post_init__(self) -> None:
        _validate.whole_number("neighbours", self.neighbours)

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        del rng
        _check_count(population, count, self.name)
        scores = outlier_scores(population.given, neighbours=self.neighbours)
        # In single precision: processors differ in the last digits, and must agree on the order.
        ranked = np.argsort(-scores.astype(np.float32), kind="stable")
        return _records(population, ranked[:count])


@dataclass(frozen=True, kw_only=True)
class CustomPoints:
    """Challenge points of somebody's own choosing or making.

    Parameters
    ----------
    function
        ``function(population, count, rng)`` answers indices of ``count`` different records, or a
        `Dataset` of ``count`` crafted points.  It must not look at models that are audited.
    name
        For people.
    """

    function: Callable[[Population, int, np.random.Generator], Any]
    name: str = "custom"
    random: ClassVar[bool] = False
    number: ClassVar[None] = None

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        made = self.function(population.given, count, rng)
        try:
            if isinstance(made, Dataset):
                found = _crafted(population, made, np.full(len(made), -1))
            else:
                found = _records(population, _indices(made, population.records))
        except InputError as error:
            raise InputError(f"challenge {self.name}: {error}") from None
        if len(found) != count:
            raise InputError(
                f"challenge {self.name}: expected {count} challenge points, got {len(found)}."
            )
        return found


@dataclass(frozen=True, kw_only=True)
class GivenPoints:
    """Records by their indices.

    Parameters
    ----------
    indices
        Of different records, counted from 0; more may be added behind them later.
    """

    indices: tuple[int, ...]
    name: ClassVar[str] = "given"
    random: ClassVar[bool] = False
    may_grow: ClassVar[tuple[str, ...]] = ("indices",)  # a store holds each base to its records

    def __post_init__(self) -> None:
        indices = _indices(self.indices)
        object.__setattr__(self, "indices", tuple(indices.tolist()))

    @property
    def number(self) -> int:
        return len(self.indices)

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        del rng
        if count != self.number:
            raise InputError(
                f"expected {self.number} challenge bases, one for each point that is given, got "
                f"challenge_bases={count}; it can be left out. A pool needs judged={self.number}."
            )
        return _records(population, _indices(self.indices, len(population)))


@dataclass(frozen=True, kw_only=True)
class PilotPoints:
    """Records that leaked most under other models, which judge nothing.

    Parameters
    ----------
    ranking
        Indices of records, those that leaked most first.
    models
        How many models chose them.
    """

    ranking: tuple[int, ...]
    models: int
    name: ClassVar[str] = "pilot"
    random: ClassVar[bool] = False
    number: ClassVar[None] = None
    may_grow: ClassVar[tuple[str, ...]] = ("ranking",)  # a store holds each base to its records

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        del rng
        if count > len(self.ranking):
            raise InputError(
                f"expected at most {len(self.ranking)} challenge bases, the records that the pilot "
                f"looked at, got {count}."
            )
        return _records(population, _indices(self.ranking[:count], len(population)))


CHALLENGE_KINDS: dict[str, ChallengeKind] = {
    kind.name: kind for kind in (RandomPoints(), Mislabelled(), Outliers())
}
"""Kinds that have a name."""

Challenge = ChallengeKind | str | Sequence[int] | Callable[..., Any]
"""A kind, its name, indices of records, or a function of somebody's own."""


def challenge_kind_of(challenge: Challenge) -> ChallengeKind:
    """The kind that is meant.

    Examples
    --------
    >>> challenge_kind_of([3, 17]).number
    2
    """
    if isinstance(challenge, str):
        return CHALLENGE_KINDS[_validate.one_of("challenge", challenge, CHALLENGE_KINDS)]
    if isinstance(challenge, ChallengeKind) and not isinstance(challenge, type):
        return challenge
    if isinstance(challenge, list | tuple | np.ndarray):
        return GivenPoints(indices=tuple(challenge))
    if not callable(challenge):
        raise InputError(
            "expected a kind of challenge points, indices of records or a function, got "
            f"challenge={challenge!r}."
        )
    return CustomPoints(function=challenge, name=getattr(challenge, "__name__", "custom"))


def choose(kind: ChallengeKind, population: Population, count: int, seed: int) -> Chosen:
    """The challenge points of a plan, from a stream of their own."""
    stream = np.random.SeedSequence(seed, spawn_key=(CHALLENGES,))
    return kind.choose(population, count, np.random.default_rng(stream))


def _check_count(population: Population, count: int, name: str) -> None:
    if count > population.records:
        raise InputError(
            f"expected at most {population.records} challenge points of kind {name}, the records of "
            f"the population, got {count}."
        )


def _drawn(population: Population, count: int, rng: np.random.Generator, name: str) -> IntArray:
    """Different records; the first of a whole order, so that more of them begin with the same."""
    _check_count(population, count, name)
    return np.asarray(rng.permutation(population.records)[:count])


def _records(population: Population, indices: IntArray) -> Chosen:
    return Chosen(population=population, indices=indices, origins=np.full(len(indices), -1))


def _crafted(population: Population, points: Dataset, origins: IntArray) -> Chosen:
    whole = population.extended(points.features, points.labels)
    return Chosen(population=whole, indices=np.arange(len(population), len(whole)), origins=origins)


def _indices(values: object, size: int = LARGEST_INDEX) -> IntArray:
    """Indices of different records, below ``size``."""
    try:
        found = np.asarray(values)
    except ValueError:
        found = np.empty((0, 0))
    if found.ndim != 1 or len(found) == 0 or found.dtype.kind not in "iu":
        raise InputError(
            "expected indices of at least one record, or a Dataset of crafted points, got "
            f"{_files.shown(values)}."
        )
    outside = (found < 0) | (found >= size)
    if outside.any():
        raise InputError(
            f"expected indices of challenge points from 0 to {size - 1}, got {found[outside][0]}."
        )
    kinds, counts = np.unique(found, return_counts=True)
    if counts.max() > 1:
        raise InputError(
            f"expected different challenge points, got record {kinds[counts > 1][0]} twice."
        )
    return found.astype(np.int64)
