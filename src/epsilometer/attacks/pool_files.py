"""Files of losses of a pool: NPZ, Parquet and CSV.  They are untrusted, and nothing is unpickled.

An NPZ file has the arrays of `PoolLosses`; it is the smallest, and the one for large pools.  Parquet
and CSV have one row per model, point and query:

    point, model, member, loss [, query, reference, fair_coins]

Models and queries are numbered from 0.  Points keep the order of their first occurrence, with references
(reference = 1) after all others.  fair_coins is the same in every row.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer import _columns, _files, _npz
from epsilometer._columns import FLAG, NUMBER, TEXT
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.pool_losses import PoolLosses

LARGEST_LOSSES = 4 * 1024**3
"""Largest size in bytes of the unpacked losses; NPZ files store them as floating-point numbers, so a
file cannot demand many times as much."""

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

ARRAYS = {
    "loss": ("f", None),
    "member": ("b", None),
    "names": ("U", 1),
    "references": ("iu", 0),
    "fair_coins": ("b", 0),
    "numbers": ("iu", 1),
}
"""Arrays of an NPZ file: kinds of numbers, and the number of axes where it is fixed."""


def read(path: Path) -> dict[str, Any]:
    """Read the constructor arguments of `PoolLosses`."""
    if _files.ending(path, *ENDINGS) == ".npz":
        return _of_arrays(path)
    return _assemble(_columns.read(path, COLUMNS, OPTIONAL), path.name)


def parse_csv(text: str, *, name: str) -> dict[str, Any]:
    """The same from CSV text; ``name`` is the file name in error messages."""
    return _assemble(_columns.parse_csv(text, COLUMNS, OPTIONAL, name=name), name)


def write(losses: PoolLosses, path: Path) -> None:
    """Write losses atomically; replaces an existing file."""
    kind = _files.ending(path, *ENDINGS)
    if kind == ".npz":
        _files.replace(path, lambda temporary: _write_npz(losses, temporary))
    elif kind == ".parquet":
        _files.replace(path, lambda temporary: _columns.write_parquet(temporary, rows_of(losses)))
    else:
        columns = rows_of(losses)
        cells = (
            values if isinstance(values, list) else (values + 0).tolist()
            for values in columns.values()
        )
        _files.write_text(path, _files.csv_text(list(columns), zip(*cells, strict=True)))


def _of_arrays(path: Path) -> dict[str, Any]:
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
    return arrays


def _write_npz(losses: PoolLosses, path: Path) -> None:
    with path.open("wb") as file:
        arrays: dict[str, Any] = {name: np.asarray(getattr(losses, name)) for name in ARRAYS}
        np.savez_compressed(file, **arrays)


def rows_of(losses: PoolLosses) -> dict[str, Any]:
    """The columns of a table, a row per model, point and query."""
    model, point, query = (index.ravel() for index in np.indices(losses.loss.shape))
    return {
        "point": [losses.names[number] for number in point],
        "model": model,
        "query": query,
        "member": losses.member[model, point].astype(np.int64),
        "reference": (point >= losses.challenges).astype(np.int64),
        "fair_coins": np.full(len(point), int(losses.fair_coins)),
        "loss": losses.loss.ravel(),
    }


def _assemble(columns: dict[str, Any], name: str) -> dict[str, Any]:
    """Arrays from columns of rows, in any order."""
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
    if not np.isfinite(loss).all():
        raise InputError(f"{name}: expected finite losses, got {loss[~np.isfinite(loss)][0]}.")
    reference = np.zeros(len(known), dtype=bool)
    reference[point] = flag
    for column, same in (
        ("reference to be the same in every row of a point", reference[point] == flag),
        ("fair_coins to be the same in every row", fair == fair[0]),
    ):
        if not same.all():
            raise InputError(f"{name}: expected {column}.")
    # References come after all others.
    order = np.where(reference, (~reference).sum() + reference.cumsum(), (~reference).cumsum()) - 1
    place = (model, order[point], query)
    values, inside = np.full(shape, np.nan), np.full(shape, -1, dtype=np.int8)
    values[place], inside[place] = loss, member
    # There are as many rows as places, so a duplicate leaves another place empty.
    if np.isnan(values).any():
        raise InputError(f"{name}: expected one finite loss for each point, model and query.")
    if (inside != inside[:, :, :1]).any():
        raise InputError(f"{name}: expected member to be the same for all queries of a point.")
    names = np.empty(len(order), dtype=object)
    names[order] = list(known)
    return {
        "loss": values,
        "member": inside[:, :, 0] == 1,
        "names": names.tolist(),
        "references": int(reference.sum()),
        "fair_coins": bool(fair[0]),
    }
