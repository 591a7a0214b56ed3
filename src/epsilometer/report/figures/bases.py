"""Figures of single bases under the curve model: ROC curves, epsilon, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer._text import counted, pair_text, percent
from epsilometer.checks.roc_curves import SURPRISING, RocCheck
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.result import BaseLeak
from epsilometer.judgement.units import units_of
from epsilometer.model.base_scores import BaseScores
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.checks import predicted_marks
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Points, ReferenceLine

MOST_ROCS = 12
"""Maximum number of ROC curves."""

MOST_LEAKS = 50
"""Maximum number of bases in the plot of epsilon per base."""

MOST_PREDICTED = 80
"""Maximum number of bases with predictions; beyond it, evenly spaced ones are drawn."""

RATES = 70
"""Points of a curve on a logarithmic axis."""

MOST_STEPS = 400
"""Maximum number of points of an observed ROC curve."""

LONGEST_TITLE, LONGEST_TICK = 22, 16
"""Maximum characters of a name in a plot's title and on an axis."""

ALGORITHM, SHOWN = "algorithm, estimated", ", shown"


def _said(leak: BaseLeak) -> list[str]:
    """What hovering over a base says, by the places of ``HOVER``."""
    return [
        style.page_name(leak.name),
        f"{leak.auc:.3f}",
        f"{leak.models_h0:,} without, {leak.models_h1:,} with",
        f"{leak.median:.3g} ({pair_text(leak.low, leak.high)})",
    ]


HOVER = "{0}\nepsilon {3}\nAUC {1}\nscores: {2}"


def _numbers(result: CurveResult, leaks: Sequence[BaseLeak]) -> list[int]:
    """The places of bases in the data."""
    number = {name: index for index, name in enumerate(result.scores.names)}
    return [number[leak.name] for leak in leaks]


# --- ROC curves -------------------------------------------------------------------------------


