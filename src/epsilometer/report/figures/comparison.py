"""Every estimator's bound or interval on one axis."""

from __future__ import annotations

import math

from epsilometer.baselines.estimator import Kind
from epsilometer.comparison.estimators import ABOUT_GAUSSIAN, Comparison
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, Sheet

COLOURS = {
    Kind.EXACT_BOUND: "blue",
    Kind.APPROXIMATE_BOUND: "green",
    Kind.CREDIBLE: "orange",
    Kind.POINT: "grey",
}
GAUSSIAN = "purple"


def comparison_sheet(found: Comparison) -> Sheet:
    """All estimators that apply, the best base solid and the pooled counts thin below it."""
    rows = [row for row in found.rows if row.applies]
    ends = [value for row in rows for value in (row.low, row.high, *(row.pooled or ()))]
    reach = 1.12 * max([*filter(math.isfinite, ends), 0.1])
    marks: list[Mark] = []
    said: set[str] = set()
    for place, row in enumerate(rows):
        gaussian = row.about == ABOUT_GAUSSIAN
        colour = GAUSSIAN if gaussian else COLOURS[Kind(row.kind)]
        meaning = f"{row.kind}, if Gaussian" if gaussian else row.kind
        label = None if meaning in said else meaning
        said.add(meaning)
        if row.kind == Kind.POINT:
            marks.append(Points([row.low], [place], colour, label))
            continue
        bars = [(float(place), row.low, row.high, 2.6, label)]
        if row.pooled is not None:
            bars.append((place + 0.26, *row.pooled, 1.0, None))
        for at, low, high, width, said_here in bars:
            ends = [low, min(high, reach)]
            marks.append(Line(ends, [at, at], colour, said_here, width=width, opacity=0.85))
            big = 9.0 if width > 2 else 6.0
            last = ("end", big) if math.isfinite(high) else ("arrow", big / 2)
            for end, (symbol, tip) in zip(ends, [("end", big), last], strict=True):
                marks.append(Points([end], [at], colour, symbol=symbol, size=tip))
    if any(row.pooled is not None for row in rows):
        marks.append(Line([], [], "grey", "thin: all bases pooled", width=1))
    percent = f"{100 * found.significance:g} %"
    across = f"epsilon at delta = {found.delta:g}; each end errs with probability {percent}"
    names = [row.label for row in rows]
    plot = Plot(
        Axis(across, (-0.02 * reach, reach)), Axis("", (len(rows) - 0.4, -0.6), names=names), marks
    )
    title = f"Every estimator on the same data\n{found.source}"
    size = (7.4, 1.9 + 0.36 * len(rows))
    return Sheet(title, [plot], size, legend="below")
