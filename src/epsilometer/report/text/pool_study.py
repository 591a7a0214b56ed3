"""Terminal summary of the calibration study of pools."""

from __future__ import annotations

from epsilometer._text import wrapped
from epsilometer.calibration.pool_table import PoolBoundRow, PoolIntervalRow


def _named(row: PoolBoundRow | PoolIntervalRow) -> str:
    values = ",".join(part.partition("=")[2] for part in row.setting.split())
    return f"{row.mechanism} {values}, {row.models} x {row.points}"


def pool_text(
    significance: float, bounds: list[PoolBoundRow], intervals: list[PoolIntervalRow]
) -> list[str]:
    """Coverage by setting, false refutations by method, and whether the control was detected."""
    lines = [
        f"Coverage of {100 * (1 - 2 * significance):g} % intervals of shown epsilon, points treated as "
        "independent:",
        "",
        f"{'models x points':40}{'truth':>7}{'covers':>9}{'above':>8}{'below':>8}",
    ]
    for row in intervals:
        shares = [f"{100 * n / row.runs:.0f}" for n in (row.covers, row.above, row.below)]
        mark = "" if row.within_level(significance) else " !"
        lines.append(
            f"{_named(row):40.40}{row.point_epsilon:>7.2f}{shares[0]:>9}{shares[1]:>8}{shares[2]:>8}{mark}"
        )
    lines += [
        "",
        "False refutations, per cent: worst setting, worst setting where points interfere:",
    ]
    for method in dict.fromkeys(row.method for row in bounds):
        worst = []
        for rows in (
            [r for r in bounds if r.method == method],
            [r for r in bounds if r.method == method and r.independent == "no"],
        ):
            bad = any(not row.within_level(significance) for row in rows)
            share = max((100 * row.above / row.runs for row in rows), default=0.0)
            worst.append(f"{share:.1f}{' !' if bad else '  '}")
        lines.append(f"  {method:<34}{worst[0]:>10}{worst[1]:>10}")
    blamed = [row for row in bounds if not row.control and not row.within_level(significance)]
    said = "! significantly too often. " + (
        "Every bound's error rate is within its stated level."
        if not blamed
        else f"Bounds exceed their stated error rate in {len(blamed)} settings."
    )
    if all(row.within_level(significance) for row in bounds if row.control):
        said += " The negative control (points multiplied) was NOT DETECTED. Run longer."
    return [*lines, "", *wrapped(said)]
