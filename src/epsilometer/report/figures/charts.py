"""Every figure of a result, by the name of its file and in the order of the page."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.result import Result
from epsilometer.report.figures import answer, count_model, curve_model, predictions
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.curves import curves_chart
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.proof import proof_chart
from epsilometer.report.text.over_delta import over_delta_of

#: A figure of a result; None where it does not apply.
Make = Callable[[Any], Chart | None]


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
    "answer": _if_estimated(answer.answer_chart, "epsilon"),
    "exceedance": _if_estimated(answer.exceedance_chart, "epsilon"),
    "proof": proof_chart,
}

COUNT_CHARTS: dict[str, Make] = {
    **OF_EITHER,
    "region": count_model.region_chart,
    "marginals": count_model.marginals_chart,
    "joint": _if_estimated(count_model.joint_chart, "epsilon", "strength"),
    "delta-curve": over_delta,
    "prior": answer.prior_chart,
    "curves": _curves,
    "predictive": lambda result: predictions.predictive_chart(result.counts, result.predictive),
    "traces": count_model.traces_chart,
    "ranks": count_model.ranks_chart,
}

CURVE_CHARTS: dict[str, Make] = {
    **OF_EITHER,
    "roc": curve_model.roc_chart,
    "leaks": curve_model.leaks_chart,
    "families": lambda result: curve_model.families_chart(result, result.poorly_fitting_families),
    "delta-curve": over_delta,
    "prior": answer.prior_chart,
    "predictive": predictions.roc_check_chart,
}

#: By the kind of the result.
CHARTS = {"count": COUNT_CHARTS, "curve": CURVE_CHARTS}

#: The figures of a posterior alone, without a question.
POSTERIOR_CHARTS: dict[str, dict[str, Make]] = {
    "count": {
        name: COUNT_CHARTS[name]
        for name in ("exceedance", "region", "marginals", "joint", "traces", "ranks")
    },
    "curve": {name: CURVE_CHARTS[name] for name in ("exceedance", "roc", "leaks")}
    | {"families": partial(curve_model.families_chart, misfits={}), "delta-curve": over_delta},
}


def charts_of(result: Result, *, folder: bool = False) -> list[Chart]:
    """Every figure of a result that applies, in the order of the page; or those of its folder."""
    known: Mapping[str, Make] = CHARTS[result.kind]
    if folder:
        known = OF_EITHER | POSTERIOR_CHARTS[result.kind]
    # Folder and page share them.
    made = {name: result._once(make, partial(make, result)) for name, make in known.items()}
    return [replace(chart, name=name) for name, chart in made.items() if chart is not None]
