"""Files of losses of a pool: NPZ, Parquet and CSV.  They are untrusted, and nothing is unpickled.

An NPZ file has the arrays of `PoolLosses`.  Parquet and CSV have one row per model, point and query:

    point, model, member, loss [, query, reference, fair_coins]

Models and queries are numbered from 0.  Points keep the order of their first occurrence, with references
(reference = 1) after all others.  fair_coins is the same in every row.  Parquet is written model by
model and read in batches, so that little more than the losses is ever held in memory. model and read in
batches, so that no more than the losses themselves is ever held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer import _files, _npz
from epsilometer._arrays import IntArray
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.pool_losses import PoolLosses

LARGEST_LOSSES = 4 * 1024**3
"""Largest size in bytes of the unpacked losses; NPZ files store them as floating-point numbers, so a
file cannot demand many times as much."""

ROWS_AT_ONCE = 1 << 17
REQUIRED = ("point", "model", "member", "loss")
OPTIONAL = ("query", "reference", "fair_coins")
COLUMNS = ("point", "model", "query", "member", "reference", "fair_coins", "loss")
FLAGS = ("member", "reference", "fair_coins")

Batch = dict[str, Any]
"""Columns of some rows: ``names`` of points, ``point`` as indices into these, and the others."""


def read(path: Path) -> dict[str, Any]:
    """Read the constructor arguments of `PoolLosses`."""
    kind = path.suffix.lower()
    if kind == ".npz":
        return _of_arrays(path)
    if kind == ".parquet":
        return _assemble(path.name, lambda: _parquet_batches(path))
    if kind == ".csv":
        return parse_csv(_files.load(path), name=path.name)
    raise InputError(f"{path.name}: expected a name that ends in .npz, .parquet or .csv.")


def parse_csv(text: str, *, name: str) -> dict[str, Any]:
    """The same from CSV text; ``name`` is the file name in error messages."""
    batch = _csv_batch(text, name)
    return _assemble(name, lambda: iter([batch]))


def write(losses: PoolLosses, path: Path) -> None:
    """Write losses atomically; replaces an existing file."""
    kind = path.suffix.lower()
    if kind == ".npz":
        _files.replace(path, lambda temporary: _write_npz(losses, temporary))
    elif kind == ".parquet":
        _files.replace(path, lambda temporary: _write_parquet(losses, temporary))
    elif kind == ".csv":
        _files.write_text(path, _files.csv_text(COLUMNS, _rows(losses)))
    else:
        raise InputError(f"{path.name}: expected a name that ends in .npz, .parquet or .csv.")


# --- npz ------------------------------------------------------------------------------------------


def _of_arrays(path: Path) -> dict[str, Any]:
    optional = ("names", "references", "fair_coins", "numbers")
    arrays: dict[str, Any] = _npz.read_arrays(
        path, ("loss", "member"), optional=optional, largest=LARGEST_LOSSES
    )
    kinds = {
        "loss": ("f", None),
        "member": ("b", None),
        "names": ("U", 1),
        "references": ("iu", 0),
        "fair_coins": ("b", 0),
        "numbers": ("iu", 1),
    }
    for name, array in arrays.items():
        kind, axes = kinds[name]
        if array.dtype.kind not in kind or (axes is not None and array.ndim != axes):
            raise InputError(
                f"{path.name}: {name} has the wrong type or dimension: shape {array.shape} of "
                f"{array.dtype}."
            )
        arrays[name] = array.tolist() if axes is not None else array
    return arrays


def _write_npz(losses: PoolLosses, path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            loss=losses.loss,
            member=losses.member,
            names=np.array(losses.names),
            references=losses.references,
            fair_coins=losses.fair_coins,
            numbers=losses.numbers,
        )


# --- rows -----------------------------------------------------------------------------------------


def _rows(losses: PoolLosses) -> Iterator[tuple[object, ...]]:
    fair = int(losses.fair_coins)
    for model in range(losses.models):
        for point, name in enumerate(losses.names):
            member, reference = int(losses.member[model, point]), int(point >= losses.challenges)
            for query, loss in enumerate(losses.loss[model, point].tolist()):
                yield name, model, query, member, reference, fair, loss


def _write_parquet(losses: PoolLosses, path: Path) -> None:
    arrow = _files.pyarrow()
    kinds = [arrow.dictionary(arrow.int32(), arrow.string()), arrow.int32(), arrow.int32()]
    kinds += [arrow.bool_(), arrow.bool_(), arrow.bool_(), arrow.float64()]
    schema = arrow.schema(list(zip(COLUMNS, kinds, strict=True)))
    names = arrow.array(losses.names, arrow.string())
    shape = (losses.points, losses.queries)
    point, query = (index.ravel() for index in np.indices(shape, dtype=np.int32))
    reference = point >= losses.challenges
    with arrow.parquet.ParquetWriter(
        path, schema, compression="zstd", write_page_checksum=True
    ) as file:
        for model in range(losses.models):
            columns = [
                arrow.DictionaryArray.from_arrays(arrow.array(point), names),
                arrow.array(np.full(len(point), model, dtype=np.int32)),
                arrow.array(query),
                arrow.array(losses.member[model][point]),
                arrow.array(reference),
                arrow.array(np.full(len(point), losses.fair_coins)),
                arrow.array(losses.loss[model].ravel()),
            ]
            file.write_table(arrow.Table.from_arrays(columns, schema=schema))


def _parquet_batches(path: Path) -> Iterator[Batch]:
    arrow = _files.pyarrow()
    try:
        with arrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            columns = list(file.schema_arrow.names)
            _files.check_columns(columns, REQUIRED, OPTIONAL, where=path.name)
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                yield _arrow_batch(arrow, batch, path.name)
    except FileNotFoundError:
        raise InputError(f"{path}: expected a file, got no such file.") from None
    except (arrow.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        reason = " ".join(str(error).split())  # Arrow's messages may have several lines
        raise InputError(f"{path}: cannot be read as Parquet ({reason}).") from None


def _arrow_batch(arrow: Any, batch: Any, name: str) -> Batch:
    columns: Batch = {}
    for column in batch.schema.names:
        values = batch.column(column)
        if values.null_count:
            raise InputError(f"{name}: expected a value in every row of {column}, got a null.")
        if column == "point":
            coded = values
            if not arrow.types.is_dictionary(values.type):
                if arrow.types.is_nested(values.type):
                    raise InputError(
                        f"{name}: expected point to be text, got {values.type} values."
                    )
                coded = values.dictionary_encode()
            columns["names"] = coded.dictionary.to_pylist()
            columns["point"] = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        elif arrow.types.is_dictionary(values.type):
            raise InputError(f"{name}: expected numbers in {column}, got {values.type} values.")
        else:
            columns[column] = values.to_numpy(zero_copy_only=False)
    return columns


def _csv_batch(text: str, name: str) -> Batch:
    header, rows, places = _files.table(text, REQUIRED, name=name)
    _files.check_columns(header, REQUIRED, OPTIONAL, where=f"{name} row 1")
    columns: Batch = {}
    for number, column in enumerate(header):
        cells = [row[number].strip() for row in rows]
        if column == "point":
            names = list(dict.fromkeys(cells))
            place = {point: number for number, point in enumerate(names)}
            columns["names"] = names
            columns["point"] = np.array([place[point] for point in cells], dtype=np.int64)
        elif column == "loss":
            columns[column] = _numbers(cells, places)
        else:
            most = 1 if column in FLAGS else 10**9
            columns[column] = np.array(
                [
                    _files.whole_number(cell, column, where, most=most)
                    for cell, where in zip(cells, places, strict=True)
                ],
                dtype=np.int64,
            )
    return columns


def _numbers(cells: Sequence[str], places: Sequence[str]) -> NDArray[np.float64]:
    values = [_files.number(cell) for cell in cells]
    for value, cell, where in zip(values, cells, places, strict=True):
        if value is None:
            raise InputError(f"{where}: expected a number in loss, got loss={_files.shown(cell)}.")
    return np.array(values, dtype=np.float64)


# --- from rows to arrays --------------------------------------------------------------------------


def _assemble(name: str, batches: Any) -> dict[str, Any]:
    """Arrays from batches of rows, which are read twice: for the sizes and for the losses."""
    sizes = _Sizes(name)
    for batch in batches():
        sizes.add(batch)
    shape, order = sizes.shape(), sizes.order()
    loss = np.full(shape, np.nan)
    member = np.full(shape, -1, dtype=np.int8)
    for batch in batches():
        point = order[sizes.codes(batch)]
        where = (batch["model"], point, batch.get("query", np.zeros_like(point)))
        loss[where], member[where] = batch["loss"], batch["member"]
    # There are as many rows as places, so a duplicate leaves another place empty.
    if np.isnan(loss).any():
        raise InputError(f"{name}: expected one finite loss for each point, model and query.")
    if (member != member[:, :, :1]).any():
        raise InputError(f"{name}: expected member to be the same for all queries of a point.")
    names = np.empty(len(order), dtype=object)
    names[order] = list(sizes.known)
    return {
        "loss": loss,
        "member": member[:, :, 0] == 1,
        "names": names.tolist(),
        "references": int(sizes.reference.sum()),
        "fair_coins": bool(sizes.fair_coins),
    }


class _Sizes:
    """Sizes found in the rows, batch by batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known: dict[str, int] = {}
        self.reference: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self.fair_coins: int | None = None
        self._rows, self._models, self._queries = 0, 0, 0
        self._last: tuple[list[object], IntArray] | None = None

    def codes(self, batch: Batch) -> IntArray:
        """The index of each row's point, in order of first occurrence."""
        if self._last is None or self._last[0] != batch["names"]:
            used, first = np.unique(batch["point"], return_index=True)
            table = np.full(len(batch["names"]), -1)
            for code in used[np.argsort(first)]:
                label = _files.label(batch["names"][code], "point", self.name)
                table[code] = self.known.setdefault(label, len(self.known))
            self._last = (batch["names"], table)
        codes = self._last[1][batch["point"]]
        if (codes < 0).any():
            self._last = None
            return self.codes(batch)
        return codes

    def add(self, batch: Batch) -> None:
        for column in ("model", "query", "member", "reference", "fair_coins", "loss"):
            if column in batch:
                self._check(column, batch[column])
        point = self.codes(batch)
        self._rows += len(point)
        if self._rows * 8 > LARGEST_LOSSES:
            raise InputError(
                f"{self.name}: expected at most {LARGEST_LOSSES // 8} losses, got more."
            )
        self._models = max(self._models, int(batch["model"].max(initial=-1)) + 1)
        query = batch.get("query", np.zeros(1, dtype=np.int64))
        self._queries = max(self._queries, int(query.max(initial=-1)) + 1)
        new = len(self.known) - len(self.reference)
        self.reference = np.append(self.reference, np.zeros(new, dtype=bool))
        if "reference" in batch:
            self._mark(point, batch["reference"].astype(bool), new)
        values = np.unique(batch.get("fair_coins", np.zeros(1, dtype=np.int64))).tolist()
        self.fair_coins = values[0] if self.fair_coins is None and values else self.fair_coins
        if any(flag != self.fair_coins for flag in values):
            raise InputError(f"{self.name}: expected fair_coins to be the same in every row.")

    def _mark(self, point: IntArray, flag: NDArray[np.bool_], new: int) -> None:
        """Record which points are references; this must be the same in every row of a point."""
        fresh = point >= len(self.reference) - new
        self.reference[point[fresh & flag]] = True
        if (self.reference[point] != flag).any():
            raise InputError(
                f"{self.name}: expected reference to be the same in every row of a point."
            )

    def _check(self, column: str, values: NDArray[Any]) -> None:
        allowed = "iuf" if column == "loss" else "biu" if column in FLAGS else "iu"
        if values.dtype.kind not in allowed:
            what = "numbers" if column == "loss" else "whole numbers"
            raise InputError(
                f"{self.name}: expected {what} in {column}, got {values.dtype} values."
            )
        if column == "loss":
            wrong = values[~np.isfinite(values)]
            expected = "finite losses"
        else:
            most = 1 if column in FLAGS else 10**9
            wrong = values[(values < 0) | (values > most)]
            expected = f"0 <= {column} <= {most}"
        if len(wrong):
            raise InputError(f"{self.name}: expected {expected}, got {column}={wrong[0]}.")

    def shape(self) -> tuple[int, int, int]:
        shape = (self._models, len(self.known), self._queries)
        # Python integers, which do not overflow.
        if self._rows == 0 or shape[0] * shape[1] * shape[2] != self._rows:
            raise InputError(
                f"{self.name}: expected a row for each of {shape[0]} models, {shape[1]} points and "
                f"{shape[2]} queries, got {self._rows} rows."
            )
        return shape

    def order(self) -> IntArray:
        """The position of each point, references after all others."""
        behind = self.reference
        return np.where(behind, (~behind).sum() + np.cumsum(behind), np.cumsum(~behind)) - 1
