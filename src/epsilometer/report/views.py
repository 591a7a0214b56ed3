"""Views of a result of either model: text, JSON, figures, page.

Register the views of a new kind of result here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from epsilometer.report.text import profile_summary, summary
from epsilometer.judgement.curve_result import ProfileResult
from epsilometer.judgement.result import Result
from epsilometer.report.figures import chains
from epsilometer.report.figures import profile as profile_figures
from epsilometer.report.figures import published as published_figures
from epsilometer.report.figures.answer import answer_chart
from epsilometer.report.figures.chart import Chart
from epsilometer.report.page import published, whole_curve

AnyResult = Result | ProfileResult


class Views(NamedTuple):
    """The views of one kind of result."""

    text: Callable[[Any], str]
    data: Callable[[Any], dict[str, Any]]
    charts: Callable[[Any], list[Chart]]
    folder_charts: Callable[[Any], list[Chart]]
    page: Callable[[Any, Sequence[Chart] | None], str]


def _posterior_charts(result: Result) -> list[Chart]:
    made = [answer_chart(result)] if "epsilon" in result.posterior.parameters else []
    made += published_figures.posterior_charts(result.posterior, level=result.level)
    return made + chains.chain_charts(result.posterior)


VIEWS: dict[type, Views] = {
    Result: Views(
        summary.result_text,
        summary.result_data,
        published_figures.charts,
        _posterior_charts,
        published.render,
    ),
    ProfileResult: Views(
        profile_summary.profile_text,
        profile_summary.profile_data,
        profile_figures.profile_charts,
        profile_figures.folder_charts,
        whole_curve.render_profile,
    ),
}


def views_of(result: AnyResult) -> Views:
    """The views of a result."""
    return VIEWS[type(result)]
