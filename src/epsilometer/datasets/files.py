"""Populations from the user's files, which are untrusted and never unpickled.

npz: an array ``features``, with records along its first axis, and optionally ``labels``.  CSV and
Parquet: one row per record, one column per feature, and optionally a column ``label``.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._npz import read_arrays
from epsilometer.errors import InputError
from epsilometer.measurement.population import Population

SUFFIXES = (".npz", ".csv", ".parquet")
LABEL = "label"
LARGEST_DATASET = 8 * 1024**3
"""In bytes; a file that decompresses to more is refused."""
# Labels are whole numbers if all of them are, otherwise text.
_WHOLE = re.compile(r"-?[0-9]{1,17}")
_NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")


def read(path: Path) -> Population:
    """Read a population; the format follows from the file ending."""
    if not path.is_file():
        raise InputError(f"{path}: expected a file with the population, but there is no such file.")
    readers = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    features, labels = readers[path.suffix.lower()](path)
    try:
        return Population(features=features, labels=labels, name=path.name)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_npz(path: Path) -> tuple[Any, Any]:
    arrays = read_arrays(path, ("features",), optional=("labels",), largest=LARGEST_DATASET)
    return arrays["features"], arrays.get("labels")


def _read_csv(path: Path) -> tuple[Any, Any]:
    header, rows, places = _files.table(
        _files.load(path), ("one column per feature", LABEL), name=path.name
    )
    if header == [LABEL]:
        raise InputError(f"{path.name} row 1: expected one column per feature, got only {LABEL}.")
    if all(_NUMBER.fullmatch(name) for name in header):
        raise InputError(
            f"{path.name} row 1: expected column names, got numbers; add a header row."
        )
    if len(set(header)) != len(header):
        raise InputError(f"{path.name} row 1: expected distinct column names, got a duplicate.")
    columns = [(place, name) for place, name in enumerate(header) if name != LABEL]
    features = [
        [_number(cells[number], name, place) for number, name in columns]
        for cells, place in zip(rows, places, strict=True)
    ]
    if LABEL not in header:
        return np.array(features), None
    labels = [cells[header.index(LABEL)].strip() for cells in rows]
    whole = all(_WHOLE.fullmatch(label) for label in labels)
    return np.array(features), np.array([int(label) for label in labels] if whole else labels)


def _number(cell: str, column: str, place: str) -> float:
    number = _files.number(cell)
    if number is None or not math.isfinite(number):
        raise InputError(
            f"{place}: expected a finite number in column {_files.shown(column)}, "
            f"got {_files.shown(cell)}."
        )
    return number


def _read_parquet(path: Path) -> tuple[Any, Any]:
    table = _files.read_parquet(path)
    columns = [name for name in table.column_names if name != LABEL]
    if not columns:
        raise InputError(f"{path}: expected one column per feature, got none.")
    try:
        features = np.column_stack([table.column(name).to_numpy() for name in columns])
    except ValueError as error:
        raise InputError(f"{path}: expected columns of numbers ({error}).") from None
    labels = np.array(table.column(LABEL).to_pylist()) if LABEL in table.column_names else None
    return features, labels
