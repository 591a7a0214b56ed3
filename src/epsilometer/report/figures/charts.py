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


def _estimated(result: Result, *names: str) -> bool:
    """Whether parameters are estimated, not fixed."""
    return set(names) <= set(result.posterior.parameters)


def _exceedance(result: Result) -> Chart | None:
    if not _estimated(result, "epsilon"):
        return None
    claim, thresholds = result.claims.get(result.delta), result.question.thresholds
    return posterior.exceedance_chart(result.posterior, claim=claim, thresholds=thresholds)


def _marginals(result: CountResult) -> Chart | None:
    found = result.posterior
    return posterior.marginals_chart(found, level=result.level) if found.parameters else None


def _joint(result: CountResult) -> Chart | None:
    both = _estimated(result, "epsilon", "strength")
    return posterior.joint_chart(result.posterior) if both else None


def over_delta(result: Result) -> Chart | None:
    """Epsilon over delta."""
    over = over_delta_of(result)
    return None if over is None else delta_curve_chart(over)


def _curves(result: CountResult) -> Chart | None:
    curves, target = result.origin.curves, result.origin.target_alpha
    return None if curves is None else curves_chart(curves, result.counts, target_alpha=target)


def _models(result: CountResult) -> Chart | None:
    models = result.models
    return None if models is None else checks.models_chart(models, level=result.level)


def _influence(result: CountResult) -> Chart | None:
    influence = result.influence
    return None if influence is None else checks.influence_chart(result.counts, influence)


OF_EITHER: dict[str, Make] = {"answer": answer_chart, "exceedance": _exceedance}

COUNT_CHARTS: dict[str, Make] = {
    **OF_EITHER,
    "region": lambda result: region_chart(result.posterior, level=result.level),
    "marginals": _marginals,
    "joint": _joint,
    "delta-curve": over_delta,
    "prior": checks.prior_chart,
    "curves": _curves,
    "predictive": lambda result: checks.predictive_chart(result.counts, result.predictive),
    "models": _models,
    "influence": _influence,
    **{name: partial(chains.chain_chart_of, name=name) for name in chains.NAMES},
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
NEED_CHECKS = ("delta-curve", "prior", "curves", "predictive", "models", "influence")
FOLDER_CHARTS: dict[str, dict[str, Make]] = {
    "count": {name: make for name, make in COUNT_CHARTS.items() if name not in NEED_CHECKS},
    "curve": {
        name: _NO_CHECK if name == "families" else make
        for name, make in CURVE_CHARTS.items()
        if name not in NEED_CHECKS or name == "delta-curve"
    },
}
"""The figures of a result folder, which need nothing but the posterior."""
