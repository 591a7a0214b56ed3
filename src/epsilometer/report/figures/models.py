"""Epsilon under other assumptions, side by side, each with its evidence."""

from __future__ import annotations

from epsilometer.inference.checks.comparison import ModelComparison
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Mark, Note, Plot
from epsilometer.report.text import percent


def models_chart(comparison: ModelComparison, *, level: float) -> Chart:
    """Intervals of epsilon, one for each assumption; the one used is at the top.

    Assumptions under which nothing was found are left out; those whose evidence does not compare with
    that of the model used are grey.
    """
    marks: list[Mark] = []
    names: list[str] = []
    ends: list[float] = []
    for each in comparison.assumptions:
        if each.posterior is None:
            continue
        factor, row = each.log_bayes_factor, len(names)
        evidence = each.words if factor is None or each.own else f"log BF {factor:+.1f}"
        colour = "orange" if each.own else "grey" if factor is None else "blue"
        median = each.posterior.median("epsilon")
        interval = each.posterior.credible_interval("epsilon", level)
        label, extra = style.page_name(each.label), f"<br>{evidence}"
        marks += [
            style.interval_row(row, median, interval, level, colour, label, extra=extra),
            Note(evidence, row),
        ]
        names.append(each.label)
        ends.append(interval[1])
    plot = Plot(
        Axis(f"epsilon: median and {percent(level)} interval", (0, 1.05 * max(ends))),
        Axis("", (len(names) - 0.4, -0.6), names=names),
        marks,
        legend=False,
    )
    return Chart(
        name="models",
        title="Would other assumptions fit better?",
        caption=f"The median of epsilon and its {percent(level)} interval under the model used, and "
        "under others on the same counts. BF: Bayes factor against the model used. "
        + " ".join(comparison.sentences()),
        plots=[plot],
        size=(6.6, 1.3 + 0.42 * len(names)),
    )
