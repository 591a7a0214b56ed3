"""Kinds of canaries: unchanged records, mislabelled records, noise, or custom points.

A kind that ``uses_records`` makes every canary from a separate record of the population.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import IntArray
from epsilometer.errors import InputError
from epsilometer.measurement.population import Array, Dataset, Population

Crafted = tuple[Array | None, Array | None]
"""Features and labels of points; features are None if they are those of unchanged records."""


class Wanted(NamedTuple):
    """What canaries are made from: ``count`` of them, from ``records`` (empty if a kind uses none)."""

    population: Population
    records: IntArray
    count: int  # type: ignore[assignment]  # not the method of tuples
    rng: np.random.Generator


@dataclass(frozen=True, kw_only=True)
class RandomRecords:
    """Unchanged records: the risk of an average person in the data."""

    name: ClassVar[str] = "population"
    uses_records: ClassVar[bool] = True

    def craft(self, wanted: Wanted) -> Crafted:
        labels = wanted.population.labels
        return None, None if labels is None else labels[wanted.records]


@dataclass(frozen=True, kw_only=True)
class Mislabelled:
    """Records with a wrong label, which a model can only memorise."""

    name: ClassVar[str] = "mislabelled"
    uses_records: ClassVar[bool] = True

    def craft(self, wanted: Wanted) -> Crafted:
        labels = wanted.population.labels
        if labels is None:
            raise InputError("mislabelled points need labels, but this population has none.")
        known = np.unique(labels)
        if len(known) < 2:
            raise InputError("mislabelled points need a population with two labels, got one label.")
        true_labels = np.searchsorted(known, labels[wanted.records])
        # One of the other labels, uniformly.
        other = (true_labels + wanted.rng.integers(1, len(known), size=wanted.count)) % len(known)
        return None, known[other]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Random features, each uniform between its minimum and maximum, with a random label."""

    name: ClassVar[str] = "noise"
    uses_records: ClassVar[bool] = False

    def craft(self, wanted: Wanted) -> Crafted:
        features, labels, rng = wanted.population.features, wanted.population.labels, wanted.rng
        low, high = features.min(axis=0), features.max(axis=0)
        shape = (wanted.count, *features.shape[1:])
        if features.dtype.kind == "f":
            drawn: Array = rng.uniform(low, high, size=shape)
        else:
            low, high = low.astype(np.int64), high.astype(np.int64)
            drawn = rng.integers(low, high, size=shape, endpoint=True)
        made = None if labels is None else rng.choice(np.unique(labels), wanted.count)
        return drawn.astype(features.dtype), made


@dataclass(frozen=True, kw_only=True)
class CustomCanaries:
    """Canaries created by your own function.

    Parameters
    ----------
    function
        ``function(population, count, rng)`` returns ``count`` distinct points as a `Dataset`, as a
        tuple (features, labels), or as features alone.
    name
        Display name.
    """

    function: Callable[[Population, int, np.random.Generator], Any]
    name: str = "custom"
    uses_records: ClassVar[bool] = False

    def craft(self, wanted: Wanted) -> Crafted:
        made = self.function(wanted.population, wanted.count, wanted.rng)
        if isinstance(made, np.ndarray):
            made = made, None
        if isinstance(made, Dataset):
            made = made.features, made.labels
        if not isinstance(made, tuple) or len(made) != 2:
            raise InputError(
                f"canaries {self.name}: expected a Dataset or a tuple (features, labels), got "
                f"{type(made).__name__}."
            )
        labels = None if made[1] is None else np.asarray(made[1])
        try:
            features = as_points(made[0])
        except InputError as error:
            raise InputError(f"canaries {self.name}: {error}") from None
        if len(features) != wanted.count:
            raise InputError(
                f"canaries {self.name}: expected {wanted.count} points, got shape {features.shape}."
            )
        return features, labels


def as_points(values: object) -> Array:
    """User-provided points as a numeric array with at least two entries on the first axis."""
    try:
        points = np.array(values)
    except ValueError:
        raise InputError("expected points of the same shape, got different shapes.") from None
    if points.dtype.kind not in "biuf":
        raise InputError(f"expected numeric points, got {points.dtype} values.")
    if points.ndim == 0 or len(points) < 2:
        raise InputError(f"expected at least two points, got shape {points.shape}.")
    return points


CanaryKind = RandomRecords | Mislabelled | Noise | CustomCanaries
"""A way to create canaries."""

KINDS: dict[str, CanaryKind] = {
    kind.name: kind for kind in (RandomRecords(), Mislabelled(), Noise())
}
"""Kinds that can be selected by name."""


def kind_of(kind: str | CanaryKind | Callable[..., Any]) -> CanaryKind:
    """The kind given by its name, as a kind, or as a function that creates the points."""
    if isinstance(kind, str):
        return KINDS[_validate.one_of("kind", kind, KINDS)]
    if isinstance(kind, CanaryKind):
        return kind
    if not callable(kind):
        raise InputError(
            f"expected the name of a kind of canaries, a kind or a function, got kind={kind!r}."
        )
    return CustomCanaries(function=kind, name=getattr(kind, "__name__", "custom"))
