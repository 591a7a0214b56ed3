"""The table returned by ``summary()``: plain rows, shown as text or HTML, convertible to pandas."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epsilometer import _files
from epsilometer._text import shortened, table_lines
from epsilometer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Cell = str | int | float | bool | None

LONGEST_CELL = 60
"""Characters of a cell as text."""

MOST_ROWS, MOST_HTML_ROWS = 30, 12
"""Rows that are shown as text and in HTML; ``rows`` has all of them."""

STYLE = "text-align:right;padding:2px 8px;white-space:nowrap"


@dataclass(frozen=True, kw_only=True, repr=False)
class Table:
    """Rows of plain values under named columns.

    Attributes
    ----------
    columns
        Names of the columns.
    rows
        A tuple of values per row: text, numbers, or None if there is no value.
    notes
        Remarks about the numbers, one sentence each.

    Examples
    --------
    >>> table = Table(columns=("parameter", "median"), rows=[("epsilon", 1.23456), ("strength", 0.5)])
    >>> table
    parameter  median
    epsilon     1.235
    strength    0.500
    >>> table["median"]
    [1.23456, 0.5]
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __init__(
        self, *, columns: Sequence[str], rows: Sequence[Sequence[Cell]], notes: Sequence[str] = ()
    ) -> None:
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "rows", tuple(tuple(map(_plain, row)) for row in rows))
        object.__setattr__(self, "notes", tuple(notes))
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(f"expected {len(self.columns)} cells in each row, got {len(row)}.")

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        return iter(self.rows)

    def __getitem__(self, column: str) -> list[Cell]:
        """The values of one column."""
        if column not in self.columns:
            known = ", ".join(self.columns)
            raise InputError(f"expected one of the columns {known}, got {column!r}.")
        place = self.columns.index(column)
        return [row[place] for row in self.rows]

    def to_dicts(self) -> list[dict[str, Cell]]:
        """A dictionary for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame; needs pandas, which is not a dependency."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError(
                "data frames need pandas, which is not installed; `rows` and `columns` need nothing."
            ) from None
        return pd.DataFrame(list(self.rows), columns=list(self.columns))

    def _shown(self, most: int) -> list[tuple[str, ...]]:
        """Rows as text; only the first ones if there are many."""
        columns = list(zip(*self.rows[:most], strict=True))
        return list(zip(*(_column_text(column) for column in columns), strict=True))

    def _more(self, most: int) -> list[str]:
        left = len(self) - most
        return [f"... {left:,} more rows"] if left > 0 else []

    def __repr__(self) -> str:
        rows = [
            tuple(shortened(_files.printable(cell), LONGEST_CELL) for cell in row)
            for row in self._shown(MOST_ROWS)
        ]
        lines = table_lines([self.columns, *rows])
        return "\n".join([*lines, *self._more(MOST_ROWS), *self.notes])

    def _repr_html_(self) -> str:
        head = "".join(
            _cell("th", name, first=not place) for place, name in enumerate(self.columns)
        )
        rows = [
            "".join(_cell("td", cell, first=not place) for place, cell in enumerate(row))
            for row in self._shown(MOST_HTML_ROWS)
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        below = [*self._more(MOST_HTML_ROWS), *self.notes]
        said = "".join(f'<div style="font-size:90%">{escaped(note)}</div>' for note in below)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div style="overflow-x:auto">{table}{said}</div>'


def escaped(text: object) -> str:
    """User text escaped for HTML, with control characters made visible."""
    return html.escape(_files.printable(text))


def _cell(tag: str, text: str, *, first: bool) -> str:
    style = STYLE.replace("right", "left", 1) if first else STYLE
    return f'<{tag} style="{style}">{escaped(shortened(text, LONGEST_CELL))}</{tag}>'


def _plain(value: Any) -> Cell:
    """A value as a built-in Python type."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool | str | int | float):
        return value
    return str(value)


def _column_text(values: Sequence[Cell]) -> list[str]:
    """A column as text, with all numbers in the same format."""
    numbers = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v]
    small = (bool(numbers) and min(numbers) < 1e-3) or max(numbers, default=0.0) >= 1e5
    return [_text(value, small=small) for value in values]


def _text(value: Cell, *, small: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "" if math.isnan(value) else "infinite"
        return f"{value:.3g}" if small else f"{value:.3f}"
    return value
