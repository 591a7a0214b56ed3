"""What a figure consists of: plots with marks, described once and drawn for print and for the page.

Sizes are those of print, in points; the page derives its own.  Colours are names of `style.py`.
``hover`` is a template of Plotly's (``%{x:.3g}``), ``rows`` what it can name as ``%{customdata[0]}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False)
class Line:
    """A line, in steps (``post`` or ``mid``) if told so; NaN leaves a gap.

    ``marker`` is the symbol at every point, if any.  A line that is not ``listed`` is in no legend.
    """

    x: ArrayLike
    y: ArrayLike
    colour: str
    label: str | None = None
    _: KW_ONLY
    listed: bool = True
    width: float = 1.6
    dash: str = "solid"
    opacity: float = 1.0
    step: str | None = None
    marker: str | None = None
    hover: str | None = None
    rows: Sequence[Any] | None = None
    digits: int = 7


@dataclass(frozen=True, eq=False)
class Band:
    """The ground between two lines, or under one if ``low`` is None; ``hatched`` in strokes only."""

    x: ArrayLike
    low: ArrayLike | None
    high: ArrayLike
    colour: str
    label: str
    _: KW_ONLY
    opacity: float = 0.2
    hatched: bool = False
    digits: int = 7


@dataclass(frozen=True, eq=False)
class Points:
    """Markers, with bars of a width to the ends of intervals in x or in y if there are any.

    ``rim`` is the width of a rim in the colour of the paper; the ``hollow`` ones have only an outline.
    """

    x: ArrayLike
    y: ArrayLike
    colour: str
    label: str | None = None
    _: KW_ONLY
    size: float = 6.0
    symbol: str = "circle"
    opacity: float = 1.0
    rim: float = 0.0
    hollow: ArrayLike = False
    x_ends: tuple[ArrayLike, ArrayLike] | None = None
    y_ends: tuple[ArrayLike, ArrayLike] | None = None
    bar: float = 1.2
    hover: str | None = None
    rows: Sequence[Any] | None = None


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Probabilities ``z[y, x]`` as shades of blue; NaN is left blank."""

    x: ArrayLike
    y: ArrayLike
    z: ArrayLike
    label: str
    hover: str


@dataclass(frozen=True, eq=False)
class Regions:
    """The smallest regions that hold given probabilities of a density ``z[x, y]``.

    ``held`` is, for each cell, the probability of the smallest region that reaches it.
    """

    x: ArrayLike
    y: ArrayLike
    z: ArrayLike
    held: ArrayLike
    levels: Sequence[float]
    hover: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A straight line across the plot, at one value of x or of y."""

    x: float | None = None
    y: float | None = None
    colour: str = "grey"
    width: float = 0.8
    dash: str = "dot"


@dataclass(frozen=True)
class Span:
    """A shaded strip between two values of x, under everything else."""

    low: float
    high: float


@dataclass(frozen=True)
class Note:
    """Words for print, which the page says when hovering: beside the plot at ``y``, or above a place."""

    text: str
    y: float
    x: float | None = None


Mark = Line | Band | Points | HeatMap | Regions | Rule | Span | Note


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis; if the first of its ``ends`` is the larger, it points down.

    The numbers of a logarithmic axis are ``plain`` ones in print, or ``powers`` of ten on the page too.
    ``whole``: ticks are at whole numbers only.  ``names`` stand instead of the numbers 0, 1, 2, ...
    """

    title: str
    ends: tuple[float, float] | None = None
    _: KW_ONLY
    logarithmic: bool = False
    plain: bool = False
    powers: bool = False
    from_zero: bool = False
    whole: bool = False
    names: Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class Plot:
    """One plot, a panel of the page; both axes of a ``square`` one have the same scale."""

    x: Axis
    y: Axis
    marks: Sequence[Mark]
    _: KW_ONLY
    title: str | None = None
    legend: bool = True
    square: bool = False
    page_height: int | None = None


@dataclass(frozen=True, eq=False)
class Sheet:
    """A whole figure: its plots, and how they stand on paper, row by row.

    Legends are ``inside`` plots, ``above`` the first, or one for all is ``below``.  With ``bar`` the
    shades of a heat map are explained at the side.  ``subtitle`` is what print adds to the title.
    """

    title: str
    plots: Sequence[Plot]
    size: tuple[float, float]
    _: KW_ONLY
    subtitle: str = ""
    columns: int = 1
    heights: Sequence[float] | None = None
    share_x: bool = False
    legend: str = "inside"
    legend_title: str | None = None
    bar: bool = False
