"""Write reports to files: the HTML page of a posterior, and figures for print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer import _files
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.exact.over_delta import DeltaCurve
from epsilometer.judgement.claimed_curve import Claim, JudgedCurve
from epsilometer.judgement.curve_result import ProfileResult
from epsilometer.judgement.result import Origin, Question, Result
from epsilometer.judgement.verdict import Thresholds, Verdict
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures.chart import FORMATS, Chart, save_figure
from epsilometer.report.views import AnyResult, views_of


def write_report(
    posterior: CountPosterior | CurvePosterior,
    path: str | PathLike[str],
    *,
    claim: float | None = None,
    level: float = 0.9,
    thresholds: Thresholds | None = None,
    origin: Origin | None = None,
    curve: DeltaCurve | JointDeltaCurve | None = None,
    claimed_curve: Claim | None = None,
    on_message: Callable[[str], None] | None = None,
) -> Verdict | None:
    """Write a report on a posterior as one HTML file, and return its verdict.

    Parameters
    ----------
    path
        File to write; an existing file is replaced.
    claim
        Claimed epsilon; without one the page has no verdict.
    level
        Probability of the credible intervals.
    thresholds
        Probabilities at which the verdict is PASS or FAIL.
    origin
        Origin of the counts: plan, attack, error curves.
    curve
        Epsilon over delta, shown as a section: from :func:`epsilometer.estimate_curve`, or a
        :class:`epsilometer.JointDeltaCurve` of a posterior of the whole-curve model.
    claimed_curve
        Claim at each delta of the curve, as in :func:`epsilometer.judge_curve`.  Default: ``claim`` at
        every delta.
    on_message
        Called with a line of text during the computation, for a progress display.
    """
    asked = Question(level=level, claim=claim, thresholds=thresholds or Thresholds())
    context: dict[str, Any] = {
        "question": asked,
        "origin": origin or Origin(),
        "report": on_message,
    }
    over = claim if claimed_curve is None else claimed_curve
    result: AnyResult
    own: Any = posterior
    asked_over: Any = curve
    judging: dict[str, Any] = {"level": level, "claim": over}
    if hasattr(own, "scores"):
        if asked_over is not None:
            asked_over = replace(asked_over, **judging)
        result = ProfileResult(posterior=own, over_delta=asked_over, **context)
    else:
        if asked_over is not None:
            asked_over = JudgedCurve.of(asked_over, thresholds=thresholds, **judging)
        result = Result(posterior=own, over_delta=asked_over, **context)
    write_page(result, Path(path))
    return result.verdict


def write_page(result: AnyResult, path: Path, shown: Sequence[Chart] | None = None) -> None:
    """Write the page atomically."""
    _files.write_text(path, views_of(result).page(result, shown))


def write_figures(shown: Sequence[Chart], folder: Path) -> None:
    """Write figures for print, as PNG, SVG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in shown:
        figure = chart.draw()
        for form in FORMATS:
            path = folder / f"{chart.name}.{form}"
            _files.replace(path, partial(save_figure, figure, form=form))
