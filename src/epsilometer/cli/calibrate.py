"""``epsilometer calibrate``: how often every estimator errs, measured where the truth is known."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files, _validate
from epsilometer.cli import options, results
from epsilometer.cli.options import flag, option
from epsilometer.errors import InputError
from epsilometer.report.text import plain, wrapped

if TYPE_CHECKING:
    from epsilometer.calibration.plan import StudyPlan
    from epsilometer.calibration.table import BoundRow, ModelRow, Summary

STORE, FIGURE = "study.jsonl", "calibration.png"
PLAN, BOUNDS, COVERAGE = "plan.json", "bounds.csv", "coverage.csv"


def calibrate(
    quick: bool = flag("Minutes instead of more than an hour.", "--quick"),
    output: Path | None = option(
        "DIR",
        "Where results go, and where an ended study goes on; default calibration or "
        "calibration-quick.",
    ),
    workers: int | None = options.PROCESSES,
    seed: int = options.SEED,
    as_json: bool = options.AS_JSON,
) -> int:
    """Measure how often bounds and intervals fail on mechanisms of known privacy."""
    from epsilometer.calibration.plan import full_plan, quick_plan
    from epsilometer.calibration.study import run_study
    from epsilometer.calibration.table import bound_rows, model_rows, summarise_bounds

    processes = _validate.whole_number(
        "workers", (os.cpu_count() or 1) if workers is None else workers
    )
    plan = replace(quick_plan() if quick else full_plan(), seed=seed)
    folder = output or Path("calibration-quick" if quick else "calibration")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: expected a folder, got a file.")
    folder.mkdir(parents=True, exist_ok=True)
    with results.progress("calibrating") as (_, advance):
        found = run_study(plan, folder / STORE, workers=processes, progress=advance)
    bounds, models = bound_rows(plan, found), model_rows(plan, found)
    _write(plan, folder, bounds, models)
    summaries = summarise_bounds(bounds, plan.significance)
    return results.answer(
        as_json,
        lambda: _described(plan, summaries, models),
        lambda: _text(plan, summaries, models, folder),
    )


def _write(plan: StudyPlan, folder: Path, bounds: list[BoundRow], models: list[ModelRow]) -> None:
    from importlib.metadata import version

    from epsilometer.calibration.table import BoundRow, ModelRow, to_csv
    from epsilometer.report.figures.calibration import draw_calibration

    described = {"epsilometer": version("epsilometer"), "plan": plan.digest()} | plan.described()
    texts = {
        PLAN: json.dumps(described, indent=1) + "\n",
        BOUNDS: to_csv(bounds, BoundRow),
        COVERAGE: to_csv(models, ModelRow),
    }
    figure = draw_calibration(bounds, models, significance=plan.significance)
    results.write_files(folder, texts, {FIGURE: figure})


def _described(plan: StudyPlan, summaries: list[Summary], models: list[ModelRow]) -> dict[str, Any]:
    return {
        "significance": plan.significance,
        "plan": plan.digest(),
        "estimators": [
            {
                "estimator": found.estimator,
                "kind": found.kind,
                "cells": found.cells,
                "cells_above_too_often": found.too_often,
                "worst_failure_rate": found.worst.failure_rate,
                "worst_runs": found.worst.runs,
                "worst_mechanism": found.worst.mechanism,
                "tightness": plain(found.tightness),
            }
            for found in summaries
        ],
        "coverage": [asdict(row) for row in models],
    }


def _text(plan: StudyPlan, summaries: list[Summary], models: list[ModelRow], folder: Path) -> str:
    from epsilometer.calibration.table import DELIBERATE, NO_BOUND, keeps

    lines = [
        f"Bounds asked to err in at most {100 * plan.significance:g} % of runs, on mechanisms of known "
        "epsilon:",
        "",
        f"{'':46}{'worst':>8} {'on':<20}{'tight':>5}",
    ]
    for found in summaries:
        if found.worst.verdict(plan.significance) == NO_BOUND:
            continue
        mark = " !" if found.too_often else "  "
        tight = "" if found.tightness != found.tightness else f"{found.tightness:.2f}"
        lines.append(
            f"{found.estimator:44}{mark}{100 * found.worst.failure_rate:6.1f} % "
            f"{found.worst.mechanism:<20}{tight:>5}"
        )
    caught = {found.estimator: found.too_often > 0 for found in summaries}
    blamed = [name for name, seen in caught.items() if seen and name not in DELIBERATE]
    unseen = [name for name, seen in caught.items() if not seen and name in DELIBERATE]
    lines += ["", "! more often than chance explains; tight: mean bound / truth, best attack."]
    said = "No bound that ships was above the truth more often than it says."
    if blamed:
        said = f"Above the truth too often: {'; '.join(blamed)}."
    if unseen:
        said += f" NOT SEEN to be wrong, though it is: {'; '.join(unseen)}. Run longer."
    lines += wrapped(said)
    lines += wrapped(
        "Credible intervals (Epsilometer, joint beta) are in bounds.csv: they never reach down to 0, "
        "so on the null they are always above the truth."
    )
    if models:
        lines += ["", "90 % intervals of epsilon that cover, counts from the model itself:"]
        for row in models:
            if row.parameter == "epsilon":
                share = 100 * row.covered_90 / row.runs
                missed = row.runs - row.covered_90
                fine = keeps(missed, row.runs, 0.1) and keeps(row.covered_90, row.runs, 0.9)
                lines.append(
                    f"  {row.likelihood:<11}n = {row.bases:<3}{share:6.1f} % of {row.runs:,}"
                    f"{'' if fine else '  ! not what chance explains'}"
                )
    lines += ["", f"Written: {_files.printable(folder)}/{{{PLAN},{BOUNDS},{COVERAGE},{FIGURE}}}"]
    return "\n".join(lines) + "\n"
