"""The figures of a result of the published model."""

from __future__ import annotations

from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import Thresholds, Verdict
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import chains, checks
from epsilometer.report.figures.answer import answer_chart
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.curves import curves_chart
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.posterior import exceedance_chart, joint_chart, marginals_chart
from epsilometer.report.figures.region import region_chart

CHART_NAMES = (
    "answer",
    "exceedance",
    "region",
    "marginals",
    "joint",
    "delta-curve",
    "prior",
    "curves",
    "predictive",
    "models",
    "influence",
    *(kind.name for kind in chains.KINDS),
)
"""Names of all figures, the stems of their files."""


def charts(result: Result) -> list[Chart]:
    """Every figure that applies to this result, in the order of the page."""
    posterior, origin, level = result.posterior, result.origin, result.level
    found = [answer_chart(result)] if "epsilon" in posterior.parameters else []
    found += posterior_charts(
        posterior, level=level, verdict=result.verdict, thresholds=result.question.thresholds
    )
    if result.over_delta is not None:
        found.append(delta_curve_chart(result.over_delta))
    if result.other_priors:
        found.append(checks.prior_chart(posterior, result.other_priors, level=level))
    if origin.curves is not None:
        target = origin.target_alpha
        found.append(curves_chart(origin.curves, posterior.counts, target_alpha=target))
    found.append(checks.predictive_chart(posterior.counts, result.predictive))
    if result.models is not None:
        found.append(checks.models_chart(result.models, level=level))
    if result.influence is not None:
        found.append(checks.influence_chart(posterior.counts, result.influence))
    return found + chains.chain_charts(posterior)


def posterior_charts(
    posterior: CountPosterior,
    *,
    level: float,
    verdict: Verdict | None = None,
    thresholds: Thresholds | None = None,
) -> list[Chart]:
    """The figures that need nothing but the posterior itself."""
    estimated, found = set(posterior.parameters), []
    if "epsilon" in estimated:
        limits = thresholds or Thresholds()
        found.append(exceedance_chart(posterior, verdict=verdict, thresholds=limits))
    found.append(region_chart(posterior, level=level))
    if estimated:
        found.append(marginals_chart(posterior, level=level))
    if {"epsilon", "strength"} <= estimated:
        found.append(joint_chart(posterior))
    return found
