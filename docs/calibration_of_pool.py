"""Tables of the study of pools for calibration.md; called by `make_calibration.py`.

Reads the output of ``epsilometer calibrate --study pool`` in ``docs/calibration/pool/``.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TypeVar

from epsilometer.calibration.interference import Failures
from epsilometer.calibration.pool import BOUNDS, MULTIPLIED, PROOF
from epsilometer.calibration.pool_table import YES, PoolBoundRow, PoolIntervalRow
from epsilometer.calibration.table import from_csv

FOLDER = Path(__file__).resolve().parent / "calibration" / "pool"

Row = TypeVar("Row", PoolBoundRow, PoolIntervalRow)


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


def place(row: PoolBoundRow | PoolIntervalRow) -> str:
    """Short description of a setting."""
    return f"{row.mechanism} ({row.setting}), {row.models} models, {row.points} points"


def paragraph(text: str) -> str:
    """Wrap to the page's width."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _first_cells(row: PoolBoundRow | PoolIntervalRow, truth: float) -> str:
    size = f"{row.models} x {row.points}"
    return f"| {row.mechanism} ({row.setting}) | {row.delta:g} | {size} | {truth:.2f} |"


def bound_table(rows: list[PoolBoundRow], error: float) -> str:
    """False refutations and mean bound of each method."""
    header = ["mechanism", "δ", "models x points", "true ε", *BOUNDS]
    lines = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * (len(header) - 1)}"]
    for first in (row for row in rows if row.method == PROOF):
        own = {row.method: row for row in rows if place(row) == place(first)}
        cells = []
        for method in BOUNDS:
            row = own[method]
            shown = share(row.above, row.runs)
            shown = f"*{shown}*" if row.control else shown
            mark = "" if row.within_level(error) else " **!**"
            cells.append(f"{shown}{mark} ({row.mean_at_least:.2f})")
        lines.append(f"{_first_cells(first, first.true_epsilon)} {' | '.join(cells)} |")
    return "\n".join(lines)


def interval_table(rows: list[PoolIntervalRow], error: float) -> str:
    """Intervals, one row per setting."""
    own = ("covers", "above", "below", "mean 5/50/95 %", "runs")
    header = ["mechanism", "δ", "models x points", "ε of one score", *own]
    lines = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * (len(header) - 1)}"]
    for row in rows:
        mark = "" if row.within_level(error) else " **!**"
        cells = [f"{share(row.covers, row.runs)}{mark}"]
        cells += [share(count, row.runs) for count in (row.above, row.below)]
        cells += [f"{row.mean_low:.2f} {row.mean_median:.2f} {row.mean_high:.2f}", str(row.runs)]
        lines.append(f"{_first_cells(row, row.point_epsilon)} {' | '.join(cells)} |")
    return "\n".join(lines)


def bound_text(rows: list[PoolBoundRow], error: float) -> str:
    """Summary of the table of bounds."""
    said = []
    for method in BOUNDS[:-1]:
        own = [row for row in rows if row.method == method]
        worst = max(own, key=lambda row: row.above / row.runs)
        broken = sum(not row.within_level(error) for row in own)
        end = (
            "never significantly too often" if not broken else f"**too often** in {broken} settings"
        )
        at = f" ({place(worst)})" if worst.above else ""
        most = share(worst.above, worst.runs)
        said.append(f"*{method}*: above the true ε in at most {most} of audits{at}; {end}.")
    control = [row for row in rows if row.method == MULTIPLIED and row.control]
    worst = max(control, key=lambda row: row.above / row.runs)
    caught = "" if not worst.within_level(error) else ": the control was NOT detected"
    said.append(
        f"The negative control, *{MULTIPLIED}*, if points depend on each other: up to "
        f"{share(worst.above, worst.runs)} ({place(worst)}){caught}."
    )
    return paragraph(" ".join(said))


def interval_text(rows: list[PoolIntervalRow], error: float) -> str:
    """Summary of the table of intervals."""
    said = []
    known = [row for row in rows if row.mechanism != Failures.name]
    for own, what in (
        ([row for row in known if row.independent == YES], "Independent points"),
        ([row for row in known if row.independent != YES], "Points with shared effects"),
        (
            [row for row in rows if row.mechanism == Failures.name],
            "Failures, shared or not (a curve outside all families)",
        ),
    ):
        least = min(own, key=lambda row: row.covers / row.runs)
        high = max(own, key=lambda row: row.above / row.runs)
        low = max(own, key=lambda row: row.below / row.runs)
        broken = sum(not row.within_level(error) for row in own)
        end = "stated rates met in all settings"
        if broken:
            end = f"stated rates **not met** in {broken} of {len(own)}"
        said.append(
            f"**{what}.** Covers {share(least.covers, least.runs)} or more ({place(least)}); above in "
            f"up to {share(high.above, high.runs)} ({place(high)}), below in up to "
            f"{share(low.below, low.runs)} ({place(low)}); {end}."
        )
    return paragraph(" ".join(said))


def blocks() -> dict[str, str]:
    """Text and tables on pools, by mark."""
    bounds = read("bounds.csv", PoolBoundRow)
    intervals = read("coverage.csv", PoolIntervalRow)
    error = significance()
    return {
        "pool-bound-text": bound_text(bounds, error),
        "pool-bounds": bound_table(bounds, error),
        "pool-interval-text": interval_text(intervals, error),
        "pool-intervals": interval_table(intervals, error),
    }
