"""Estimators, and attacks, beside each other: bounds on one axis, ROC curves on logarithmic ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from epsilometer.baselines.estimator import Kind
from epsilometer.comparison.attacks import AttackComparison, Roc
from epsilometer.comparison.estimators import ABOUT_GAUSSIAN, Comparison
from epsilometer.report.figures import render_print
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, Sheet
from epsilometer.report.figures.style import SEVERAL, rows_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    Kind.EXACT_BOUND: "blue",
    Kind.APPROXIMATE_BOUND: "green",
    Kind.CREDIBLE: "orange",
    Kind.POINT: "grey",
}
GAUSSIAN = "purple"


def comparison_sheet(found: Comparison) -> Sheet:
    """All estimators that apply, the best base solid and the pooled counts thin below it."""
    rows = [row for row in found.rows if row.applies]
    ends = [value for row in rows for value in (row.low, row.high, *(row.pooled or ()))]
    reach = 1.12 * max([*filter(math.isfinite, ends), 0.1])
    marks: list[Mark] = []
    said: set[str] = set()
    for place, row in enumerate(rows):
        gaussian = row.about == ABOUT_GAUSSIAN
        colour = GAUSSIAN if gaussian else COLOURS[Kind(row.kind)]
        meaning = f"{row.kind}, if Gaussian" if gaussian else row.kind
        label = None if meaning in said else meaning
        said.add(meaning)
        if row.kind == Kind.POINT:
            marks.append(Points([row.low], [place], colour, label))
            continue
        bars = [(float(place), row.low, row.high, 2.6, label)]
        if row.pooled is not None:
            bars.append((place + 0.26, *row.pooled, 1.0, None))
        for at, low, high, width, said_here in bars:
            ends = [low, min(high, reach)]
            marks.append(Line(ends, [at, at], colour, said_here, width=width, opacity=0.85))
            big = 9.0 if width > 2 else 6.0
            last = ("end", big) if math.isfinite(high) else ("arrow", big / 2)
            for end, (symbol, tip) in zip(ends, [("end", big), last], strict=True):
                marks.append(Points([end], [at], colour, symbol=symbol, size=tip))
    if any(row.pooled is not None for row in rows):
        marks.append(Line([], [], "grey", "thin: all bases pooled", width=1))
    percent = f"{100 * found.significance:g} %"
    across = f"epsilon at delta = {found.delta:g}; each end errs with probability {percent}"
    names = [row.label for row in rows]
    plot = Plot(Axis(across, (-0.02 * reach, reach)), rows_axis(names), marks)
    title = f"Every estimator on the same data\n{found.source}"
    size = (7.4, 1.9 + 0.36 * len(rows))
    return Sheet(title, [plot], size, legend="below")


def draw_attack_curves(found: AttackComparison) -> Figure:
    """Draw every attack's curve, and the line of guessing."""
    title = f"Attacks on the same models\n{found.judge.source.partition(';')[0]}"
    return render_print.draw(roc_sheet(title, {row.attack: row.roc for row in found.rows}))


def roc_sheet(title: str, rocs: Mapping[str, Roc]) -> Sheet:
    """ROC curves by name on logarithmic axes, and the line of guessing."""
    curves = list(rocs.items())
    least = min(float(roc.false[0]) for _, roc in curves)
    marks: list[Mark] = [Line([least, 1.0], [least, 1.0], "grey", "guessing", width=1)]
    for number, (name, roc) in enumerate(curves):
        some = roc.true > 0
        colour = SEVERAL[number % len(SEVERAL)]
        dash = "solid" if number < len(SEVERAL) else "dash"
        label = f"{name} (AUC {roc.auc:.3f})"
        marks.append(Line(roc.false[some], roc.true[some], colour, label, dash=dash, width=1.8))
    floor = 10.0 ** np.floor(np.log10(least))
    plot = Plot(
        Axis("false-positive rate", (floor, 1.0), logarithmic=True, powers=True),
        Axis("true-positive rate", (floor, 1.0), logarithmic=True, powers=True),
        marks,
    )
    return Sheet(title, [plot], (6.0, 7.0), legend="below")
