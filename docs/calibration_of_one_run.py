"""Tables of the study of interfering canaries for calibration.md; called by `make_calibration.py`.

Reads the output of ``epsilometer calibrate --study one-run`` in ``docs/calibration/one-run/``.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from epsilometer.calibration.one_run import AS_GAUSSIAN, ESTIMATORS, PROOF, WHOLE_CURVE
from epsilometer.calibration.one_run_table import OneRunBoundRow, OneRunIntervalRow
from epsilometer.calibration.table import from_csv

FOLDER = Path(__file__).resolve().parent / "calibration" / "one-run"
METHODS = (PROOF, *(each.label for each in ESTIMATORS))
ONE_RUN_METHODS = (PROOF, *(e.label for e in ESTIMATORS if e.one_run and not e.gaussian))
"""Methods that only assume fair coins."""

GAUSSIAN_RUN = next(each.label for each in ESTIMATORS if each.one_run and each.gaussian)
INDEPENDENT = tuple(each.label for each in ESTIMATORS if not each.one_run)

AnyRow = OneRunBoundRow | OneRunIntervalRow
Row = TypeVar("Row", OneRunBoundRow, OneRunIntervalRow)


def read(name: str, kind: type[Row]) -> list[Row]:
    """The rows of a table of the study."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    found: list[Row] = from_csv(text, kind, name=name)  # type: ignore[type-var]
    return found


def significance() -> float:
    """The nominal error of the study."""
    return float(json.loads((FOLDER / "plan.json").read_text(encoding="utf-8"))["significance"])


def share(count: int, runs: int) -> str:
    """A share of runs."""
    return f"{100 * count / runs:.1f} %"


def size(row: AnyRow) -> str:
    """Number of canaries, per training run if there are several."""
    if row.training_runs == 1:
        return f"{row.canaries:,}"
    return f"{row.training_runs} x {row.canaries // row.training_runs:,}"


def place(row: AnyRow) -> str:
    """Short description of a setting."""
    return f"{row.mechanism} ({row.setting}), {size(row)} canaries, δ = {row.delta:g}"


