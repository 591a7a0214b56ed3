"""``epsilometer calibrate``: how often every estimator errs, measured where the truth is known."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files, _validate
from epsilometer._text import plain, wrapped
from epsilometer.cli import options, results
from epsilometer.cli.options import flag, option
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.calibration.one_run_table import OneRunBoundRow, OneRunIntervalRow
    from epsilometer.calibration.plan import StudyPlan
    from epsilometer.calibration.table import BoundRow, CurveRow, ModelRow, Summary

STORE, FIGURE = "study.jsonl", "calibration.png"
PLAN, BOUNDS, COVERAGE = "plan.json", "bounds.csv", "coverage.csv"
COUNT, CURVE, PROOFS, VERDICTS = "count", "curve", "proofs", "verdicts"
ONE_RUN, POOL = "one-run", "pool"
REFUTATIONS, POWER, JUDGED = "refutations.csv", "power.csv", "verdicts.csv"


def calibrate(
    study: str = option(
        f"{COUNT}|{CURVE}|{PROOFS}|{VERDICTS}|{ONE_RUN}|{POOL}",
        "count: every bound and the count model; curve: the curve model; proofs: proofs with continuous "
        "monitoring; verdicts: true and false claims; one-run: canaries that interfere; pool: points "
        "that share models.",
        "--study",
        default=COUNT,
    ),
    quick: bool = flag("Minutes instead of more than an hour.", "--quick"),
    output: Path | None = option(
        "DIR",
        "Folder of the results; an interrupted study continues there. Default: calibration, followed by "
        "the study's name and -quick where given.",
    ),
    workers: int | None = options.PROCESSES,
    seed: int = options.SEED,
    as_json: bool = options.AS_JSON,
) -> int:
    """Measure error rates on mechanisms with known privacy."""
    from epsilometer.calibration.study import run_study

    _validate.one_of("study", study, STUDIES)
    processes = _validate.whole_number(
        "workers", (os.cpu_count() or 1) if workers is None else workers
    )
    plan = replace(_plan(study, quick), seed=seed)
    parts = ["calibration", *[study] * (study != COUNT), *["quick"] * quick]
    folder = output or Path("-".join(parts))
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: expected a folder, got a file.")
    folder.mkdir(parents=True, exist_ok=True)
    with results.progress("calibrating") as (_, advance):
        job_results = run_study(plan, folder / STORE, workers=processes, on_progress=advance)
    data, text = STUDIES[study](plan, folder, job_results)
    return results.answer(as_json, lambda: data, lambda: text)


def _plan(study: str, quick: bool) -> StudyPlan:
    from epsilometer.calibration import plan

    full, short = {
        COUNT: (plan.full_plan, plan.quick_plan),
        CURVE: (plan.curve_plan, plan.quick_curve_plan),
        PROOFS: (plan.proof_plan, plan.quick_proof_plan),
        VERDICTS: (plan.verdict_plan, plan.quick_verdict_plan),
        ONE_RUN: (plan.one_run_plan, plan.quick_one_run_plan),
        POOL: (plan.pool_plan, plan.quick_pool_plan),
    }[study]
    return short() if quick else full()


def _count(plan: StudyPlan, folder: Path, found: dict[str, Any]) -> tuple[Any, str]:
    """Every bound, and the count model under its own assumptions."""
    from epsilometer.calibration.table import bound_rows, model_rows, summarise_bounds

    bounds, models = bound_rows(plan, found), model_rows(plan, found)
    _write(plan, folder, bounds, models)
    summaries = summarise_bounds(bounds, plan.significance)
    return _described(plan, summaries, models), _text(plan, summaries, models, folder)


def _curve(plan: StudyPlan, folder: Path, found: dict[str, Any]) -> tuple[Any, str]:
    """Intervals of the curve model."""
    from epsilometer.calibration.table import curve_rows

    rows = curve_rows(plan, found)
    _write_curve(plan, folder, rows)
    return _described_curve(plan, rows), _curve_text(plan, rows, folder)


def _plan_text(plan: StudyPlan) -> str:
    from importlib.metadata import version

    described = {"epsilometer": version("epsilometer"), "plan": plan.digest()} | plan.described()
    return json.dumps(described, indent=1) + "\n"


def _write(plan: StudyPlan, folder: Path, bounds: list[BoundRow], models: list[ModelRow]) -> None:
    from epsilometer.calibration.table import BoundRow, ModelRow, to_csv
    from epsilometer.report.figures.calibration import draw_calibration

    texts = {
        PLAN: _plan_text(plan),
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
                "estimator": summary.estimator,
                "kind": summary.kind,
                "cells": summary.cells,
                "cells_above_too_often": summary.too_often,
                "worst_failure_rate": summary.worst.failure_rate,
                "worst_runs": summary.worst.runs,
                "worst_mechanism": summary.worst.mechanism,
                "tightness": plain(summary.tightness),
            }
            for summary in summaries
        ],
        "coverage": [asdict(row) for row in models],
    }


def _text(plan: StudyPlan, summaries: list[Summary], models: list[ModelRow], folder: Path) -> str:
    from epsilometer.calibration.table import DELIBERATE, NO_BOUND, within_level

    lines = [
        f"Bounds asked to err in at most {100 * plan.significance:g} % of runs, on mechanisms of known "
        "epsilon:",
        "",
        f"{'':46}{'worst':>8} {'on':<20}{'tight':>5}",
    ]
    for summary in summaries:
        if summary.worst.verdict(plan.significance) == NO_BOUND:
            continue
        mark = " !" if summary.too_often else "  "
        tight = "" if summary.tightness != summary.tightness else f"{summary.tightness:.2f}"
        lines.append(
            f"{summary.estimator:44}{mark}{100 * summary.worst.failure_rate:6.1f} % "
            f"{summary.worst.mechanism:<20}{tight:>5}"
        )
    caught = {summary.estimator: summary.too_often > 0 for summary in summaries}
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
                fine = within_level(missed, row.runs, 0.1) and within_level(
                    row.covered_90, row.runs, 0.9
                )
                lines.append(
                    f"  {row.likelihood:<11}n = {row.bases:<3}{share:6.1f} % of {row.runs:,}"
                    f"{'' if fine else '  ! not what chance explains'}"
                )
    lines += ["", f"Written: {_files.printable(folder)}/{{{PLAN},{BOUNDS},{COVERAGE},{FIGURE}}}"]
    return "\n".join(lines) + "\n"


# --- the curve model ------------------------------------------------------------------------------


def _write_curve(plan: StudyPlan, folder: Path, rows: list[CurveRow]) -> None:
    from epsilometer.calibration.table import CurveRow, to_csv
    from epsilometer.report.figures.calibration import draw_curve_calibration

    texts = {PLAN: _plan_text(plan), COVERAGE: to_csv(rows, CurveRow)}
    figure = draw_curve_calibration(rows, significance=plan.significance)
    results.write_files(folder, texts, {FIGURE: figure})


def _described_curve(plan: StudyPlan, rows: list[CurveRow]) -> dict[str, Any]:
    return {
        "significance": plan.significance,
        "plan": plan.digest(),
        "coverage": [
            plain(asdict(row))
            | {"section": str(row.section), "probability": row.chance(plan.significance)}
            for row in rows
        ],
    }


def _curve_text(plan: StudyPlan, rows: list[CurveRow], folder: Path) -> str:
    from epsilometer.calibration.table import LARGEST_PROMISED, Section

    level, tail = 100 * (1 - 2 * plan.significance), 100 * plan.significance
    lines = [
        f"{level:g} % intervals of epsilon, curve model, where the truth is known:",
        "",
        f"{'':33}{'bases':>6}{'models':>7}{'truth':>7}{'covers':>8}{'above':>8}{'below':>8}",
    ]
    for section in Section:
        section_rows = [row for row in rows if row.section is section]
        lines += [f"{section.capitalize()}:"] if section_rows else []
        for row in section_rows:
            name = " ".join(filter(None, [row.mechanism, row.short_setting, row.strengths]))
            shares = [f"{100 * n / row.runs:.0f} %" for n in (row.covers, row.above, row.below)]
            lines.append(
                f"  {name:<31}{row.bases:>6}{row.models:>7,}{row.true_epsilon:>7.2f}"
                + "".join(f"{share:>8}" for share in shares)
                + f" {row.mark(plan.significance)}".rstrip()
            )
    missed = [row for row in rows if row.mark(plan.significance)]
    blamed = sum(row.section is not Section.CONTROL for row in missed)
    lines += ["", "! hardly, !! not at all what chance explains, of what is promised:"]
    lines += wrapped(
        f"with the best attacks at most {tail:g} % wholly above the truth, and {level:g} % that hold it "
        f"where it is at most {LARGEST_PROMISED:g} or the sampling rate is told."
    )
    said = f"Kept in all settings but {blamed}." if blamed else "Kept in all settings."
    if blamed == len(missed):
        said += " The control, wrong on purpose, was NOT SEEN. Run longer."
    else:
        said += " The control, wrong on purpose, was seen."
    lines += wrapped(said)
    lines += ["", f"Written: {_files.printable(folder)}/{{{PLAN},{COVERAGE},{FIGURE}}}"]
    return "\n".join(lines) + "\n"


# --- proofs and verdicts --------------------------------------------------------------------------


def _proofs(plan: StudyPlan, folder: Path, found: dict[str, Any]) -> tuple[Any, str]:
    """How often true claims are refuted, and what false ones take."""
    from epsilometer.calibration.proof_table import (
        PowerRow,
        RefutationRow,
        power_rows,
        refutation_rows,
    )
    from epsilometer.calibration.proofs import PEEKING
    from epsilometer.calibration.table import to_csv

    true, false = refutation_rows(plan, found), power_rows(plan, found)
    texts = {
        PLAN: _plan_text(plan),
        REFUTATIONS: to_csv(true, RefutationRow),
        POWER: to_csv(false, PowerRow),
    }
    results.write_files(folder, texts, {})
    data = {
        "significance": plan.significance,
        "plan": plan.digest(),
        "refutations": [asdict(row) for row in true],
        "power": [asdict(row) for row in false],
    }
    lines = [
        f"True claims, looked at after every pair of models; at most {100 * plan.significance:g} % may "
        "be refuted:",
        "",
        f"{'':36}{'bases':>6}{'models':>7}{'proof':>9}{'peeking':>9}",
    ]
    pairs = [row for row in true if row.method != PEEKING]
    peeked = {(row.mechanism, row.setting, row.bases, row.models): row for row in true}
    for row in pairs:
        control = peeked[row.mechanism, row.setting, row.bases, row.models]
        shares = [
            f"{100 * refutation.refuted / refutation.runs:.2f} %" for refutation in (row, control)
        ]
        mark = "" if row.within_level(plan.significance) else " !"
        lines.append(
            f"{f'{row.mechanism} {row.setting}':36.36}{row.bases:>6}{row.models:>7,}"
            f"{shares[0]:>9}{shares[1]:>9}{mark}"
        )
    caught = any(not row.within_level(plan.significance) for row in true if row.method == PEEKING)
    blamed = sum(not row.within_level(plan.significance) for row in pairs)
    said = "No proof errs more often than it says." if not blamed else f"Too often in {blamed}."
    control_words = "was caught" if caught else "was NOT SEEN to be wrong. Run longer"
    said += f" The control, Clopper-Pearson at every look (peeking), {control_words}."
    lines += ["", *wrapped(said)]
    written = f"{PLAN},{REFUTATIONS},{POWER}"
    lines += ["", f"Written: {_files.printable(folder)}/{{{written}}}"]
    return data, "\n".join(lines) + "\n"


def _verdicts(plan: StudyPlan, folder: Path, found: dict[str, Any]) -> tuple[Any, str]:
    """How often each verdict is given."""
    from epsilometer.calibration.proof_table import VerdictRow, verdict_rows
    from epsilometer.calibration.table import CHANCE, to_csv

    rows = verdict_rows(plan, found)
    results.write_files(folder, {PLAN: _plan_text(plan), JUDGED: to_csv(rows, VerdictRow)}, {})
    data = {
        "significance": plan.significance,
        "plan": plan.digest(),
        "verdicts": [asdict(row) | {"inconclusive": row.inconclusive} for row in rows],
    }
    lines = [
        "Verdicts on claims of 1/2, 1 and 2 times the truth, per cent of runs:",
        "",
        f"{'':38}{'bases':>6}{'claim':>7}  {'FAIL':>6}{'FAIL':>8}{'PASS':>8}{'open':>5}",
        f"{'':51}  {'proven':>6}{'judged':>8}{'judged':>8}",
    ]
    for row in rows:
        values = ",".join(part.partition("=")[2] for part in row.setting.split())
        name = f"{row.data} {row.mechanism} {values}{'' if row.power == 1 else ' half power'}"
        kinds = (row.fail_proven, row.fail_judged, row.pass_judged, row.inconclusive)
        shares = [f"{100 * number / row.runs:.0f}" for number in kinds]
        mark = " !" if row.chance(plan.significance) <= CHANCE else ""
        lines.append(
            f"{name:38.38}{row.bases:>6}{row.factor:>6g}x  {shares[0]:>6}{shares[1]:>8}{shares[2]:>8}"
            f"{shares[3]:>5}{mark}"
        )
    blamed = sum(row.chance(plan.significance) <= CHANCE for row in rows)
    said = (
        f"At most {100 * plan.significance:g} % FAIL where the claim is true, and PASS where the "
        "attacks are the best and the claim is half the truth: "
        + ("kept in all settings." if not blamed else f"not kept in {blamed} (marked !).")
    )
    lines += ["", *wrapped(said)]
    lines += ["", f"Written: {_files.printable(folder)}/{{{PLAN},{JUDGED}}}"]
    return data, "\n".join(lines) + "\n"


Tables = dict[str, tuple[Any, type]]
"""Rows of each table by the name of its file, and what they are."""


# --- canaries of one training run -----------------------------------------------------------------


def _one_run(plan: StudyPlan, folder: Path, found: dict[str, Any]) -> tuple[Any, str]:
    """Proofs, bounds and intervals where canaries interfere."""
    from epsilometer.calibration.one_run_table import (
        OneRunBoundRow,
        OneRunIntervalRow,
        one_run_bound_rows,
        one_run_interval_rows,
    )

    bounds, intervals = one_run_bound_rows(plan, found), one_run_interval_rows(plan, found)
    tables: Tables = {
        BOUNDS: (bounds, OneRunBoundRow),
        COVERAGE: (intervals, OneRunIntervalRow),
    }
    lines = _one_run_text(plan.significance, bounds, intervals)
    return _two_tables(plan, folder, tables, lines)


def _two_tables(plan: StudyPlan, folder: Path, tables: Tables, lines: list[str]) -> tuple[Any, str]:
    """Bounds and intervals of a study: written, as plain values, and as text."""
    from epsilometer.calibration.table import to_csv

    texts = {name: to_csv(rows, kind) for name, (rows, kind) in tables.items()}
    results.write_files(folder, {PLAN: _plan_text(plan)} | texts, {})
    data = {"significance": plan.significance, "plan": plan.digest()}
    data |= {
        name: [asdict(row) for row in tables[file][0]]
        for name, file in (("bounds", BOUNDS), ("coverage", COVERAGE))
    }
    written = f"Written: {_files.printable(folder)}/{{{PLAN},{BOUNDS},{COVERAGE}}}"
    return data, "\n".join([*lines, "", written]) + "\n"


def _one_run_text(
    significance: float, bounds: list[OneRunBoundRow], intervals: list[OneRunIntervalRow]
) -> list[str]:
    from epsilometer.calibration.one_run import PROOF

    def named(row: OneRunBoundRow | OneRunIntervalRow) -> str:
        values = ",".join(part.partition("=")[2] for part in row.setting.split())
        several = f", {row.training_runs} runs" if row.training_runs > 1 else ""
        return f"{row.mechanism} {values}, {row.canaries:,}{several}"

    lines = [
        f"{100 * (1 - 2 * significance):g} % intervals of epsilon, canaries taken as independent:",
        "",
        f"{'':36}{'truth':>6}{'':22}{'covers':>8}{'above':>6}",
    ]
    for row in intervals:
        shares = [f"{100 * number / row.runs:.0f}" for number in (row.covers, row.above)]
        mark = "" if row.within_level(significance) else " !"
        lines.append(
            f"{named(row):36.36}{row.true_epsilon:>6.2f}  {row.method:<20}{shares[0]:>8}{shares[1]:>6}"
            f"{mark}"
        )
    lines += [
        "",
        "False refutations, per cent, worst setting where assumptions hold, and where not:",
    ]
    for method in dict.fromkeys(row.method for row in bounds):
        worst = []
        for rows in (
            [r for r in bounds if r.method == method and r.holds],
            [r for r in bounds if r.method == method and not r.holds],
        ):
            shares_of = [100 * row.above / row.runs for row in rows]
            bad = any(not row.within_level(significance) for row in rows)
            worst.append(f"{max(shares_of):.1f}{' !' if bad else '  '}" if shares_of else "-  ")
        lines.append(f"  {method:<34}{worst[0]:>10}{worst[1]:>10}")
    blamed = [row for row in bounds if row.holds and not row.within_level(significance)]
    harmed = [row for row in bounds if not row.holds and not row.within_level(significance)]
    said = "! beyond chance. " + (
        "No bound errs more often than it says where what it assumes is true"
        if not blamed
        else f"Bounds err too often in {len(blamed)} settings where what they assume is true"
    )
    said += f"; {PROOF} assumes fair coins only."
    if not harmed:
        said += " The control, methods that assume too much, was NOT SEEN to be wrong. Run longer."
    return [*lines, "", *wrapped(said)]


# --- points that share models -----------------------------------------------------------------------


def _pool(plan: StudyPlan, folder: Path, found: dict[str, Any]) -> tuple[Any, str]:
    """Proofs and intervals where points share models."""
    from epsilometer.calibration.pool_table import (
        PoolBoundRow,
        PoolIntervalRow,
        pool_bound_rows,
        pool_interval_rows,
    )
    from epsilometer.report.text.pool_study import pool_text

    bounds, intervals = pool_bound_rows(plan, found), pool_interval_rows(plan, found)
    tables: Tables = {BOUNDS: (bounds, PoolBoundRow), COVERAGE: (intervals, PoolIntervalRow)}
    return _two_tables(plan, folder, tables, pool_text(plan.significance, bounds, intervals))


STUDIES = {
    COUNT: _count,
    CURVE: _curve,
    PROOFS: _proofs,
    VERDICTS: _verdicts,
    ONE_RUN: _one_run,
    POOL: _pool,
}
"""What is made of each study: data, and text; files are written."""
