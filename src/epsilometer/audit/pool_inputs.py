"""Files with losses of a pool: how they are known, and how they are judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from epsilometer import _files

if TYPE_CHECKING:
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.measurement.designs import Design

POOL_COLUMNS = frozenset({"point", "model"})
"""Columns by which losses of a pool are known."""

LONGEST_HEADER = 10_000


def is_pool(path: Path) -> bool:
    """Whether a file has losses of a pool."""
    from epsilometer.model.score_tables import header_of

    kind = path.suffix.lower()
    if kind == ".parquet":
        return set(_files.parquet_columns(path)) >= POOL_COLUMNS
    if kind != ".csv":
        return kind == ".npz"
    head = _files.read_bytes(path, LONGEST_HEADER).decode("utf-8-sig", "replace")
    return set(header_of(head)) >= POOL_COLUMNS


def pool_design_for(losses: PoolLosses) -> Design:
    """A pool as somebody brings it: half of the models teach and choose 100 points, the others judge."""
    from epsilometer.measurement.pool import LEAST_PILOT, MeasurePool

    enough = losses.models >= 2 * LEAST_PILOT
    return MeasurePool(models=losses.models, references=losses.references, pilot=enough)
