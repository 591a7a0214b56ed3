"""``epsilometer calibrate``: how often every estimator errs, measured where the truth is known."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer import _files, _validate
from epsilometer.cli import results
from epsilometer.cli.options import AsJson
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.calibration.plan import StudyPlan
    from epsilometer.calibration.table import BoundRow, ModelRow, Summary

STORE, PLAN, BOUNDS, COVERAGE, FIGURE = (
    "study.jsonl",
    "plan.json",
    "bounds.csv",
    "coverage.csv",
    "calibration.png",
)


def calibrate(
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes instead of more than an hour.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where results go, and where an ended study goes on; default calibration "
            "or calibration-quick.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; default one for each core.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same numbers.")] = 1,
    as_json: AsJson = False,
) -> int:
    """Measure how often bounds and intervals fail on mechanisms of known privacy."""
    from dataclasses import replace

    from epsilometer.calibration.plan import full_plan, quick_plan

    processes = _validate.whole_number(
        "workers", (os.cpu_count() or 1) if workers is None else workers
    )
    plan = replace(quick_plan() if quick else full_plan(), seed=seed)
    folder = output or Path("calibration-quick" if quick else "calibration")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: expected a folder, got a file.")
    folder.mkdir(parents=True, exist_ok=True)
    bounds, models = _run(plan, folder, processes)
    _write(plan, folder, bounds, models)
    from epsilometer.calibration.table import summarise_bounds

    summaries = summarise_bounds(bounds, plan.significance)
    if as_json:
        results.say(json.dumps(_described(plan, summaries, models), allow_nan=False) + "\n")
    else:
        results.say(_text(plan, summaries, models, folder))
    return 0


def _run(plan: StudyPlan, folder: Path, workers: int) -> tuple[list[BoundRow], list[ModelRow]]:
    from epsilometer.calibration.study import run_study
    from epsilometer.calibration.table import bound_rows, model_rows

    with results.progress("calibrating") as (_, advance):
        found = run_study(plan, folder / STORE, workers=workers, progress=advance)
    return bound_rows(plan, found), model_rows(plan, found)


def _write(plan: StudyPlan, folder: Path, bounds: list[BoundRow], models: list[ModelRow]) -> None:
    from importlib.metadata import version

    from epsilometer.calibration.table import BoundRow, ModelRow, to_csv
    from epsilometer.report.figures.calibration import draw_calibration
    from epsilometer.report.figures.chart import save_figure

    described = {"epsilometer": version("epsilometer"), "plan": plan.digest()} | plan.described()
    texts = {
        PLAN: json.dumps(described, indent=1) + "\n",
        BOUNDS: to_csv(bounds, BoundRow),
        COVERAGE: to_csv(models, ModelRow),
    }
    for name, text in texts.items():

        def write(path: Path, text: str = text) -> object:
            return path.write_text(text, encoding="utf-8")

        _files.replace(folder / name, write)
    figure = draw_calibration(bounds, models, significance=plan.significance)
    _files.replace(folder / FIGURE, lambda path: save_figure(figure, path))


def _described(plan: StudyPlan, summaries: list[Summary], models: list[ModelRow]) -> dict[str, Any]:
    from dataclasses import asdict

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
                "tightness": None if found.tightness != found.tightness else found.tightness,
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
    blamed = [
        found.estimator
        for found in summaries
        if found.too_often and found.estimator not in DELIBERATE
    ]
    unseen = [
        found.estimator
        for found in summaries
        if found.estimator in DELIBERATE and not found.too_often
    ]
    lines += ["", "! more often than chance explains; tight: mean bound / truth, best attack."]
    said = "No bound that ships was above the truth more often than it says."
    if blamed:
        said = f"Above the truth too often: {'; '.join(blamed)}."
    if unseen:
        said += f" NOT SEEN to be wrong, though it is: {'; '.join(unseen)}. Run longer."
    lines += textwrap.wrap(said, 80)
    lines += textwrap.wrap(
        "Credible intervals (Epsilometer, joint beta) are in bounds.csv: they never reach down to 0, "
        "so on the null they are always above the truth.",
        80,
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
