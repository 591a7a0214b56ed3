"""Read columns of scores from CSV and Parquet.

Files are untrusted: every row is checked, and errors name the row.  Columns are either
``challenge_base, hypothesis, score`` with one row per model, or ``score, member`` with one row per
canary of one training run.  Models are in the order of the column ``replicate``, if present, otherwise
in row order.  A column ``model`` with the number of each row's model means that bases share models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.errors import InputError

BASE, HYPOTHESIS, REPLICATE, SCORE, MEMBER, MODEL = (
    "challenge_base",
    "hypothesis",
    "replicate",
    "score",
    "member",
    "model",
)
COLUMNS = (BASE, HYPOTHESIS, REPLICATE, SCORE)
CANARIES = "canaries"
"""Name of the single base in a file of canaries."""

LABELS = {"1": 1, "0": 0, "true": 1, "false": 0}
"""Accepted values for whether the point was trained on."""

LARGEST_MODEL_NUMBER = 10**9
"""Largest model number in a file."""

Rows = tuple[list[str], IntArray, FloatArray, bool, IntArray | None]
"""Base, hypothesis and score of each row in the order of models; whether coins decided membership; and
the model of each row if bases share models."""


def header_of(text: str) -> list[str]:
    """Column names of CSV text."""
    return [cell.strip().strip('"') for cell in text.lstrip("\ufeff").split("\n", 1)[0].split(",")]


def read(path: Path) -> Rows:
    """Rows of a file; Parquet if the name ends in .parquet."""
    if path.suffix.lower() == ".parquet":
        return _of_arrow(_files.read_parquet(path), path.name)
    return parse_csv(_files.load(path), name=path.name)


def write_parquet(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as Parquet that :func:`read` reads back."""
    arrow = _files.pyarrow()
    kinds = {BASE: arrow.string(), SCORE: arrow.float64()}
    arrays = [
        arrow.array(list(values), kinds.get(name, arrow.int64()))
        for name, values in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    table = arrow.table(arrays, names=list(columns))
    arrow.parquet.write_table(table, path, compression="zstd", write_page_checksum=True)


def parse_csv(text: str, *, name: str) -> Rows:
    """Rows of CSV text; ``name`` names the file in error messages."""
    canaries = MEMBER in header_of(text)
    required = (SCORE, MEMBER) if canaries else (BASE, HYPOTHESIS, SCORE)
    truth = MEMBER if canaries else HYPOTHESIS
    labels, hypotheses, scores, numbers, models = [], [], [], [], []
    optional = (REPLICATE, MODEL, BASE) if canaries else (REPLICATE, MODEL)
    for row, place in _files.records(text, required, optional, name=name):
        given = row[truth].strip()
        member, score = LABELS.get(given.lower()), _files.number(row[SCORE])
        if member is None:
            raise InputError(f"{place}: expected {truth} to be 0 or 1, got {_files.shown(given)}.")
        if score is None or np.isnan(score):
            raise InputError(
                f"{place}: expected score to be a number, got {_files.shown(row[SCORE])}."
            )
        labels.append(_files.label(row.get(BASE, CANARIES), BASE, place))
        hypotheses.append(member)
        scores.append(score)
        numbers.append(_files.number(row.get(REPLICATE) or ""))
        if MODEL in row:
            model = _files.whole_number(row[MODEL].strip(), MODEL, place, most=LARGEST_MODEL_NUMBER)
            models.append(model)
    if not scores:
        raise InputError(f"{name}: expected at least one row, got none.")
    return _in_order(
        labels,
        np.array(hypotheses, dtype=np.int64),
        np.array(scores),
        numbers,
        canaries,
        np.array(models, dtype=np.int64) if models else None,
    )


def _in_order(
    labels: list[str],
    hypotheses: IntArray,
    scores: FloatArray,
    replicates: Sequence[float | None],
    canaries: bool,
    models: IntArray | None,
) -> Rows:
    """Rows in the order of their replicates or shared models; otherwise unchanged."""
    if models is not None:
        replicates = models.tolist()
    if any(replicate is None for replicate in replicates):
        return labels, hypotheses, scores, canaries, models
    order = np.argsort(np.array(replicates, dtype=float), kind="stable")
    # Bases keep the order of their first rows.
    names = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    base = np.array([names[label] for label in labels])[order]
    order = order[np.argsort(base, kind="stable")]
    shared = None if models is None else models[order]
    return [labels[row] for row in order], hypotheses[order], scores[order], canaries, shared


def _of_arrow(table: Any, name: str) -> Rows:
    columns = list(table.column_names)
    canaries = MEMBER in columns
    required = (SCORE, MEMBER) if canaries else (BASE, HYPOTHESIS, SCORE)
    _files.check_columns(columns, required, (REPLICATE, MODEL, BASE), where=name)
    truth = MEMBER if canaries else HYPOTHESIS
    for column in required:
        if table.column(column).null_count:
            raise InputError(f"{name}: expected a value in every row of {column}, got a null.")
    try:
        scores = np.asarray(table.column(SCORE).to_numpy(), dtype=float)
        hypotheses = np.asarray(table.column(truth).to_numpy(), dtype=float)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name}: expected numbers in {SCORE} and {truth} ({error}).") from None
    wrong = np.flatnonzero((hypotheses != 0) & (hypotheses != 1))
    if len(wrong):
        raise InputError(
            f"{name} row {wrong[0] + 1}: expected {truth} to be 0 or 1, got {hypotheses[wrong[0]]:g}."
        )
    if np.isnan(scores).any():
        row = int(np.flatnonzero(np.isnan(scores))[0])
        raise InputError(f"{name} row {row + 1}: expected score to be a number, got nan.")
    labels = [CANARIES] * len(scores)
    if BASE in columns:
        labels = [
            _files.label(label, BASE, f"{name} row {row + 1}")
            for row, label in enumerate(table.column(BASE).to_pylist())
        ]
    numbers: list[float | None] = [None]
    if REPLICATE in columns:
        numbers = [_files.number(str(cell)) for cell in table.column(REPLICATE).to_pylist()]
    models = None
    if MODEL in columns:
        given = (str(cell) for cell in table.column(MODEL).to_pylist())
        where = (f"{name} row {row + 1}" for row in range(len(scores)))
        models = np.array(
            [
                _files.whole_number(text, MODEL, place, most=LARGEST_MODEL_NUMBER)
                for text, place in zip(given, where, strict=True)
            ],
            dtype=np.int64,
        )
    return _in_order(labels, hypotheses.astype(np.int64), scores, numbers, canaries, models)
