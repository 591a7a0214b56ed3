"""The output of ``epsilometer audit --check``: the first models, and the estimated time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import epsilometer as em
from epsilometer import _files
from epsilometer._text import table_lines
from epsilometer.cli import results


def show(
    trial: em.rows.TrainingCheck, store: Path | None, warnings: Sequence[str], *, as_json: bool
) -> int:
    """Print the result, and warnings on stderr; returns the exit code."""
    warnings = [*trial.warnings, *warnings]
    results.warn_all(warnings)
    for failure in trial.failures:
        where = trial.plan.sizes.named(failure.task)
        results.warn(f"warning: {where} failed, others did not: {failure.message}")
    data: dict[str, Any] = trial.described() | {
        "store": None if store is None else str(store),
        "warnings": warnings,
    }
    return results.answer(as_json, lambda: data, lambda: _text(store, trial))


def _text(store: Path | None, trial: em.rows.TrainingCheck) -> str:
    sound = not (trial.warnings or trial.failures)
    start = "The training works." if sound else "The training ran, with warnings."
    kept = "none" if store is None else _files.printable(store)
    table = table_lines(trial.summary().cells()[1:])
    return "\n".join([start, *table, f"store: {kept}"]) + "\n"
