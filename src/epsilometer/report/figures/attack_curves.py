"""ROC curves of several attacks on logarithmic axes, as papers on membership inference draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from epsilometer.comparison.attacks import AttackComparison
from epsilometer.report.figures import render_print
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Sheet
from epsilometer.report.figures.style import SEVERAL

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_attack_curves(found: AttackComparison) -> Figure:
    """Draw every attack's curve, and the line of guessing."""
    curves = [(row.attack, row.roc) for row in found.rows]
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
    title = f"Attacks on the same models\n{found.source.partition(';')[0]}"
    return render_print.draw(Sheet(title, [plot], (6.0, 7.0), legend="below"))
