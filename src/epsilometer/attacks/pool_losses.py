"""Losses of many points under models that share them: the result of measuring a pool.

Every model was trained on some points of a pool and evaluated on all of them.  Models are also evaluated
on reference points, on which no model was trained.

Files are untrusted, and nothing is unpickled.  An NPZ file has the arrays of `PoolLosses`; it is the
smallest, and the one for large pools.  Parquet and CSV have one row per model, point and query:

    point, model, member, loss [, query, reference, fair_coins]

Models and queries are numbered from 0.  Points keep the order of their first occurrence, with references
(reference = 1) after all others.  fair_coins is the same in every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer import _columns, _files, _npz, _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer._columns import FLAG, NUMBER, TEXT
from epsilometer._display import Plotted
from epsilometer.errors import InputError

#: Losses below this are rounding errors of single precision; log odds use at least this value.
SMALLEST_LOSS = 1e-7

#: Losses below this cannot be cross-entropy, which only rounding makes negative.
LEAST_LOSS = -1e-6

#: Losses processed at a time: temporary arrays of 16 MiB, whatever the size of a pool.
LOSSES_AT_ONCE = 1 << 21


#: Largest size in bytes of the unpacked losses; NPZ files store them as floating-point numbers, so
#: a file cannot demand many times as much.
LARGEST_LOSSES = 4 * 1024**3

ENDINGS = (".npz", ".parquet", ".csv")
COLUMNS: dict[str, str | int] = {
    "point": TEXT,
    "model": 10**9,
    "query": 10**9,
    "member": FLAG,
    "reference": FLAG,
    "fair_coins": FLAG,
    "loss": NUMBER,
}
OPTIONAL = ("query", "reference", "fair_coins")

#: Arrays of an NPZ file: kinds of numbers, and the number of axes where it is fixed.
ARRAYS = {
    "loss": ("f", None),
    "member": ("b", None),
    "names": ("U", 1),
    "references": ("iu", 0),
    "fair_coins": ("b", 0),
    "numbers": ("iu", 1),
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PoolLosses(Plotted, view="data.POOL_LOSSES"):
    """Losses by model, point and query, and which points each model was trained on.

    Parameters
    ----------
    loss
        (models, points) or (models, points, queries); finite, or NaN for a whole model that
        failed.  Query 0 is the point itself, the others are augmentations of it.  Models are in the
        order in which they were trained.
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
        Numbers of the models in their plan, increasing; default: from 0.
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
        models, points, _ = values.shape
        inside = np.asarray(member)
        if inside.dtype.kind in "iu" and np.isin(inside, (0, 1)).all():
            inside = inside.astype(np.bool_)
        if inside.dtype != np.bool_ or inside.shape != (models, points):
            raise InputError(
                f"expected member to be true or false for {models} models and {points} points, got "
                f"shape {inside.shape} of {inside.dtype}."
            )
        bad, failed = ~np.isfinite(values), np.isnan(values).all(axis=(1, 2))
        bad[failed] = failed.all()
        if bad.any():
            model, point, _ = np.argwhere(bad)[0]
            place = f"loss={values[model, point].tolist()} for model {model}, point {point}"
            raise InputError(f"expected finite losses, got {place}.")
        if not 0 <= references < points:
            raise InputError(f"expected 0 <= references < {points} points, got {references}.")
        if references and inside[:, -references:].any():
            raise InputError(
                "expected no model to be trained on reference points, got some that were."
            )
        order = np.arange(models) if numbers is None else np.asarray(numbers)
        if order.shape != (models,) or order.dtype.kind not in "iu" or order.min() < 0:
            raise InputError(f"expected numbers of {models} models, got {_files.shown(numbers)}.")
        if (np.diff(order) <= 0).any():
            raise InputError("expected increasing numbers of models.")
        records = {"features": features, "labels": labels}
        for name, given in records.items():
            records[name] = array = None if given is None else np.asarray(given)
            if array is not None and (array.ndim == 0 or len(array) != points):
                raise InputError(f"expected {name} of {points} points, got {array.shape}.")
        vars(self).update(
            records,
            loss=values,
            member=inside,
            names=_labels(names, points),
            references=int(references),
            fair_coins=bool(fair_coins),
            numbers=order.astype(np.int64),
        )

    def __eq__(self, other: object) -> bool:
        """Exact equality; features and labels of points are not compared."""
        if not isinstance(other, PoolLosses):
            return NotImplemented
        return np.array_equal(self.loss, other.loss, equal_nan=True) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in tuple(ARRAYS)[1:]
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def models(self) -> int:
        """Number of trained models."""
        return len(self.loss)

    @property
    def trained(self) -> IntArray:
        """Indices of the models that did not fail."""
        return np.flatnonzero(~np.isnan(self.loss[:, 0, 0]))

    @property
    def failed(self) -> int:
        """Number of models that failed."""
        return self.models - len(self.trained)

    def without_failed(self) -> PoolLosses:
        """The same without the models that failed."""
        return self.take(models=self.trained) if self.failed else self

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
        rows = np.arange(self.models) if models is None else np.asarray(models, dtype=np.int64)
        chosen = np.arange(self.challenges) if points is None else np.asarray(points)
        if not np.isin(chosen, np.arange(self.challenges)).all():
            raise InputError(f"expected points from 0 to {self.challenges - 1}, got other numbers.")
        kept = np.append(chosen, np.arange(self.challenges, self.points)).astype(np.int64)
        return self._with(
            loss=self.loss[rows[:, None], kept],
            member=self.member[rows[:, None], kept],
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
        return self._with(member=member)

    def with_records(self, features: ArrayLike | None, labels: ArrayLike | None) -> PoolLosses:
        """A copy with the features and labels of its points."""
        return self._with(features=features, labels=labels)

    def require_cross_entropy(self) -> None:
        """Refuse losses below 0, which cannot be -log p."""
        low = np.nanmin(self.loss)
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
        if _files.ending(path, *ENDINGS) == ".npz":
            return _of_arrays(path)
        return _of_rows(_columns.read(path, COLUMNS, OPTIONAL), path.name)

    @staticmethod
    def parse_csv(text: str, *, name: str) -> PoolLosses:
        """Read CSV text; ``name`` is the file name in error messages."""
        return _of_rows(_columns.parse_csv(text, COLUMNS, OPTIONAL, name=name), name)

    def write(self, target: str | PathLike[str]) -> None:
        """Write NPZ, Parquet or CSV, according to the file ending; replaces an existing file.

        Features and labels of points are not written.
        """
        path = Path(target)
        if _files.ending(path, *ENDINGS) == ".npz":
            _files.replace(path, self._write_npz)
        else:
            _columns.write(path, self.rows())

    def _write_npz(self, path: Path) -> None:
        with path.open("wb") as file:
            arrays: dict[str, Any] = {name: np.asarray(getattr(self, name)) for name in ARRAYS}
            np.savez_compressed(file, **arrays)

    def rows(self) -> dict[str, Any]:
        """The columns of a table, a row per model, point and query."""
        model, point, query = (index.ravel() for index in np.indices(self.loss.shape))
        return {
            "point": [self.names[number] for number in point],
            "model": model,
            "query": query,
            "member": self.member[model, point].astype(np.int64),
            "reference": (point >= self.challenges).astype(np.int64),
            "fair_coins": np.full(len(point), int(self.fair_coins)),
            "loss": self.loss.ravel(),
        }


def _of_arrays(path: Path) -> PoolLosses:
    required, optional = tuple(ARRAYS)[:2], tuple(ARRAYS)[2:]
    arrays: dict[str, Any] = _npz.read_arrays(
        path, required, optional=optional, largest=LARGEST_LOSSES
    )
    for name, array in arrays.items():
        kind, axes = ARRAYS[name]
        if array.dtype.kind not in kind or (axes is not None and array.ndim != axes):
            raise InputError(
                f"{path.name}: {name} has the wrong type or dimension: shape {array.shape} of "
                f"{array.dtype}."
            )
        arrays[name] = array.tolist() if axes is not None else array
    with _validate.within(path.name):
        return PoolLosses(**arrays)


def _of_rows(columns: dict[str, Any], name: str) -> PoolLosses:
    """Losses from columns of rows, in any order."""
    rows = len(columns["point"])
    model, loss, member = columns["model"], columns["loss"], columns["member"]
    nothing = np.zeros(rows, dtype=np.int64)
    query, flag, fair = (columns.get(column, nothing) for column in OPTIONAL)
    known = {point: number for number, point in enumerate(dict.fromkeys(columns["point"]))}
    point = np.array([known[label] for label in columns["point"]], dtype=np.int64)
    shape = (int(model.max(initial=-1)) + 1, len(known), int(query.max(initial=-1)) + 1)
    if rows == 0 or shape[0] * shape[1] * shape[2] != rows:  # whole numbers, which do not overflow
        raise InputError(
            f"{name}: expected a row for each of {shape[0]} models, {shape[1]} points and "
            f"{shape[2]} queries, got {rows} rows."
        )
    if np.isinf(loss).any():
        raise InputError(f"{name}: expected finite losses, got {loss[np.isinf(loss)][0]}.")
    reference = np.zeros(len(known), dtype=bool)
    reference[point] = flag
    for column, same in (
        ("reference to be the same in every row of a point", reference[point] == flag),
        ("fair_coins to be the same in every row", fair == fair[0]),
    ):
        if not same.all():
            raise InputError(f"{name}: expected {column}.")
    order = np.argsort(reference, kind="stable")  # references come after all others
    place = (model, np.argsort(order)[point], query)
    values, inside = np.full(shape, np.nan), np.full(shape, -1, dtype=np.int8)
    values[place], inside[place] = loss, member
    # There are as many rows as places, so a duplicate leaves another place empty.
    if (inside < 0).any():
        raise InputError(f"{name}: expected one loss for each point, model and query.")
    if (inside != inside[:, :, :1]).any():
        raise InputError(f"{name}: expected member to be the same for all queries of a point.")
    names = list(known)
    with _validate.within(name):
        return PoolLosses(
            loss=values,
            member=inside[:, :, 0] == 1,
            names=[names[number] for number in order],
            references=reference.sum(),
            fair_coins=fair[0],
        )


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