def roc_chart(result: CurveResult) -> Chart:
    """The ROC curve of each base with the posterior band of the true curve, worst base first."""
    drawn, units = result.leaks[:MOST_ROCS], units_of(result.scores)
    numbers = _numbers(result, drawn)
    finest = 0.5 / int(result.scores.trials_h0[numbers].max())
    rates = np.geomspace(finest, 1.0, RATES)
    limit = 1 - result.posterior.trade_off(rates, [0.5])[0]
    plots = [
        _roc_plot(result, leak, number, rates, limit)
        for leak, number in zip(drawn, numbers, strict=True)
    ]
    caption = (
        f"One plot per {units.base}, with its epsilon above. Orange: the observed ROC curve (true "
        f"positives: {units.with_point}; false positives: {units.without}). Blue: the posterior of the "
        f"true curve, median and {percent(result.level)} band; the observed curve scatters around it "
        "by chance. Dotted: guessing. Dashed: the best attack on the worst record, as estimated for the "
        "algorithm. The horizontal axis is logarithmic, since leaks show at small false-positive rates; "
        "its left end stands for 0."
    )
    if any(base.grouped for base in result.scores.bases):
        caption += " Dots: counts; the line between them is only a guide."
    columns = min(3, len(plots))
    return Chart(
        name="roc",
        title=f"ROC curve of each {units.base}",
        caption=caption + _only(result, len(drawn)),
        plots=plots,
        size=(3.6 * columns + 0.6, 2.9 * -(-len(plots) // columns) + 0.5),
        columns=columns,
    )


def _only(result: CurveResult, drawn: int) -> str:
    """A sentence if some bases are not drawn."""
    bases, base = len(result.leaks), units_of(result.scores).base
    if drawn == bases:
        return ""
    return f" Only the {drawn} with the largest epsilon of {bases:,} {base}s are drawn."


def _roc_plot(
    result: CurveResult, each: BaseLeak, number: int, rates: FloatArray, limit: FloatArray
) -> Plot:
    """One base; ``limit`` are the true-positive rates of the best attack on the algorithm."""
    level, base, finest = result.level, result.scores.bases[number], float(rates[0])
    # Large false-negative rates are small true-positive ones.
    tails = [0.5 + level / 2, 0.5, 0.5 - level / 2]
    low, middle, high = 1 - result.posterior.trade_off(rates, tails, base=number)
    false, true = drawn_roc(base, finest)
    where = "\nfalse-positive rate {x:.3g}, true-positive rate {y:.3f}"
    best = f"best attack on the algorithm{where}"
    marks: list[Mark] = [
        Band(rates, low, high, "blue", f"{percent(level)} band", opacity=0.25),
        Line(rates, rates, "grey", "guessing", width=0.9, dash="dot"),
        Line(rates, limit, "grey", "best", width=1.1, dash="dash", hover=best),
        Line(rates, middle, "blue", "median", width=1.2, hover=f"median{where}"),
        Line(false, true, "orange", "observed", width=1.3, hover=f"observed{where}"),
    ]
    if base.grouped:  # nothing is known between the thresholds
        x, y = np.stack(base.roc())[:, 1:-1]
        marks.append(Points(x, y, "orange", "counted", size=5, hover=f"counted{where}"))
    title = f"{style.shortened(each.name, LONGEST_TITLE)}: {pair_text(each.low, each.high)}"
    across = Axis("false-positive rate", (finest, 1.0), logarithmic=True)
    up = Axis("true-positive rate", (-0.02, 1.02))
    return Plot(across, up, marks, title=title, legend=False, page_height=300)


def drawn_roc(base: BaseScores, finest: float) -> FloatPair:
    """The observed curve on a logarithmic axis; a false-positive rate of 0 is at its left end."""
    false, true = base.roc()
    if len(false) > MOST_STEPS:
        rates = np.geomspace(finest, 1.0, MOST_STEPS)
        return rates, base.true_positive_rate(rates)
    # Ties are straight lines, which are curved on this axis.
    between = max(1, MOST_STEPS // (4 * len(false)))
    places = np.linspace(0, len(false) - 1, between * (len(false) - 1) + 1)
    steps = np.arange(len(false))
    return np.maximum(np.interp(places, steps, false), finest), np.interp(places, steps, true)


# --- leaks ------------------------------------------------------------------------------------


def leaks_chart(result: CurveResult) -> Chart:
    """Epsilon of each base with its interval, below those of the algorithm and of the worst base."""
    posterior, level = result.posterior, result.level
    drawn, units = result.leaks[:MOST_LEAKS], units_of(result.scores)
    worst = f"{units.worst}{SHOWN}"
    answers = [
        style.interval_row(row, posterior, name, level, colour, label)
        for row, (name, label, colour) in enumerate(
            (("epsilon", ALGORITHM, "blue"), ("shown", worst, "green"))
        )
    ]
    low, median, high = np.array([(leak.low, leak.median, leak.high) for leak in drawn]).T
    look: dict[str, Any] = {"bar": 1.6, "size": 5, "hover": HOVER}
    places, said = np.arange(len(drawn)) + 2, [_said(leak) for leak in drawn]
    dots = Points(median, places, "grey", x_ends=(low, high), rows=said, **look)
    names = [ALGORITHM, worst, *(style.shortened(leak.name, LONGEST_TICK) for leak in drawn)]
    end = max(
        *high, *(posterior.credible_interval(name, level)[1] for name in ("epsilon", "shown"))
    )
    return Chart(
        name="leaks",
        title=f"Epsilon of each {units.base}",
        subtitle=f": median and {percent(level)} interval",
        caption=f"Median and {percent(level)} interval of epsilon at delta = {result.model.delta:g}. "
        "Blue: the algorithm, including what the attacks may have missed. Green: the worst "
        f"{units.base}, which is what the attacks have shown. Grey: each {units.base}, in order of "
        f"decreasing epsilon.{_only(result, len(drawn))}",
        plots=[
            style.interval_plot(
                "epsilon", names, [*answers, ReferenceLine(y=1.5), dots], (0, 1.05 * end or 1.0)
            )
        ],
        size=(6.6, 1.6 + 0.24 * len(names)),
    )


# --- predictions ------------------------------------------------------------------------------


def roc_check_chart(result: CurveResult) -> Chart:
    """Statistics of the observed ROC curves, with those that the posterior predicts."""
    check, base = result.predictive, units_of(result.scores).base
    kept = style.picked(len(result.leaks), MOST_PREDICTED)
    leaks = [result.leaks[place] for place in kept.tolist()]
    order, said = np.array(_numbers(result, leaks)), [_said(leak) for leak in leaks]
    plots = predicted_plots(check, order, base=base, places=kept + 1, said=said)
    caption = (
        f"Dots: each {base} as observed, in order of decreasing epsilon. Bars: {percent(check.level)} "
        "of audits simulated from the posterior. AUC is the area under the ROC curve (0.5 for "
        "guessing); the true-positive rates are those at false-positive rates of 0.01 and 0.1. "
    )
    if check.fits:
        caption += "The model explains everything checked here."
    else:
        odd = check.surprising
        listed = "; ".join(odd[:3]) + (f"; and {len(odd) - 3} more" if len(odd) > 3 else "")
        caption += f"The model does not explain: {_files.printable(listed)}."
        if (check.p_value < SURPRISING / check.p_value.size).any():
            caption += f" Such {base}s are purple."
    if len(kept) < len(check.names):
        caption += (
            f" Only {len(kept)} of {counted(len(check.names), base)} are drawn, evenly spaced."
        )
    return Chart(
        name="predictive",
        title="Posterior predictive check: observed and predicted ROC curves",
        caption=caption,
        plots=plots,
        size=(11.0, 3.9),
        columns=len(plots),
    )


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
        odd = (check.p_value < SURPRISING / check.p_value.size)[order, column]
        ends = zip(values[1].tolist(), values[2].tolist(), said or [[""] * 4] * len(x), strict=True)
        rows = [[*words, f"{low:.3f} to {high:.3f}"] for low, high, words in ends]
        hover = f"{HOVER}\nobserved {{y:.3f}}, predicted {{4}}"
        marks = predicted_marks(x, *values, level=check.level, rows=rows, hover=hover, odd=odd)
        plots.append(Plot(across, Axis(statistic, (-0.03, 1.03)), marks))
    return plots
