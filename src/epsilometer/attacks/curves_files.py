"""Error curves as CSV: a row a target rate and base.  Files are untrusted and checked whole."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from epsilometer import _files
from epsilometer._validate import LARGEST_COUNT
from epsilometer.attacks.result import ErrorCurves
from epsilometer.errors import InputError
from epsilometer.model.count_tables import COLUMNS, check_base

HEADER = ("target_alpha", "challenge_base", *COLUMNS)


def to_csv(curves: ErrorCurves) -> str:
    """CSV text that `parse_csv` reads back."""
    rows = [
        (
            target,
            name,
            int(curves.false_positives[level, base]),
            int(curves.trials_h0[base]),
            int(curves.false_negatives[level, base]),
            int(curves.trials_h1[base]),
        )
        for level, target in enumerate(curves.target_alpha.tolist())
        for base, name in enumerate(curves.names)
    ]
    return _files.csv_text(HEADER, rows)


def write(curves: ErrorCurves, path: Path) -> None:
    """Write a CSV file; replaces one of that name."""
    text = to_csv(curves)
    _files.replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read(source: str | PathLike[str]) -> ErrorCurves:
    """Read a CSV file as `write` makes it."""
    return parse_csv(_files.load(source), name=Path(source).name)


def parse_csv(text: str, *, name: str) -> ErrorCurves:
    """Read CSV text: target rates in order, and under each the same bases in the same order."""
    header, rows, places = _files.table(text, HEADER, name=name)
    _files.check_columns(header, HEADER, where=f"{name} row 1")
    column = {title: header.index(title) for title in HEADER}
    if not rows:
        raise InputError(f"{name}: expected at least one row, got none.")
    placed = list(zip(rows, places, strict=True))
    targets = [_rate(row[column["target_alpha"]], place) for row, place in placed]
    bases = next((i for i, target in enumerate(targets) if target != targets[0]), len(rows))
    names = [row[column["challenge_base"]] for row in rows]
    counts: list[list[int]] = []
    for index, (row, place) in enumerate(placed):
        base, before = index % bases, targets[index - 1]
        rate_fits = targets[index] == before if base else index == 0 or targets[index] > before
        if not rate_fits or names[index] != names[base]:
            raise InputError(
                f"{place}: expected rising target rates with the same bases under each of them."
            )
        numbers = [
            _files.whole_number(row[column[title]], title, place, most=LARGEST_COUNT)
            for title in COLUMNS
        ]
        check_base(*numbers, where=f"{place}: ")
        if numbers[1::2] != (counts[base] if index >= bases else numbers)[1::2]:
            raise InputError(f"{place}: expected as many trials as at the first target rate.")
        counts.append(numbers)
    if len(rows) % bases:
        raise InputError(
            f"{places[-1]}: expected the same {bases} bases under each target rate, "
            f"got {len(rows) % bases} under the last."
        )
    table = np.array(counts).reshape(-1, bases, len(COLUMNS))
    positives, trials_h0, negatives, trials_h1 = np.moveaxis(table, 2, 0)
    return ErrorCurves(
        names=tuple(names[:bases]),
        target_alpha=np.array(targets[::bases]),
        false_positives=positives,
        trials_h0=trials_h0[0],
        false_negatives=negatives,
        trials_h1=trials_h1[0],
    )


def _rate(text: str, place: str) -> float:
    value = _files.number(text)
    if value is None or not 0 < value < 1:
        raise InputError(f"{place}: expected 0 < target_alpha < 1, got {_files.shown(text)}.")
    return value
