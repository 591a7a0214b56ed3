"""Error counts as files and as text; how they are read is in `count_tables.py`."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

from epsilometer import _files
from epsilometer.model import count_tables
from epsilometer.model.count_tables import COLUMNS, GROUP_COLUMN, NAME_COLUMN
from epsilometer.model.counts import AttackCounts


def parse(text: str, *, name: str) -> AttackCounts:
    """Read text of either kind; ``name`` stands for the file in error messages."""
    return AttackCounts(**count_tables.parse(text, name=name))


def to_csv(counts: AttackCounts) -> str:
    """CSV text that :func:`parse` reads back."""
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
    _files.write_text(path, text)
