"""Rows: what a worker returns and a store holds for one model; and the progress of a run."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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

    def packed(self) -> tuple[Any, ...]:
        """As bytes for a store."""
        losses = self.losses.astype("<f8").tobytes()
        return (*self[:4], losses, np.packbits(self.member).tobytes())

    @staticmethod
    def unpacked(place: Any, losses: bytes, member: bytes, points: int) -> PoolRow:
        """A stored row; ValueError unless it has ``points`` points."""
        table = np.frombuffer(losses, dtype="<f8").reshape(points, -1)
        if not table.size or len(member) != -(-points // 8):
            raise ValueError
        bits = np.unpackbits(np.frombuffer(member, dtype=np.uint8), count=points)
        return PoolRow._make((*place, table, bits.astype(np.bool_)))


Row = LossRow | PoolRow


class Progress(NamedTuple):
    """Progress of a run, in models."""

    done: int
    total: int
    trained: int
    failed: int


def models_done(state: Progress) -> tuple[str, int, int]:
    """Progress for a bar: text, models done, and the total."""
    failed = f", {state.failed:,} failed" if state.failed else ""
    return f"{state.done:,} of {state.total:,} models{failed}", state.done, state.total
