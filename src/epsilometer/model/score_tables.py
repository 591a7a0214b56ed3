"""Read columns of scores from CSV and Parquet.

Files are untrusted: every row is checked, and errors name the row.  Columns are either
``challenge_base, hypothesis, score`` with one row per model, or ``score, member`` with one row per
canary of one training run.  Models are in the order of the column ``replicate``, if present, otherwise
in row order.  A column ``model`` with the number of each row's model means that bases share models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

LABELS = {"1": 1, "0": 0, "1.0": 1, "0.0": 0, "true": 1, "false": 0}
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
    if path.suffix.lower() != ".parquet":
        return parse_csv(_files.load(path), name=path.name)
    table = _files.read_parquet(path)
    required, optional = _columns(table.column_names)
    _files.check_columns(table.column_names, required, optional, where=path.name)
    return _parsed(_arrow_records(table, path.name), required, name=path.name)


def parse_csv(text: str, *, name: str) -> Rows:
    """Rows of CSV text; ``name`` names the file in error messages."""
    required, optional = _columns(header_of(text))
    return _parsed(_files.records(text, required, optional, name=name), required, name=name)


def _columns(header: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The required and the optional columns of a file with these."""
    if MEMBER in header:
        return (SCORE, MEMBER), (REPLICATE, MODEL, BASE)
    return (BASE, HYPOTHESIS, SCORE), (REPLICATE, MODEL)


def _arrow_records(table: Any, name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Rows of a table with cells as text, each with its place."""
    for number, row in enumerate(table.to_pylist(), start=1):
        place = f"{name} row {number}"
        for column, cell in row.items():
            if cell is None and column != REPLICATE:
                raise InputError(f"{place}: expected a value in {column}, got a null.")
        yield {c: cell if c == BASE else str(cell) for c, cell in row.items()}, place


def _parsed(
    records: Iterable[tuple[Mapping[str, Any], str]], required: tuple[str, ...], *, name: str
) -> Rows:
    """Check every row."""
    canaries = MEMBER in required
    truth = MEMBER if canaries else HYPOTHESIS
    labels, hypotheses, scores, numbers, models = [], [], [], [], []
    for row, place in records:
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
