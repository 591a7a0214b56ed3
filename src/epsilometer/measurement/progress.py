"""Progress of a run."""

from __future__ import annotations

from typing import NamedTuple


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
