"""Files with losses of a pool: how they are recognised, and their default design."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from epsilometer import _files

if TYPE_CHECKING:
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.measurement.designs import Design

POOL_COLUMNS = frozenset({"point", "model"})
"""Columns that identify losses of a pool."""

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
    """The default design: half of the models train the attack and select 100 points, the rest judge."""
    from epsilometer.measurement.pool import LEAST_PILOT, Pool

    enough = losses.models >= 2 * LEAST_PILOT
    return Pool(models=losses.models, references=losses.references, pilot=enough)
