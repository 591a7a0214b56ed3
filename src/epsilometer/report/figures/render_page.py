"""Figures for the page: the marks of `marks.py` as JSON, which `page/plot.js` draws.

The fields keep their names; values at their defaults are left out, and numbers are rounded.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsilometer.report.figures import marks, style

#: One plot of the page: title, axes ``x`` and ``y``, and its ``marks``, each with its kind.
Panel = dict[str, Any]

#: Significant digits of numbers on the page; hover texts show four.
DIGITS = 5

#: Fields that `plot.js` expects in every mark that has them.
REQUIRED = {"x", "y", "low", "high", "colour"}


def panel(plot: marks.Plot) -> Panel:
    """One plot for the page."""
    page_panel: Panel = {
        "x": _described(plot.x),
        "y": _described(plot.y),
        "marks": [{"kind": type(mark).__name__.lower()} | _described(mark) for mark in plot.marks],
        "legend": plot.legend,
        "square": plot.square,
    }
    more = {"title": plot.title, "height": plot.page_height}
    return page_panel | {name: value for name, value in more.items() if value is not None}


def _described(item: marks.Mark | marks.Axis) -> dict[str, Any]:
    """The fields of a mark or an axis, except those at their defaults."""
    entries = {}
    for field in fields(item):
        value = getattr(item, field.name)
        default = not isinstance(value, np.ndarray) and value == field.default
        if value is None or (default and field.name not in REQUIRED):
            continue
        if field.name in CONVERSIONS:
            value = CONVERSIONS[field.name](value)
        elif not isinstance(value, str | bool | int | float):
            value = numbers(value)
        entries[field.name] = value
    return entries


def _rows(values: Sequence[Any]) -> list[Any]:
    """What hover texts may name: text, or numbers."""
    return [list(row) if isinstance(row[0], str) else numbers(row) for row in values]


def numbers(values: ArrayLike) -> list[Any]:
    """Numbers for the page, nested as the array is; one that is not finite becomes None.

    They have ``DIGITS`` significant digits, and more where the range of the array is so narrow that
    its values would coincide.  One or two numbers are not rounded.
    """
    array = np.asarray(values, dtype=float)
    if array.ndim > 1:
        return [numbers(row) for row in array]
    if array.size <= 2:
        return [value if math.isfinite(value) else None for value in array.tolist()]
    finite = array[np.isfinite(array)]
    width = float(np.ptp(finite)) if finite.size else 0.0
    decimals = DIGITS - math.floor(math.log10(width)) if width > 0 else 0
    return [_rounded(value, decimals) for value in array.tolist()]


def _rounded(value: float, decimals: int) -> float | None:
    if not math.isfinite(value):
        return None
    # The finer of the two: significant digits, or a share of the range.
    own_decimals = DIGITS - 1 - math.floor(math.log10(abs(value))) if value else 0
    rounded = round(value, max(own_decimals, decimals))
    # Without ``.0`` if it is whole.
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


#: How fields that are not plain numbers are written.
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "label": style.shortened,
    "names": lambda names: [style.shortened(name) for name in names],
    "rows": _rows,
    # Three decimals are more than shades can show.
    "z": lambda shares: numbers(np.round(shares, 3)),
    "x_ends": lambda ends: [numbers(end) for end in ends],
}
