"""The output of ``epsilometer audit --check``: the first models, and the estimated time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import epsilometer as em
from epsilometer import _files
from epsilometer._text import wrapped
from epsilometer.cli import results

MOST_LOSSES = 3
"""More losses than this are summarised by their mean."""


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
    sound = not (trial.warnings or trial.failures)
    return results.answer(as_json, lambda: data, lambda: _text(store, trial, sound=sound))


def _text(store: Path | None, trial: em.rows.TrainingCheck, *, sound: bool) -> str:
    from epsilometer.measurement.first_models import time_sentence

    left = trial.models - trial.models_done
    time = "nothing is left to train"
    if trial.seconds_per_model is not None and left:
        time = time_sentence(left, trial.seconds_per_model, trial.workers)
        time += f" ({trial.seconds_per_model:.2g} s per model)"
    rows = [
        (
            "models",
            f"{trial.models:,} planned; {trial.models_trained:,} trained now, "
            f"{trial.models_done - trial.models_trained:,} there before",
        ),
        ("time", time),
        *((_label(name, trial), _losses(*losses, trial)) for name, losses in trial.losses.items()),
        ("store", "none" if store is None else _files.printable(store)),
    ]
    lines = ["The training works." if sound else "The training ran, with warnings."]
    for label, text in rows:
        lines += wrapped(text, first=f"  {label:<10}", rest=" " * 12)
    return "\n".join(lines) + "\n"


def _label(variant: str, trial: em.rows.TrainingCheck) -> str:
    return "loss" if len(trial.losses) == 1 else f"loss, {_files.printable(variant)} "


def _losses(without: list[float], with_point: list[float], trial: em.rows.TrainingCheck) -> str:
    sizes = trial.plan.sizes
    sides = ("without the challenge point", "with it")
    if sizes.canaries:
        sides = ("of canaries left out", "of those that were in")
    if sizes.points:
        sides = ("of points left out", "of those that were in")
    parts = [
        f"{_values(losses)} {side}"
        for losses, side in zip((without, with_point), sides, strict=True)
        if losses
    ]
    return "; ".join(parts)


def _values(losses: list[float]) -> str:
    if len(losses) <= MOST_LOSSES:
        return ", ".join(f"{loss:.4g}" for loss in losses)
    return f"{sum(losses) / len(losses):.4g} on average ({len(losses):,} losses)"
