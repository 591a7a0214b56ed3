"""What every figure is: numbers with a name, a sentence, and a description that is drawn two ways."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from epsilometer.report.figures import render_page, render_print
from epsilometer.report.figures.marks import Sheet
from epsilometer.report.figures.render_page import Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


class Chart(ABC):
    """A figure's numbers.  They are described once; both ways of drawing show what is described."""

    name: ClassVar[str]
    """Stem of its files, and its place in the page."""
    title: ClassVar[str]

    @property
    @abstractmethod
    def caption(self) -> str:
        """What there is to see, for somebody who has not read the paper."""

    @abstractmethod
    def sheet(self, *, fine: bool) -> Sheet:
        """Its plots; ``fine`` ones have more points than a page should hold as numbers."""

    def draw(self) -> Figure:
        """Draw it for print."""
        return render_print.draw(self.sheet(fine=True))

    def panels(self) -> list[Panel]:
        """Its plots for the page."""
        return render_page.panels(self.sheet(fine=False))


def save_figure(figure: Figure, target: Path | BinaryIO, *, form: str = "png") -> None:
    """Write a figure; the bytes depend on the figure alone."""
    from matplotlib import rc_context

    nameless: dict[str, dict[str, None]] = {
        "png": {"Software": None},
        "svg": {"Creator": None, "Date": None},
        "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    }
    # Without a salt the names inside an SVG would be drawn at random; 42 keeps text in a PDF as text.
    with rc_context({"svg.hashsalt": "epsilometer", "pdf.fonttype": 42}), quiet_fonts():
        figure.savefig(target, format=form, dpi=160, metadata=nameless[form])


@contextmanager
def quiet_fonts() -> Iterator[None]:
    """Names of bases may be in any script; a glyph that the font lacks is drawn as a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
