"""The view of epsilon over delta, of either model."""

from __future__ import annotations

from epsilometer._table import Table
from epsilometer._text import counted, pair_text
from epsilometer.display.view import View
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.exact.over_delta import DeltaCurve
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.text.over_delta import OverDelta, items, notes_over_delta

LEVEL = 0.9

NO_NUMBERS = ("delta", "error", "solved", "claim", "probability_above")
"""Columns that are not shown here: nothing is claimed, and the accuracy is in the notes."""


def _shown(curve: DeltaCurve | JointDeltaCurve) -> OverDelta:
    return OverDelta(curve=curve, level=LEVEL)


def _line(curve: DeltaCurve | JointDeltaCurve) -> str:
    over = _shown(curve)
    deltas, median = over.deltas.tolist(), over.quantiles[1]
    span = counted(len(deltas), "delta")
    if len(deltas) > 1:
        span += f" from {deltas[0]:.3g} to {deltas[-1]:.3g}"
    doubtful = "" if curve.trustworthy else "; NOT ACCURATE"
    return f"{span}: median epsilon {pair_text(float(median.min()), float(median.max()))}{doubtful}"


def _table(curve: DeltaCurve | JointDeltaCurve) -> Table:
    over = _shown(curve)
    rows = items(over)
    names = [name for name in rows[0] if name not in NO_NUMBERS]
    return Table(
        columns=("delta", *(name.replace("_", " ") for name in names)),
        rows=[(f"{row['delta']:.3g}", *(row[name] for name in names)) for row in rows],
        notes=notes_over_delta(over),
    )


def _chart(curve: DeltaCurve | JointDeltaCurve) -> Chart:
    return delta_curve_chart(_shown(curve))


OVER_DELTA = View(line=_line, table=_table, figures={"delta-curve": _chart})
