"""The families of trade-off curves: their probabilities after and before the data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epsilometer.judgement.curve_result import CurveResult
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Mark, Points
from epsilometer.report.figures.style import interval_plot


def families_chart(result: CurveResult, misfits: Mapping[str, str]) -> Chart:
    """Posterior and prior probabilities of the families, over all their mixtures."""
    after: dict[str, float] = {}
    before: dict[str, float] = {}
    for row in result.posterior.families:
        after[row.family] = after.get(row.family, 0.0) + row.probability
        before[row.family] = before.get(row.family, 0.0) + row.prior
    names = sorted(after, key=lambda name: -after[name])
    marks: list[Mark] = []
    for colour, label, which in (
        ("blue", "fits", [name not in misfits for name in names]),
        ("purple", "does not fit", [name in misfits for name in names]),
    ):
        places = np.flatnonzero(which)
        if len(places):
            x = np.array([after[names[place]] for place in places.tolist()])
            ends, said = (np.zeros(len(x)), x), [[f"{value:.4f}"] for value in x.tolist()]
            hover = "posterior probability {0}"
            marks.append(Points(x, places, colour, label, x_ends=ends, bar=5, size=5, rows=said,
                                hover=hover))  # fmt: skip
    rings = [before[name] for name in names]
    # A little lower, so that no bar covers them.
    marks.append(Points(rings, np.arange(len(names)) + 0.3, "grey", "prior", hollow=True,
                        hover="prior probability {x:.4f}"))  # fmt: skip
    caption = (
        "Posterior (bars) and prior (rings) probability of each shape of the trade-off curve, over all "
        "mixtures; the estimate is averaged over all of them. The table has the mixtures: a point used "
        "at a rate matters in that share of trainings only; one seen at a rate is visible in that "
        "share of attacks. Scores cannot tell these two apart."
    )
    wrong = [name for name in names if name in misfits]
    if wrong:
        listed = ", ".join(wrong)
        caption += f" Purple: {listed} does not fit; that matters only where its bar is long."
    return Chart(
        name="families",
        title="Families of trade-off curves",
        subtitle=" (rings: prior)",
        caption=caption,
        plots=[interval_plot("probability", names, marks, (0, 1.03))],
        size=(6.6, 1.7 + 0.3 * len(names)),
    )
