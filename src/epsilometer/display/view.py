"""What a view is: a line of text, a table, and figures made on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from epsilometer._table import Cell, Table, escaped, facts
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from epsilometer.report.figures.marks import Sheet

#: What draws figures, by their names.
Figures = Mapping[str, Callable[[Any], "Sheet"]]

#: Pixels of a figure below a table.
WIDEST = 640


@dataclass(frozen=True, kw_only=True)
class View:
    """How one class is shown.

    Attributes
    ----------
    table
        What ``summary()`` returns.
    line
        What it is and its main numbers, in a line; it stands in the brackets of ``repr``.  By default
        the labels and values of the table, of a single row those of its columns.
    figures
        What ``plot()`` draws, by name, or what says so of one object; the first is the main one, which
        is also in the HTML form.
    """

    table: Callable[..., Table]
    line: Callable[[Any], str] | None = None
    figures: Figures | Callable[[Any], Figures] = field(default_factory=dict)

    def figures_for(self, shown: Any) -> Figures:
        """What ``plot()`` can draw of one object."""
        return self.figures(shown) if callable(self.figures) else self.figures

    def words(self, shown: Any) -> str:
        """The line."""
        if self.line is not None:
            return self.line(shown)
        cells = self.table(shown).cells()
        pairs = zip(*cells, strict=True) if len(cells) == 2 else cells[1:]
        return ", ".join(" ".join(filter(None, pair)) for pair in pairs if any(pair[1:]))

    def html(self, shown: Any) -> str:
        """A heading, a table and the main figure."""
        words = self.words(shown)
        heading = f"<b>{escaped(type(shown).__name__)}</b>: {escaped(words)}"
        parts = [f'<div style="margin:4px 0">{heading}</div>', self.table(shown)._repr_html_()]
        if self.figures_for(shown):
            parts.append(image(self.draw(shown, None, None), alt=words))
        return f'<div class="epsilometer">{"".join(parts)}</div>'

    def draw(self, shown: Any, which: str | None, ax: Axes | None) -> Figure:
        """One of the figures, new or into axes."""
        from epsilometer.report.figures import render_print

        figures = self.figures_for(shown)
        name = next(iter(figures)) if which is None else which
        if name not in figures:
            known = ", ".join(figures)
            raise InputError(f"expected one of the figures {known}, got {which!r}.")
        sheet = figures[name](shown)
        if ax is None:
            return render_print.draw(sheet)
        if len(sheet.plots) > 1:
            raise InputError(
                f"expected ax only for a figure of one panel, got one of {len(sheet.plots)}: "
                "leave it out."
            )
        return render_print.draw_into(ax, sheet)


def _fields(shown: Any) -> Table:
    """What is public of an object: plain values, shapes of arrays, lengths and kinds of the rest."""
    names = [part.name for part in fields(shown)] if is_dataclass(shown) else vars(shown)
    public = [name for name in names if not name.startswith("_")]
    return facts((name.replace("_", " "), _value(getattr(shown, name))) for name in public)


def _value(value: Any) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "shape"):
        return f"{' x '.join(map(str, value.shape))} {value.dtype}"
    return len(value) if isinstance(value, Sequence) else type(value).__name__


FIELDS = View(table=_fields)


def image(figure: Figure, *, alt: str) -> str:
    """A figure as an image inside HTML."""
    from epsilometer.report.figures.chart import figure_address

    address = figure_address(figure, "svg+xml")
    width = min(WIDEST, round(96 * figure.get_size_inches()[0]))
    style = f"max-width:100%;width:{width}px;background:white"
    return f'<img alt="{escaped(alt)}" style="{style}" src="{address}">'
