"""Figures of the checks: other priors and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer._text import pair_text, percent
from epsilometer.checks.predictive import SURPRISING, PredictiveCheck, SortedQuantity
from epsilometer.checks.sensitivity import AlternativePrior
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points

PRIOR_POINTS = 240
"""Points of each density."""

PRIOR_COLOURS = ("green", "blue", "orange")
"""From the narrowest prior to the widest."""

FEW_BASES = 12
"""Up to this number of bases, every base has its tick."""

MOST_POINTS = 400
"""Maximum number of points per sorted quantity; beyond it, evenly spaced ones are drawn."""


def prior_chart(result: CountResult | CurveResult) -> Chart | None:
    """Posteriors and priors of epsilon for several scales of the prior, and the intervals."""
    if not result.other_priors:
        return None
    level, posterior = result.level, result.posterior
    own = AlternativePrior(factor=1.0, model=result.model, epsilon=posterior.marginal("epsilon"))
    versions = sorted([own, *result.other_priors], key=lambda version: version.factor)
    # Without a leak epsilon is 0, which a density does not show.
    leaks = 1 - float(getattr(result.model, "no_leak", 0.0) or 0.0)
    reach = np.array([version.epsilon.quantile(np.array([0.002, 0.985])) for version in versions])
    # All probability may be at 0.
    low, high = float(reach[:, 0].min()), float(reach[:, 1].max()) or 1.0
    room = 0.08 * (high - low) or 1e-9
    x = np.linspace(max(low - room, 0.0), high + room, PRIOR_POINTS)
    says = "\nepsilon {x:.3f}, density {y:.4g}"
    thin: dict[str, Any] = {"width": 1.0, "dash": "dash", "listed": False}
    marks: list[Mark] = []
    intervals, peak = {}, 0.0
    for version, colour in zip(versions, PRIOR_COLOURS, strict=False):
        factor = version.factor
        after, prior = version.epsilon.density(x), version.model.epsilon
        ends = intervals[factor] = version.credible_interval(level)
        name = "as reported" if factor == 1 else f"prior scale x {factor:g}"
        label = f"{name}: {pair_text(*ends)}"
        before = leaks * np.exp(prior.log_density(x))
        marks += [
            Line(x, after, colour, label, hover=f"{label}, posterior{says}"),
            Line(x, before, colour, label, hover=f"{label}, prior{says}", **thin),
        ]
        peak = max(peak, float(after.max()))
    top = style.end_of_densities(peak, min(high - low for low, high in intervals.values()))
    reported = pair_text(*intervals.pop(1.0))
    moved = " and ".join(
        f"{pair_text(*ends)} with the scale x {factor:g}" for factor, ends in intervals.items()
    )
    no_leak = style.no_leak_text(posterior)
    hidden = f" Not drawn: probability {no_leak} of no leak, where epsilon is 0." if no_leak else ""
    return Chart(
        name="prior",
        title="Sensitivity to the prior",
        caption=f"Solid: posteriors; dashed: their priors. The {percent(level)} interval is {reported}; "
        f"it would be {moved}. The more the interval moves with the prior, the less the data "
        f"determine it.{hidden}",
        plots=[Plot(Axis("epsilon", (x[0], x[-1])), Axis("density", (0, top)), marks)],
        size=(6.6, 4.2),
    )


def predictive_chart(counts: AttackCounts | None, check: PredictiveCheck) -> Chart:
    """Sorted rates of the attacks, with those that the posterior predicts."""
    odd = [item.name for item in check.statistics if item.surprising]
    caption = (
        f"Dots: the bases, sorted by each rate. Bars: {percent(check.level)} of attacks simulated from "
        "the posterior. Advantage is 1 minus both error rates. Attacks worse than guessing are "
        f"reflected. P-values below {SURPRISING:g} are marked."
    )
    if odd:
        caption += (
            f" The model does not explain: {', '.join(odd)}. This happens when all attacks have similar "
            "rates, for example one target false-positive rate: the model expects their rates anywhere "
            "in the region."
        )
    else:
        caption += " The model explains everything checked here."
    plots = [_sorted_plot(counts, quantity, check.level) for quantity in check.quantities]
    return Chart(
        name="predictive",
        title="Posterior predictive check: observed and predicted counts",
        caption=caption,
        plots=plots,
        size=(11.0, 3.9),
        columns=len(plots),
    )


def _sorted_plot(counts: AttackCounts | None, quantity: SortedQuantity, level: float) -> Plot:
    kept = style.picked(len(quantity.observed), MOST_POINTS)
    # In a notebook nothing is said of single bases, and their counts need not be known.
    rows, hover = ([], None) if counts is None else style.hover_of_bases(counts)
    said = [rows[base] for base in quantity.order[kept].tolist()] if rows else None
    seen, low, high = (each[kept] for each in (quantity.observed, quantity.low, quantity.high))
    marks = predicted_marks(kept + 1, seen, low, high, level=level, rows=said, hover=hover)
    # Of few bases every one has its tick, and no tick lies between two.
    across = Axis("bases, sorted", whole=len(kept) <= FEW_BASES)
    return Plot(across, Axis(quantity.name, (-0.03, 1.03)), marks)


def predicted_marks(
    x: IntArray, seen: FloatArray, low: FloatArray, high: FloatArray, *,
    level: float, rows: Sequence[Any] | None, hover: str | None, odd: BoolArray | None = None,
) -> list[Mark]:  # fmt: skip
    """Observed values as dots on bars of predicted ones; those that are ``odd`` are purple."""
    bars = np.repeat(x, 3), np.stack([low, high, np.full(len(x), np.nan)], axis=1).ravel()
    width = float(np.clip(90 / len(x), 1.5, 5))
    marks: list[Mark] = [
        Line(*bars, "blue", f"predicted, {percent(level)}", width=width, opacity=0.4)
    ]
    wrong = np.zeros(len(x), dtype=bool) if odd is None else odd
    for places, colour, label in (
        (np.flatnonzero(~wrong), "orange", "observed"),
        (np.flatnonzero(wrong), "purple", "observed, does not fit"),
    ):
        if len(places):
            said = None if rows is None else [rows[place] for place in places.tolist()]
            look: dict[str, Any] = {"size": style.dot_size(len(x)), "rows": said, "hover": hover}
            marks.append(Points(x[places], seen[places], colour, label, **look))
    return marks
