"""Cells of losses in CSV and Parquet: columns challenge_base, hypothesis (0 or 1), replicate, loss.

Files are untrusted: every row is checked and a wrong one is named.  Numbers are written so that
reading gives the same bits back.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer import _files
from epsilometer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from epsilometer.attacks.losses import Losses

Cells = dict[str, Any]
"""What :class:`~epsilometer.Losses` are made of, by column."""

LARGEST_REPLICATE = 10**15
"""Exact in double precision, which files of others may use."""

BASE = "challenge_base"
COLUMNS = (BASE, "hypothesis", "replicate", "loss")
PARQUET = ".parquet"


def read(source: str | PathLike[str]) -> Cells:
    """Read a file: Parquet if its name ends in .parquet, otherwise CSV."""
    path = Path(source)
    if path.suffix.lower() == PARQUET:
        return _read_parquet(path)
    return parse_csv(_files.load(path), name=path.name)


def parse_csv(text: str, *, name: str) -> Cells:
    """Read CSV text; ``name`` stands for the file in error messages."""
    header, rows, places = _files.table(text, COLUMNS, name=name)
    _files.check_columns(header, COLUMNS, where=f"{name} row 1")
    cells: Cells = {column: [] for column in COLUMNS}
    for record, where in zip(rows, places, strict=True):
        row = dict(zip(header, record, strict=True))
        cells["challenge_base"].append(_files.label(row["challenge_base"], BASE, where))
        for column, most in (("hypothesis", 1), ("replicate", LARGEST_REPLICATE)):
            number = _files.whole_number(row[column].strip(), column, where, most=most)
            cells[column].append(number)
        loss = _files.number(row["loss"])
        if loss is None:
            raise InputError(
                f"{where}: expected a number in loss, got loss={_files.shown(row['loss'])}."
            )
        cells["loss"].append(loss)
    return cells


def to_csv(losses: Losses) -> str:
    """CSV text; each loss in the shortest form that reads back to the same number."""
    rows = zip(
        losses.challenge_base,
        losses.hypothesis.tolist(),
        losses.replicate.tolist(),
        losses.loss.tolist(),
        strict=True,
    )
    return _files.csv_text(COLUMNS, rows)


def write(losses: Losses, target: str | PathLike[str]) -> None:
    """Write CSV or Parquet, under a temporary name first so that no file is ever half there."""
    path = Path(target)
    if path.suffix.lower() == PARQUET:
        _files.replace(path, lambda temporary: _write_parquet(losses, temporary))
    else:
        text = to_csv(losses)
        _files.replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _read_parquet(path: Path) -> Cells:
    arrow = _files.pyarrow()
    try:
        cells = _cells(arrow, _files.read_parquet(path), path.name)
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error}).") from None
    return cells


def _cells(arrow: Any, table: pa.Table, name: str) -> dict[str, Any]:
    _files.check_columns(list(table.column_names), COLUMNS, where=name)
    cells: dict[str, Any] = {}
    for column in COLUMNS:
        values = table.column(column)
        if values.null_count:
            raise InputError(f"{name}: expected a value in every row of {column}, got a null.")
        kind = values.type
        if column == BASE:
            cells[column] = [
                _files.label(label, BASE, f"{name} row {row + 1}")
                for row, label in enumerate(values.to_pylist())
            ]
        elif column == "loss":
            if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind)):
                raise InputError(f"{name}: expected numbers in loss, got {kind} values.")
            cells[column] = values.to_numpy().astype(np.float64)
        else:
            if not arrow.types.is_integer(kind):
                raise InputError(f"{name}: expected whole numbers in {column}, got {kind} values.")
            cells[column] = values.to_numpy()
    return cells


def _write_parquet(losses: Losses, path: Path) -> None:
    arrow = _files.pyarrow()
    names = arrow.array(list(losses.names), arrow.string())
    table = arrow.table(
        {
            "challenge_base": arrow.DictionaryArray.from_arrays(losses.base.astype("int32"), names),
            "hypothesis": arrow.array(losses.hypothesis, arrow.int8()),
            "replicate": arrow.array(losses.replicate, arrow.int64()),
            "loss": arrow.array(losses.loss, arrow.float64()),
        }
    )
    arrow.parquet.write_table(table, path, compression="zstd", write_page_checksum=True)
