"""Error curves as CSV: a row a target rate and base.  Files are untrusted and checked whole."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path

import numpy as np

from epsilometer import _files
from epsilometer.attacks.result import ErrorCurves
from epsilometer.errors import InputError
from epsilometer.model.counts import COLUMNS

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
    levels, rest = divmod(len(rows), bases)
    same = rest == 0 and all(
        names[start : start + bases] == names[:bases]
        and len(set(targets[start : start + bases])) == 1
        for start in range(0, len(rows), bases)
    )
    if not same or sorted(set(targets[::bases])) != targets[::bases]:
        raise InputError(
            f"{name}: expected rising target rates with the same bases under each of them."
        )
    numbers = np.array(
        [[_whole(row[column[title]], title, place) for title in COLUMNS] for row, place in placed]
    ).reshape(levels, bases, len(COLUMNS))
    positives, trials_h0, negatives, trials_h1 = np.moveaxis(numbers, 2, 0)
    sound = (
        (trials_h0 == trials_h0[0]).all()
        and (trials_h1 == trials_h1[0]).all()
        and trials_h0.min() >= 1
        and trials_h1.min() >= 1
        and (positives <= trials_h0).all()
        and (negatives <= trials_h1).all()
    )
    if not sound:
        raise InputError(
            f"{name}: expected errors up to the number of trials, and as many trials at every rate."
        )
    return ErrorCurves(
        names=tuple(names[:bases]),
        target_alpha=np.array(targets[::bases]),
        false_positives=positives,
        trials_h0=trials_h0[0],
        false_negatives=negatives,
        trials_h1=trials_h1[0],
    )


def _rate(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise InputError(f"{place}: expected 0 < target_alpha < 1, got {_files.shown(text)}.")
    return value


def _whole(text: str, title: str, place: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise InputError(f"{place}: expected a whole number in {title}, got {_files.shown(text)}.")
    return int(text)
