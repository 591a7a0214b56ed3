"""What data sets and challenge points are drawn from, and what training algorithms are handed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer import _validate
from epsilometer.errors import InputError

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """One record: its features, and its label if the population has labels."""

    features: Array
    label: Any = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Records to train on: features (records, ...) and labels (records,) or None.

    The arrays are the receiver's own: it may change them.
    """

    features: Array
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.features)


class Population:
    """All records there are.

    Parameters
    ----------
    features
        (records, ...): numbers, one entry of the first axis a record.
    labels
        (records,) or None.
    name
        For people; not part of its identity.

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
        self.features = _frozen("features", features)
        self.labels = None if labels is None else _frozen("labels", labels)
        if self.features.ndim == 0 or len(self.features) < 2:
            raise InputError(
                f"expected a population of at least 2 records, got shape {self.features.shape}."
            )
        if self.labels is not None and self.labels.shape != self.features.shape[:1]:
            raise InputError(
                f"expected {len(self.features)} labels, a label a record, "
                f"got shape {self.labels.shape}."
            )

    def __len__(self) -> int:
        return len(self.features)

    def shaped(self, shape: Sequence[int]) -> Population:
        """The same records with features of another shape, such as (1, 8, 8) for images.

        The records are others then, as far as stores know: their fingerprint has the shape.

        Examples
        --------
        >>> Population(features=[[1.0, 2.0], [3.0, 4.0]]).shaped((1, 2)).point(0).features.shape
        (1, 2)
        """
        wanted = tuple(_validate.whole_number("shape", size) for size in shape)
        own = self.features.shape[1:]
        if not wanted or math.prod(wanted) != math.prod(own):
            raise InputError(
                f"expected a shape of {math.prod(own)} numbers, as a record of {self.name} has, got "
                f"shape={list(wanted)}, {math.prod(wanted)} numbers."
            )
        features = self.features.reshape(len(self), *wanted)
        return Population(features=features, labels=self.labels, name=self.name)

    def take(self, indices: Array) -> Dataset:
        """The records with these indices, in this order, as arrays of their own."""
        labels = None if self.labels is None else self.labels[indices]
        return Dataset(features=self.features[indices], labels=labels)

    def point(self, index: int) -> Point:
        """One record."""
        label = None if self.labels is None else self.labels[index]
        return Point(features=self.features[index].copy(), label=label)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all records: types, shapes and bytes."""
        digest = hashlib.sha256()
        for array in (self.features, self.labels):
            if array is not None:
                digest.update(array_fingerprint(array).encode())
        return digest.hexdigest()


def points_of(dataset: Dataset) -> list[Point]:
    """The records of a data set one by one, each with arrays of its own."""
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


def _frozen(name: str, values: ArrayLike) -> Array:
    array = np.array(values)
    if array.dtype.kind not in "biufU" or array.dtype.char == "g":
        raise InputError(
            f"expected numbers (or text as labels) in {name}, got {array.dtype} values."
        )
    if name == "features" and array.dtype.kind == "U":
        raise InputError("expected numbers in features, got text.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"expected finite numbers in {name}, got NaN or infinity.")
    array.flags.writeable = False
    return array
