"""Kinds of challenge points: random records, mislabelled copies, outliers, or your own choice.

Points are chosen from the records only, never from a model or a loss, so any choice leaves the
measurements and proofs valid.  `bases.py` draws the datasets around a point.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsilometer import _files, _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.measurement import canary_kinds
from epsilometer.measurement.population import Array, Dataset, Population, array_fingerprint

#: First element of the spawn key of the stream that chooses points.
CHALLENGES = 5

#: Number of reference records for distances; larger populations use a fixed stratified sample.
REFERENCES = 5000

#: Distances held in memory at once.
DISTANCES_AT_ONCE = 2**22

#: Larger than any population.
LARGEST_INDEX = 2**62


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
    #: Whether each point is drawn together with its D, so that no prior choice is needed.
    random: ClassVar[bool] = False

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
        wanted = canary_kinds.Wanted(population, origins, count, rng)
        return _crafted(population, canary_kinds.Mislabelled().craft(wanted), origins)


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
        _validate.whole_number("points of kind outliers", count, most=population.records)
        scores = outlier_scores(population, neighbours=self.neighbours)
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
        made = self.function(population, count, rng)
        with _validate.within(f"challenge {self.name}"):
            if isinstance(made, Dataset):
                points = _crafted(population, made, np.full(len(made), -1))
            else:
                points = _records(population, _indices(made, population.records))
        if len(points) != count:
            raise InputError(f"challenge {self.name}: expected {count} points, got {len(points)}.")
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
        object.__setattr__(self, "indices", tuple(_indices(self.indices).tolist()))

    @property
    def number(self) -> int:
        return len(self.indices)

    def choose(self, population: Population, count: int, rng: np.random.Generator) -> Chosen:
        if count != self.number:
            raise InputError(
                f"expected {self.number} challenge bases, one per given point, got "
                f"challenge_bases={count}; you can omit it. A pool needs judged={self.number}."
            )
        return _records(population, _indices(self.indices, len(population)))


#: Kinds that can be selected by name.
CHALLENGE_KINDS: dict[str, ChallengeKind] = {
    kind.name: kind for kind in (RandomPoints(), Mislabelled(), Outliers())
}

#: A kind, its name, indices of records, or a function.
Challenge = ChallengeKind | str | Sequence[int] | Callable[..., Any]


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


def _drawn(population: Population, count: int, rng: np.random.Generator, name: str) -> IntArray:
    """Distinct random records; asking for more appends to the same sequence."""
    _validate.whole_number(f"points of kind {name}", count, most=population.records)
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
        raise InputError(f"expected indices from 0 to {size - 1}, got {indices[outside][0]}.")
    kinds, counts = np.unique(indices, return_counts=True)
    if counts.max() > 1:
        raise InputError(f"expected distinct points, got record {kinds[counts > 1][0]} twice.")
    return indices.astype(np.int64)


def outlier_scores(population: Population, *, neighbours: int) -> FloatArray:
    """A score per record, larger for more extreme records; deterministic.

    Features are divided by their ranges rather than standard deviations: a pixel that is rarely set
    would otherwise outweigh all others.  60,000 images of 784 pixels take about a minute.

    Examples
    --------
    >>> rows = np.append(np.random.default_rng(1).normal(size=(50, 2)), [[9.0, 9.0]], axis=0)
    >>> int(outlier_scores(Population(features=rows), neighbours=10).argmax())
    50
    """
    rows = population.features.reshape(len(population), -1)
    width = np.subtract(rows.max(axis=0), rows.min(axis=0), dtype=np.float64)
    scale = np.where(width > 0, 1 / np.where(width > 0, width, 1.0), 0.0)
    groups = _groups(population.labels, len(rows), neighbours)
    references = _references(groups, neighbours)
    columns = np.full(len(rows), -1)
    columns[references] = np.arange(len(references))
    to = rows[references] * scale
    label = groups[references]
    scores = np.empty(len(rows))
    step = max(1, DISTANCES_AT_ONCE // len(references))
    for group in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == group)
        for start in range(0, len(members), step):
            chosen = members[start : start + step]
            distance = _distances(rows[chosen] * scale, to)
            itself = np.flatnonzero(columns[chosen] >= 0)
            distance[itself, columns[chosen[itself]]] = np.inf
            own_distance = _nearest(distance[:, label == group], neighbours)
            other = _nearest(distance[:, label != group], neighbours)
            scores[chosen] = _score(own_distance, other)
    return scores


def _groups(labels: Array | None, records: int, neighbours: int) -> IntArray:
    """Labels as integers from 0; a single group if there are no labels or most are rare."""
    if labels is None:
        return np.zeros(records, dtype=np.int64)
    _, groups, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    # Regression targets, for example, are not classes.
    rare = np.sum(sizes[groups] <= neighbours)
    return np.zeros(records, dtype=np.int64) if 2 * rare > records else groups


def _references(groups: IntArray, neighbours: int) -> IntArray:
    """All records, or a fixed sample stratified by label with enough records of each."""
    if len(groups) <= REFERENCES:
        return np.arange(len(groups))
    order = np.random.default_rng(0).permutation(len(groups))
    samples = []
    for group, size in enumerate(np.bincount(groups)):
        wanted = max(neighbours + 1, round(size * REFERENCES / len(groups)))
        samples.append(order[groups[order] == group][:wanted])
    return np.sort(np.concatenate(samples))


def _distances(rows: FloatArray, to: FloatArray) -> FloatArray:
    squares = np.sum(rows**2, axis=1)[:, None] + np.sum(to**2, axis=1) - 2 * (rows @ to.T)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def _nearest(distance: FloatArray, neighbours: int) -> FloatArray:
    """Mean distance to the nearest records, or to all if there are fewer; infinite if none."""
    if distance.shape[1] > neighbours:
        distance = np.partition(distance, neighbours - 1, axis=1)[:, :neighbours]
    there = np.isfinite(distance)
    count = there.sum(axis=1)
    total = np.where(there, distance, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.inf)


def _score(own: FloatArray, other: FloatArray) -> FloatArray:
    """own^2 / other; own if there are no other labels."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(own > 0, own**2 / other, 0.0)
    return np.where(np.isinf(other), own, ratio)
