"""Figures for print: what `marks.py` describes, drawn with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer.report.figures import marks, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of a heat map, from 0 to 1.
SHADES = ("#FFFFFF", "#C6DBEF", "#6BAED6")

DASHES = {"solid": "-", "dash": "--", "dot": ":"}
SYMBOLS = {"circle": "o", "square": "s", "star": "*", "cross": "P", "end": "|", "arrow": ">"}
#: A legend of more would hide the plot.
MOST_ENTRIES = 6


def draw(sheet: marks.Sheet) -> Figure:
    """The sheet as a figure."""
    from epsilometer.report.figures.shown import ShownFigure

    figure = ShownFigure(figsize=sheet.size, layout="constrained")
    rows = -(-len(sheet.plots) // sheet.columns)
    grid = figure.subplots(rows, sheet.columns, squeeze=False, sharex=sheet.share_x).ravel()
    for spare in grid[len(sheet.plots) :]:
        spare.remove()
    drawn = list(zip(grid, sheet.plots, strict=False))
    for axes, plot in drawn:
        _draw_plot(axes, plot)
        if sheet.share_x and axes is not drawn[-1][0]:
            axes.set_xlabel("")
    figure.suptitle(sheet.title + sheet.subtitle)
    _add_legends(figure, sheet, drawn)
    return figure


def draw_into(axes: Axes, sheet: marks.Sheet) -> Figure:
    """The only plot of a sheet in axes that are there already; the figure that they belong to."""
    from matplotlib.figure import Figure

    _draw_plot(axes, sheet.plots[0])
    if sheet.plots[0].title is None:
        axes.set_title(sheet.title + sheet.subtitle, fontsize=10.5)
    if sheet.plots[0].legend:
        _add_legend(axes)
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def _draw_plot(axes: Axes, plot: marks.Plot) -> None:
    for mark in plot.marks:
        _draw_mark(axes, mark)
    _set_axis(axes, "x", plot.x)
    _set_axis(axes, "y", plot.y)
    for mark in plot.marks:  # last: where notes go depends on the ends of the axes
        if isinstance(mark, marks.Note):
            _draw_note(axes, mark)
    if plot.square:
        axes.set_aspect("equal")
    if plot.title is not None:
        axes.set_title(plot.title.replace("$", r"\$"), fontsize=10.5)
    axes.spines[["top", "right"]].set_visible(False)


def _add_legends(figure: Figure, sheet: marks.Sheet, drawn: list[tuple[Axes, marks.Plot]]) -> None:
    """A legend wherever it says something that no earlier one says."""
    said: list[list[str]] = []
    for axes, plot in drawn:
        handles, labels = axes.get_legend_handles_labels()
        if not plot.legend or labels in said:
            continue
        said.append(labels)
        if sheet.legend == "below":
            look: Any = {"ncols": 2 if len(labels) < MOST_ENTRIES else 4, "frameon": False}
            figure.legend(handles, labels, loc="outside lower center", fontsize=9, **look)
            return
        _add_legend(axes)


def _add_legend(axes: Axes) -> None:
    """A legend inside the plot, if it has entries and does not hide it."""
    if 0 < len(axes.get_legend_handles_labels()[1]) <= MOST_ENTRIES:
        axes.legend(fontsize=8.5, framealpha=0.8, edgecolor="none")


def _set_axis(axes: Axes, which: str, axis: marks.Axis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    drawn: Any = getattr(axes, f"{which}axis")
    set_ends: Any = getattr(axes, f"set_{which}lim")
    drawn.set_label_text(axis.title)
    if axis.logarithmic:
        getattr(axes, f"set_{which}scale")("log")
        if axis.plain:
            # 1, 2, 5 times powers of ten: few sizes are worth a 10 to the power.
            drawn.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            drawn.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            drawn.set_minor_formatter(NullFormatter())
    elif axis.names is not None:
        names = [style.printed_name(name) for name in axis.names]
        drawn.set_ticks(range(len(names)), names, fontsize=8.5)
    else:
        # Few ticks, and a common offset where the range is narrow, so that labels never collide.
        few = MaxNLocator(6, steps=[1, 2, 5, 10], integer=axis.whole, min_n_ticks=1)
        drawn.set_major_locator(few)
    if axis.ends is not None:
        set_ends(*axis.ends)
    elif axis.from_zero:
        set_ends(0, None)


def _draw_mark(axes: Axes, mark: marks.Mark) -> None:
    if isinstance(mark, marks.Line):
        _draw_line(axes, mark)
    elif isinstance(mark, marks.Points):
        _draw_points(axes, mark)
    elif isinstance(mark, marks.Band):
        low = 0 if mark.low is None else mark.low
        colour = style.PRINT_COLOURS[mark.colour]
        look: dict[str, Any] = {"color": colour}
        if mark.hatched:
            look = {"facecolor": "none", "edgecolor": colour, "hatch": "////"}
        look |= {"alpha": mark.opacity, "linewidth": 0, "label": mark.label}
        axes.fill_between(mark.x, low, mark.high, **look)
    elif isinstance(mark, marks.Heat):
        from matplotlib.colors import LinearSegmentedColormap

        shades = LinearSegmentedColormap.from_list("heat", SHADES)
        axes.pcolormesh(mark.x, mark.y, mark.z, cmap=shades, vmin=0, vmax=1, rasterized=True,
                        shading="gouraud")  # fmt: skip
    elif isinstance(mark, marks.Reference):
        across: Any = axes.axhline if mark.x is None else axes.axvline
        look = {"color": style.PRINT_COLOURS[mark.colour], "linewidth": mark.width}
        across(mark.y if mark.x is None else mark.x, linestyle=DASHES[mark.dash], **look)
        if mark.label is not None and mark.x is not None:
            place: Any = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "bottom"}
            axes.annotate(mark.label, (mark.x, 1.005), fontsize=9, color=look["color"], **place)


def _draw_line(axes: Axes, mark: marks.Line) -> None:
    axes.plot(
        mark.x,
        mark.y,
        color=style.PRINT_COLOURS[mark.colour],
        linewidth=mark.width,
        linestyle=DASHES[mark.dash],
        alpha=mark.opacity,
        drawstyle="default" if mark.step is None else f"steps-{mark.step}",
        marker="" if mark.marker is None else SYMBOLS[mark.marker],
        markersize=3.5,
        label=mark.label if mark.listed else None,
    )


def _draw_points(axes: Axes, mark: marks.Points) -> None:
    colour = style.PRINT_COLOURS[mark.colour]
    x, y = np.atleast_1d(np.asarray(mark.x, float)), np.atleast_1d(np.asarray(mark.y, float))
    for bars, place, ends in ((axes.hlines, y, mark.x_ends), (axes.vlines, x, mark.y_ends)):
        if ends is not None:
            bars(place, *ends, color=colour, linewidth=mark.bar, zorder=4)
    axes.plot(
        x,
        y,
        SYMBOLS[mark.symbol],
        color=colour,
        markersize=mark.size,
        markerfacecolor="none" if mark.hollow else colour,
        markeredgecolor="white" if mark.rim else colour,
        markeredgewidth=mark.rim or 1.6 * (mark.symbol == "end") or float(mark.hollow),
        alpha=mark.opacity,
        clip_on=False,
        zorder=5,
        label=mark.label,
    )


def _draw_note(axes: Axes, mark: marks.Note) -> None:
    from matplotlib.patheffects import withStroke

    # An outline in the colour of the paper keeps lines apart from the text.
    outline = withStroke(linewidth=3.5, foreground="white")
    look: dict[str, Any] = {"fontsize": 8.5, "color": style.GREY, "zorder": 5}
    point = mark.x, mark.y
    place = axes.transAxes.inverted().transform(axes.transData.transform(point))[0]
    side: Any = "left" if place < 0.2 else "right" if place > 0.8 else "center"
    above: Any = {"xytext": (0, 6), "textcoords": "offset points", "ha": side}
    axes.annotate(mark.text, point, path_effects=[outline], **above, **look)
