"""Figures for the page: what `marks.py` describes, as Plotly wants it.

Colours are written ``@blue``; the page puts in the shade that suits a light or a dark background.
"""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsilometer.report.figures import marks, style

Panel = dict[str, Any]
"""One plot of the page: ``data`` and ``layout`` as Plotly wants them, and whether it is ``square``."""

FILLS = {"blue": "rgba(30, 136, 200, {:g})", "grey": "rgba(128, 128, 128, {:g})"}
"""Colours of a given opacity that serve on either background."""

REGION_OPACITIES = (0.95, 0.65, 0.35, 0.15)
"""Of regions, the smallest first."""

STEPS = {None: "linear", "post": "hv", "mid": "hvh"}

PIXELS, SMALLEST, LARGEST = 1.5, 3.5, 14.0
"""Pixels of a marker for a point in print, within what can be seen and does not cover others."""


def panel(plot: marks.Plot) -> Panel:
    """One plot for the page."""
    layout: dict[str, Any] = {
        "xaxis": _axis(plot.x),
        "yaxis": _axis(plot.y),
        "hovermode": "closest",
        "showlegend": plot.legend,
    }
    if plot.square:
        layout["xaxis"]["constrain"] = layout["yaxis"]["constrain"] = "domain"
        layout["yaxis"]["scaleanchor"] = "x"
    if plot.title is not None:
        # Plotly would take what is between two dollars for a formula.
        literal = html.escape(plot.title, quote=False).replace("$", "&#36;")
        layout["title"] = {"text": literal}
    if plot.page_height is not None:
        layout["height"] = plot.page_height
    shapes = [_shape(mark) for mark in plot.marks if isinstance(mark, marks.Rule | marks.Span)]
    if shapes:
        layout["shapes"] = shapes
    data = [trace for mark in plot.marks for trace in _traces(mark)]
    return {"data": data, "layout": layout, "square": plot.square}


def _axis(axis: marks.Axis) -> dict[str, Any]:
    found: dict[str, Any] = {"title": {"text": axis.title.replace("\n", "<br>")}}
    if axis.logarithmic:
        found["type"] = "log"
    if axis.powers:
        found["exponentformat"] = "power"
    if axis.ends is not None:
        low, high = map(float, axis.ends)
        found["range"] = [math.log10(low), math.log10(high)] if axis.logarithmic else [low, high]
        if axis.logarithmic:
            found["dtick"] = 1
    if axis.from_zero:
        found["rangemode"] = "tozero"
    if axis.whole:
        found["dtick"] = 1
    if axis.names is not None:
        found["tickvals"] = list(range(len(axis.names)))
        found["ticktext"] = [style.page_name(name) for name in axis.names]
        found["automargin"] = True
    return found


def _traces(mark: marks.Mark) -> list[dict[str, Any]]:
    if isinstance(mark, marks.Line):
        return [_line(mark)]
    if isinstance(mark, marks.Band):
        return [_band(mark)]
    if isinstance(mark, marks.Points):
        return [_points(mark)]
    if isinstance(mark, marks.HeatMap):
        scale = [[0, FILLS["blue"].format(0)], [1, FILLS["blue"].format(0.5)]]
        return [_shades(mark, numbers(mark.z, 4), scale)]
    return _regions(mark) if isinstance(mark, marks.Regions) else []


def _said(mark: marks.Line | marks.Points) -> dict[str, Any]:
    """The name in the legend, and what hovering says: nothing unless told what."""
    found: dict[str, Any] = {"hoverinfo": "skip"}
    if mark.hover is not None:
        found = {"hovertemplate": f"{mark.hover}<extra></extra>"}
    if mark.rows is not None:
        found["customdata"] = list(mark.rows)
    found["name"] = style.page_name(mark.label or "")
    if mark.label is None or (isinstance(mark, marks.Line) and not mark.listed):
        found["showlegend"] = False
    return found


