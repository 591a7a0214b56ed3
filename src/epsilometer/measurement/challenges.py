"""Kinds of challenge points: random records, mislabelled copies, outliers, or your own choice.

Points are chosen from the records only, never from a model or a loss, so any choice leaves the
measurements and proofs valid.  `bases.py` draws the datasets around a point.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsilometer import _files, _validate
from epsilometer._arrays import IntArray
from epsilometer.errors import InputError
from epsilometer.measurement import canary_kinds
from epsilometer.measurement.outliers import outlier_scores
from epsilometer.measurement.population import Dataset, Population, array_fingerprint

CHALLENGES = 5
"""First element of the spawn key of the stream that chooses points."""

LARGEST_INDEX = 2**62
"""Larger than any population."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Chosen:
    """Challenge points, as indices into a population extended by any crafted points.

    Attributes
    ----------
    population
        The original records, followed by the crafted points.
    indices
        (count,): index of each point in the population.
    origins
        (count,): the record that each point is a changed copy of; -1 if none.
    """

    population: Population
    indices: IntArray
    origins: IntArray

    def __len__(self) -> int:
        return len(self.indices)

    def excluded(self, number: int | None = None) -> IntArray:
        """Records excluded from D for one point, or for all: the point itself and its original."""
        which = slice(None) if number is None else [number]
        records = np.concatenate([self.indices[which], self.origins[which]])
        return np.unique(records[records >= 0])

    def fingerprint(self, number: int) -> str | None:
        """SHA-256 of a crafted point; None for a record."""
        if self.indices[number] < self.population.records:
            return None
        point = self.population.point(int(self.indices[number]))
        parts = [point.features] if point.label is None else [point.features, point.label]
        return ",".join(array_fingerprint(np.asarray(part)) for part in parts)


class ChallengeKind(abc.ABC):
    """A way to choose challenge points."""

    name: str
    random: ClassVar[bool] = False
    """Whether each point is drawn together with its D, so that no prior choice is needed."""

    @property
    def number(self) -> int | None:
        """Number of points, if the kind determines it."""
        return None

    @abc.abstractmethod
    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        """The first ``count`` points of this kind."""


@dataclass(frozen=True, kw_only=True)
class RandomPoints(ChallengeKind):
    """Random records: the risk of an average person in the data."""

    name: ClassVar[str] = "random"  # type: ignore[misc]
    random: ClassVar[bool] = True

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        return _records(population, _drawn(population, count, rng, self.name))


@dataclass(frozen=True, kw_only=True)
class Mislabelled(ChallengeKind):
    """Copies of random records with a wrong label; D never contains the original."""

    name: ClassVar[str] = "mislabelled"  # type: ignore[misc]

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        origins = _drawn(population, count, rng, self.name)
        wanted = canary_kinds.Wanted(population.given, origins, count, rng)
        _, labels = canary_kinds.Mislabelled().craft(wanted)
        copies = Dataset(features=population.features[origins], labels=labels)
        return _crafted(population, copies, origins)


@dataclass(frozen=True, kw_only=True)
class Outliers(ChallengeKind):
    """Records far from the others or close to records of another label; most extreme first.

    With labels, records are ranked by a^2 / b, where a is the mean distance to the nearest records of
    the same label and b that to the nearest records of other labels; without labels, by a.  Features are
    divided by their ranges.  The ranking does not depend on the seed.

    Parameters
    ----------
    neighbours
        Number of nearest records to average over; at least 1.
    """

    neighbours: int = 10
    name: ClassVar[str] = "outliers"  # type: ignore[misc]

    def __post_init__(self) -> None:
        _validate.whole_number("neighbours", self.neighbours)

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        del rng
        _check_count(population, count, self.name)
        scores = outlier_scores(population.given, neighbours=self.neighbours)
        # Single precision, so that processors that differ in the last digits agree on the order.
        ranked = np.argsort(-scores.astype(np.float32), kind="stable")
        return _records(population, ranked[:count])


