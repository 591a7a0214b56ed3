"""Populations by name, or from the user's files, which are untrusted and never unpickled.

npz: an array ``features``, with records along its first axis, and optionally ``labels``.  CSV and
Parquet: one row per record, one column per feature, and optionally a column ``label``.
"""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer import _extras, _files, _validate
from epsilometer._npz import read_arrays
from epsilometer.errors import InputError
from epsilometer.measurement.population import Population

SUFFIXES = (".npz", ".csv", ".parquet")
LABEL = "label"
#: In bytes; a file that decompresses to more is refused.
LARGEST_DATASET = 8 * 1024**3
# Labels are whole numbers if all of them are, otherwise text.
_WHOLE = re.compile(r"-?[0-9]{1,17}")
_NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")


def digits() -> Population:
    """scikit-learn's 1,797 images of handwritten digits, 8 by 8 pixels, scaled to [0, 1]."""
    need = "the population digits needs scikit-learn"
    datasets = _extras.load("sklearn.datasets", need, "sklearn")
    features, labels = datasets.load_digits(return_X_y=True)
    return Population(features=features / 16.0, labels=labels.astype(np.int64), name="digits")


def directions() -> Population:
    """10,000 random directions in 64 dimensions: records of length 1 for tutorials and tests."""
    rows = np.random.default_rng(20260101).standard_normal((10_000, 64))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Population(features=rows, name="directions")


#: Populations that are always available.
NAMED: dict[str, Callable[[], Population]] = {"digits": digits, "directions": directions}


def load_population(
    source: str, *, folder: Path | None = None, shape: Sequence[int] | None = None
) -> Population:
    """Load a population by name, or from a .npz, .csv or .parquet file.

    Parameters
    ----------
    source
        ``digits`` or ``directions``, or a file path.
    folder
        Base of relative paths; default: the working directory.
    shape
        Shape of a record's features, such as (1, 8, 8) for the images of ``digits``, which otherwise are
        rows of 64 pixels; the number of values must match.
    """
    if source in NAMED:
        population = NAMED[source]()
    elif source.lower().endswith(SUFFIXES):
        population = read_file((folder or Path()) / source)
    else:
        raise InputError(
            f"expected a population by name ({', '.join(NAMED)}) or a path ending in "
            f"{', '.join(SUFFIXES)}, got source={source!r}."
        )
    return population if shape is None else population.shaped(shape)


def read_file(path: Path) -> Population:
    """Read a population; the format follows from the file ending."""
    if not path.is_file():
        raise InputError(f"{path}: expected a file with the population, but there is no such file.")
    readers = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    features, labels = readers[path.suffix.lower()](path)
    with _validate.within(path):
        return Population(features=features, labels=labels, name=path.name)


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
