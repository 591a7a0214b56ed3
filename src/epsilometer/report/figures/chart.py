"""A figure of a report, drawn for print or for the page, and its files."""

from __future__ import annotations

import base64
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from epsilometer.report.figures import render_page, render_print
from epsilometer.report.figures.marks import Sheet
from epsilometer.report.figures.render_page import Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True, kw_only=True, eq=False)
class Chart(Sheet):
    """A figure of a report: described once, and drawn for print and for the page.

    ``caption`` explains it to a reader who has not read the paper.  ``name`` is the stem of its files
    and its id on the page; `charts.py` gives it.
    """

    caption: str
    name: str = ""

    def draw(self) -> Figure:
        """Draw it for print."""
        return render_print.draw(self)

    def panels(self) -> list[Panel]:
        """Its plots for the page."""
        return [render_page.panel(plot) for plot in self.plots]


def save_figure(
    figure: Figure, target: Path | BinaryIO, *, form: str = "png", letters: bool = False
) -> None:
    """Write a figure; the bytes depend on the figure alone.

    ``letters``: text of an SVG stays text, in a font of the viewer, and takes a third of the size.
    """
    from matplotlib import rc_context

    nameless: dict[str, dict[str, None]] = {
        "png": {"Software": None},
        "svg": {"Creator": None, "Date": None},
        "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    }
    # Without a salt the ids inside an SVG would be random; font type 42 keeps text in a PDF as text.
    settings: Any = {"svg.hashsalt": "epsilometer", "pdf.fonttype": 42}
    settings["svg.fonttype"] = "none" if letters else "path"
    with rc_context(settings), warnings.catch_warnings():
        # Names of bases may be in any script; a glyph missing from the font is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(target, format=form, dpi=160, metadata=nameless[form])


def figure_address(figure: Figure, kind: str = "png") -> str:
    """A figure as the address of an image, PNG or SVG: nothing in it runs as a part of the page."""
    held = io.BytesIO()
    save_figure(figure, held, form=kind.partition("+")[0], letters=True)
    return f"data:image/{kind};base64,{base64.b64encode(held.getvalue()).decode()}"
