"""Display of results: ``repr``, HTML for notebooks, ``summary()`` and ``plot()``.

The base classes of results and data.  The contents are defined in ``display/``, whose modules are looked
up by name when something is first shown, so that imports point one way.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from epsilometer._table import Table

#: The package that holds the views.
VIEWS = "epsilometer.display"


class Displayed:
    """Something with a short ``repr``, an HTML form for notebooks and a table.

    A subclass names its view as ``view="module.NAME"``: a module of ``display/`` and a constant in
    it.  Without one, a class is shown like its base class, or as a table of its fields.
    """

    _view: ClassVar[str] = "view.FIELDS"

    def __init_subclass__(cls, *, view: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if view:
            cls._view = view

    def __repr__(self) -> str:
        return f"{type(self).__name__}({view_of(self).words(self)})"

    def _repr_html_(self) -> str:
        """A small table, and a figure if there is one, for notebooks."""
        return str(view_of(self).html(self))

    def summary(self) -> Table:
        """The main numbers as a table."""
        shown: Table = view_of(self).table(self)
        return shown


class Plotted(Displayed):
    """The same with a figure."""

    def plot(self, which: str | None = None, *, ax: Axes | None = None) -> Figure:
        """Draw the main figure with matplotlib.

        Parameters
        ----------
        which
            The name of another figure, for results that have several.  An unknown name raises an error
            that lists them.
        ax
            Axes to draw into, for figures of one panel.

        Returns
        -------
        Figure
            A new figure, or the one that ``ax`` belongs to.
        """
        figure: Figure = view_of(self).draw(self, which, ax)
        return figure


def view_of(shown: Displayed) -> Any:
    """The view of a result or of data: a ``View`` of `display/view.py`, or a subclass that can more."""
    module, _, name = shown._view.partition(".")
    return getattr(import_module(f"{VIEWS}.{module}"), name)
