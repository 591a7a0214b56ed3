"""What depends on the kind of a result: its figures and its page.

Register the figures of a new kind of result in `figures/charts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from epsilometer.judgement.result import Result
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.charts import CHARTS, FOLDER_CHARTS, Make
from epsilometer.report.page.sections import render


class Views(NamedTuple):
    """The views of one kind of result.

    A figure that does not apply to a result is None.  Those of a result folder need nothing but the
    posterior.
    """

    figures: Mapping[str, Make]
    folder_figures: Mapping[str, Make]
    page: Callable[[Any, Sequence[Chart]], str]

    def charts(self, result: Result) -> list[Chart]:
        """Every figure that applies, in the order of the page."""
        return _drawn(self.figures, result)

    def folder_charts(self, result: Result) -> list[Chart]:
        """The figures of a result folder."""
        return _drawn(self.folder_figures, result)


def _drawn(figures: Mapping[str, Make], result: Result) -> list[Chart]:
    return [chart for chart in (make(result) for make in figures.values()) if chart is not None]


VIEWS = {kind: Views(CHARTS[kind], FOLDER_CHARTS[kind], render) for kind in CHARTS}
"""The views by the kind of the result."""


def views_of(result: Result) -> Views:
    """The views of a result."""
    return VIEWS[result.kind]
