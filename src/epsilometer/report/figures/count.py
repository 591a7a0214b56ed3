"""The figures of a result of the count model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from epsilometer.judgement.count_result import CountResult
from epsilometer.report.figures import chains, checks
from epsilometer.report.figures.answer import answer_chart
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.curves import curves_chart
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.posterior import exceedance_chart, joint_chart, marginals_chart
from epsilometer.report.figures.region import region_chart
from epsilometer.report.text.over_delta import over_delta_of


def _answer(result: CountResult) -> Chart | None:
    return answer_chart(result) if "epsilon" in result.posterior.parameters else None


def _exceedance(result: CountResult) -> Chart | None:
    if "epsilon" not in result.posterior.parameters:
        return None
    claim, thresholds = result.claims.get(result.delta), result.question.thresholds
    return exceedance_chart(result.posterior, claim=claim, thresholds=thresholds)


def _region(result: CountResult) -> Chart:
    return region_chart(result.posterior, level=result.level)


def _marginals(result: CountResult) -> Chart | None:
    posterior = result.posterior
    return marginals_chart(posterior, level=result.level) if posterior.parameters else None


def _joint(result: CountResult) -> Chart | None:
    both = {"epsilon", "strength"} <= set(result.posterior.parameters)
    return joint_chart(result.posterior) if both else None


def _over_delta(result: CountResult) -> Chart | None:
    over = over_delta_of(result)
    return None if over is None else delta_curve_chart(over)


def _prior(result: CountResult) -> Chart | None:
    others = result.other_priors
    return checks.prior_chart(result.posterior, others, level=result.level) if others else None


def _curves(result: CountResult) -> Chart | None:
    curves, target = result.origin.curves, result.origin.target_alpha
    return None if curves is None else curves_chart(curves, result.counts, target_alpha=target)


def _predictive(result: CountResult) -> Chart:
    return checks.predictive_chart(result.counts, result.predictive)


def _models(result: CountResult) -> Chart | None:
    models = result.models
    return None if models is None else checks.models_chart(models, level=result.level)


def _influence(result: CountResult) -> Chart | None:
    influence = result.influence
    return None if influence is None else checks.influence_chart(result.counts, influence)


def _chains(result: CountResult, name: str) -> Chart | None:
    return chains.chain_chart(result.posterior, name)


COUNT_CHARTS: dict[str, Callable[[CountResult], Chart | None]] = {
    "answer": _answer,
    "exceedance": _exceedance,
    "region": _region,
    "marginals": _marginals,
    "joint": _joint,
    "delta-curve": _over_delta,
    "prior": _prior,
    "curves": _curves,
    "predictive": _predictive,
    "models": _models,
    "influence": _influence,
    **{kind.name: partial(_chains, name=kind.name) for kind in chains.KINDS},
}
"""Every figure by the name of its file, in the order of the page; None where it does not apply."""

OF_THE_POSTERIOR = ("answer", "exceedance", "region", "marginals", "joint", *chains.NAMES)
"""The figures of a result folder, which need no check."""
