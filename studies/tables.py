"""Tables of all studies: rows of plain values as CSV and as Markdown, and shares judged by chance."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from scipy.stats import binom

from epsilometer import _files

#: P-value below which a number of failures is not attributed to chance.
CHANCE = 1e-4

#: P-value below which a number of failures is highlighted.
SUSPECT = 1e-2


class Row(SimpleNamespace):
    """A line of a table, its columns as attributes; every count is out of ``runs``.

    Examples
    --------
    >>> row = Row(mechanism="Laplace", setting="pure_epsilon=1", runs=200, above=27, covers=170)
    >>> row.name, row.percent("above"), row.fits("above", 0.05)
    ('Laplace (pure_epsilon=1)', '13.5 %', False)
    """

    @property
    def name(self) -> str:
        """The mechanism with its parameters."""
        return f"{self.mechanism} ({self.setting})" if self.setting else str(self.mechanism)

    def share(self, column: str) -> float:
        """A count divided by the number of runs."""
        return float(getattr(self, column) / self.runs)

    def percent(self, column: str, digits: int = 1) -> str:
        """A share of the runs in per cent."""
        return f"{100 * getattr(self, column) / self.runs:.{digits}f} %"

    def fits(self, column: str, rate: float) -> bool:
        """Whether a count is consistent with an error rate."""
        return chance_of(getattr(self, column), self.runs, rate) > CHANCE

    def covers_as_stated(self, significance: float) -> bool:
        """Whether the intervals above the truth, and those that miss it, are consistent with chance."""
        missed = chance_of(self.runs - self.covers, self.runs, 2 * significance)
        return self.fits("above", significance) and missed > CHANCE

    def changed(self, **columns: Any) -> Row:
        """The row with other or further columns."""
        return Row(**(vars(self) | columns))

    @property
    def middle(self) -> str:
        """Mean lower end, median and upper end."""
        return f"{self.mean_low:.2f} {self.mean_median:.2f} {self.mean_high:.2f}"


#: Rows by the name of their file.
Tables = dict[str, list[Row]]


def chance_of(failures: int, runs: int, rate: float) -> float:
    """Probability of at least this many failures at an error rate.

    Examples
    --------
    >>> round(chance_of(16, 200, 0.05), 3)
    0.044
    """
    return float(binom.sf(failures - 1, runs, rate))


def mark_of(chance: float) -> str:
    """``!!`` if chance does not explain the failures, ``!`` if it hardly does."""
    return "!!" if chance <= CHANCE else "!" if chance <= SUSPECT else ""


def flagged(text: str, fine: bool) -> str:
    """The text, with a mark unless it is fine."""
    return text if fine else f"{text} **!**"


def most(rows: Iterable[Row], column: str) -> Row:
    """The row with the largest share."""
    return max(rows, key=lambda row: row.share(column))


def to_csv(rows: Sequence[Row]) -> str:
    """The rows as CSV text."""
    return _files.csv_text(list(vars(rows[0])), [list(vars(row).values()) for row in rows])


def from_csv(text: str) -> list[Row]:
    """Rows of a table written by `to_csv`; whole numbers and numbers are recognised."""
    found = csv.DictReader(io.StringIO(text))
    return [Row(**{name: _value(cell) for name, cell in record.items()}) for record in found]


def _value(cell: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; columns that begin with digits are aligned to the right.

    Examples
    --------
    >>> print(markdown(["a", "b"], [["x", 1]]))
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    cells = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(*cells, strict=True))
    numeric = [any(cell.strip("*")[:1].isdigit() for cell in column) for column in columns]
    rules = ["---:" if right else "---" for right in numeric]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(header), rules, *cells])


def paragraph(text: str, first: str = "") -> str:
    """Wrap to the width of the pages; ``first`` begins the first line."""
    return textwrap.fill(
        text,
        120,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def filled(page: str, blocks: dict[str, str]) -> str:
    """The page with each block between its marks, ``<!-- name -->`` and ``<!-- end -->``."""
    for name, block in blocks.items():
        mark = f"<!-- {name} -->\n"
        start = page.index(mark) + len(mark)
        page = f"{page[:start]}{block}\n{page[page.index('<!-- end -->', start) :]}"
    return page