def _scatter(mode: str, x: list[Any], y: list[Any], **more: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": mode, "x": x, "y": y, **more}


def _line(mark: marks.Line) -> dict[str, Any]:
    mode = "lines" if mark.marker is None else "lines+markers"
    look = _stroke(mark) | {"shape": STEPS[mark.step]}
    x, y = numbers(mark.x), numbers(mark.y, mark.digits)
    return _scatter(mode, x, y, line=look, opacity=mark.opacity, **_said(mark))


def _stroke(mark: marks.Line | marks.Rule) -> dict[str, Any]:
    """A pixel is less than a point."""
    return {"color": f"@{mark.colour}", "width": max(1.0, 1.25 * mark.width), "dash": mark.dash}


def _band(mark: marks.Band) -> dict[str, Any]:
    x, y = numbers(mark.x), numbers(mark.high, mark.digits)
    if mark.low is not None:  # there along one line, and back along the other
        x, y = [*x, *reversed(x)], [*y, *reversed(numbers(mark.low, mark.digits))]
    look: dict[str, Any] = {
        "fill": "tozeroy" if mark.low is None else "toself",
        "fillcolor": FILLS[mark.colour].format(mark.opacity),
        "line": {"width": 0, "color": "rgba(0, 0, 0, 0)"},
    }
    if mark.hatched:
        stroke = {"fgcolor": look.pop("fillcolor"), "fgopacity": 1, "bgcolor": "rgba(0, 0, 0, 0)"}
        look["fillpattern"] = {"shape": "/", "size": 7, "solidity": 0.3} | stroke
    return _scatter("lines", x, y, name=style.page_name(mark.label), hoverinfo="skip", **look)


def _points(mark: marks.Points) -> dict[str, Any]:
    colour, x, y = f"@{mark.colour}", np.asarray(mark.x, float), np.asarray(mark.y, float)
    hollow = np.broadcast_to(mark.hollow, x.shape)
    symbols = [f"{mark.symbol}-open" if each else mark.symbol for each in hollow]
    marker: dict[str, Any] = {
        "color": colour,
        "size": float(np.clip(PIXELS * mark.size, SMALLEST, LARGEST)),
        "symbol": symbols[0] if len(set(symbols)) == 1 else symbols,
        "opacity": mark.opacity,
    }
    if mark.rim:
        marker["line"] = {"color": "@paper", "width": mark.rim}
    more = {"marker": marker, "cliponaxis": False}
    for name, middle, ends in (("error_x", x, mark.x_ends), ("error_y", y, mark.y_ends)):
        if ends is not None:
            above, below = np.asarray(ends[1]) - middle, middle - np.asarray(ends[0])
            look = {"color": colour, "thickness": mark.bar, "width": 0, "type": "data"}
            bars = {"array": numbers(above), "arrayminus": numbers(below), "symmetric": False}
            more[name] = look | bars
    return _scatter("markers", numbers(x), numbers(y), **more, **_said(mark))


def _regions(mark: marks.Regions) -> list[dict[str, Any]]:
    shades = [FILLS["blue"].format(opacity) for opacity in (*REGION_OPACITIES, 0)]
    bounds = zip((0.0, *mark.levels), (*mark.levels, 1.0), shades, strict=True)
    scale = [[end, shade] for start, stop, shade in bounds for end in (start, stop)]
    held = numbers(np.asarray(mark.held).T, 3)
    # A heat map has no entry in a legend, so traces without points stand in for its shades.
    entries = []
    for level, shade in zip(mark.levels, shades, strict=False):
        look = {"color": shade, "size": LARGEST, "symbol": "square"}
        name = f"smallest region holding {100 * level:g} %"
        entries.append(
            _scatter("markers", [None], [None], marker=look, name=name, hoverinfo="skip")
        )
    return [_shades(mark, held, scale), *entries]


def _shades(
    mark: marks.HeatMap | marks.Regions, z: list[Any], scale: list[list[Any]]
) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "x": numbers(mark.x),
        "y": numbers(mark.y),
        "z": z,
        "zmin": 0,
        "zmax": 1,
        "colorscale": scale,
        "showscale": False,
        "hovertemplate": f"{mark.hover}<extra></extra>",
    }


def _shape(mark: marks.Rule | marks.Span) -> dict[str, Any]:
    if isinstance(mark, marks.Span):
        look = {"fillcolor": FILLS["blue"].format(0.15), "line": {"width": 0}, "layer": "below"}
        return {"type": "rect", **_upright(mark.low, mark.high), **look}
    across = {"xref": "paper", "x0": 0, "x1": 1, "y0": mark.y, "y1": mark.y}
    place = across if mark.x is None else _upright(mark.x, mark.x)
    return {"type": "line", **place, "line": _stroke(mark)}


def _upright(low: float, high: float) -> dict[str, Any]:
    """From the bottom of the plot to its top."""
    return {"yref": "paper", "y0": 0, "y1": 1, "x0": low, "x1": high}


def numbers(values: ArrayLike, digits: int = 7) -> list[Any]:
    """Numbers for the page, nested as the array is: many are rounded to significant digits."""
    array = np.asarray(values, dtype=float)
    if array.ndim > 1:
        return [numbers(row, digits) for row in array]
    if array.size <= 2:  # rounding is there to save room
        return [float(value) if np.isfinite(value) else None for value in array]
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in array]
