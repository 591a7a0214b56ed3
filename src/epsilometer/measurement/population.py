"""Populations, from which datasets and challenge points are drawn, and what algorithms are passed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer import _validate
from epsilometer._display import Displayed
from epsilometer.errors import InputError

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """One record: its features, and its label if the population has labels."""

    features: Array
    label: Any = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset(Displayed):
    """Records to train on: features (records, ...) and labels (records,) or None.

    The arrays are copies: the receiver may change them.
    """

    features: Array
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.features)

    def take(self, indices: Array) -> Dataset:
        """The records with these indices, in this order, as copies."""
        labels = None if self.labels is None else self.labels[indices]
        return Dataset(features=self.features[indices], labels=labels)


class Population(Displayed):
    """All available records.

    Parameters
    ----------
    features
        (records, ...): numeric, one entry of the first axis per record.
    labels
        (records,) or None.
    name
        Display name; not part of its identity.

    Attributes
    ----------
    crafted
        Number of records at the end that were appended by `extended`; no dataset is drawn from them.

    Examples
    --------
    >>> population = Population(features=[[0.0], [1.0], [2.0]], labels=[0, 1, 1])
    >>> len(population), population.point(2).label.item()
    (3, 1)
    """

    def __init__(
        self, *, features: ArrayLike, labels: ArrayLike | None = None, name: str = "population"
    ) -> None:
        self.name = name
        self.crafted = 0
        self.features = _frozen("features", features)
        self.labels = None if labels is None else _frozen("labels", labels)
        if self.features.ndim == 0 or len(self.features) < 2:
            raise InputError(f"expected at least 2 records, got shape {self.features.shape}.")
        if self.labels is not None:
            _validate.shape("labels", self.labels, self.features.shape[:1])

    def __len__(self) -> int:
        return len(self.features)

    def shaped(self, shape: Sequence[int]) -> Population:
        """The same records with features of another shape, such as (1, 8, 8) for images.

        The fingerprint includes the shape, so stores treat this as a different population.

        Examples
        --------
        >>> Population(features=[[1.0, 2.0], [3.0, 4.0]]).shaped((1, 2)).point(0).features.shape
        (1, 2)
        """
        wanted = tuple(_validate.whole_number("shape", size) for size in shape)
        own_shape = self.features.shape[1:]
        if not wanted or math.prod(wanted) != math.prod(own_shape):
            raise InputError(
                f"expected a shape with {math.prod(own_shape)} numbers, like the records of "
                f"{self.name}, got shape={list(wanted)} with {math.prod(wanted)} numbers."
            )
        features = self.features.reshape(len(self), *wanted)
        return Population(features=features, labels=self.labels, name=self.name)

    def take(self, indices: Array) -> Dataset:
        """The records with these indices, in this order, as copies."""
        return Dataset(features=self.features, labels=self.labels).take(indices)

    def point(self, index: int) -> Point:
        """One record."""
        return points_of(self.take(np.array([index])))[0]

    @property
    def records(self) -> int:
        """Number of records without crafted ones: those that datasets are drawn from."""
        return len(self) - self.crafted

    def extended(self, features: ArrayLike, labels: ArrayLike | None = None) -> Population:
        """The population followed by crafted records; existing indices do not change.

        Crafted records must have the shape and types of the others; float features may be rounded.

        Examples
        --------
        >>> population = Population(features=[[0.0], [1.0]], labels=[0, 1])
        >>> larger = population.extended([[0.5]], [1])
        >>> len(larger), larger.records
        (3, 2)
        """
        added = _converted("features", self.features, features)
        if (labels is None) != (self.labels is None):
            wants = "labels" if labels is None else "no labels"
            raise InputError(f"expected {wants} for crafted records, like those of the population.")
        both = None
        if self.labels is not None:
            tags = _converted("labels", self.labels, np.asarray(labels))
            _validate.shape("labels of crafted records", tags, (len(added),))
            both = np.concatenate([self.labels, tags])
        whole = np.concatenate([self.features, added])
        larger = Population(features=whole, labels=both, name=self.name)
        larger.crafted = self.crafted + len(added)
        return larger

    @cached_property
    def row_hashes(self) -> NDArray[np.int64]:
        """A hash per record: records with different hashes have different features."""
        rows = self.features.reshape(len(self), -1)
        # Adding 0 turns -0.0 into 0.0: they are equal, but their bytes are not.
        plain = (row + row.dtype.type(0) if row.dtype.kind == "f" else row for row in rows)
        digests = b"".join(blake2b(row.tobytes(), digest_size=8).digest() for row in plain)
        return np.frombuffer(digests, dtype="<i8").astype(np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all records: types, shapes and bytes."""
        digest = hashlib.sha256()
        for array in (self.features, self.labels):
            if array is not None:
                digest.update(array_fingerprint(array).encode())
        return digest.hexdigest()


def stream_of(seed: int, *key: int) -> np.random.Generator:
    """The random stream of a spawn key."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def dataset_of(point: Point) -> Dataset:
    """One record as a dataset."""
    labels = None if point.label is None else np.asarray([point.label])
    return Dataset(features=np.asarray(point.features)[None], labels=labels)


def points_of(dataset: Dataset) -> list[Point]:
    """The records of a dataset one by one, as copies."""
    labels: Any = [None] * len(dataset) if dataset.labels is None else dataset.labels
    return [
        Point(features=features.copy(), label=label)
        for features, label in zip(dataset.features, labels, strict=True)
    ]


def array_fingerprint(array: Array) -> str:
    """SHA-256 of an array: type, shape and bytes."""
    plain = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{plain.dtype.str}{plain.shape}".encode())
    digest.update(plain.tobytes() if plain.ndim == 0 else plain.view(np.uint8).data)
    return digest.hexdigest()


def _converted(name: str, there: Array, values: ArrayLike) -> Array:
    """Features or labels of crafted records, converted to the type of the others."""
    array = _frozen(name, values)
    if array.ndim == 0 or array.shape[1:] != there.shape[1:] or len(array) == 0:
        raise InputError(
            f"expected {name} of crafted records with shape {there.shape[1:]} each, got shape "
            f"{array.shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):  # values that do not fit are refused below
        converted = array.astype(there.dtype)
    rounds = name == "features" and there.dtype.kind == array.dtype.kind == "f"
    if not rounds and not np.array_equal(converted, array):
        raise InputError(
            f"expected {name} of crafted records to be {there.dtype} like the others, got "
            f"{array.dtype} values that cannot be converted exactly."
        )
    return converted


def _frozen(name: str, values: ArrayLike) -> Array:
    array = np.array(values)
    if array.dtype.kind not in "biufU" or array.dtype.char == "g":
        raise InputError(f"expected numbers (or text as labels) in {name}, got {array.dtype}.")
    if name == "features" and array.dtype.kind == "U":
        raise InputError("expected numeric features, got text.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"expected finite numbers in {name}, got NaN or infinity.")
    array.flags.writeable = False
    return array
