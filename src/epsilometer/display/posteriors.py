"""Views of posteriors: epsilon with its interval, all parameters in a table, and the figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from epsilometer._table import Cell, Table
from epsilometer._text import counted, pair_text, percent
from epsilometer.checks.sensitivity import AlternativePrior
from epsilometer.display.view import View
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.units import units_of
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import bases, checks, curve, posterior, region
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Sheet
from epsilometer.report.text.rows import labels_of
from epsilometer.report.text.values import parameter_values

LEVEL = 0.9
"""Probability of the intervals shown."""


def epsilon_words(found: CountPosterior | CurvePosterior, level: float = LEVEL) -> str:
    """The median of epsilon with its interval."""
    median = found.median("epsilon")
    if "epsilon" not in found.parameters:
        return f"epsilon = {median:g} (fixed)"
    low, high = found.credible_interval("epsilon", level)
    return f"epsilon {median:.2f}, {percent(level)} interval {pair_text(low, high)}"


def _line(shown: CountPosterior | CurvePosterior) -> str:
    if isinstance(shown, CurvePosterior):
        size = units_of(shown.scores).bases(len(shown.scores))
    else:
        size = counted(len(shown.counts), "challenge base")
    doubts = [] if shown.accurate else ["NOT CONVERGED"]
    doubts += ["FLAWED DATA"] if shown.data.flaws else []
    where = f"at delta = {shown.model.delta:g}"
    return "; ".join([f"{epsilon_words(shown)}, {where}", size, *doubts])


def _table(shown: CountPosterior | CurvePosterior, level: float = LEVEL) -> Table:
    labels = labels_of(result_of(shown))
    rows: list[tuple[Cell, ...]] = []
    for name, values in parameter_values(shown, labels, level).items():
        low, high = values["interval"]
        rows.append((labels[name], values["median"], low, high, values["mean"]))
    ends = [percent(0.5 - level / 2), percent(0.5 + level / 2)]
    notes = [f"delta = {shown.model.delta:g}; {shown.engine_description}."]
    return Table(columns=("", "median", *ends, "mean"), rows=rows, notes=[*shown.warnings, *notes])


def _of_result(chart: Callable[[CurveResult], Chart]) -> Callable[[CurvePosterior], Chart]:
    def draw(posterior: CurvePosterior) -> Chart:
        result = result_of(posterior)
        assert isinstance(result, CurveResult)
        return chart(result)

    return draw


CURVE = View(
    line=_line,
    table=_table,
    figures={
        "exceedance": _of_result(curve.exceedance),
        "roc": _of_result(bases.roc_chart),
        "leaks": _of_result(bases.leaks_chart),
        "families": _of_result(partial(curve.families_chart, misfits={})),
        "delta-curve": _of_result(curve.over_delta),
    },
)

COUNT = View(
    line=_line,
    table=_table,
    figures={
        "exceedance": posterior.exceedance_chart,
        "marginals": partial(posterior.marginals_chart, level=LEVEL),
        "joint": posterior.joint_chart,
        "region": partial(region.region_chart, level=LEVEL),
    },
)


# --- other priors ----------------------------------------------------------------------------


def _prior_line(found: AlternativePrior) -> str:
    low, high = found.credible_interval(LEVEL)
    median = float(found.epsilon.quantile([0.5])[0])
    return (
        f"prior scale x {found.factor:g}: epsilon {median:.2f}, {percent(LEVEL)} interval "
        f"{pair_text(low, high)}"
    )


def _prior_table(found: AlternativePrior) -> Table:
    low, high = found.credible_interval(LEVEL)
    median = float(found.epsilon.quantile([0.5])[0])
    ends = [percent(0.5 - LEVEL / 2), percent(0.5 + LEVEL / 2)]
    return Table(
        columns=("prior", "median", *ends),
        rows=[(f"scale x {found.factor:g}", median, low, high)],
        notes=[f"With this prior epsilon is {found.model.epsilon.description} before the data."],
    )


def _prior_sheet(found: AlternativePrior) -> Sheet:
    low, high = found.epsilon.quantile([0.001, 0.995]).tolist()
    x = np.linspace(max(low - 0.05 * (high - low), 0.0), high or 1.0, checks.PRIOR_POINTS)
    marks: list[Mark] = [
        Line(x, found.epsilon.density(x), "blue", "posterior"),
        Line(
            x, np.exp(found.model.epsilon.log_density(x)), "grey", "prior", dash="dash", width=1.2
        ),
    ]
    plot = Plot(Axis("epsilon", (x[0], x[-1])), Axis("density", from_zero=True), marks)
    return Sheet(f"Epsilon if the prior's scale were x {found.factor:g}", [plot], (5.6, 3.2))


PRIOR = View(line=_prior_line, table=_prior_table, figures={"prior": _prior_sheet})
