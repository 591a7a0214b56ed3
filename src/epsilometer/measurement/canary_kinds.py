"""Kinds of canaries: unchanged records, mislabelled records, noise, or custom points; and their coins.

A kind that ``uses_records`` makes every canary from a separate record of the population.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, IntArray
from epsilometer.errors import InputError
from epsilometer.measurement.population import Array, Dataset, Population


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

    def craft(self, wanted: Wanted) -> Dataset:
        return wanted.population.take(wanted.records)


@dataclass(frozen=True, kw_only=True)
class Mislabelled:
    """Records with a wrong label, which a model can only memorise."""

    name: ClassVar[str] = "mislabelled"
    uses_records: ClassVar[bool] = True

    def craft(self, wanted: Wanted) -> Dataset:
        labels = wanted.population.labels
        if labels is None:
            raise InputError("mislabelled points need labels, but this population has none.")
        known = np.unique(labels)
        if len(known) < 2:
            raise InputError("mislabelled points need a population with two labels, got one label.")
        true_labels = np.searchsorted(known, labels[wanted.records])
        # One of the other labels, uniformly.
        other = (true_labels + wanted.rng.integers(1, len(known), size=wanted.count)) % len(known)
        features = wanted.population.features[wanted.records]
        return Dataset(features=features, labels=known[other])


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Random features, each uniform between its minimum and maximum, with a random label."""

    name: ClassVar[str] = "noise"
    uses_records: ClassVar[bool] = False

    def craft(self, wanted: Wanted) -> Dataset:
        features, labels, rng = wanted.population.features, wanted.population.labels, wanted.rng
        low, high = features.min(axis=0), features.max(axis=0)
        shape = (wanted.count, *features.shape[1:])
        if features.dtype.kind == "f":
            drawn: Array = rng.uniform(low, high, size=shape)
        else:
            low, high = low.astype(np.int64), high.astype(np.int64)
            drawn = rng.integers(low, high, size=shape, endpoint=True)
        made = None if labels is None else rng.choice(np.unique(labels), wanted.count)
        return Dataset(features=drawn.astype(features.dtype), labels=made)


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

    def craft(self, wanted: Wanted) -> Dataset:
        made = self.function(wanted.population, wanted.count, wanted.rng)
        if isinstance(made, np.ndarray):
            made = made, None
        if isinstance(made, Dataset):
            made = made.features, made.labels
        with _validate.within(f"canaries {self.name}"):
            if not isinstance(made, tuple) or len(made) != 2:
                kind = type(made).__name__
                raise InputError(f"expected a Dataset or a tuple (features, labels), got {kind}.")
            points = as_points(*made)
            if len(points) != wanted.count:
                shape = points.features.shape
                raise InputError(f"expected {wanted.count} points, got shape {shape}.")
        return points


def as_points(features: object, labels: object = None) -> Dataset:
    """User-provided points: numeric features with at least two entries on the first axis."""
    try:
        points = np.array(features)
    except ValueError:
        raise InputError("expected points of the same shape, got different shapes.") from None
    if points.dtype.kind not in "biuf":
        raise InputError(f"expected numeric points, got {points.dtype} values.")
    if points.ndim == 0 or len(points) < 2:
        raise InputError(f"expected at least two points, got shape {points.shape}.")
    return Dataset(features=points, labels=None if labels is None else np.array(labels))


#: A way to create canaries.
CanaryKind = RandomRecords | Mislabelled | Noise | CustomCanaries

#: Kinds that can be selected by name.
KINDS: dict[str, CanaryKind] = {
    kind.name: kind for kind in (RandomRecords(), Mislabelled(), Noise())
}


def kind_of(kind: str | CanaryKind | Callable[..., Any]) -> CanaryKind:
    """The kind given by its name, as a kind, or as a function that creates the points."""
    if isinstance(kind, str):
        return KINDS[_validate.one_of("kind", kind, KINDS)]
    if isinstance(kind, CanaryKind):
        return kind
    if not callable(kind):
        raise InputError(f"expected a name, a kind of canaries or a function, got kind={kind!r}.")
    return CustomCanaries(function=kind, name=getattr(kind, "__name__", "custom"))


def flip(count: int, rng: np.random.Generator) -> BoolArray:
    """Fair coin flips; raises unless both outcomes occur."""
    check_stream(rng)
    coins = rng.random(count) < 0.5
    check_coins(coins)
    coins.flags.writeable = False
    return coins


def check_stream(rng: object) -> None:
    """Raise :class:`InputError` unless ``rng`` is a NumPy generator."""
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"expected rng=numpy.random.default_rng(seed), got rng={rng!r}.")


def check_coins(coins: BoolArray) -> None:
    """Raise :class:`InputError` unless at least one canary is included and one excluded."""
    inside = int(coins.sum())
    if not 0 < inside < len(coins):
        side = "none" if inside == 0 else "all"
        raise InputError(
            f"expected both included and excluded canaries, got {side} of {len(coins)} included; "
            "draw more canaries, or draw again before training."
        )
