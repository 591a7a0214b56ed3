"""Every figure of a result, by the name of its file and in the order of the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.result import Result
from epsilometer.report.figures import bases, chains, checks, families, posterior
from epsilometer.report.figures.answer import answer_chart
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.curves import curves_chart
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.region import region_chart
from epsilometer.report.text.over_delta import over_delta_of

Make = Callable[[Any], Chart | None]
"""A figure of a result; None where it does not apply."""


def _if_estimated(make: Make, *names: str) -> Make:
    """A figure of parameters, for results that hold none of them fixed."""
    return lambda result: make(result) if {*names} <= {*result.posterior.parameters} else None


def over_delta(result: Result) -> Chart | None:
    """Epsilon over delta."""
    over = over_delta_of(result)
    return None if over is None else delta_curve_chart(over)


def _curves(result: CountResult) -> Chart | None:
    curves, target = result.origin.curves, result.origin.target_alpha
    return None if curves is None else curves_chart(curves, result.counts, target_alpha=target)


OF_EITHER: dict[str, Make] = {
    "answer": _if_estimated(answer_chart, "epsilon"),
    "exceedance": _if_estimated(posterior.exceedance_chart, "epsilon"),
}

COUNT_CHARTS: dict[str, Make] = {
    **OF_EITHER,
    "region": region_chart,
    "marginals": posterior.marginals_chart,
    "joint": _if_estimated(posterior.joint_chart, "epsilon", "strength"),
    "delta-curve": over_delta,
    "prior": checks.prior_chart,
    "curves": _curves,
    "predictive": lambda result: checks.predictive_chart(result.counts, result.predictive),
    "traces": chains.traces_chart,
    "ranks": chains.ranks_chart,
}

CURVE_CHARTS: dict[str, Make] = {
    **OF_EITHER,
    "roc": bases.roc_chart,
    "leaks": bases.leaks_chart,
    "families": lambda result: families.families_chart(result, result.poorly_fitting_families),
    "delta-curve": over_delta,
    "prior": checks.prior_chart,
    "predictive": bases.roc_check_chart,
}

CHARTS = {"count": COUNT_CHARTS, "curve": CURVE_CHARTS}
"""By the kind of the result."""

_NO_CHECK = partial(families.families_chart, misfits={})
NEED_CHECKS = ("delta-curve", "prior", "curves", "predictive")
FOLDER_CHARTS: dict[str, dict[str, Make]] = {
    "count": {name: make for name, make in COUNT_CHARTS.items() if name not in NEED_CHECKS},
    "curve": {
        name: _NO_CHECK if name == "families" else make
        for name, make in CURVE_CHARTS.items()
        if name not in NEED_CHECKS or name == "delta-curve"
    },
}
"""The figures of a result folder, which need nothing but the posterior."""
