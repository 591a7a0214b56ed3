"""Every estimator's bound or interval on one axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from epsilometer.baselines.estimator import Kind
from epsilometer.report.comparison import ABOUT_GAUSSIAN, Comparison, Row
from epsilometer.report.figures import style
from epsilometer.report.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    Kind.EXACT_BOUND: BLUE,
    Kind.APPROXIMATE_BOUND: GREEN,
    Kind.CREDIBLE: ORANGE,
    Kind.POINT: GREY,
}


def draw_comparison(found: Comparison) -> Figure:
    """Draw all that apply, the best base solid and the pooled counts thin below it."""
    from matplotlib.lines import Line2D

    rows = [row for row in found.rows if row.applies]
    figure = style.new_figure(7.4, 1.9 + 0.36 * len(rows))
    axes = figure.add_subplot()
    ends = [value for row in rows for value in _ends(row) if math.isfinite(value)]
    reach = 1.12 * max([*ends, 0.1])
    for place, row in enumerate(rows):
        colour = _colour(row)
        if row.kind == Kind.POINT:
            axes.plot(row.low, place, "o", color=colour, markersize=6)
            continue
        _bar(axes, place, row.low, row.high, colour, reach, width=2.6)
        if row.pooled is not None:
            _bar(axes, place + 0.26, *row.pooled, colour, reach, width=1.0)
    axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(-0.02 * reach, reach)
    percent = f"{100 * found.significance:g} %"
    axes.set(
        xlabel=f"epsilon at delta = {found.delta:g}; each end errs with probability {percent}",
        title=f"Every estimator on the same data\n{found.source}",
    )
    shown = list(dict.fromkeys((_colour(row), _meaning(row)) for row in rows))
    handles = [Line2D([], [], color=colour, linewidth=2.6, label=name) for colour, name in shown]
    if any(row.pooled is not None for row in rows):
        handles.append(Line2D([], [], color=GREY, linewidth=1, label="thin: all bases pooled"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
    axes.grid(axis="x", alpha=0.25)
    style.tidy(axes)
    return figure


def _ends(row: Row) -> tuple[float, ...]:
    return (row.low, row.high, *(row.pooled or ()))


def _colour(row: Row) -> str:
    return PURPLE if row.about == ABOUT_GAUSSIAN else COLOURS[Kind(row.kind)]


def _meaning(row: Row) -> str:
    return f"{row.kind}, if Gaussian" if row.about == ABOUT_GAUSSIAN else row.kind


def _bar(
    axes: Axes, place: float, low: float, high: float, colour: str, reach: float, *, width: float
) -> None:
    """An interval, or an arrow from a bound without an upper end."""
    stop = min(high, reach)
    axes.plot([low, stop], [place, place], color=colour, linewidth=width, alpha=0.85)
    axes.plot(low, place, "|", color=colour, markersize=9 if width > 2 else 6, markeredgewidth=1.6)
    if math.isfinite(high):
        axes.plot(
            stop, place, "|", color=colour, markersize=9 if width > 2 else 6, markeredgewidth=1.6
        )
    else:
        axes.plot(reach, place, ">", color=colour, markersize=5 if width > 2 else 3, clip_on=False)
