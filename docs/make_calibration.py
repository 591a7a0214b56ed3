"""Put the numbers of the calibration study into calibration.md.

    python docs/make_calibration.py

Reads the tables that ``epsilometer calibrate`` wrote to ``docs/calibration/`` and rewrites what stands
between the marks of the page.  A test holds the page to these tables.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from epsilometer.calibration.study import PEERS_RULE, POSTERIOR
from epsilometer.calibration.table import (
    DELIBERATE,
    NO_BOUND,
    BoundRow,
    ModelRow,
    from_csv,
    keeps,
    summarise_bounds,
)

HERE = Path(__file__).resolve().parent
PAGE = HERE / "calibration.md"
FOLDER = HERE / "calibration"


def percent(count: int, runs: int) -> str:
    """A share with a digit that so many runs can bear."""
    return f"{100 * count / runs:.1f} %"


def where(row: BoundRow) -> str:
    """A cell in few words."""
    if row.false_positive_rate == "scores":
        size = f"{row.trials:,} canaries"
    else:
        size = f"{row.bases} x {row.trials:,} trials"
    setting = f" ({row.setting})" if row.setting else ""
    return f"{row.mechanism}{setting}, {size}, power {row.power:g}"


def bounds_table(rows: list[BoundRow], significance: float) -> str:
    """The worst that each bound did."""
    lines = [
        "| estimator | kind | settings | worst failure rate | where | beyond chance in | tightness |",
        "| --- | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for found in summarise_bounds(rows, significance):
        worst = found.worst
        if worst.verdict(significance) == NO_BOUND:
            continue
        name = f"*{found.estimator}*" if found.estimator in DELIBERATE else found.estimator
        tight = "" if math.isnan(found.tightness) else f"{found.tightness:.2f}"
        lines.append(
            f"| {name} | {found.kind} | {found.cells} | {percent(worst.above, worst.runs)} "
            f"| {where(worst) if worst.above else '-'} | {found.too_often} | {tight} |"
        )
    return "\n".join(lines)


def required_table(rows: list[BoundRow], significance: float) -> str:
    """Failures on the null and on Laplace epsilon = 1, at the sizes with 10,000 runs."""
    chosen = [
        row
        for row in rows
        if row.runs >= 10_000
        and row.power == 1
        and (row.mechanism == "null" or row.setting == "pure_epsilon=1")
        and row.mechanism in ("null", "Laplace")
        and row.verdict(significance) != NO_BOUND
    ]
    names = list(dict.fromkeys(row.estimator for row in chosen))
    lines = [
        "| estimator | null, worst | Laplace ε = 1, worst | runs each |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in names:
        cells = []
        for mechanism in ("null", "Laplace"):
            own = [r for r in chosen if r.estimator == name and r.mechanism == mechanism]
            worst = max(own, key=lambda row: row.failure_rate)
            mark = "" if keeps(worst.above, worst.runs, significance) else " **!**"
            cells.append(f"{percent(worst.above, worst.runs)}{mark}")
        runs = min(row.runs for row in chosen if row.estimator == name)
        shown = f"*{name}*" if name in DELIBERATE else name
        lines.append(f"| {shown} | {cells[0]} | {cells[1]} | {runs:,} |")
    return "\n".join(lines)


def coverage_table(rows: list[ModelRow]) -> str:
    """Coverage of the posterior under its own model."""
    lines = [
        "| likelihood | bases | parameter | runs | 50 % | 80 % | 90 % | 95 % | p (ranks uniform) |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        shares = " | ".join(
            percent(getattr(row, f"covered_{level}"), row.runs) for level in (50, 80, 90, 95)
        )
        lines.append(
            f"| {row.likelihood} | {row.bases} | {row.parameter} | {row.runs:,} | {shares} "
            f"| {row.uniformity:.3f} |"
        )
    return "\n".join(lines)


def misfit_table(rows: list[BoundRow]) -> str:
    """The posterior where attacks are not uniform on the ring."""
    lines = [
        "| mechanism | power | bases | false-positive rate | true ε | runs | interval covers "
        "| all above | all below | mean lower end | mean width |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        if row.estimator != POSTERIOR:
            continue
        covered = row.runs - row.above - row.below
        setting = f" ({row.setting})" if row.setting else ""
        lines.append(
            f"| {row.mechanism}{setting} | {row.power:g} | {row.bases} | {row.false_positive_rate} "
            f"| {row.truth:.3g} | {row.runs} | {percent(covered, row.runs)} "
            f"| {percent(row.above, row.runs)} | {percent(row.below, row.runs)} "
            f"| {row.mean_low:.3g} | {row.mean_width:.3g} |"
        )
    return "\n".join(lines)


def peers_table(rows: list[BoundRow], significance: float) -> str:
    """jax_privacy's correction on null scores, beside ours."""
    lines = [
        "| canaries | δ | runs | jax_privacy's correction | ranks fixed beforehand |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    null = [row for row in rows if row.mechanism == "null" and row.false_positive_rate == "scores"]
    for row in sorted(null, key=lambda row: row.trials):
        if row.estimator != PEERS_RULE.label:
            continue
        ours = next(r for r in null if r.trials == row.trials and r.estimator == "one-run scan")
        mark = "" if keeps(row.above, row.runs, significance) else " **!**"
        lines.append(
            f"| {row.trials:,} | {row.delta:g} | {row.runs:,} | {percent(row.above, row.runs)}{mark} "
            f"| {percent(ours.above, ours.runs)} |"
        )
    return "\n".join(lines)


def render(text: str) -> str:
    """The page with its tables made anew."""
    plan = json.loads((FOLDER / "plan.json").read_text(encoding="utf-8"))
    significance = float(plan["significance"])
    bounds = from_csv(
        (FOLDER / "bounds.csv").read_text(encoding="utf-8"), BoundRow, name="bounds.csv"
    )
    models = from_csv(
        (FOLDER / "coverage.csv").read_text(encoding="utf-8"), ModelRow, name="coverage.csv"
    )
    tables = {
        "bounds": bounds_table(bounds, significance),
        "required": required_table(bounds, significance),
        "coverage": coverage_table(models),
        "misfit": misfit_table(bounds),
        "peers": peers_table(bounds, significance),
    }
    for name, table in tables.items():
        start = text.index(f"<!-- {name} -->\n") + len(f"<!-- {name} -->\n")
        text = f"{text[:start]}{table}\n{text[text.index('<!-- end -->', start) :]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
