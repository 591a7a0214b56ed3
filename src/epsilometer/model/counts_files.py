"""Reading error counts from CSV and JSON.  Files are untrusted: every row is checked and named.

CSV: a header row with the columns false_positives, trials_h0, false_negatives, trials_h1 and,
optionally, challenge_base, in any order.  JSON: a list of objects with those keys.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.counts import COLUMNS, AttackCounts, check_base

NAME_COLUMN = "challenge_base"
LONGEST_NAME = 200
LARGEST_FILE = 256 * 1024 * 1024

_WHOLE = re.compile(r"[+-]?\d{1,18}")


def read(source: str | PathLike[str]) -> AttackCounts:
    """Read a file: JSON if its name ends in .json, otherwise CSV."""
    path = Path(source)
    return read_json(path) if path.suffix.lower() == ".json" else read_csv(path)


def read_csv(source: str | PathLike[str]) -> AttackCounts:
    """Read a CSV file."""
    return parse_csv(_load(source), name=Path(source).name)


def read_json(source: str | PathLike[str]) -> AttackCounts:
    """Read a JSON file."""
    return parse_json(_load(source), name=Path(source).name)


def parse(text: str, *, name: str) -> AttackCounts:
    """Read text of either kind: JSON if its first character is a bracket, otherwise CSV."""
    start = text.lstrip("\ufeff \t\r\n")[:1]
    return parse_json(text, name=name) if start in ("[", "{") else parse_csv(text, name=name)


def decode(data: bytes, *, name: str) -> str:
    """Text of a file's bytes, or an error that names it."""
    if len(data) > LARGEST_FILE:
        raise InputError(f"{name}: expected at most {LARGEST_FILE} bytes, got more.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name}: expected UTF-8 text, got other bytes.") from None


def _load(source: str | PathLike[str]) -> str:
    path = Path(source)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    return decode(data, name=path.name)


def parse_csv(text: str, *, name: str) -> AttackCounts:
    """Read CSV text; ``name`` stands for the file in error messages."""
    if "\0" in text:
        raise InputError(f"{name}: expected text, got a NUL byte.")
    rows = csv.reader(io.StringIO(text), strict=True)
    try:
        header = [cell.strip() for cell in next(rows, [])]
        if not any(header):
            raise InputError(
                f"{name}: expected a header row with {', '.join(COLUMNS)}, got an empty file."
            )
        _check_columns(header, where=f"{name} row 1")
        records: list[dict[str, str]] = []
        numbers: list[int] = []
        for cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{name} row {rows.line_num}: expected {len(header)} cells, got {len(cells)}."
                )
            records.append(dict(zip(header, cells, strict=True)))
            numbers.append(rows.line_num)
    except csv.Error as error:
        raise InputError(f"{name} row {rows.line_num}: not valid CSV ({error}).") from None
    places = [f"{name} row {number}" for number in numbers]
    return _assemble(records, places, name=name)


def parse_json(text: str, *, name: str) -> AttackCounts:
    """Read JSON text; ``name`` stands for the file in error messages."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{name}: not valid JSON ({error}).") from None
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    if not isinstance(data, list):
        raise InputError(f"{name}: expected a list of objects, got a {type(data).__name__}.")
    places = [f"{name} item {i + 1}" for i in range(len(data))]
    for item, place in zip(data, places, strict=True):
        if not isinstance(item, dict):
            raise InputError(f"{place}: expected an object, got {_shown(item)}.")
        _check_columns(list(item), where=place)
    return _assemble(data, places, name=name)


def _no_constant(word: str) -> float:
    raise ValueError(f"expected whole numbers, got {word}.")


def _check_columns(columns: Sequence[str], *, where: str) -> None:
    missing = [column for column in COLUMNS if column not in columns]
    if missing:
        raise InputError(
            f"{where}: expected columns {', '.join(COLUMNS)}; missing {', '.join(missing)}."
        )
    unknown = [column for column in columns if column not in (*COLUMNS, NAME_COLUMN)]
    if unknown:
        raise InputError(
            f"{where}: unknown column {_shown(unknown[0])}; "
            f"expected {', '.join(COLUMNS)} and optionally {NAME_COLUMN}."
        )
    twice = [column for column in columns if list(columns).count(column) > 1]
    if twice:
        raise InputError(f"{where}: column {twice[0]} occurs twice.")


def _assemble(
    records: Iterable[Mapping[str, object]], places: Sequence[str], *, name: str
) -> AttackCounts:
    columns: dict[str, list[int]] = {column: [] for column in COLUMNS}
    names: list[str] = []
    for index, (record, place) in enumerate(zip(records, places, strict=True)):
        row = [_whole(record[column], column, place) for column in COLUMNS]
        check_base(*row, where=f"{place}: ")
        for column, value in zip(COLUMNS, row, strict=True):
            columns[column].append(value)
        names.append(_label(record.get(NAME_COLUMN, index), place))
    if not names:
        raise InputError(f"{name}: expected at least one challenge base, got none.")
    return AttackCounts(
        false_positives=columns["false_positives"],
        trials_h0=columns["trials_h0"],
        false_negatives=columns["false_negatives"],
        trials_h1=columns["trials_h1"],
        names=names,
    )


def _whole(value: object, column: str, place: str) -> int:
    if isinstance(value, str):
        text = value.strip()
        if _WHOLE.fullmatch(text):
            return int(text)
        if text.lstrip("+-").isdigit():
            value = f"{text[:20]}..."
    elif isinstance(value, int) and not isinstance(value, bool):
        if abs(value) <= 10 * _validate.LARGEST_COUNT:
            return value
    raise InputError(
        f"{place}: expected a whole number up to {_validate.LARGEST_COUNT:.0e} in {column}, "
        f"got {column}={_shown(value)}."
    )


def _label(value: object, place: str) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InputError(f"{place}: expected {NAME_COLUMN} to be text, got {_shown(value)}.")
    text = str(value).strip()
    if len(text) > LONGEST_NAME:
        raise InputError(
            f"{place}: expected {NAME_COLUMN} of at most {LONGEST_NAME} characters, "
            f"got {len(text)}."
        )
    return text


def _shown(value: object) -> str:
    """A value as it may stand in an error message: on one line, quoted, short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
