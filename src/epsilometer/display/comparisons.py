"""The view of all estimators on the same data."""

from __future__ import annotations

from epsilometer._table import Cell, Table
from epsilometer._text import counted
from epsilometer.comparison.estimators import Comparison
from epsilometer.display.view import View
from epsilometer.report.figures.comparison import comparison_sheet


def _line(found: Comparison) -> str:
    applying = sum(row.applies for row in found.rows)
    text = f"{applying} of {len(found.rows)} estimators apply to {found.source}"
    return f"{text}, at delta = {found.delta:g}, error {100 * found.significance:g} % on each side"


def _table(found: Comparison) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for row in found.rows:
        low = row.low if row.applies else None
        high = row.high if row.applies and row.bounded_above else None
        rows.append((row.label, row.kind, low, high))
    left = [row for row in found.rows if not row.applies]
    notes = list(found.notes)
    if left:
        notes.append(f"{counted(len(left), 'estimator')} do not apply; `rows` has the reasons.")
    return Table(columns=("estimator", "kind", "lower", "upper"), rows=rows, notes=notes)


COMPARISON = View(line=_line, table=_table, figures={"comparison": comparison_sheet})
