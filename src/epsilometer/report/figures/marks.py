"""The contents of a figure: plots made of marks, described once for print and for the page.

Sizes are in points, as in print; the page scales them.  Colours are names from `style.py`.

``hover`` is the text that the page shows for a value of a mark.  It may contain ``{x:.3g}``, ``{y}``,
``{z}``, ``{label}`` and ``{0}``, ``{1}``, ... for the entries of that value's row in ``rows``.  A line
break starts a new line; the first of several lines is printed in bold.  The text filled in is never
read as a template, so any name may be used.

The page knows a mark by the name of its class, in small letters.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False)
class Line:
    """A line, or steps if ``step`` is ``post``; NaN leaves a gap.

    ``marker`` is the symbol drawn at every point.  A line that is not ``listed`` has no legend entry.
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


@dataclass(frozen=True, eq=False)
class Band:
    """The area between two lines, or between 0 and one line if ``low`` is None."""

    x: ArrayLike
    low: ArrayLike | None
    high: ArrayLike
    colour: str
    label: str
    _: KW_ONLY
    opacity: float = 0.2
    hatched: bool = False


@dataclass(frozen=True, eq=False)
class Points:
    """Markers, with interval bars in x or y if ``x_ends`` or ``y_ends`` are given.

    ``rim`` is the width of an outline in the background colour.  ``hollow`` markers are not filled.
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
    hollow: bool = False
    x_ends: tuple[ArrayLike, ArrayLike] | None = None
    y_ends: tuple[ArrayLike, ArrayLike] | None = None
    bar: float = 1.2
    hover: str | None = None
    rows: Sequence[Any] | None = None


@dataclass(frozen=True, eq=False)
class Heat:
    """Probabilities ``z[y, x]`` as shades of blue; NaN is left blank.

    ``x`` and ``y`` are evenly spaced.
    """

    x: ArrayLike
    y: ArrayLike
    z: ArrayLike
    hover: str


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A straight line across the plot at one value of x or of y, with an optional label at its end."""

    x: float | None = None
    y: float | None = None
    colour: str = "grey"
    width: float = 0.8
    dash: str = "dot"
    label: str | None = None


@dataclass(frozen=True)
class Note:
    """A short text just above the point (``x``, ``y``)."""

    text: str
    y: float
    x: float


Mark = Line | Band | Points | Heat | Reference | Note


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis; it is reversed if the first of its ``ends`` is the larger.

    Ticks of a logarithmic axis are ``plain`` numbers in print, or ``powers`` of ten on the page too.
    ``whole``: ticks at whole numbers only.  ``names`` replace the tick labels 0, 1, 2, ...
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
    """One plot, a panel of the page; both axes of a ``square`` one have the same length."""

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
    """A whole figure: its plots and their arrangement in print, row by row.

    Legends are ``inside`` the plots, or there is one for all ``below``.
    ``subtitle`` is appended to the title in print.
    """

    title: str
    plots: Sequence[Plot]
    size: tuple[float, float]
    _: KW_ONLY
    subtitle: str = ""
    columns: int = 1
    share_x: bool = False
    legend: str = "inside"
