"""Which figures there are, and which of them make sense for a result."""

from __future__ import annotations

from epsilometer.inference.posterior import Posterior
from epsilometer.inference.result import Result
from epsilometer.inference.verdict import Thresholds, Verdict
from epsilometer.report.delta_table import table_of
from epsilometer.report.figures.chains import (
    AutocorrelationChart,
    EffectiveSizeChart,
    RankChart,
    TraceChart,
)
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.curves import CurvesChart
from epsilometer.report.figures.delta_curve import DeltaCurveChart
from epsilometer.report.figures.exceedance import ExceedanceChart
from epsilometer.report.figures.influence import InfluenceChart
from epsilometer.report.figures.joint import JointChart
from epsilometer.report.figures.marginals import MarginalsChart
from epsilometer.report.figures.models import ModelsChart
from epsilometer.report.figures.predictive import PredictiveChart
from epsilometer.report.figures.prior import PriorChart
from epsilometer.report.figures.region import RegionChart

OF_CHAINS = (TraceChart, RankChart, EffectiveSizeChart, AutocorrelationChart)

CHART_NAMES = tuple(
    kind.name
    for kind in (
        ExceedanceChart,
        RegionChart,
        MarginalsChart,
        JointChart,
        DeltaCurveChart,
        PriorChart,
        CurvesChart,
        PredictiveChart,
        ModelsChart,
        InfluenceChart,
        *OF_CHAINS,
    )
)
"""Every figure there is, by the stem of its files."""


def charts(result: Result) -> list[Chart]:
    """Every figure that makes sense for this result, in the order of the page."""
    posterior, origin = result.posterior, result.origin
    found = posterior_charts(
        posterior, level=result.level, verdict=result.verdict, thresholds=result.thresholds
    )
    if result.over_delta is not None:
        found.append(DeltaCurveChart.of(table_of(result.over_delta)))
    if result.other_priors:
        found.append(PriorChart.of(posterior, result.other_priors, level=result.level))
    if origin.curves is not None:
        target = origin.target_alpha
        found.append(CurvesChart.of(origin.curves, posterior.counts, target_alpha=target))
    found.append(PredictiveChart(counts=posterior.counts, check=result.predictive))
    if result.models is not None:
        found.append(ModelsChart.of(result.models, level=result.level))
    if result.influence is not None:
        found.append(InfluenceChart.of(posterior.counts, result.influence))
    return found + chain_charts(posterior)


def posterior_charts(
    posterior: Posterior,
    *,
    level: float,
    verdict: Verdict | None = None,
    thresholds: Thresholds | None = None,
) -> list[Chart]:
    """The figures that need nothing but the posterior itself."""
    found: list[Chart] = []
    if "epsilon" in posterior.parameters:
        found.append(
            ExceedanceChart.of(posterior, verdict=verdict, thresholds=thresholds or Thresholds())
        )
    found.append(RegionChart.of(posterior, level=level))
    if posterior.parameters:
        found.append(MarginalsChart.of(posterior, level=level))
    if {"epsilon", "strength"} <= set(posterior.parameters):
        found.append(JointChart.of(posterior))
    return found


def chain_charts(posterior: Posterior) -> list[Chart]:
    """The figures of Markov chains; none for other posteriors."""
    chains = posterior.chains
    if chains is None or not chains.parameters:
        return []
    return [kind(posterior=chains) for kind in OF_CHAINS]
