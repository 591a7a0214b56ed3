"""Tables of the study of pools for calibration.md; `make_calibration.py` calls it.

Reads what ``epsilometer calibrate --study pool`` wrote to ``docs/calibration/pool/``.
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
    """The error that the study asked for."""
    return float(json.loads((FOLDER / "plan.json").read_text(encoding="utf-8"))["significance"])


def share(count: int, runs: int) -> str:
    """A share of runs."""
    return f"{100 * count / runs:.1f} %"


def place(row: PoolBoundRow | PoolIntervalRow) -> str:
    """A setting in few words."""
    return f"{row.mechanism} ({row.setting}), {row.models} models, {row.points} points"


def paragraph(text: str) -> str:
    """Text in lines of the page's width."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _beginning(row: PoolBoundRow | PoolIntervalRow, truth: float) -> str:
    size = f"{row.models} x {row.points}"
    return f"| {row.mechanism} ({row.setting}) | {row.delta:g} | {size} | {truth:.2f} |"


def bound_table(rows: list[PoolBoundRow], error: float) -> str:
    """False refutations of each method, and what it proves on average."""
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
        lines.append(f"{_beginning(first, first.true_epsilon)} {' | '.join(cells)} |")
    return "\n".join(lines)


def interval_table(rows: list[PoolIntervalRow], error: float) -> str:
    """Intervals, a line for each setting."""
    own = ("covers", "above", "below", "mean 5/50/95 %", "runs")
    header = ["mechanism", "δ", "models x points", "ε of one score", *own]
    lines = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * (len(header) - 1)}"]
    for row in rows:
        mark = "" if row.within_level(error) else " **!**"
        cells = [f"{share(row.covers, row.runs)}{mark}"]
        cells += [share(count, row.runs) for count in (row.above, row.below)]
        cells += [f"{row.mean_low:.2f} {row.mean_median:.2f} {row.mean_high:.2f}", str(row.runs)]
        lines.append(f"{_beginning(row, row.point_epsilon)} {' | '.join(cells)} |")
    return "\n".join(lines)


def bound_text(rows: list[PoolBoundRow], error: float) -> str:
    """What the table of bounds says."""
    said = []
    for method in BOUNDS[:-1]:
        own = [row for row in rows if row.method == method]
        worst = max(own, key=lambda row: row.above / row.runs)
        broken = sum(not row.within_level(error) for row in own)
        end = "kept everywhere" if not broken else f"**not kept** in {broken} settings"
        at = f" ({place(worst)})" if worst.above else ""
        most = share(worst.above, worst.runs)
        said.append(f"*{method}*: above the truth in at most {most} of audits{at}; {end}.")
    control = [row for row in rows if row.method == MULTIPLIED and row.control]
    worst = max(control, key=lambda row: row.above / row.runs)
    caught = "" if not worst.within_level(error) else ": the control was NOT caught"
    said.append(
        f"The control, *{MULTIPLIED}*, where points depend on each other: up to "
        f"{share(worst.above, worst.runs)} ({place(worst)}){caught}."
    )
    return paragraph(" ".join(said))


def interval_text(rows: list[PoolIntervalRow], error: float) -> str:
    """What the table of intervals says."""
    said = []
    known = [row for row in rows if row.mechanism != Failures.name]
    for own, what in (
        ([row for row in known if row.independent == YES], "Points independent"),
        ([row for row in known if row.independent != YES], "Points that share something"),
        (
            [row for row in rows if row.mechanism == Failures.name],
            "Failures, shared or not, whose curve no family has",
        ),
    ):
        least = min(own, key=lambda row: row.covers / row.runs)
        high = max(own, key=lambda row: row.above / row.runs)
        low = max(own, key=lambda row: row.below / row.runs)
        broken = sum(not row.within_level(error) for row in own)
        end = "kept everywhere" if not broken else f"**not kept** in {broken} of {len(own)}"
        said.append(
            f"**{what}.** Covers {share(least.covers, least.runs)} or more ({place(least)}); wholly "
            f"above in up to {share(high.above, high.runs)} ({place(high)}), wholly below in up to "
            f"{share(low.below, low.runs)} ({place(low)}); {end}."
        )
    return paragraph(" ".join(said))


def blocks() -> dict[str, str]:
    """What the page says of pools, by mark."""
    bounds = read("bounds.csv", PoolBoundRow)
    intervals = read("coverage.csv", PoolIntervalRow)
    error = significance()
    return {
        "pool-bound-text": bound_text(bounds, error),
        "pool-bounds": bound_table(bounds, error),
        "pool-interval-text": interval_text(intervals, error),
        "pool-intervals": interval_table(intervals, error),
    }
