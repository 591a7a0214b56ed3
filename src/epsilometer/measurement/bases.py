"""Challenge bases: a dataset D, a challenge point z, and the two neighbouring datasets they define."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.measurement.population import Dataset, Population
from epsilometer.measurement.rows import LossRow, Row

BASES = 1
"""First element of the spawn key of the streams that draw bases; tasks use 0."""


@dataclass(frozen=True, kw_only=True)
class Include:
    """H0 trains on D, H1 on D and z."""

    name: ClassVar[str] = "include"
    extra_records: ClassVar[int] = 1
    """Records a base needs in addition to D."""


@dataclass(frozen=True, kw_only=True)
class Replace:
    """H0 trains on D and another record z', H1 on D and z."""

    name: ClassVar[str] = "replace"
    extra_records: ClassVar[int] = 2


Adjacency = Include | Replace
"""Which datasets count as neighbours."""

ADJACENCIES: dict[str, Adjacency] = {"include": Include(), "replace": Replace()}


class Base(Protocol):
    """What models are trained on, and the records they are evaluated on."""

    @property
    def name(self) -> str | None: ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything that defines the base; equal fingerprints train equal models."""

    def train_on(self, population: Population, hypothesis: int, replicate: int = 0) -> Dataset:
        """The dataset that one model is trained on."""

    def size(self, hypothesis: int, replicate: int) -> int:
        """Number of records in that dataset."""

    def points(self, population: Population) -> Iterator[Dataset]:
        """The records whose losses are computed, in batches."""

    def rows(self, place: tuple[int, int, int], variant: str, losses: FloatArray) -> Sequence[Row]:
        """The rows that store these records' losses under the model at ``place``."""

    def shared_points(self) -> dict[str, Any]:
        """What a store must know about the points of a pool; empty for other designs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChallengeBase:
    """Indices into a population: D, the challenge point z, and z' if records are replaced.

    Parameters
    ----------
    dataset
        Indices of D, in the order in which it is trained on.
    challenge
        Index of z.  It is the last record of the dataset under H1.
    replacement
        Index of z', the last record under H0; None to leave z out instead.
    name
        Display name; default: the number of the base.
    crafted
        Hash of a crafted challenge point; None if the point is an unchanged record.
    """

    dataset: IntArray
    challenge: int
    replacement: int | None = None
    name: str | None = None
    crafted: str | None = None

    def __init__(
        self,
        *,
        dataset: ArrayLike,
        challenge: int,
        replacement: int | None = None,
        name: str | None = None,
        crafted: str | None = None,
    ) -> None:
        indices = np.array(dataset)
        if indices.ndim != 1 or len(indices) == 0 or indices.dtype.kind not in "iu":
            raise InputError(
                "expected a base's dataset to be a list of at least one index, "
                f"got shape {indices.shape} of {indices.dtype}."
            )
        indices = indices.astype(np.int64)
        challenge = _validate.whole_number("challenge", challenge, least=0)
        if replacement is not None:
            replacement = _validate.whole_number("replacement", replacement, least=0)
        special = [challenge] if replacement is None else [challenge, replacement]
        whole = np.concatenate([indices, special])
        if whole.min() < 0 or len(np.unique(whole)) != len(whole):
            raise InputError(
                "expected the records of a base to be distinct and >= 0, and its challenge point "
                f"{challenge} not to be among them."
            )
        indices.flags.writeable = False
        object.__setattr__(self, "dataset", indices)
        object.__setattr__(self, "challenge", challenge)
        object.__setattr__(self, "replacement", replacement)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "crafted", crafted)

    def records(self, hypothesis: int) -> IntArray:
        """Indices of the training records under a hypothesis."""
        last = self.challenge if hypothesis else self.replacement
        return self.dataset if last is None else np.append(self.dataset, last)

    def train_on(self, population: Population, hypothesis: int, replicate: int = 0) -> Dataset:
        """The dataset under a hypothesis."""
        del replicate
        return population.take(self.records(hypothesis))

    def size(self, hypothesis: int, replicate: int) -> int:
        del replicate
        return len(self.records(hypothesis))

    def points(self, population: Population) -> Iterator[Dataset]:
        """The challenge point."""
        yield population.take(np.array([self.challenge]))

    def rows(self, place: tuple[int, int, int], variant: str, losses: FloatArray) -> list[LossRow]:
        """One row: the loss of the challenge point."""
        return [LossRow(*place, variant, float(loss)) for loss in losses]

    def shared_points(self) -> dict[str, Any]:
        return {}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the indices, and of the challenge point if it is crafted."""
        text = f"{self.challenge},{self.replacement},{self.crafted or ''}".encode()
        return hashlib.sha256(text + self.dataset.astype("<i8").tobytes()).hexdigest()


def draw_base(
    number: int, *, population_size: int, dataset_size: int, adjacency: Adjacency, seed: int
) -> ChallengeBase:
    """The base of a given number: records drawn without replacement from the base's own random stream.

    Base 7 is therefore the same whether ten or a hundred bases are drawn.

    Examples
    --------
    >>> base = draw_base(0, population_size=9, dataset_size=5, adjacency=Include(), seed=1)
    >>> len(base.dataset), base.challenge in base.dataset
    (5, False)
    """
    needed = _validate.whole_number("dataset_size", dataset_size) + adjacency.extra_records
    if needed > population_size:
        raise InputError(
            f"expected dataset_size <= {population_size - adjacency.extra_records} for a population "
            f"of {population_size} records, got dataset_size={dataset_size}."
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(BASES, number)))
    drawn = rng.choice(population_size, size=needed, replace=False)
    challenge, *rest = drawn[dataset_size:].tolist()
    replacement = rest[0] if rest else None
    return ChallengeBase(dataset=drawn[:dataset_size], challenge=challenge, replacement=replacement)


def draw_around(
    number: int,
    *,
    challenge: int,
    excluded: IntArray,
    crafted: str | None = None,
    population_size: int,
    dataset_size: int,
    adjacency: Adjacency,
    seed: int,
) -> ChallengeBase:
    """The base of a given number around a chosen point; D and z' are drawn from outside ``excluded``.

    Examples
    --------
    >>> base = draw_around(
    ...     0, challenge=9, excluded=np.array([2, 9]), population_size=9, dataset_size=5,
    ...     adjacency=Include(), seed=1,
    ... )
    >>> base.challenge, 2 in base.dataset
    (9, False)
    """
    free = np.setdiff1d(np.arange(population_size), excluded)
    needed = _validate.whole_number("dataset_size", dataset_size) + adjacency.extra_records - 1
    if needed > len(free):
        raise InputError(
            f"expected dataset_size <= {len(free) - adjacency.extra_records + 1}, the number of records "
            f"available around the challenge point of base {number}, got dataset_size={dataset_size}."
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(BASES, number)))
    drawn = rng.choice(free, size=needed, replace=False)
    return ChallengeBase(
        dataset=drawn[:dataset_size],
        challenge=challenge,
        replacement=int(drawn[-1]) if needed > dataset_size else None,
        crafted=crafted,
    )
