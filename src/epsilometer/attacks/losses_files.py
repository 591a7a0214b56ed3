"""Losses as files and as text; how they are read is in `loss_tables.py`."""

from __future__ import annotations

from os import PathLike

from epsilometer.attacks import loss_tables
from epsilometer.attacks.loss_tables import to_csv
from epsilometer.attacks.losses import Losses

__all__ = ["parse_csv", "read", "to_csv"]


def read(source: str | PathLike[str]) -> Losses:
    """Read a file: Parquet if its name ends in .parquet, otherwise CSV."""
    return Losses.read(source)


def parse_csv(text: str, *, name: str) -> Losses:
    """Read CSV text; ``name`` stands for the file in error messages."""
    return Losses.of_cells(loss_tables.parse_csv(text, name=name), name=name)
