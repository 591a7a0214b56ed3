"""Figures of the checks: other priors, predictions, other models, bases left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer._text import pair_text, percent
from epsilometer.checks.comparison import ModelComparison
from epsilometer.checks.influence import Influence
from epsilometer.checks.predictive import SURPRISING, PredictiveCheck, SortedQuantity
from epsilometer.checks.sensitivity import AlternativePrior
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import (
    Axis,
    Line,
    Mark,
    Note,
    Plot,
    Points,
    ReferenceLine,
    Span,
)

PRIOR_POINTS = 240
"""Points of each density."""

PRIOR_COLOURS = ("green", "blue", "orange")
"""From the narrowest prior to the widest."""

FEW_BASES = 12
"""Up to this number of bases, every base has its tick."""

MOST_POINTS = 400
"""Maximum number of points per sorted quantity; beyond it, evenly spaced ones are drawn."""

MOST_ROWS = 30
"""Maximum number of bases drawn, the most influential first."""

LONGEST_TICK = 16
"""Maximum characters of a name on an axis, to fit a phone."""


def prior_chart(result: CountResult | CurveResult) -> Chart | None:
    """Posteriors and priors of epsilon for several scales of the prior, and the intervals."""
    if not result.other_priors:
        return None
    level, posterior = result.level, result.posterior
    own = AlternativePrior(factor=1.0, model=result.model, epsilon=posterior.marginal("epsilon"))
    versions = sorted([own, *result.other_priors], key=lambda version: version.factor)
    # Without a leak epsilon is 0, which a density does not show.
    leaks = 1 - float(getattr(result.model, "no_leak", 0.0) or 0.0)
    factors = [version.factor for version in versions]
    names = ["as reported" if k == 1 else f"prior scale x {k:g}" for k in factors]
    reach = np.array([version.epsilon.quantile(np.array([0.002, 0.985])) for version in versions])
    # All probability may be at 0.
    low, high = float(reach[:, 0].min()), float(reach[:, 1].max()) or 1.0
    room = 0.08 * (high - low) or 1e-9
    x = np.linspace(max(low - room, 0.0), high + room, PRIOR_POINTS)
    says = "\nepsilon {x:.3f}, density {y:.4g}"
    thin: dict[str, Any] = {"width": 1.0, "dash": "dash", "listed": False}
    middle = np.array([0.5 - level / 2, 0.5, 0.5 + level / 2])
    densities, rows, intervals, peaks = [], [], [], []
    drawn = zip(versions, names, PRIOR_COLOURS, strict=False)
    for row, (version, label, colour) in enumerate(drawn):
        epsilon, prior = version.epsilon, version.model.epsilon
        after, before = epsilon.density(x), leaks * np.exp(prior.log_density(x))
        densities += [
            Line(x, after, colour, label, hover=f"{label}, posterior{says}"),
            Line(x, before, colour, label, hover=f"{label}, prior{says}", **thin),
        ]
        low, median, high = epsilon.quantile(middle).tolist()
        rows.append(style.interval_row(row, median, (low, high), level, colour, label))
        intervals.append((low, high))
        peaks.append(float(after.max()))
    ends = (x[0], x[-1])
    top = style.end_of_densities(max(peaks), min(high - low for low, high in intervals))
    across = Axis(f"epsilon: median and {percent(level)} interval", ends)
    texts = [pair_text(*interval) for interval in intervals]
    said = dict(zip(factors, texts, strict=True))
    reported = said.pop(1.0)
    moved = " and ".join(f"{text} with the scale x {factor:g}" for factor, text in said.items())
    no_leak = style.no_leak_text(posterior)
    hidden = f" Not drawn: probability {no_leak} of no leak, where epsilon is 0." if no_leak else ""
    return Chart(
        name="prior",
        title="Sensitivity to the prior",
        caption=f"Solid: posteriors; dashed: their priors. The {percent(level)} interval is {reported}; "
        f"it would be {moved}. The more the interval moves with the prior, the less the data "
        f"determine it.{hidden}",
        plots=[
            Plot(Axis("epsilon", ends), Axis("density", (0, top)), densities),
            Plot(across, Axis("", (-0.6, len(names) - 0.4), names=names), rows, legend=False),
        ],
        size=(6.6, 4.8),
        heights=[4, 1],
        share_x=True,
    )


def predictive_chart(counts: AttackCounts | None, check: PredictiveCheck) -> Chart:
    """Sorted rates of the attacks, with those that the posterior predicts."""
    odd = [item.name for item in check.statistics if item.surprising]
    caption = (
        "Dots: the bases, sorted by each rate. Bars: "
        f"{percent(check.level)} of attacks simulated from the posterior. Advantage is 1 minus "
        "both error "
        "rates. Attacks worse than guessing are reflected. "
        f"P-values below {SURPRISING:g} are marked."
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
    for which, colour, label in (
        (~wrong, "orange", "observed"),
        (wrong, "purple", "observed, does not fit"),
    ):
        if which.any():
            said = (
                None if rows is None else [rows[place] for place in np.flatnonzero(which).tolist()]
            )
            size = style.dot_size(len(x))
            marks.append(
                Points(x[which], seen[which], colour, label, size=size, rows=said, hover=hover)
            )
    return marks


def models_chart(comparison: ModelComparison, *, level: float) -> Chart:
    """Intervals of epsilon under each model; the one used is at the top.

    Models that contradict the data are left out; those whose evidence cannot be compared with that of
    the model used are grey.
    """
    marks: list[Mark] = []
    names: list[str] = []
    ends: list[float] = []
    for assumption in comparison.assumptions:
        if assumption.posterior is None:
            continue
        factor, row = assumption.log_bayes_factor, len(names)
        evidence = (
            assumption.interpretation
            if factor is None or assumption.own
            else f"log BF {factor:+.1f}"
        )
        colour = "orange" if assumption.own else "grey" if factor is None else "blue"
        median = assumption.posterior.median("epsilon")
        interval = assumption.posterior.credible_interval("epsilon", level)
        marks += [
            style.interval_row(
                row, median, interval, level, colour, assumption.label, extra=evidence
            ),
            Note(evidence, row),
        ]
        names.append(assumption.label)
        ends.append(interval[1])
    title = f"epsilon: median and {percent(level)} interval"
    plot = style.interval_plot(title, names, marks, ends=(0, 1.05 * max(ends)))
    return Chart(
        name="models",
        title="Would other models fit better?",
        caption=f"The median of epsilon and its {percent(level)} interval under the model used, and "
        "under others on the same counts. BF: Bayes factor against the model used. "
        + " ".join(comparison.sentences()),
        plots=[plot],
        size=(6.6, 1.3 + 0.42 * len(names)),
    )


def influence_chart(counts: AttackCounts | None, influence: Influence) -> Chart:
    """Median and interval of epsilon without each base, and with all of them."""
    without = np.stack([influence.low, influence.median, influence.high])
    moved = np.abs(without - np.array(influence.with_all)[:, None]).max(axis=0)
    order = np.argsort(-moved, kind="stable")
    shown, first = order[:MOST_ROWS], int(order[0])
    start, middle, end = influence.with_all
    name = style.shortened(influence.names[first], 24)
    caption = (
        f"The {percent(influence.level)} interval of epsilon without each base; the band is the "
        "interval "
        f"with all of them. The most influential base is {name}: without it the "
        f"interval is {pair_text(*without[::2, first].tolist())} instead of {pair_text(start, end)}."
    )
    if len(order) > MOST_ROWS:
        caption += f" Only the {MOST_ROWS} most influential of {len(order):,} bases are drawn."
    doubtful = int((~influence.reliable).sum())
    if doubtful:
        caption += f" Hollow: for {doubtful:,} bases this is only approximate."
    rows, hover = ([[]] * len(order), "") if counts is None else style.hover_of_bases(counts)
    low, median, high = without[:, shown]
    dots = Points(
        median,
        range(len(shown)),
        "grey",
        x_ends=(low, high),
        bar=1.6,
        size=5,
        hollow=~influence.reliable[shown],
        rows=[
            [*rows[base], pair_text(*ends)]
            for base, *ends in zip(shown.tolist(), low.tolist(), high.tolist(), strict=True)
        ],
        hover=f"{hover}\nwithout it: median {{x:.4g}}, interval {{3}}",
    )
    names = [style.shortened(influence.names[base], LONGEST_TICK) for base in shown.tolist()]
    across = f"epsilon without the base, {percent(influence.level)} interval"
    found: list[Mark] = [
        Span(start, end),
        ReferenceLine(x=middle, colour="blue", dash="solid"),
        dots,
    ]
    plot = style.interval_plot(across, names, found)
    return Chart(
        name="influence",
        title="Influence of single bases",
        caption=caption,
        plots=[plot],
        size=(6.6, 1.6 + 0.24 * len(shown)),
    )
