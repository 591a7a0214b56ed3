"""Everything that a report shows, worked out once: the page and the files only word and draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer.attacks.result import ErrorCurves
from epsilometer.errors import ContradictionError, InputError
from epsilometer.inference.doubts import counts_at_their_ends, repeated_bases
from epsilometer.inference.influence import Influence, leave_one_out
from epsilometer.inference.model_comparison import ModelComparison, alternatives, compare_models
from epsilometer.inference.outlook import MOST_DISTINCT, Outlook, look_ahead
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.predictive import PredictiveCheck, check_predictions
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.inference.sensitivity import FACTORS, OtherPrior, prior_sensitivity
from epsilometer.inference.verdict import Outcome, Thresholds, Verdict, judge
from epsilometer.model.dependence import ScatteredMembers
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.report.delta_table import CurveTable
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
from epsilometer.report.summary import engine_sentence, summarise

CHECK_SEED = 1
"""The predictive check of one posterior is always the same."""

MOST_LISTED = 3
"""Statistics named in a warning; the page has a table of all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """What is known of how the counts came about; empty for counts that somebody brought.

    Attributes
    ----------
    plan
        What was audited: hash, population, adjacency, design, dataset_size, seed.
    attack
        How it was attacked: target_alpha, statistic, attack.
    models
        How many models were trained, reused and failed.
    warnings
        What the attack itself warned of.
    curves
        Error counts over target rates.
    claim_source
        ``algorithm`` if the claim is the algorithm's own.
    variant
        Which of several variants made from the same models.
    """

    plan: Mapping[str, Any] = field(default_factory=dict)
    attack: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    curves: ErrorCurves | None = None
    claim_source: str | None = None
    variant: str | None = None

    @property
    def target_alpha(self) -> float | None:
        """The false-positive rate that the attacks aimed at."""
        value = self.attack.get("target_alpha")
        return None if value is None else float(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """A posterior with everything a reviewer would ask about it."""

    posterior: Posterior
    level: float
    thresholds: Thresholds
    origin: Origin
    summary: dict[str, Any]
    verdict: Verdict | None
    outlook: Outlook | None
    other_priors: tuple[OtherPrior, ...]
    influence: Influence | None
    predictive: PredictiveCheck
    warnings: tuple[str, ...]
    models: ModelComparison | None = None
    """The counts under other assumptions; None where it was not worked out."""
    over_delta: CurveTable | None = None
    """The same counts at other deltas; None unless somebody asked for a curve."""

    def charts(self) -> list[Chart]:
        """Every figure that makes sense for this posterior, in the order of the page."""
        return list(self._charts)

    @cached_property
    def _charts(self) -> list[Chart]:
        posterior = self.posterior
        found = posterior_charts(
            posterior, level=self.level, verdict=self.verdict, thresholds=self.thresholds
        )
        if self.over_delta is not None:
            found.append(DeltaCurveChart.of(self.over_delta))
        if self.other_priors:
            found.append(PriorChart.of(posterior, self.other_priors, level=self.level))
        if self.origin.curves is not None:
            target = self.origin.target_alpha
            found.append(CurvesChart.of(self.origin.curves, posterior.counts, target_alpha=target))
        found.append(PredictiveChart(counts=posterior.counts, check=self.predictive))
        if self.models is not None:
            found.append(ModelsChart.of(self.models, level=self.level))
        if self.influence is not None:
            found.append(InfluenceChart.of(posterior.counts, self.influence))
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
    if not isinstance(posterior, SamplePosterior) or not posterior.parameters:
        return []
    kinds = (TraceChart, RankChart, EffectiveSizeChart, AutocorrelationChart)
    return [kind(posterior=posterior) for kind in kinds]


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
        TraceChart,
        RankChart,
        EffectiveSizeChart,
        AutocorrelationChart,
    )
)
"""Every figure there is, by the stem of its files."""


