"""What depends on the kind of a result: its figures and its page.

Register the views of a new kind of result here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from epsilometer.judgement.result import Result
from epsilometer.report.figures import count as count_figures
from epsilometer.report.figures import curve as curve_figures
from epsilometer.report.figures.chart import Chart
from epsilometer.report.page import count as count_page
from epsilometer.report.page import curve as curve_page


class Views(NamedTuple):
    """The views of one kind of result.

    A figure that does not apply to a result is None.  Those ``of_the_posterior`` need nothing else, and
    are in a result folder.
    """

    figures: Mapping[str, Callable[[Any], Chart | None]]
    of_the_posterior: Iterable[str]
    page: Callable[[Any, Sequence[Chart]], str]

    def charts(self, result: Result) -> list[Chart]:
        """Every figure that applies, in the order of the page."""
        return self._drawn(self.figures, result)

    def folder_charts(self, result: Result) -> list[Chart]:
        """The figures of a result folder."""
        return self._drawn(self.of_the_posterior, result)

    def _drawn(self, names: Iterable[str], result: Result) -> list[Chart]:
        charts = (self.figures[name](result) for name in names)
        return [chart for chart in charts if chart is not None]


VIEWS = {
    "count": Views(count_figures.COUNT_CHARTS, count_figures.OF_THE_POSTERIOR, count_page.render),
    "curve": Views(
        curve_figures.CURVE_CHARTS, tuple(curve_figures.OF_THE_POSTERIOR), curve_page.render
    ),
}
"""The views by the kind of the result."""


def views_of(result: Result) -> Views:
    """The views of a result."""
    return VIEWS[result.kind]
