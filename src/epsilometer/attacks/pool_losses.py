"""Losses of many points under models that share them: the result of measuring a pool.

Every model was trained on some points of a pool and evaluated on all of them.  Models are also evaluated
on reference points, on which no model was trained.  Files are in `pool_files.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer import _files
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer._display import Plotted
from epsilometer.attacks import pool_files
from epsilometer.errors import InputError

SMALLEST_LOSS = 1e-7
"""Losses below this are rounding errors of single precision; log odds use at least this value."""

LEAST_LOSS = -1e-6
"""Losses below this cannot be cross-entropy, which only rounding makes negative."""

LOSSES_AT_ONCE = 1 << 21
"""Losses processed at a time: temporary arrays of 16 MiB, whatever the size of a pool."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PoolLosses(Plotted, view="data.POOL_LOSSES"):
    """Losses by model, point and query, and which points each model was trained on.

    Parameters
    ----------
    loss
        (models, points) or (models, points, queries); finite.  Query 0 is the point itself, the others
        are augmentations of it.  Models are in the order in which they were trained.
    member
        (models, points): whether the model was trained on the point.
    names
        A label per point; default: its index.
    references
        Number of reference points, which are last: no model was trained on them.
    fair_coins
        Whether each point was in each model by its own fair coin.  Only then does each model count as a
        one-run audit, which proves more.
    numbers
        Numbers of the models in their plan, increasing; default: from 0.  Failed models are missing.
    features, labels
        Of the points, in order, for attacks that use them; None if unknown.

    Examples
    --------
    >>> losses = PoolLosses(loss=[[0.1, 2.0], [1.5, 0.3]], member=[[True, False], [False, True]])
    >>> losses.models, losses.points, losses.queries
    (2, 2, 1)
    """

    loss: FloatArray
    member: BoolArray
    names: tuple[str, ...]
    references: int
    fair_coins: bool
    numbers: IntArray
    features: NDArray[Any] | None
    labels: NDArray[Any] | None

    def __init__(
        self,
        *,
        loss: ArrayLike,
        member: ArrayLike,
        names: Sequence[object] | None = None,
        references: int = 0,
        fair_coins: bool = False,
        numbers: ArrayLike | None = None,
        features: ArrayLike | None = None,
        labels: ArrayLike | None = None,
    ) -> None:
        values = np.asarray(loss, dtype=np.float64)
        values = values[:, :, None] if values.ndim == 2 else values
        if values.ndim != 3 or 0 in values.shape:
            raise InputError(
                "expected losses of shape (models, points) or (models, points, queries), got shape "
                f"{np.shape(loss)}."
            )
        inside = np.asarray(member)
        if inside.dtype.kind in "iu" and np.isin(inside, (0, 1)).all():
            inside = inside.astype(np.bool_)
        if inside.dtype != np.bool_ or inside.shape != values.shape[:2]:
            raise InputError(
                f"expected member to be true or false for {values.shape[0]} models and "
                f"{values.shape[1]} points, got shape {inside.shape} of {inside.dtype}."
            )
        if not np.isfinite(values).all():
            model, point, _ = (int(axis[0]) for axis in np.nonzero(~np.isfinite(values)))
            raise InputError(
                f"expected finite losses, got loss={values[model, point].tolist()} for model {model}, "
                f"point {point}."
            )
        if not 0 <= references < values.shape[1]:
            raise InputError(
                f"expected 0 <= references < {values.shape[1]}, the number of points, got "
                f"references={references}."
            )
        if references and inside[:, -references:].any():
            raise InputError(
                "expected no model to be trained on reference points, got some that were."
            )
        order = np.arange(len(values)) if numbers is None else np.asarray(numbers)
        if order.shape != (len(values),) or order.dtype.kind not in "iu" or order.min() < 0:
            raise InputError(
                f"expected numbers of {len(values)} models, got {_files.shown(numbers)}."
            )
        if (np.diff(order) <= 0).any():
            raise InputError("expected increasing numbers of models.")
        records = {
            name: None if given is None else np.asarray(given)
            for name, given in (("features", features), ("labels", labels))
        }
        for name, array in records.items():
            if array is not None and (array.ndim == 0 or len(array) != values.shape[1]):
                raise InputError(f"expected {name} of {values.shape[1]} points, got {array.shape}.")
        vars(self).update(
            records,
            loss=values,
            member=inside,
            names=_labels(names, values.shape[1]),
            references=int(references),
            fair_coins=bool(fair_coins),
            numbers=order.astype(np.int64),
        )

    def __eq__(self, other: object) -> bool:
        """Exact equality; features and labels of points are not compared."""
        if not isinstance(other, PoolLosses):
            return NotImplemented
        mine, theirs = ((pool.names, pool.references, pool.fair_coins) for pool in (self, other))
        return (
            mine == theirs
            and np.array_equal(self.loss, other.loss)
            and np.array_equal(self.member, other.member)
            and np.array_equal(self.numbers, other.numbers)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def models(self) -> int:
        """Number of trained models."""
        return len(self.loss)

    @property
    def points(self) -> int:
        """Number of points, including references."""
        return int(self.loss.shape[1])

    @property
    def queries(self) -> int:
        """Number of losses per point and model."""
        return int(self.loss.shape[2])

    @property
    def challenges(self) -> int:
        """Number of points that may be members: all except the references."""
        return self.points - self.references

    def take(
        self, *, models: ArrayLike | None = None, points: ArrayLike | None = None
    ) -> PoolLosses:
        """A subset of models or points; references are always kept, at the end.

        Points are numbers below `challenges`, models numbers below `models`.
        """
        rows: Any = slice(None) if models is None else np.asarray(models, dtype=np.int64)
        chosen = np.arange(self.challenges) if points is None else np.asarray(points)
        if not np.isin(chosen, np.arange(self.challenges)).all():
            raise InputError(f"expected points from 0 to {self.challenges - 1}, got other numbers.")
        kept: IntArray = np.concatenate(
            [chosen.astype(np.int64), np.arange(self.challenges, self.points)]
        )
        loss, member = self.loss[rows], self.member[rows]
        if points is not None:
            loss, member = loss[:, kept], member[:, kept]
        return self._with(
            loss=loss,
            member=member,
            names=[self.names[number] for number in kept],
            numbers=self.numbers[rows],
            features=None if self.features is None else self.features[kept],
            labels=None if self.labels is None else self.labels[kept],
        )

    def _with(self, **changes: Any) -> PoolLosses:
        return PoolLosses(
            **{part.name: getattr(self, part.name) for part in fields(self)} | changes
        )

    def without_coins(self, models: IntArray) -> PoolLosses:
        """A copy that hides which points some models were trained on: all are shown as non-members."""
        member = self.member.copy()
        member[models] = False
        pool = copy(self)
        object.__setattr__(pool, "member", member)
        return pool

    def with_records(self, features: ArrayLike | None, labels: ArrayLike | None) -> PoolLosses:
        """A copy with the features and labels of its points."""
        return self._with(features=features, labels=labels)

    def require_cross_entropy(self) -> None:
        """Refuse losses below 0, which cannot be -log p."""
        low = self.loss.min()
        if low < LEAST_LOSS:
            raise InputError(
                f"expected losses of at least 0 for log odds, got loss={low:g}; the attack `loss` "
                "accepts any losses."
            )

    def blocks(self, models: int, *, points: int) -> Iterator[slice]:
        """The first points in blocks, so that arrays (models, points, queries) of a block are small."""
        width = max(1, LOSSES_AT_ONCE // max(1, models * self.queries))
        for start in range(0, points, width):
            yield slice(start, min(start + width, points))

    @staticmethod
    def read(source: str | PathLike[str]) -> PoolLosses:
        """Read NPZ, Parquet or CSV, according to the file ending; see `write`."""
        path = Path(source)
        return _named(path.name, lambda: pool_files.read(path))

    @staticmethod
    def parse_csv(text: str, *, name: str) -> PoolLosses:
        """Read CSV text; ``name`` is the file name in error messages."""
        return _named(name, lambda: pool_files.parse_csv(text, name=name))

    def write(self, target: str | PathLike[str]) -> None:
        """Write NPZ, Parquet or CSV, according to the file ending; replaces an existing file.

        Features and labels of points are not written.
        """
        pool_files.write(self, Path(target))


def _named(name: str, read: Callable[[], dict[str, Any]]) -> PoolLosses:
    """Losses of a file; what is wrong with them names it."""
    try:
        return PoolLosses(**read())
    except InputError as error:
        text = str(error)
        raise InputError(text if name in text else f"{name}: {text}") from None


def log_odds_of(loss: FloatArray) -> FloatArray:
    """log(p / (1 - p)) of losses -log p; losses below `SMALLEST_LOSS` are raised to it."""
    shown = np.maximum(loss, SMALLEST_LOSS)
    # log(expm1(x)) = x + log(-expm1(-x)), which does not overflow.
    return np.asarray(-(shown + np.log(-np.expm1(-shown))))


def _labels(names: Sequence[object] | None, size: int) -> tuple[str, ...]:
    if names is None:
        return tuple(map(str, range(size)))
    labels = tuple(_files.label(name, "point", "pool") for name in names)
    if len(labels) != size or len(set(labels)) != size:
        raise InputError(f"expected {size} distinct names of points, got {len(set(labels))}.")
    return labels
