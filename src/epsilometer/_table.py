"""The table returned by ``summary()``: plain rows, shown as text or HTML, convertible to pandas."""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epsilometer import _files
from epsilometer._text import percent, shortened, table_lines, wrapped
from epsilometer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Cell = str | int | float | bool | None

#: Characters of a cell as text.
LONGEST_CELL = 60

#: Rows that are shown as text and in HTML; ``rows`` has all of them.
MOST_ROWS, MOST_HTML_ROWS = 30, 12

STYLE = "padding:2px 8px;white-space:nowrap;text-align:"


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

    def cells(self, most: int | None = None, *, whole: bool = False) -> list[tuple[str, ...]]:
        """The heading and the first rows as text that may be shown anywhere, cut unless ``whole``."""
        longest = sys.maxsize if whole else LONGEST_CELL
        columns = (_column_text(column, longest) for column in zip(*self.rows[:most], strict=True))
        return [self.columns, *zip(*columns, strict=True)]

    def lines(self, *, most: int = MOST_ROWS) -> list[str]:
        """Lines of text that fit the terminal, with the first rows and the notes."""
        below = [line for note in self._below(most) for line in wrapped(note)]
        return [*table_lines(self.cells(most)), *([""] if below else []), *below]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        rows = ""
        for place, row in enumerate(self.cells(MOST_HTML_ROWS)):
            tag, cells = "td" if place else "th", ""
            for column, cell in enumerate(row):
                style = STYLE + ("right" if column else "left")
                cells += f'<{tag} style="{style}">{escaped(cell)}</{tag}>'
            rows += f"<tr>{cells}</tr>"
        below = self._below(MOST_HTML_ROWS)
        notes = (f'<div style="font-size:90%">{escaped(note)}</div>' for note in below)
        return f'<div style="overflow-x:auto"><table>{rows}</table>{"".join(notes)}</div>'

    def _below(self, most: int) -> list[str]:
        left = len(self) - most
        return [*([f"... {left:,} more rows"] if left > 0 else []), *self.notes]


def facts(rows: Iterable[tuple[str, Cell]], notes: Sequence[str] = ()) -> Table:
    """A table of labels with a value each."""
    return Table(columns=("", "value"), rows=list(rows), notes=notes)


def tails(level: float) -> tuple[str, str]:
    """Names of the columns that hold the ends of an interval: ``5 %`` and ``95 %``."""
    return percent(0.5 - level / 2), percent(0.5 + level / 2)


def escaped(text: object) -> str:
    """User text escaped for HTML, with control characters made visible."""
    return html.escape(_files.printable(text))


def _plain(value: Any) -> Cell:
    """A value as a built-in Python type."""
    if hasattr(value, "item"):
        value = value.item()
    return value if value is None or isinstance(value, bool | str | int | float) else str(value)


def _column_text(values: Sequence[Cell], longest: int) -> list[str]:
    """A column as text, with all numbers in the same format."""
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v]
    form = ".3g" if sizes and (min(sizes) < 1e-3 or max(sizes) >= 1e5) else ".3f"
    return [_cell_text(value, form, longest) for value in values]


def _cell_text(value: Cell, form: str, longest: int) -> str:
    if isinstance(value, str):
        return shortened(_files.printable(value), longest)
    if value is None or math.isnan(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "infinite" if math.isinf(value) else format(value, form)
