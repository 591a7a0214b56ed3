"""Error counts as CSV and JSON.  Files are untrusted: every row is checked and a wrong one named.

CSV: a header row with the columns false_positives, trials_h0, false_negatives, trials_h1 and,
optionally, challenge_base and group, in any order.  JSON: a list of objects with those keys, or an
object that holds such a list under "bases".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from epsilometer import _files, _validate
from epsilometer.errors import InputError
from epsilometer.model.counts import COLUMNS, AttackCounts, check_base

NAME_COLUMN = "challenge_base"
GROUP_COLUMN = "group"
OPTIONAL = (NAME_COLUMN, GROUP_COLUMN)

_WHOLE = re.compile(r"[+-]?\d{1,18}")


def read(source: str | PathLike[str]) -> AttackCounts:
    """Read a file: JSON if its name ends in .json, otherwise CSV."""
    path = Path(source)
    return read_json(path) if path.suffix.lower() == ".json" else read_csv(path)


def read_csv(source: str | PathLike[str]) -> AttackCounts:
    """Read a CSV file."""
    return parse_csv(_files.load(source), name=Path(source).name)


def read_json(source: str | PathLike[str]) -> AttackCounts:
    """Read a JSON file."""
    return parse_json(_files.load(source), name=Path(source).name)


def parse(text: str, *, name: str) -> AttackCounts:
    """Read text of either kind: JSON if its first character is a bracket, otherwise CSV."""
    start = text.lstrip("\ufeff \t\r\n")[:1]
    return parse_json(text, name=name) if start in ("[", "{") else parse_csv(text, name=name)


def parse_csv(text: str, *, name: str) -> AttackCounts:
    """Read CSV text; ``name`` stands for the file in error messages."""
    header, rows, places = _files.table(text, COLUMNS, name=name)
    _files.check_columns(header, COLUMNS, OPTIONAL, where=f"{name} row 1")
    records = [dict(zip(header, cells, strict=True)) for cells in rows]
    return _assemble(records, places, name=name)


def parse_json(text: str, *, name: str) -> AttackCounts:
    """Read JSON text; ``name`` stands for the file in error messages."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{name}: not valid JSON ({error}).") from None
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    if isinstance(data, dict) and isinstance(data.get("bases"), list):
        data = data["bases"]  # what `epsilometer attack --json` prints
    if not isinstance(data, list):
        raise InputError(f"{name}: expected a list of objects, got a {type(data).__name__}.")
    places = [f"{name} item {i + 1}" for i in range(len(data))]
    for item, place in zip(data, places, strict=True):
        if not isinstance(item, dict):
            raise InputError(f"{place}: expected an object, got {_files.shown(item)}.")
        _files.check_columns(list(item), COLUMNS, OPTIONAL, where=place)
    return _assemble(data, places, name=name)


def _no_constant(word: str) -> float:
    raise ValueError(f"expected whole numbers, got {word}.")


def _assemble(
    records: Iterable[Mapping[str, object]], places: Sequence[str], *, name: str
) -> AttackCounts:
    columns: dict[str, list[int]] = {column: [] for column in COLUMNS}
    names: list[str] = []
    groups: list[str] = []
    for index, (record, place) in enumerate(zip(records, places, strict=True)):
        row = [_whole(record[column], column, place) for column in COLUMNS]
        check_base(*row, where=f"{place}: ")
        for column, value in zip(COLUMNS, row, strict=True):
            columns[column].append(value)
        names.append(_files.label(record.get(NAME_COLUMN, index), NAME_COLUMN, place))
        group = record.get(GROUP_COLUMN, "")
        groups.append("" if group == "" else _files.label(group, GROUP_COLUMN, place))
    if not names:
        raise InputError(f"{name}: expected at least one challenge base, got none.")
    return AttackCounts(
        false_positives=columns["false_positives"],
        trials_h0=columns["trials_h0"],
        false_negatives=columns["false_negatives"],
        trials_h1=columns["trials_h1"],
        names=names,
        groups=groups,
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
        f"got {column}={_files.shown(value)}."
    )


def to_csv(counts: AttackCounts) -> str:
    """CSV text that `parse_csv` reads back."""
    header = columns_of(counts)
    return _files.csv_text(header, [[row[name] for name in header] for row in rows(counts)])


def columns_of(counts: AttackCounts) -> tuple[str, ...]:
    """The columns that a file of these counts has; a group only where there are any."""
    return (NAME_COLUMN, *((GROUP_COLUMN,) if counts.groups else ()), *COLUMNS)


def rows(counts: AttackCounts) -> list[dict[str, str | int]]:
    """A plain object for each challenge base: what JSON files hold."""
    table: list[dict[str, str | int]] = []
    for index, name in enumerate(counts.names):
        numbers = {column: int(getattr(counts, column)[index]) for column in COLUMNS}
        group = {GROUP_COLUMN: counts.groups[index]} if counts.groups else {}
        table.append({NAME_COLUMN: name, **group, **numbers})
    return table


def write(counts: AttackCounts, target: str | PathLike[str]) -> None:
    """Write JSON if the name ends in .json, otherwise CSV; replaces a file of that name."""
    path = Path(target)
    text = to_csv(counts)
    if path.suffix.lower() == ".json":
        text = json.dumps(rows(counts), indent=2) + "\n"
    _files.replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
