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
    counts = np.stack(np.broadcast_arrays(*(getattr(curves, name) for name in COLUMNS)), axis=-1)
    rows = [
        (target, name, *row)
        for target, table in zip(curves.target_alpha.tolist(), counts.tolist(), strict=True)
        for name, row in zip(curves.names, table, strict=True)
    ]
    return _files.csv_text(HEADER, rows)


def write(curves: ErrorCurves, path: Path) -> None:
    """Write a CSV file; replaces one of that name."""
    _files.write_text(path, to_csv(curves))


def read(source: str | PathLike[str]) -> ErrorCurves:
    """Read a CSV file as `write` makes it."""
    return parse_csv(_files.load(source), name=Path(source).name)


def parse_csv(text: str, *, name: str) -> ErrorCurves:
    """Read CSV text: target rates in order, and under each the same bases in the same order."""
    rows = list(_files.records(text, HEADER, name=name))
    if not rows:
        raise InputError(f"{name}: expected at least one row, got none.")
    targets = [_rate(row["target_alpha"], place) for row, place in rows]
    bases = next((i for i, target in enumerate(targets) if target != targets[0]), len(rows))
    names = [row["challenge_base"] for row, _ in rows]
    counts: list[list[int]] = []
    for index, (row, place) in enumerate(rows):
        base, before = index % bases, targets[index - 1]
        rate_fits = targets[index] == before if base else index == 0 or targets[index] > before
        if not rate_fits or names[index] != names[base]:
            raise InputError(
                f"{place}: expected rising target rates with the same bases under each of them."
            )
        numbers = [
            _files.whole_number(row[title], title, place, most=LARGEST_COUNT) for title in COLUMNS
        ]
        check_base(*numbers, where=f"{place}: ")
        if numbers[1::2] != (counts[base] if index >= bases else numbers)[1::2]:
            raise InputError(f"{place}: expected as many trials as at the first target rate.")
        counts.append(numbers)
    if len(rows) % bases:
        raise InputError(
            f"{rows[-1][1]}: expected the same {bases} bases under each target rate, "
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
