"""Figures of the curve model: ROC curves and epsilon of single bases, families of curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray, FloatPair
from epsilometer._text import pair_text, percent
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.origin import BaseLeak
from epsilometer.judgement.units import units_of
from epsilometer.model.base_scores import BaseScores
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Points, Reference

#: Maximum number of ROC curves.
MOST_ROCS = 12

#: Maximum number of bases in the plot of epsilon per base.
MOST_LEAKS = 50

#: Points of a curve on a logarithmic axis.
RATES = 70

#: Maximum number of points of an observed ROC curve.
MOST_STEPS = 400

#: Maximum characters of a name in a plot's title and on an axis.
LONGEST_TITLE, LONGEST_TICK = 22, 16

ALGORITHM, SHOWN = "algorithm, estimated", ", shown"


def hover_row(leak: BaseLeak) -> list[str]:
    """What hovering over a base says, by the places of ``HOVER``."""
    return [
        style.shortened(leak.name),
        f"{leak.auc:.3f}",
        f"{leak.models_h0:,} without, {leak.models_h1:,} with",
        f"{leak.median:.3g} ({pair_text(leak.low, leak.high)})",
    ]


HOVER = "{0}\nepsilon {3}\nAUC {1}\nscores: {2}"


def numbers_of(result: CurveResult, leaks: Sequence[BaseLeak]) -> list[int]:
    """The places of bases in the data."""
    number = {name: index for index, name in enumerate(result.scores.names)}
    return [number[leak.name] for leak in leaks]


# --- ROC curves -------------------------------------------------------------------------------


def roc_chart(result: CurveResult) -> Chart:
    """The ROC curve of each base with the posterior band of the true curve, worst base first."""
    drawn, units = result.leaks[:MOST_ROCS], units_of(result.scores)
    numbers = numbers_of(result, drawn)
    finest = 0.5 / int(result.scores.trials_h0[numbers].max())
    rates = np.geomspace(finest, 1.0, RATES)
    limit = 1 - result.posterior.trade_off(rates, [0.5])[0]
    pairs = zip(drawn, numbers, strict=True)
    plots = [_roc_plot(result, leak, number, rates, limit) for leak, number in pairs]
    caption = (
        f"Orange: observed (true positives: {units.with_point}; false positives: {units.without}). "
        f"Blue: the posterior of the true curve, median and {percent(result.level)} band. Dotted: "
        "guessing. Dashed: the best attack on the worst record, as estimated for the algorithm. The "
        "left end of the logarithmic axis stands for 0."
    )
    if any(base.grouped for base in result.scores.bases):
        caption += " Dots: counts; the line between them is only a guide."
    columns = min(3, len(plots))
    title, caption = f"ROC curve of each {units.base}", caption + _only(result, len(drawn))
    size = (3.6 * columns + 0.6, 2.9 * -(-len(plots) // columns) + 0.5)
    return Chart(title=title, caption=caption, plots=plots, size=size, columns=columns)


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
    rows = (("epsilon", ALGORITHM, "blue"), ("shown", worst, "green"))
    answers = [
        style.interval_row(row, posterior, name, level, colour, label)
        for row, (name, label, colour) in enumerate(rows)
        if np.isfinite(posterior.credible_interval(name, level)[1])
    ]
    low, median, high = np.array([(leak.low, leak.median, leak.high) for leak in drawn]).T
    look: dict[str, Any] = {"bar": 1.6, "size": 5, "hover": HOVER}
    places, said = np.arange(len(drawn)) + 2, [hover_row(leak) for leak in drawn]
    dots = Points(median, places, "grey", x_ends=(low, high), rows=said, **look)
    names = [ALGORITHM, worst, *(style.shortened(leak.name, LONGEST_TICK) for leak in drawn)]
    ends = [posterior.credible_interval(name, level)[1] for name in ("epsilon", "shown")]
    end = max(*high, *filter(np.isfinite, ends))
    return Chart(
        title=f"Epsilon of each {units.base}",
        subtitle=f": median and {percent(level)} interval",
        caption=f"Median and {percent(level)} interval of epsilon at delta = {result.model.delta:g}: "
        "of the algorithm, including what the attacks may have missed, of the worst "
        f"{units.base} and of each {units.base}.{_only(result, len(drawn))}",
        plots=[
            style.interval_plot(
                "epsilon", names, [*answers, Reference(y=1.5), dots], (0, 1.05 * end or 1.0)
            )
        ],
        size=(6.6, 1.6 + 0.24 * len(names)),
    )


def families_chart(result: CurveResult, misfits: Mapping[str, str]) -> Chart:
    """Posterior and prior probabilities of the families, over all their mixtures."""
    posterior = result.posterior
    after, before = {}, dict.fromkeys((row.family for row in posterior.families), 0.0)
    for row in posterior.families:
        before[row.family] += row.prior
        after[row.family] = posterior.family_probability(row.family)
    names = sorted(after, key=lambda name: -after[name])
    wrong = np.array([name in misfits for name in names])
    marks: list[Mark] = []
    for colour, label, which in (("blue", "fits", ~wrong), ("purple", "does not fit", wrong)):
        places = np.flatnonzero(which)
        if len(places):
            x = np.array([after[names[place]] for place in places.tolist()])
            ends, said = (np.zeros(len(x)), x), [[f"{value:.4f}"] for value in x.tolist()]
            look: dict[str, Any] = {"rows": said, "hover": "posterior probability {0}"}
            marks.append(Points(x, places, colour, label, x_ends=ends, bar=5, size=5, **look))
    # A little lower, so that no bar covers them.
    rings = [before[name] for name in names], np.arange(len(names)) + 0.3
    hover = "prior probability {x:.4f}"
    marks.append(Points(*rings, "grey", "prior", hollow=True, hover=hover))
    caption = (
        "Posterior (bars) and prior (rings) probability of each shape of the trade-off curve; the "
        "estimate is averaged over all of them. Mixing of the algorithm: a point matters in that share "
        "of trainings; of the attacks: it is visible in that share of them."
    )
    if wrong.any():
        listed = ", ".join(name for name in names if name in misfits)
        caption += f" Purple: {listed} does not fit; that matters only where its bar is long."
    return Chart(
        title="Families of trade-off curves",
        subtitle=" (rings: prior)",
        caption=caption,
        plots=[style.interval_plot("probability", names, marks, (0, 1.03))],
        size=(6.6, 1.7 + 0.3 * len(names)),
    )
