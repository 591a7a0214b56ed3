"""How far a run has come."""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """How far a run has come, in models."""

    done: int
    total: int
    trained: int
    failed: int


def models_done(state: Progress) -> tuple[str, int, int]:
    """Progress for a bar: in words, models done, and all of them."""
    failed = f", {state.failed:,} failed" if state.failed else ""
    return f"{state.done:,} of {state.total:,} models{failed}", state.done, state.total