def paragraph(text: str) -> str:
    """Wrap to the page's width."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _first_cells(row: AnyRow) -> str:
    return f"| {row.mechanism} ({row.setting}) | {row.delta:g} | {size(row)} | {row.true_epsilon:.2f} |"


def _place(row: AnyRow) -> tuple[object, ...]:
    return row.mechanism, row.setting, row.delta, row.canaries, row.training_runs


def interval_table(rows: list[OneRunIntervalRow], error: float) -> str:
    """Intervals of both models, one row per setting."""
    own = ("covers", "above", "below", "mean 5/50/95 %")
    header = ["mechanism", "δ", "canaries", "true ε", *own, *(f"Gaussian: {x}" for x in own)]
    lines = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * (len(header) - 1)}"]
    gaussian = {_place(row): row for row in rows if row.method == AS_GAUSSIAN}
    for row in rows:
        if row.method != WHOLE_CURVE:
            continue
        cells = []
        for each in (row, gaussian[_place(row)]):
            mark = "" if each.within_level(error) else " **!**"
            cells += [f"{share(each.covers, each.runs)}{mark}"]
            cells += [share(count, each.runs) for count in (each.above, each.below)]
            cells += [f"{each.mean_low:.2f} {each.mean_median:.2f} {each.mean_high:.2f}"]
        lines.append(f"{_first_cells(row)} {' | '.join(cells)} |")
    return "\n".join(lines)


def bound_table(rows: list[OneRunBoundRow], error: float) -> str:
    """False refutations and mean bound of each method."""
    header = ["mechanism", "δ", "canaries", "true ε", *METHODS]
    lines = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * (len(header) - 1)}"]
    for key in dict.fromkeys(map(_place, rows)):
        own = {row.method: row for row in rows if _place(row) == key}
        cells = []
        for method in METHODS:
            row = own[method]
            shown = share(row.above, row.runs)
            shown = shown if row.holds else f"*{shown}*"
            mark = "" if row.within_level(error) else " **!**"
            cells.append(f"{shown}{mark} ({row.mean_at_least:.2f})")
        lines.append(f"{_first_cells(own[PROOF])} {' | '.join(cells)} |")
    return "\n".join(lines)


def _worst(rows: Iterable[Row], count: Callable[[Row], int]) -> tuple[str, Row]:
    """The largest share, and its row."""
    row = max(rows, key=lambda row: count(row) / row.runs)
    return share(count(row), row.runs), row


def bound_text(rows: list[OneRunBoundRow], error: float) -> str:
    """Summary of the table of bounds."""
    said = []
    for names, what in (
        (ONE_RUN_METHODS, "Methods that only assume fair coins (the proof, Steinke's bound, f-DP)"),
        ((GAUSSIAN_RUN,), "The bound for Gaussian f-DP, if the curve is Gaussian"),
        (INDEPENDENT, "ROC scans, if canaries are independent and the curve is as assumed"),
    ):
        own = [row for row in rows if row.method in names and row.holds]
        most, where = _worst(own, lambda row: row.above)
        broken = [row for row in own if not row.within_level(error)]
        end = (
            "never significantly too often"
            if not broken
            else f"**too often** in {len(broken)} rows"
        )
        at = f" ({where.method}: {place(where)})" if where.above else ""
        said.append(
            f"{what}: above the true ε in at most {most} of {where.runs} audits{at}; {end}."
        )
    for method in INDEPENDENT:
        own = [
            row for row in rows if row.method == method and row.interferes and not row.wrong_curve
        ]
        most, where = _worst(own, lambda row: row.above)
        caught = "" if not where.within_level(error) else ": the control was NOT detected"
        said.append(f"*{method}*, if canaries interfere: up to {most} ({place(where)}){caught}.")
    wrong = [row for row in rows if row.method == GAUSSIAN_RUN and row.wrong_curve]
    most, where = _worst(wrong, lambda row: row.above)
    said.append(f"*{GAUSSIAN_RUN}*, if the curve is not Gaussian: up to {most} ({place(where)}).")
    return paragraph(" ".join(said))


def interval_text(rows: list[OneRunIntervalRow], error: float) -> str:
    """Summary of the table of intervals."""
    said = []
    for name, what in (
        (WHOLE_CURVE, "Curve model"),
        (AS_GAUSSIAN, "Gaussian family and strength 1 fixed, if true"),
    ):
        own = [row for row in rows if row.method == name]
        # A single family has no prior probability of no leak, so its intervals never contain 0.
        apart = [row for row in own if row.holds and (row.true_epsilon or name == WHOLE_CURVE)]
        least = min(apart, key=lambda row: row.covers / row.runs)
        broken = sum(not row.within_level(error) for row in apart)
        together = [row for row in own if row.interferes and not row.wrong_curve]
        high, too_high = _worst(together, lambda row: row.above)
        low, too_low = _worst(together, lambda row: row.below)
        said.append(
            f"**{what}.** Independent canaries: covers {share(least.covers, least.runs)} or more"
            f"{'' if not broken else f', **not met** in {broken}'}. Interfering: above the true ε "
            f"in up to {high} ({place(too_high)}), below in up to {low} ({place(too_low)})."
        )
    return paragraph(" ".join(said))


def several_text(rows: list[OneRunIntervalRow]) -> str:
    """The same number of canaries in one run and in several."""

    def alike(row: OneRunIntervalRow) -> tuple[object, ...]:
        # Clusters that are whole runs become smaller with them.
        whole = f"group={row.canaries // row.training_runs}"
        setting = " ".join("whole run" if part == whole else part for part in row.setting.split())
        return row.mechanism, setting, row.delta, row.canaries, row.method

    alone = {alike(row): row for row in rows if row.training_runs == 1}
    parts = []
    for row in rows:
        before = alone.get(alike(row))
        if row.training_runs == 1 or row.method != WHOLE_CURVE or before is None:
            continue
        setting = alike(row)[1]
        parts.append(
            f"{row.mechanism} ({setting}): covers {share(before.covers, before.runs)} in one run, "
            f"{share(row.covers, row.runs)} in {row.training_runs} (above "
            f"{share(before.above, before.runs)} and {share(row.above, row.runs)})"
        )
    return paragraph(f"Curve model, the same total number of canaries: {'; '.join(parts)}.")


def blocks() -> dict[str, str]:
    """Text and tables on canaries of one run, by mark."""
    bounds = read("bounds.csv", OneRunBoundRow)
    intervals = read("coverage.csv", OneRunIntervalRow)
    error = significance()
    return {
        "one-run-bound-text": bound_text(bounds, error),
        "one-run-bounds": bound_table(bounds, error),
        "one-run-interval-text": interval_text(intervals, error),
        "one-run-intervals": interval_table(intervals, error),
        "one-run-several": several_text(intervals),
    }
