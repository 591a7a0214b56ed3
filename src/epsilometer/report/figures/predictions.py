"""Figures of the predictive checks: observed values as dots on bars of predicted ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer._text import counted, percent
from epsilometer.checks.predictive import PredictiveCheck, SortedQuantity
from epsilometer.checks.roc_curves import RocCheck
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.units import units_of
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.curve_model import HOVER, hover_row, numbers_of
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points

#: Surprising statistics that a caption names.
MOST_NAMED = 3

#: Up to this number of bases, every base has its tick.
FEW_BASES = 12

#: Maximum number of points per sorted quantity; beyond it, evenly spaced ones are drawn.
MOST_POINTS = 400


def predictive_chart(counts: AttackCounts | None, check: PredictiveCheck) -> Chart:
    """Sorted rates of the attacks, with those that the posterior predicts."""
    caption = (
        f"Dots: the bases, sorted by each rate. Bars: {percent(check.level)} of attacks simulated from "
        "the posterior. Advantage is 1 minus both error rates. Attacks worse than guessing are "
        "reflected."
    )
    plots = [_sorted_plot(counts, quantity, check.level) for quantity in check.quantities]
    return _chart("counts", plots, caption, check.surprising)


def _chart(what: str, plots: list[Plot], caption: str, odd: list[str]) -> Chart:
    """The plots side by side, and what the model does not explain."""
    said = "The model explains everything checked here."
    if odd:
        more = [f"and {len(odd) - MOST_NAMED} more"] if len(odd) > MOST_NAMED else []
        listed = "; ".join([*odd[:MOST_NAMED], *more])
        said = f"The model does not explain: {_files.printable(listed)}."
    title = f"Posterior predictive check: observed and predicted {what}"
    caption, size = f"{caption} {said}", (11.0, 3.9)
    return Chart(title=title, caption=caption, plots=plots, size=size, columns=len(plots))


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
    label = f"predicted, {percent(level)}"
    marks: list[Mark] = [Line(*bars, "blue", label, width=width, opacity=0.4)]
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


#: Maximum number of bases with predictions; beyond it, evenly spaced ones are drawn.
MOST_PREDICTED = 80


def roc_check_chart(result: CurveResult) -> Chart:
    """Statistics of the observed ROC curves, with those that the posterior predicts."""
    check, base = result.predictive, units_of(result.scores).base
    kept = style.picked(len(result.leaks), MOST_PREDICTED)
    leaks = [result.leaks[place] for place in kept.tolist()]
    order, said = np.array(numbers_of(result, leaks)), [hover_row(leak) for leak in leaks]
    plots = predicted_plots(check, order, base=base, places=kept + 1, said=said)
    caption = (
        f"Dots: each {base} as observed, in order of decreasing epsilon; purple ones do not fit. Bars: "
        f"{percent(check.level)} of audits simulated from the posterior. AUC: area under the ROC curve "
        "(0.5 for guessing); rates: true positives at false-positive rates of 0.01 and 0.1."
    )
    if len(kept) < len(check.names):
        of = counted(len(check.names), base)
        caption += f" Only {len(kept)} of {of} are drawn, evenly spaced."
    return _chart("ROC curves", plots, caption, check.surprising)


def predicted_plots(
    check: RocCheck, order: IntArray, *, base: str, places: IntArray | None = None,
    said: list[list[str]] | None = None,
) -> list[Plot]:  # fmt: skip
    """A plot of each statistic, bases in ``order`` at ``places``; ``said`` is what hovering says."""
    x = np.arange(1, len(order) + 1) if places is None else places
    across = Axis(f"{base}s, worst first", (0.4, len(check.names) + 0.6), whole=len(x) <= 12)
    plots = []
    for column, statistic in enumerate(check.statistics):
        values = [each[order, column] for each in (check.observed, check.low, check.high)]
        odd = check.odd[order, column]
        ends = zip(values[1].tolist(), values[2].tolist(), said or [[""] * 4] * len(x), strict=True)
        rows = [[*words, f"{low:.3f} to {high:.3f}"] for low, high, words in ends]
        hover = f"{HOVER}\nobserved {{y:.3f}}, predicted {{4}}"
        marks = predicted_marks(x, *values, level=check.level, rows=rows, hover=hover, odd=odd)
        plots.append(Plot(across, Axis(statistic, (-0.03, 1.03)), marks))
    return plots
