"""The comparison of estimators as text and as plain values."""

from __future__ import annotations

import math
from typing import Any

from epsilometer._text import table_lines, wrapped
from epsilometer.baselines.estimator import Kind
from epsilometer.comparison.estimators import ABOUT_GAUSSIAN, Comparison, Row

LABEL = 32
"""Columns for the names of estimators, if none is longer and the terminal is wide enough."""

NOT_APPLICABLE = "n/a"
"""Shown for an estimator that does not apply; its reason follows below the table."""


def comparison_data(found: Comparison) -> dict[str, Any]:
    """Plain values for JSON."""
    return {
        "delta": found.delta,
        "significance": found.significance,
        "source": found.source,
        "rows": [row.described() for row in found.rows],
    }


def comparison_text(found: Comparison) -> str:
    """Text for a terminal."""
    title = (
        f"epsilon at delta = {found.delta:g} from {found.source}. Bounds err with probability "
        f"{found.significance:g} at each end"
    )
    if any(row.kind == Kind.CREDIBLE for row in found.rows):
        title += f"; credible intervals hold {100 * (1 - 2 * found.significance):g}\u00a0%"
    title += "."
    lines = [*wrapped(title), ""]
    pooled = any(row.pooled is not None for row in found.rows)
    head = ("", "at least", "at most", *(("pooled: least", "most") if pooled else ()))
    bounds = [row for row in found.rows if row.kind != Kind.POINT and row.about != ABOUT_GAUSSIAN]
    least = max(LABEL, *(len(row.label) for row in found.rows))
    lines += table_lines([head, *(_cells(row, pooled) for row in bounds)], least=least)
    gaussian = [row for row in found.rows if row.about == ABOUT_GAUSSIAN]
    if gaussian:
        lines += ["", "assuming a Gaussian mechanism:"]
        lines += table_lines([head, *(_cells(row, pooled) for row in gaussian)], least=least)[1:]
    points = [row for row in found.rows if row.kind == Kind.POINT]
    if points:
        lines += ["", "point estimates, not bounds:"]
        rows = [(row.label, _number(row.low), *head[2:]) for row in points]
        blank = [(*row[:2], *("" for _ in row[2:])) for row in rows]
        lines += table_lines([head, *blank], least=least)[1:]
    lines += ["", *_remarks(found, pooled=pooled)]
    lines += ["", "Kind, quantity and assumptions of each estimator:"]
    alike: dict[str, list[str]] = {}
    for row in found.rows:
        text = f"{row.kind} of {row.about}; assumes {row.assumes}."
        if row.reason:
            text += f" Does not apply: {row.reason}"
        alike.setdefault(text, []).append(row.label)
    for text, labels in alike.items():
        lines += wrapped(f"{'; '.join(labels)}: {text}", first="  ", rest="      ")
    return "\n".join(lines) + "\n"


def _cells(row: Row, pooled: bool) -> tuple[str, ...]:
    """A row of the table."""
    rest = ("", "") if pooled else ()
    if not row.applies:
        return (row.label, NOT_APPLICABLE, "", *rest)
    high = _number(row.high, none="no limit") if row.bounded_above else "-"
    if row.pooled is not None:
        most = _number(row.pooled[1], none="none") if row.bounded_above else "-"
        rest = (_number(row.pooled[0]), most)
    return (row.label, _number(row.low), high, *rest)


def _remarks(found: Comparison, *, pooled: bool) -> list[str]:
    """Notes on the numbers and the data."""
    remarks = ["At least 0.000: no bound. A bound is not an estimate: most are far below epsilon."]
    if found.several:
        remarks.append(
            "At least and at most refer to the strongest attack: the largest over the bases, with a "
            "correction for the choice."
        )
    if pooled:
        remarks.append("Pooled: the counts of all bases added, so for the average attack.")
    remarks += found.notes
    return [line for remark in remarks for line in wrapped(remark)]


def _number(value: float, *, none: str = "-") -> str:
    return none if not math.isfinite(value) else f"{value:.3f}"
