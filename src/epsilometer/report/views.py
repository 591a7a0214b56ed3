"""Views of a result of either model: text, JSON, figures, page.

Register the views of a new kind of result here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from epsilometer.judgement.result import Result
from epsilometer.report.figures import count as count_figures
from epsilometer.report.figures import curve as curve_figures
from epsilometer.report.figures.chart import Chart
from epsilometer.report.page import count as count_page
from epsilometer.report.page import curve as curve_page
from epsilometer.report.text.summary import result_text
from epsilometer.report.text.values import result_values

Charts = Mapping[str, Callable[[Any], Chart | None]]
"""Figures by name; a figure that does not apply to a result is None."""


class Text(Protocol):
    """A result as text: one screen of it, or with all details."""

    def __call__(self, result: Result, *, details: bool = False) -> str: ...


class Views(NamedTuple):
    """The views of one kind of result."""

    text: Text
    data: Callable[[Result], dict[str, Any]]
    figures: Charts
    folder_figures: Charts
    page: Callable[[Any, Sequence[Chart]], str]

    def charts(self, result: Result) -> list[Chart]:
        """Every figure that applies, in the order of the page."""
        return _drawn(self.figures, result)

    def folder_charts(self, result: Result) -> list[Chart]:
        """The figures of a result folder, which need nothing but the posterior."""
        return _drawn(self.folder_figures, result)


def _drawn(figures: Charts, result: Result) -> list[Chart]:
    return [chart for chart in (make(result) for make in figures.values()) if chart is not None]


VIEWS: dict[str, Views] = {
    "count": Views(
        result_text,
        result_values,
        count_figures.COUNT_CHARTS,
        {name: count_figures.COUNT_CHARTS[name] for name in count_figures.OF_THE_POSTERIOR},
        count_page.render,
    ),
    "curve": Views(
        result_text,
        result_values,
        curve_figures.CURVE_CHARTS,
        curve_figures.OF_THE_POSTERIOR,
        curve_page.render,
    ),
}
"""The views by the kind of the result."""


def views_of(result: Result) -> Views:
    """The views of a result."""
    return VIEWS[result.kind]
