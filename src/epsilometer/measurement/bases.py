"""Challenge bases: a dataset D, a challenge point z, and the two neighbouring datasets they define.

Also rows: what a worker returns and a store holds for one model of a base.
"""

from __future__ import annotations

import abc
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.measurement.challenges import Chosen
from epsilometer.measurement.population import Dataset, Population, stream_of

#: First element of the spawn key of the streams that draw bases; tasks use 0.
BASES = 1


@dataclass(frozen=True, kw_only=True)
class Include:
    """H0 trains on D, H1 on D and z."""

    name: ClassVar[str] = "include"
    #: Records a base needs in addition to D.
    extra_records: ClassVar[int] = 1


@dataclass(frozen=True, kw_only=True)
class Replace:
    """H0 trains on D and another record z', H1 on D and z."""

    name: ClassVar[str] = "replace"
    extra_records: ClassVar[int] = 2


#: Which datasets count as neighbours.
Adjacency = Include | Replace

ADJACENCIES: dict[str, Adjacency] = {"include": Include(), "replace": Replace()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """What bases are drawn from; ``chosen`` is None where challenge points are drawn too."""

    population: Population
    dataset_size: int
    adjacency: Adjacency
    seed: int
    chosen: Chosen | None = None


class LossRow(NamedTuple):
    """The loss of one variant of one model."""

    base: int
    hypothesis: int
    replicate: int
    variant: str
    loss: float

    @property
    def problem(self) -> str | None:
        """Why the row cannot be stored; None if it can."""
        if math.isfinite(self.loss):
            return None
        return f"expected a finite loss, got loss={self.loss}"


class PoolRow(NamedTuple):
    """The losses of all points under one variant of one model, and which points it was trained on."""

    base: int
    hypothesis: int
    replicate: int
    variant: str
    #: (points, queries).
    losses: FloatArray
    member: BoolArray

    @property
    def problem(self) -> str | None:
        """Why the row cannot be stored; None if it can."""
        wrong = np.argwhere(~np.isfinite(self.losses))
        if not len(wrong):
            return None
        point, query = wrong[0]
        return f"point {point}: expected finite losses, got loss={self.losses[point, query]}"

    def packed(self) -> tuple[Any, ...]:
        """As bytes for a store."""
        return (*self[:4], self.losses.astype("<f8").tobytes(), np.packbits(self.member).tobytes())

    @staticmethod
    def unpacked(place: Any, losses: bytes, member: bytes, points: int) -> PoolRow:
        """A stored row; ValueError unless it has ``points`` points."""
        table = np.frombuffer(losses, dtype="<f8").reshape(points, -1)
        if not table.size:
            raise ValueError
        return PoolRow._make((*place, table, unpacked_coins(member, points)))


Row = LossRow | PoolRow


def unpacked_coins(bits: bytes, points: int) -> BoolArray:
    """Stored coins, a bit per point; ValueError if there are not as many as points."""
    if len(bits) != -(-points // 8):
        raise ValueError
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=points).astype(np.bool_)


class Base(abc.ABC):
    """What models are trained on, and the records they are evaluated on."""

    name: str | None

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Hash of everything that defines the base; equal fingerprints train equal models."""

    @abc.abstractmethod
    def train_on(self, population: Population, hypothesis: int, replicate: int = 0) -> Dataset:
        """The dataset that one model is trained on."""

    @abc.abstractmethod
    def points(self, population: Population) -> Iterator[Dataset]:
        """The records whose losses are computed, in batches."""

    @abc.abstractmethod
    def rows(self, place: tuple[int, int, int], variant: str, losses: FloatArray) -> Sequence[Row]:
        """The rows that store these records' losses under the model at ``place``."""

    def coins_of(self, replicate: int) -> BoolArray | None:
        """Which of several points a model is trained on; None if it has a single one."""
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class ChallengeBase(Base):
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

    dataset: Any
    challenge: int
    replacement: int | None = None
    name: str | None = None
    crafted: str | None = None

    def __post_init__(self) -> None:
        indices = np.array(self.dataset)
        if indices.ndim != 1 or len(indices) == 0 or indices.dtype.kind not in "iu":
            raise InputError(
                "expected a base's dataset to be a list of at least one index, "
                f"got shape {indices.shape} of {indices.dtype}."
            )
        indices = indices.astype(np.int64)
        special = [_validate.whole_number("challenge", self.challenge, least=0)]
        if self.replacement is not None:
            special.append(_validate.whole_number("replacement", self.replacement, least=0))
        whole = np.concatenate([indices, special])
        if whole.min() < 0 or len(np.unique(whole)) != len(whole):
            raise InputError(
                "expected the records of a base to be distinct and >= 0, and its challenge point "
                f"{self.challenge} not to be among them."
            )
        indices.flags.writeable = False
        object.__setattr__(self, "dataset", indices)
        for field, value in zip(("challenge", "replacement"), special, strict=False):
            object.__setattr__(self, field, value)

    def records(self, hypothesis: int) -> IntArray:
        """Indices of the training records under a hypothesis."""
        last = self.challenge if hypothesis else self.replacement
        return self.dataset if last is None else np.append(self.dataset, last)

    def train_on(self, population: Population, hypothesis: int, replicate: int = 0) -> Dataset:
        """The dataset under a hypothesis."""
        return population.take(self.records(hypothesis))

    def points(self, population: Population) -> Iterator[Dataset]:
        """The challenge point."""
        yield population.take(np.array([self.challenge]))

    def rows(self, place: tuple[int, int, int], variant: str, losses: FloatArray) -> list[LossRow]:
        """One row: the loss of the challenge point."""
        return [LossRow(*place, variant, float(loss)) for loss in losses]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the indices, and of the challenge point if it is crafted."""
        text = f"{self.challenge},{self.replacement},{self.crafted or ''}".encode()
        return hashlib.sha256(text + self.dataset.astype("<i8").tobytes()).hexdigest()


def draw_base(number: int, source: Source) -> ChallengeBase:
    """The base of a given number: records drawn without replacement from the base's own random stream.

    Base 7 is therefore the same whether ten or a hundred bases are drawn.  Around a chosen point, D and
    z' are drawn from the records that are neither the point nor its original.
    """
    size, chosen = source.dataset_size, source.chosen
    free = np.arange(source.population.records)
    if chosen is not None:
        free = np.setdiff1d(free, chosen.excluded(number))
    extra = source.adjacency.extra_records - (chosen is not None)
    _validate.whole_number("dataset_size", size, most=len(free) - extra)
    drawn = stream_of(source.seed, BASES, number).choice(free, size=size + extra, replace=False)
    rest = drawn[size:].tolist()
    return ChallengeBase(
        dataset=drawn[:size],
        challenge=rest.pop(0) if chosen is None else int(chosen.indices[number]),
        replacement=rest[0] if rest else None,
        crafted=None if chosen is None else chosen.fingerprint(number),
    )