def gather(
    posterior: Posterior,
    *,
    level: float = 0.9,
    claim: float | None = None,
    thresholds: Thresholds | None = None,
    origin: Origin | None = None,
    accept_untrusted: bool = False,
    over_delta: CurveTable | None = None,
    compare: bool = True,
    report: Callable[[str], None] | None = None,
) -> Evidence:
    """Work out everything that a report on a posterior shows.

    Parameters
    ----------
    level
        Probability of the credible intervals.
    claim
        An epsilon to hold the posterior against.
    thresholds
        Where the verdict takes sides.
    origin
        What is known of how the counts came about.
    accept_untrusted
        Let the verdict take sides even if the engine did not reach its accuracy.
    over_delta
        A curve over delta of the same counts, to be shown too.
    compare
        Whether other assumptions are set beside the one made, which takes some seconds.  Models with
        scattered members are left to :func:`compare_models`: they take longer than a page should.
    report
        Called with a line of text now and then, for a progress display.
    """
    level = _validate.level(level)
    thresholds, origin = thresholds or Thresholds(), origin or Origin()
    if origin.curves is not None and origin.curves.names != posterior.counts.names:
        raise InputError("expected error curves of the same challenge bases as the posterior's.")
    if over_delta is not None and over_delta.curve.counts != posterior.counts:
        raise InputError("expected a curve over delta of the same counts as the posterior's.")
    say = report or (lambda _: None)
    summary = summarise(
        posterior,
        level=level,
        claim=claim,
        thresholds=thresholds,
        accept_untrusted=accept_untrusted,
    )
    verdict = outlook = None
    if claim is not None:
        if origin.claim_source is not None:
            summary["claim"]["source"] = origin.claim_source
        verdict = judge(
            posterior, claim=claim, thresholds=thresholds, accept_untrusted=accept_untrusted
        )
        unsettled = verdict.outcome is Outcome.INCONCLUSIVE and verdict.trustworthy
        if unsettled and "epsilon" in posterior.parameters:
            outlook = look_ahead(posterior, verdict, report=report)
    others: tuple[OtherPrior, ...] = ()
    influence = None
    if "epsilon" in posterior.parameters:
        say("other priors")
        others = _other_priors(posterior, report)
        say("leaving out one base at a time")
        # A base whose absence leaves a contradiction must not cost the rest of the report.
        with suppress(ContradictionError):
            influence = leave_one_out(posterior, level=level, report=report)
    say("predictive check")
    check = check_predictions(posterior, rng=np.random.default_rng(CHECK_SEED), level=level)
    say("other assumptions")
    models = _models(posterior, report) if compare else None
    return Evidence(
        posterior=posterior,
        level=level,
        thresholds=thresholds,
        origin=origin,
        summary=summary,
        verdict=verdict,
        outlook=outlook,
        other_priors=others,
        influence=influence,
        predictive=check,
        models=models,
        over_delta=over_delta,
        warnings=tuple(_warnings(posterior, summary, origin, check, level)),
    )


def _other_priors(
    posterior: Posterior, report: Callable[[str], None] | None
) -> tuple[OtherPrior, ...]:
    """Other priors, without those under which nothing can be estimated."""
    found: list[OtherPrior] = []
    for factor in FACTORS:
        try:
            found += prior_sensitivity(posterior, factors=(factor,), report=report)
        except (ContradictionError, InputError):
            # The exact engine takes no prior that reaches beyond epsilon = 600.
            continue
    return tuple(found)


def _models(posterior: Posterior, report: Callable[[str], None] | None) -> ModelComparison | None:
    """Other assumptions on the same counts, unless that would take minutes."""
    if "epsilon" not in posterior.parameters:
        return None
    distinct = len(posterior.counts.distinct()[0])
    wanted = {
        label: model
        for label, model in alternatives(posterior.model, posterior.counts).items()
        if distinct <= MOST_DISTINCT[isinstance(model.likelihood, CorrelatedNormal)]
        and not (
            model.scatters(posterior.counts) and isinstance(model.dependence, ScatteredMembers)
        )
    }
    correlated = isinstance(posterior.model.likelihood, CorrelatedNormal)
    if not wanted or distinct > MOST_DISTINCT[correlated]:
        return None
    try:
        return compare_models(posterior, wanted, quick=True, report=report)
    except (ContradictionError, InputError):
        return None


def _warnings(
    posterior: Posterior,
    summary: dict[str, Any],
    origin: Origin,
    check: PredictiveCheck,
    level: float,
) -> list[str]:
    """What to know before quoting the result, the gravest first."""
    found = []
    if not posterior.trustworthy:
        found.append(f"Do not quote this result: {engine_sentence(summary)}.")
    try:
        doubt = counts_at_their_ends(posterior, level=level)
    except ContradictionError:
        doubt = None
    if doubt is not None:
        found.append(doubt.sentence)
    repeated = repeated_bases(posterior.counts)
    if repeated is not None:
        found.append(repeated.sentence)
    found += [f"{text[0].upper()}{text[1:]}" for text in origin.warnings if text]
    failed = origin.models.get("failed", 0)
    if failed:
        found.append(
            f"{failed:,} of the models failed and {'is' if failed == 1 else 'are'} missing from the "
            "counts; if failing depends on the challenge point, the estimate is biased."
        )
    odd = [item for item in check.statistics if item.surprising]
    if odd:
        listed = "; ".join(
            f"{item.name} {item.observed:.3g} where {item.low:.3g} to {item.high:.3g} is expected"
            for item in odd[:MOST_LISTED]
        )
        if len(odd) > MOST_LISTED:
            listed += f"; and {len(odd) - MOST_LISTED} more in the table of the predictive check"
        found.append(
            f"The model would hardly make counts like these: {listed}. It takes the rates of attacks "
            "to lie anywhere in the region that epsilon and the strength leave them; where they all "
            "lie near one place, the interval may miss the true epsilon on either side."
        )
    return found
