"""What all figures share: colours, frames, numbers and names as text.

Colours are from Okabe and Ito's set, told apart by the colour-blind.  In a figure of the page a colour
is written ``@blue``; the page puts in the shade that suits a light or a dark background.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer import _files
from epsilometer.inference.posterior import Posterior
from epsilometer.model.counts import AttackCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#555555"
CHAIN_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#56B4E9", "#E69F00")

PAGE_COLOURS = {
    "blue": (BLUE, "#56B4E9"),
    "orange": (ORANGE, "#E69F00"),
    "green": (GREEN, "#2BC79A"),
    "purple": ("#A8487F", PURPLE),
    "grey": (GREY, "#A0A7AE"),
    "sky": ("#3B9BD6", "#8ECDF2"),
    "amber": ("#B87E00", "#F5C04A"),
}
"""Shades on a light and on a dark background."""

CHAIN_NAMES = ("@blue", "@orange", "@green", "@purple", "@sky", "@amber")

SHADE = "rgba(30, 136, 200, {:g})"
"""Blue of a given opacity: serves on either background."""

LONGEST_NAME = 40
FIGURE_SEED = 1
"""Figures of one posterior are always the same."""

Panel = dict[str, Any]
"""One plot of the page: ``data`` and ``layout`` as Plotly wants them, and whether it is ``square``."""


# --- for print --------------------------------------------------------------------------------


def new_figure(width: float, height: float) -> Figure:
    """A matplotlib figure that no window or global state knows of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Axes) -> None:
    """Leave out the frame where it says nothing."""
    axes.spines[["top", "right"]].set_visible(False)


def calm_ticks(axes: Axes) -> None:
    """Few ticks, and a common offset where the range is narrow, so that labels never collide."""
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))


def dots(count: int) -> dict[str, Any]:
    """Markers that can be told apart when few and do not drown the figure when many."""
    return {
        "marker": "o",
        "linestyle": "none",
        "color": ORANGE,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6 if count <= 200 else 0.0,
        "markersize": float(np.clip(14 / count**0.25, 1.8, 7.5)),
        "alpha": float(np.clip(30 / count**0.5, 0.25, 1.0)),
        "clip_on": False,
        "zorder": 5,
    }


def printed_name(name: str) -> str:
    """A name as matplotlib shows it literally: it would read ``$`` as the start of a formula."""
    return _shortened(name, 24).replace("$", r"\$")


# --- for the page -----------------------------------------------------------------------------


def layout(x: str, y: str, **more: Any) -> dict[str, Any]:
    """Axes with titles; the page adds colours and fonts."""
    found: dict[str, Any] = {
        "xaxis": {"title": {"text": x}},
        "yaxis": {"title": {"text": y}},
        "hovermode": "closest",
        "showlegend": False,
    }
    for name, value in more.items():
        found[name] = found.get(name, {}) | value if isinstance(value, dict) else value
    return found


def panel(data: Sequence[dict[str, Any]], layout: dict[str, Any], *, square: bool = False) -> Panel:
    """One plot."""
    return {"data": list(data), "layout": layout, "square": square}


def numbers(values: ArrayLike, digits: int = 7) -> list[Any]:
    """Numbers for the page, rounded to significant digits, nested as the array is."""
    array = np.asarray(values, dtype=float)
    if array.ndim > 1:
        return [numbers(row, digits) for row in array]
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in array]


def page_name(name: str) -> str:
    """A name as Plotly shows it literally: it would read ``<b>`` as bold."""
    return html.escape(_shortened(name, LONGEST_NAME), quote=False)


def _shortened(name: str, longest: int) -> str:
    text = _files.printable(name)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def hover_of_bases(counts: AttackCounts) -> dict[str, Any]:
    """What hovering over a base says: its name, counts and rates."""
    rows = [
        [
            page_name(name),
            f"{x:,} of {n0:,} ({x / n0:.4g})",
            f"{y:,} of {n1:,} ({y / n1:.4g})",
        ]
        for name, x, n0, y, n1 in zip(
            counts.names,
            counts.false_positives.tolist(),
            counts.trials_h0.tolist(),
            counts.false_negatives.tolist(),
            counts.trials_h1.tolist(),
            strict=True,
        )
    ]
    return {
        "customdata": rows,
        "hovertemplate": "<b>%{customdata[0]}</b><br>false positives %{customdata[1]}"
        "<br>false negatives %{customdata[2]}<extra></extra>",
    }


def line(
    x: list[Any],
    y: list[Any],
    colour: str,
    *,
    hover: str | None = None,
    width: float = 1.6,
    dash: str = "solid",
    **more: Any,
) -> dict[str, Any]:
    """A line; hovering says nothing unless told what."""
    says = {"hoverinfo": "skip"} if hover is None else {"hovertemplate": f"{hover}<extra></extra>"}
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": {"color": colour, "width": width, "dash": dash},
        **says,
        **more,
    }


def band(x: list[Any], low: list[Any], high: list[Any], colour: str, name: str) -> dict[str, Any]:
    """The ground between two lines."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*x, *reversed(x)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": colour,
        "line": {"width": 0, "color": "rgba(0, 0, 0, 0)"},
        "name": name,
        "hoverinfo": "skip",
    }


def horizontal(y: float) -> dict[str, Any]:
    """A dotted line across the plot, as a shape of Plotly's layout."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": y,
        "y1": y,
        "line": {"color": "@grey", "width": 1, "dash": "dot"},
    }


def vertical(x: float, colour: str, **line: Any) -> dict[str, Any]:
    """A line across the plot, as a shape of Plotly's layout."""
    return {
        "type": "line",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"color": colour, "width": 1.5} | line,
    }


# --- numbers as text --------------------------------------------------------------------------


def digits_of(low: float, high: float) -> int:
    """So many decimals that an interval shows two digits of its width."""
    width = high - low
    return int(np.clip(1 - np.floor(np.log10(width)), 2, 10)) if width > 0 else 4


def median_text(posterior: Posterior, name: str) -> str:
    """The median with as many decimals as the spread supports."""
    low, high = posterior.credible_interval(name, 0.9)
    return f"{posterior.median(name):.{digits_of(low, high)}f}"


def pair_text(low: float, high: float) -> str:
    """An interval with as many decimals as its width supports."""
    digits = digits_of(low, high)
    return f"{low:.{digits}f} to {high:.{digits}f}"
