"""What canaries are: records as they are or under a wrong label, noise, blanks, or somebody's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import IntArray
from epsilometer.errors import InputError
from epsilometer.measurement.population import Array, Dataset, Population


class Crafted(NamedTuple):
    """Points as a kind makes them; ``features`` is None where they are records as they are."""

    features: Array | None
    labels: Array | None


@runtime_checkable
class CanaryKind(Protocol):
    """What canaries are."""

    @property
    def name(self) -> str: ...

    @property
    def uses_records(self) -> bool:
        """Whether every canary is a record of the population, or made from one of its own."""

    def craft(
        self, population: Population, records: IntArray, count: int, rng: np.random.Generator
    ) -> Crafted:
        """Make ``count`` canaries; ``records`` are theirs, empty if none are used."""


@dataclass(frozen=True, kw_only=True)
class RandomRecords:
    """Records as they are: what an average person in the data risks."""

    name: ClassVar[str] = "population"
    uses_records: ClassVar[bool] = True

    def craft(
        self, population: Population, records: IntArray, count: int, rng: np.random.Generator
    ) -> Crafted:
        del count, rng
        labels = population.labels
        return Crafted(None, None if labels is None else labels[records])


@dataclass(frozen=True, kw_only=True)
class Mislabelled:
    """Records under a label that is not theirs: a model can only learn them by heart."""

    name: ClassVar[str] = "mislabelled"
    uses_records: ClassVar[bool] = True

    def craft(
        self, population: Population, records: IntArray, count: int, rng: np.random.Generator
    ) -> Crafted:
        known = _labels_of(population, self.name)
        if len(known) < 2:
            raise InputError(
                "mislabelled points need a population of two labels or more, got one label."
            )
        assert population.labels is not None
        own = np.searchsorted(known, population.labels[records])
        # Any of the others, each as likely.
        other = (own + rng.integers(1, len(known), size=count)) % len(known)
        return Crafted(None, known[other])


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Random features, each evenly between its least and largest value, under a random label."""

    name: ClassVar[str] = "noise"
    uses_records: ClassVar[bool] = False

    def craft(
        self, population: Population, records: IntArray, count: int, rng: np.random.Generator
    ) -> Crafted:
        del records
        least, most = _ends_of(population)
        shape = (count, *least.shape)
        if population.features.dtype.kind == "f":
            drawn = rng.uniform(least, most, size=shape).astype(population.features.dtype)
        else:
            drawn = rng.integers(
                least.astype(np.int64), most.astype(np.int64), size=shape, endpoint=True
            ).astype(population.features.dtype)
        return Crafted(drawn, _random_labels(population, count, rng))


@dataclass(frozen=True, kw_only=True)
class Blank:
    """Every feature at its least value, once under each label: more could not be told apart."""

    name: ClassVar[str] = "blank"
    uses_records: ClassVar[bool] = False

    def craft(
        self, population: Population, records: IntArray, count: int, rng: np.random.Generator
    ) -> Crafted:
        del records
        known = _labels_of(population, self.name)
        if count > len(known):
            raise InputError(
                f"expected at most {len(known)} blank canaries, one for each label, got {count}: more "
                "would be the same point twice. Choose noise for many."
            )
        least, _ = _ends_of(population)
        features = np.broadcast_to(least, (count, *least.shape)).copy()
        return Crafted(features, rng.permutation(known)[:count])


@dataclass(frozen=True, kw_only=True)
class CustomCanaries:
    """Canaries of somebody's own making.

    Parameters
    ----------
    function
        ``function(population, count, rng)`` answers a `Dataset`, features and labels, or features
        alone, of ``count`` points that differ from each other.
    name
        For people.
    """

    function: Callable[[Population, int, np.random.Generator], Any]
    name: str = "custom"
    uses_records: ClassVar[bool] = False

    def craft(
        self, population: Population, records: IntArray, count: int, rng: np.random.Generator
    ) -> Crafted:
        del records
        made = self.function(population, count, rng)
        if isinstance(made, np.ndarray):
            made = made, None
        if isinstance(made, Dataset):
            made = made.features, made.labels
        if not isinstance(made, tuple) or len(made) != 2:
            raise InputError(
                f"canaries {self.name}: expected a Dataset, or features and labels, got "
                f"{type(made).__name__}."
            )
        labels = None if made[1] is None else np.asarray(made[1])
        try:
            features = as_points(made[0])
        except InputError as error:
            raise InputError(f"canaries {self.name}: {error}") from None
        if len(features) != count:
            raise InputError(
                f"canaries {self.name}: expected {count} points, got shape {features.shape}."
            )
        return Crafted(features, labels)


def as_points(values: object) -> Array:
    """Points that somebody made: numbers, two entries of the first axis or more."""
    try:
        points = np.array(values)
    except ValueError:
        raise InputError("expected points of one shape, got several shapes.") from None
    if points.dtype.kind not in "biuf":
        raise InputError(f"expected numbers in points, got {points.dtype} values.")
    if points.ndim == 0 or len(points) < 2:
        raise InputError(f"expected two points or more, got shape {points.shape}.")
    return points


KINDS: dict[str, CanaryKind] = {
    kind.name: kind for kind in (RandomRecords(), Mislabelled(), Noise(), Blank())
}
"""Kinds that have a name."""


def kind_of(kind: str | CanaryKind | Callable[..., Any]) -> CanaryKind:
    """A kind by its name, a kind, or what a function makes."""
    if isinstance(kind, str):
        return KINDS[_validate.one_of("kind", kind, KINDS)]
    if isinstance(kind, CanaryKind):
        return kind
    if not callable(kind):
        raise InputError(f"expected a kind of canaries or a function, got kind={kind!r}.")
    return CustomCanaries(function=kind, name=getattr(kind, "__name__", "custom"))


def _labels_of(population: Population, kind: str) -> Array:
    if population.labels is None:
        raise InputError(f"{kind} points need labels; this population has none.")
    return np.unique(population.labels)


def _random_labels(population: Population, count: int, rng: np.random.Generator) -> Array | None:
    return None if population.labels is None else rng.choice(np.unique(population.labels), count)


def _ends_of(population: Population) -> tuple[Array, Array]:
    return population.features.min(axis=0), population.features.max(axis=0)
