"""Tables in CSV and Parquet as typed columns: the one reader of untrusted tables of losses and scores.

A column's kind is `TEXT`, `NUMBER`, `ORDER` (a number, or nothing: NaN), or the largest whole number
that it may hold; `FLAG` columns may also hold true and false.  Errors name the file, and in CSV the
row.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer.errors import InputError

TEXT, NUMBER, ORDER, FLAG = "text", "number", "order", 1
Kinds = Mapping[str, str | int]

#: Rows of a Parquet file, which compression could make many of few bytes.
MOST_ROWS = 1 << 27

#: What else stands for flags.
WORDS = {"true": "1", "false": "0", "1.0": "1", "0.0": "0"}


def read(path: Path, kinds: Kinds, optional: Sequence[str] = ()) -> dict[str, Any]:
    """Columns of a file; Parquet if the name ends in .parquet, otherwise CSV."""
    if path.suffix.lower() == ".parquet":
        return _of_arrow(path, kinds, optional)
    return parse_csv(_files.load(path), kinds, optional, name=path.name)


def parse_csv(
    text: str, kinds: Kinds, optional: Sequence[str] = (), *, name: str
) -> dict[str, Any]:
    """Columns of CSV text; ``name`` is the file name in error messages."""
    required = [column for column in kinds if column not in optional]
    header, rows, places = _files.table(text, required, name=name)
    _files.check_columns(header, required, optional, where=f"{name} row 1")
    columns: dict[str, Any] = {}
    for number, column in enumerate(header):
        kind, cells = kinds[column], [row[number].strip() for row in rows]
        values = [_cell(kind, column, *pair) for pair in zip(cells, places, strict=True)]
        columns[column] = values if kind == TEXT else np.array(values, dtype=_dtype(kind))
    return columns


def _dtype(kind: str | int) -> type:
    return np.float64 if kind in (NUMBER, ORDER) else np.int64


def _cell(kind: str | int, column: str, cell: str, place: str) -> Any:
    if kind == TEXT:
        return _files.label(cell, column, place)
    if isinstance(kind, int):
        text = WORDS.get(cell.lower(), cell) if kind == FLAG else cell
        return _files.whole_number(text, column, place, most=kind)
    value = _files.number(cell)
    if value is None and kind == ORDER:
        return np.nan
    if value is None:
        raise InputError(
            f"{place}: expected a number in {column}, got {column}={_files.shown(cell)}."
        )
    return value


def _of_arrow(path: Path, kinds: Kinds, optional: Sequence[str]) -> dict[str, Any]:
    name = path.name
    table = _files.read_parquet(path, most_rows=MOST_ROWS)
    required = [column for column in kinds if column not in optional]
    _files.check_columns(list(table.column_names), required, optional, where=name)
    columns: dict[str, Any] = {}
    for column in table.column_names:
        values = table.column(column)
        if values.null_count and kinds[column] != ORDER:
            raise InputError(f"{name}: expected a value in every row of {column}, got a null.")
        with _files.parquet(path) as arrow:
            if kinds[column] == TEXT:
                columns[column] = _labels(arrow, values, column, name)
            else:
                columns[column] = _numbers(arrow.types, values, column, kinds[column], name)
    return columns


def _labels(arrow: Any, values: Any, column: str, name: str) -> list[str]:
    """Text of each row; every different text is checked once."""
    if arrow.types.is_nested(values.type):
        raise InputError(f"{name}: expected {column} to be text, got {values.type} values.")
    if arrow.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    listed = values.to_pylist()
    known = {value: _files.label(value, column, name) for value in dict.fromkeys(listed)}
    return [known[value] for value in listed]


def _numbers(types: Any, values: Any, column: str, kind: str | int, name: str) -> Any:
    whole = types.is_integer(values.type) or (kind == FLAG and types.is_boolean(values.type))
    if not whole and not (kind in (NUMBER, ORDER, FLAG) and types.is_floating(values.type)):
        what = "numbers" if kind in (NUMBER, ORDER) else "whole numbers"
        raise InputError(f"{name}: expected {what} in {column}, got {values.type} values.")
    numbers = values.to_numpy()
    if isinstance(kind, int) and numbers.dtype.kind in "iuf":
        wrong = numbers[~((numbers >= 0) & (numbers <= kind)) | (numbers % 1 != 0)]
        if len(wrong):
            raise InputError(f"{name}: expected 0 <= {column} <= {kind}, got {column}={wrong[0]}.")
    return numbers.astype(_dtype(kind))


def csv_text(columns: Mapping[str, Any]) -> str:
    """CSV text that `parse_csv` reads back."""
    cells = (values if isinstance(values, list) else values.tolist() for values in columns.values())
    return _files.csv_text(list(columns), zip(*cells, strict=True))


def write(path: Path, columns: Mapping[str, Any]) -> None:
    """Write CSV or Parquet that `read` reads back, by the ending of the name, whole or not at all."""
    if _files.ending(path, ".csv", ".parquet", bare=".csv") == ".csv":
        _files.write_text(path, csv_text(columns))
    else:
        _files.replace(path, lambda temporary: write_parquet(temporary, columns))


def write_parquet(path: Path, columns: Mapping[str, Any]) -> None:
    """Pages have checksums."""
    arrow = _files.pyarrow()
    arrays = {
        name: arrow.array(values).dictionary_encode() if isinstance(values, list) else values
        for name, values in columns.items()
    }
    table = arrow.table(arrays)
    arrow.parquet.write_table(table, path, compression="zstd", write_page_checksum=True)
