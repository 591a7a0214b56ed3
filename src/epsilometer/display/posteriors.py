"""Views of posteriors: epsilon with its interval, all parameters in a table, and the figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from epsilometer._text import counted, pair_text, percent
from epsilometer.display.view import View
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.units import units_of
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import bases, charts, families, posterior, region
from epsilometer.report.figures.marks import Sheet
from epsilometer.report.text.rows import LEVEL, parameter_table


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


def _of_result(chart: charts.Make) -> Callable[[CountPosterior | CurvePosterior], Sheet]:
    def draw(posterior: CountPosterior | CurvePosterior) -> Sheet:
        found = chart(result_of(posterior))
        assert found is not None  # all of these apply
        return found

    return draw


CURVE = View(
    line=_line,
    table=parameter_table,
    figures={
        "exceedance": _of_result(posterior.exceedance_chart),
        "roc": _of_result(bases.roc_chart),
        "leaks": _of_result(bases.leaks_chart),
        "families": _of_result(partial(families.families_chart, misfits={})),
        "delta-curve": _of_result(charts.over_delta),
    },
)

COUNT = View(
    line=_line,
    table=parameter_table,
    figures={
        "exceedance": _of_result(posterior.exceedance_chart),
        "marginals": _of_result(posterior.marginals_chart),
        "joint": _of_result(posterior.joint_chart),
        "region": _of_result(region.region_chart),
    },
)
