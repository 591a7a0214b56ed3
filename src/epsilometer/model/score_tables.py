"""Read columns of scores from CSV and Parquet.

Files are untrusted: `_columns.py` checks every cell.  Columns are either ``challenge_base, hypothesis,
score`` with one row per model, or ``score, member`` with one row per canary of one training run.  Models
are in the order of the column ``replicate``, if present, otherwise in row order; those of a base with
the same number, without and with the point, are a pair.  A column ``model`` with the number of each
row's model means that bases share models.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epsilometer import _columns, _files
from epsilometer.errors import InputError

BASE, HYPOTHESIS, REPLICATE = "challenge_base", "hypothesis", "replicate"
SCORE, MEMBER, MODEL = "score", "member", "model"
#: Name of the single base in a file of canaries.
CANARIES = "canaries"

#: Largest model number in a file.
LARGEST_MODEL_NUMBER = 10**9

KINDS: dict[str, str | int] = {
    SCORE: _columns.NUMBER,
    MEMBER: _columns.FLAG,
    HYPOTHESIS: _columns.FLAG,
    BASE: _columns.TEXT,
    REPLICATE: _columns.ORDER,
    MODEL: LARGEST_MODEL_NUMBER,
}


def header_of(text: str) -> list[str]:
    """Column names of CSV text."""
    return [cell.strip().strip('"') for cell in text.lstrip("\ufeff").split("\n", 1)[0].split(",")]


def read(path: Path) -> dict[str, Any]:
    """The arguments of `Scores.of_rows` from a file; Parquet if the name ends in .parquet."""
    if path.suffix.lower() != ".parquet":
        return parse_csv(_files.load(path), name=path.name)
    return _rows(_columns.read(path, *_layout(_files.parquet_columns(path))), path.name)


def parse_csv(text: str, *, name: str) -> dict[str, Any]:
    """The same from CSV text; ``name`` names the file in error messages."""
    return _rows(_columns.parse_csv(text, *_layout(header_of(text)), name=name), name)


def _layout(header: Sequence[str]) -> tuple[dict[str, str | int], tuple[str, ...]]:
    """Kinds of all columns that a file with these may have, and which of them are optional."""
    other = HYPOTHESIS if MEMBER in header else MEMBER
    optional = (REPLICATE, MODEL, *((BASE,) if MEMBER in header else ()))
    return {name: kind for name, kind in KINDS.items() if name != other}, optional


def _rows(columns: dict[str, Any], name: str) -> dict[str, Any]:
    rows, model = len(columns[SCORE]), columns.get(MODEL)
    if not rows:
        raise InputError(f"{name}: expected at least one row, got none.")
    return {
        "challenge_base": columns.get(BASE, [CANARIES] * rows),
        "hypothesis": columns[MEMBER if MEMBER in columns else HYPOTHESIS],
        "score": columns[SCORE],
        "one_run": MEMBER in columns,
        "model": model,
        "order": columns.get(REPLICATE) if model is None else model,
    }