@dataclass(frozen=True, kw_only=True)
class CustomPoints(ChallengeKind):
    """Challenge points chosen or created by your own function.

    Parameters
    ----------
    function
        ``function(population, count, rng)`` returns the indices of ``count`` distinct records, or a
        `Dataset` of ``count`` crafted points.  It must not use the models under audit.
    name
        Display name.
    """

    function: Callable[[Population, int, np.random.Generator], Any]
    name: str = "custom"

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        made = self.function(population.given, count, rng)
        try:
            if isinstance(made, Dataset):
                points = _crafted(population, made, np.full(len(made), -1))
            else:
                points = _records(population, _indices(made, population.records))
        except InputError as error:
            raise InputError(f"challenge {self.name}: {error}") from None
        if len(points) != count:
            raise InputError(
                f"challenge {self.name}: expected {count} challenge points, got {len(points)}."
            )
        return points


@dataclass(frozen=True, kw_only=True)
class GivenPoints(ChallengeKind):
    """Records given by their indices.

    Parameters
    ----------
    indices
        Indices of distinct records, counted from 0; you can append more later.
    """

    indices: tuple[int, ...]
    name: ClassVar[str] = "given"  # type: ignore[misc]
    may_grow: ClassVar[tuple[str, ...]] = ("indices",)  # the store checks the records of each base

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
                f"expected {self.number} challenge bases, one per given point, got "
                f"challenge_bases={count}; you can omit it. A pool needs judged={self.number}."
            )
        return _records(population, _indices(self.indices, len(population)))


CHALLENGE_KINDS: dict[str, ChallengeKind] = {
    kind.name: kind for kind in (RandomPoints(), Mislabelled(), Outliers())
}
"""Kinds that can be selected by name."""

Challenge = ChallengeKind | str | Sequence[int] | Callable[..., Any]
"""A kind, its name, indices of records, or a function."""


def challenge_kind_of(challenge: Challenge) -> ChallengeKind:
    """Convert a name, indices or a function to a kind of challenge points.

    Examples
    --------
    >>> challenge_kind_of([3, 17]).number
    2
    """
    if isinstance(challenge, str):
        return CHALLENGE_KINDS[_validate.one_of("challenge", challenge, CHALLENGE_KINDS)]
    if isinstance(challenge, ChallengeKind):
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
    """The challenge points of a plan, drawn from their own random stream."""
    stream = np.random.SeedSequence(seed, spawn_key=(CHALLENGES,))
    return kind.choose(population, count, np.random.default_rng(stream))


def _check_count(population: Population, count: int, name: str) -> None:
    if count > population.records:
        raise InputError(
            f"expected at most {population.records} challenge points of kind {name}, the number of "
            f"records in the population, got {count}."
        )


def _drawn(population: Population, count: int, rng: np.random.Generator, name: str) -> IntArray:
    """Distinct random records; asking for more appends to the same sequence."""
    _check_count(population, count, name)
    return np.asarray(rng.permutation(population.records)[:count])


def _records(population: Population, indices: IntArray) -> Chosen:
    return Chosen(population=population, indices=indices, origins=np.full(len(indices), -1))


def _crafted(population: Population, points: Dataset, origins: IntArray) -> Chosen:
    whole = population.extended(points.features, points.labels)
    return Chosen(population=whole, indices=np.arange(len(population), len(whole)), origins=origins)


def _indices(values: object, size: int = LARGEST_INDEX) -> IntArray:
    """Check and return indices of distinct records below ``size``."""
    try:
        indices = np.asarray(values)
    except ValueError:
        indices = np.empty((0, 0))
    if indices.ndim != 1 or len(indices) == 0 or indices.dtype.kind not in "iu":
        raise InputError(
            "expected indices of at least one record, or a Dataset of crafted points, got "
            f"{_files.shown(values)}."
        )
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        raise InputError(
            f"expected indices of challenge points from 0 to {size - 1}, got {indices[outside][0]}."
        )
    kinds, counts = np.unique(indices, return_counts=True)
    if counts.max() > 1:
        raise InputError(
            f"expected distinct challenge points, got record {kinds[counts > 1][0]} twice."
        )
    return indices.astype(np.int64)
