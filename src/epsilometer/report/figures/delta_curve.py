"""Epsilon over delta: a band and the median, with what is claimed."""

from __future__ import annotations

import numpy as np

from epsilometer._text import percent
from epsilometer.judgement.claimed_curve import JudgedCurve
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Points

FARTHEST_CLAIM = 2.5
"""In units of where the band ends: claims beyond that are not shown, they would flatten the band."""

WIDE = 30.0
"""Ratio of the largest to the smallest median from which the axis is logarithmic."""

MOST_DOTS = 30
"""Maximum number of deltas drawn with a marker."""


def delta_curve_chart(judged: JudgedCurve) -> Chart:
    """Intervals and medians of epsilon over a logarithmic axis of delta."""
    deltas, (low, median, high) = judged.curve.deltas, judged.quantiles
    positive, rising = deltas[deltas > 0], judged.curve.rising
    # 0 is not on a logarithmic axis: it is drawn to the left of the smallest other.
    x = np.where(deltas > 0, deltas, 0.1 * float(positive[0]) if len(positive) else 1.0)
    marker = "circle" if len(x) <= MOST_DOTS else None
    hover = "delta {x:.3g}: median {y:.4g}, {0:.4g} to {1:.4g}"
    rows = np.stack([low, high], axis=1).tolist()
    ends, wide, held = None, x, (low, high)
    if len(x) == 1:  # a band over one delta has no width
        ends = (float(0.1 * x[0]), float(10 * x[0]))
        wide, held = x * [0.9, 1.1], (np.repeat(low, 2), np.repeat(high, 2))
    marks: list[Mark] = [
        Band(wide, *held, "blue", f"{percent(judged.level)} interval"),
        Line(x, median, "blue", "median", marker=marker, hover=hover, rows=rows),
    ]
    caption = f"Median and {percent(judged.level)} interval of epsilon at each single delta."
    if deltas[0] == 0:
        caption += " The leftmost point is delta = 0, which a logarithmic axis cannot show."
    if judged.verdict is not None:
        claims = judged.verdict.claims
        claimed, far = np.isfinite(claims), claims > FARTHEST_CLAIM * high.max()
        if (claimed & ~far).any():
            caption += " Where the claim is below the band, the counts contradict it."
            shown = np.where(claimed & ~far, claims, np.nan)
            said = "claimed at delta {x:.3g}: {y:.4g}"
            marks.append(Line(x, shown, "orange", "claim", marker=marker, step="post", hover=said))
        if (claimed & far).any():
            caption += f" {int((claimed & far).sum())} claims are above the plot."
    if rising.any():
        caption += " Circles: a quantile is higher than at some smaller delta; see the notes."
        label = "higher than at a smaller delta"
        marks.append(Points(x[rising], median[rising], "purple", label, hollow=True))
    log = bool(median.max() > WIDE * median.min())
    axis = Axis("epsilon", logarithmic=log, from_zero=not log)
    plot = Plot(Axis("delta", ends, logarithmic=True, powers=True), axis, marks)
    title = "Epsilon over delta"
    return Chart(name="delta-curve", title=title, caption=caption, plots=[plot], size=(6.4, 4.2))
