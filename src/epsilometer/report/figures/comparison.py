"""Every estimator's bound or interval on one axis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from epsilometer.baselines.estimator import Kind
from epsilometer.comparison.estimators import ABOUT_GAUSSIAN, Comparison
from epsilometer.report.figures import render_print
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    Kind.EXACT_BOUND: "blue",
    Kind.APPROXIMATE_BOUND: "green",
    Kind.CREDIBLE: "orange",
    Kind.POINT: "grey",
}
GAUSSIAN = "purple"


def draw_comparison(found: Comparison) -> Figure:
    """Draw the sheet below."""
    return render_print.draw(comparison_sheet(found))


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
        marks += _bar(place, row.low, row.high, colour, reach, width=2.6, label=label)
        if row.pooled is not None:
            marks += _bar(place + 0.26, *row.pooled, colour, reach, width=1.0)
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


def _bar(
    place: float,
    low: float,
    high: float,
    colour: str,
    reach: float,
    *,
    width: float,
    label: str | None = None,
) -> Iterator[Mark]:
    """An interval, or an arrow from a bound without an upper end."""
    stop, size = min(high, reach), 9 if width > 2 else 6
    yield Line([low, stop], [place, place], colour, label, width=width, opacity=0.85)
    yield Points([low], [place], colour, symbol="end", size=size)
    if math.isfinite(high):
        yield Points([stop], [place], colour, symbol="end", size=size)
    else:
        yield Points([reach], [place], colour, symbol="arrow", size=size / 2)
