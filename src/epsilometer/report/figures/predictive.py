"""Whether attacks like these would be expected, if the model were right."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from epsilometer.inference.checks.predictive import SURPRISING, PredictiveCheck, SortedQuantity
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Plot, Points
from epsilometer.report.text import percent

FEW_BASES = 12
"""So many ticks have room on a phone."""

MOST_POINTS = 400
"""Points drawn of each sorted quantity; of more, evenly spaced ones are picked."""


def predictive_chart(counts: AttackCounts, check: PredictiveCheck) -> Chart:
    """Sorted rates of the attacks beside those of attacks that the posterior would predict."""
    odd = [item.name for item in check.statistics if item.surprising]
    caption = (
        "Dots: the bases in the order of each rate. Band: where "
        f"{percent(check.level)} of newly made-up attacks with the posterior's epsilon and strength "
        "would put them. Advantage is 1 less both error rates. Attacks worse than guessing are "
        f"reflected. P-values below {SURPRISING:g} are marked."
    )
    if odd:
        caption += (
            f" Hard to explain by the model: {', '.join(odd)}. Attacks near one place do "
            "this, as when all aim at one false-positive rate: the model takes their rates to lie "
            "anywhere in the region."
        )
    else:
        caption += " Nothing checked here is hard to explain by the model."
    plots = [_plot(counts, quantity, check.level) for quantity in check.quantities]
    return Chart(
        name="predictive",
        title="Counts that were seen, and counts that the model predicts",
        caption=caption,
        plots=plots,
        size=(11.0, 3.9),
        columns=len(plots),
    )


def _plot(counts: AttackCounts, quantity: SortedQuantity, level: float) -> Plot:
    kept = style.picked(len(quantity.observed), MOST_POINTS)
    x, low, high = kept + 1, quantity.low[kept], quantity.high[kept]
    rows, hover = style.hover_of_bases(counts)
    seen = Points(
        x,
        quantity.observed[kept],
        "orange",
        "seen",
        size=style.dot_size(len(x)),
        rows=[rows[base] for base in quantity.order[kept].tolist()],
        hover=hover,
    )
    wide: ArrayLike = x
    if len(x) == 1:  # a band over one base would have no width
        wide, low, high = x + [-0.4, 0.4], np.repeat(low, 2), np.repeat(high, 2)
    band = Band(wide, low, high, "blue", f"predicted, {percent(level)}")
    middle = Line(x, quantity.middle[kept], "blue", width=1.2)
    # Of few bases every one has its tick, and no tick lies between two.
    across = Axis("bases in order", whole=len(x) <= FEW_BASES)
    return Plot(across, Axis(quantity.name, (-0.03, 1.03)), [band, middle, seen])
