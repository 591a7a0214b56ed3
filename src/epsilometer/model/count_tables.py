"""Read columns of error counts from CSV and JSON.

Files are untrusted: every row is checked, and errors name the row.  CSV: a header row with the columns
false_positives, trials_h0, false_negatives, trials_h1 and, optionally, challenge_base and group, in any
order; design, target_alpha and statistic, the same in every row, describe how the counts were measured.
JSON: a list of objects with those keys, or an object with such a list under "bases".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from epsilometer import _files, _validate
from epsilometer.errors import InputError
from epsilometer.model import measured
from epsilometer.model.measured import MeasuredBy

COLUMNS = ("false_positives", "trials_h0", "false_negatives", "trials_h1")
NAME_COLUMN = "challenge_base"
GROUP_COLUMN = "group"
OPTIONAL = (NAME_COLUMN, GROUP_COLUMN, *measured.COLUMNS)

Columns = dict[str, Any]
"""Arguments of :class:`~epsilometer.AttackCounts`, by name."""

_WHOLE = re.compile(r"[+-]?\d{1,18}")


def check_base(
    false_positives: int, trials_h0: int, false_negatives: int, trials_h1: int, *, where: str = ""
) -> None:
    """Raise :class:`InputError` unless the four numbers can be the counts of one challenge base."""
    for name, value in (("trials_h0", trials_h0), ("trials_h1", trials_h1)):
        if not 1 <= value <= _validate.LARGEST_COUNT:
            raise InputError(
                f"{where}expected 1 <= {name} <= {_validate.LARGEST_COUNT:.0e}, got {name}={value}."
            )
    for name, value, total_name, total in (
        ("false_positives", false_positives, "trials_h0", trials_h0),
        ("false_negatives", false_negatives, "trials_h1", trials_h1),
    ):
        if not 0 <= value <= total:
            raise InputError(
                f"{where}expected 0 <= {name} <= {total_name}, "
                f"got {name}={value}, {total_name}={total}."
            )


def parse(text: str, *, name: str) -> Columns:
    """Read JSON if the first character is a bracket, otherwise CSV."""
    start = text.lstrip("\ufeff \t\r\n")[:1]
    return parse_json(text, name=name) if start in ("[", "{") else parse_csv(text, name=name)


def parse_csv(text: str, *, name: str) -> Columns:
    """Read CSV text; ``name`` names the file in error messages."""
    return _assemble(_files.records(text, COLUMNS, OPTIONAL, name=name), name=name)


def parse_json(text: str, *, name: str) -> Columns:
    """Read JSON text; ``name`` names the file in error messages."""
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
    records = [(item, f"{name} item {number}") for number, item in enumerate(data, start=1)]
    for item, place in records:
        if not isinstance(item, dict):
            raise InputError(f"{place}: expected an object, got {_files.shown(item)}.")
        _files.check_columns(list(item), COLUMNS, OPTIONAL, where=place)
    return _assemble(records, name=name)


def _no_constant(word: str) -> float:
    raise ValueError(f"expected whole numbers, got {word}.")


def _assemble(records: Iterable[tuple[Mapping[str, object], str]], *, name: str) -> Columns:
    """Combine records, each with its location in the file, into columns."""
    columns: dict[str, list[int]] = {column: [] for column in COLUMNS}
    names: list[str] = []
    groups: list[str] = []
    origin: MeasuredBy | None = None
    for index, (record, place) in enumerate(records):
        row = [_integer(record[column], column, place) for column in COLUMNS]
        check_base(*row, where=f"{place}: ")
        for column, value in zip(COLUMNS, row, strict=True):
            columns[column].append(value)
        names.append(_files.label(record.get(NAME_COLUMN, index), NAME_COLUMN, place))
        group = record.get(GROUP_COLUMN, "")
        groups.append("" if group == "" else _files.label(group, GROUP_COLUMN, place))
        measured_by = measured.of_record(record, place)
        if index and measured_by != origin:
            raise InputError(
                f"{place}: expected the same {', '.join(measured.COLUMNS)} in every row, got "
                f"{_measurement_text(measured_by)} after {_measurement_text(origin)}; put counts that "
                "were measured differently into separate files."
            )
        origin = measured_by
    if not names:
        raise InputError(f"{name}: expected at least one challenge base, got none.")
    return {**columns, "names": names, "groups": groups, "measured": origin}


def _measurement_text(origin: MeasuredBy | None) -> str:
    if origin is None:
        return "nothing"
    return _files.shown(", ".join(str(value) for value in origin.columns().values()))


def _integer(value: object, column: str, place: str) -> int:
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
