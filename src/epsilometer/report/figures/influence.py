"""How the interval of epsilon moves when one challenge base is left out."""

from __future__ import annotations

import numpy as np

from epsilometer.inference.checks.influence import Influence
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Plot, Points, Rule, Span
from epsilometer.report.text import pair_text, percent

MOST_ROWS = 30
"""Bases drawn: those that move the interval most."""

LONGEST_TICK = 16
"""A name short enough for an axis on a phone."""


def influence_chart(counts: AttackCounts, influence: Influence) -> Chart:
    """Median and interval of epsilon without each base, beside those with all of them."""
    without = np.stack([influence.low, influence.median, influence.high])
    moved = np.abs(without - np.array(influence.with_all)[:, None]).max(axis=0)
    order = np.argsort(-moved, kind="stable")
    shown, first = order[:MOST_ROWS], int(order[0])
    start, middle, end = influence.with_all
    name = style.shortened(influence.names[first], 24)
    caption = (
        f"The {percent(influence.level)} interval of epsilon if one base had not been attacked; the "
        f"band is the one with all of them. The base that matters most is {name}: without it the "
        f"interval is {pair_text(*without[::2, first].tolist())} instead of {pair_text(start, end)}."
    )
    if len(order) > MOST_ROWS:
        caption += f" Drawn are the {MOST_ROWS} most influential of {len(order):,} bases."
    doubtful = int((~influence.reliable).sum())
    if doubtful:
        caption += f" For {doubtful:,} bases this could be worked out only roughly (hollow)."
    rows, hover = style.hover_of_bases(counts)
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
        hover=f"{hover}<br>without it: median %{{x:.4g}}, interval %{{customdata[3]}}",
    )
    names = [style.shortened(influence.names[base], LONGEST_TICK) for base in shown.tolist()]
    plot = Plot(
        Axis(f"epsilon without the base, {percent(influence.level)} interval"),
        Axis("", (len(shown) - 0.4, -0.6), names=names),
        [Span(start, end), Rule(x=middle, colour="blue", dash="solid"), dots],
        legend=False,
        page_height=140 + 20 * max(len(shown), 4),
    )
    return Chart(
        name="influence",
        title="How much rests on single bases",
        caption=caption,
        plots=[plot],
        size=(6.6, 1.6 + 0.24 * len(shown)),
    )
