"""A figure that notebooks show, also where pyplot was never imported."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from epsilometer.report.figures.chart import save_figure


class ShownFigure(Figure):
    """A matplotlib figure with the image that notebooks ask for."""

    def _repr_png_(self) -> bytes:
        held = io.BytesIO()
        save_figure(self, held, dots_per_inch=100)
        return held.getvalue()
