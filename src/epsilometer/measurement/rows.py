"""Rows: what a worker returns and a store holds for one model."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray


class LossRow(NamedTuple):
    """The loss of one variant of one model."""

    base: int
    hypothesis: int
    replicate: int
    variant: str
    loss: float

    @property
    def problem(self) -> str | None:
        """Why the row cannot be stored; None if it can."""
        if math.isfinite(self.loss):
            return None
        return f"expected a finite loss, got loss={self.loss}"


class PoolRow(NamedTuple):
    """The losses of all points under one variant of one model, and which points it was trained on."""

    base: int
    hypothesis: int
    replicate: int
    variant: str
    losses: FloatArray
    """(points, queries)."""
    member: BoolArray

    @property
    def problem(self) -> str | None:
        """Why the row cannot be stored; None if it can."""
        wrong = np.argwhere(~np.isfinite(self.losses))
        if not len(wrong):
            return None
        point, query = wrong[0]
        return f"point {point}: expected finite losses, got loss={self.losses[point, query]}"


Row = LossRow | PoolRow
