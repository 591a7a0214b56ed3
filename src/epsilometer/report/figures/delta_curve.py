"""Epsilon over delta: a band and the median, with what is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.report.delta_table import CurveTable
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Points, Sheet

FARTHEST_CLAIM = 2.5
"""In units of where the band ends: claims beyond that are not shown, they would flatten the band."""

WIDE = 30.0
"""Medians whose largest is so many times their smallest need a logarithmic axis."""

MOST_DOTS = 30
"""Deltas that get a dot each; more would be a thick line."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeltaCurveChart(Chart):
    """Intervals and medians of epsilon over a logarithmic axis of delta.

    ``delta`` is where a delta is drawn: 0 has no place on the axis and stands a little left of the
    smallest other.  ``claim`` is NaN where nothing is claimed or the claim is far above the band.
    """

    delta: FloatArray
    low: FloatArray
    median: FloatArray
    high: FloatArray
    claim: FloatArray
    rising: BoolArray
    level: float
    has_zero: bool
    claims_beyond: int

    name = "delta-curve"
    title = "Epsilon over delta"

    @classmethod
    def of(cls, table: CurveTable) -> DeltaCurveChart:
        """The chart of a curve."""
        low, median, high = table.quantiles
        deltas = table.curve.deltas
        positive = deltas[deltas > 0]
        least = 0.1 * float(positive[0]) if len(positive) else 1.0
        claims = np.full(len(deltas), np.nan)
        beyond = 0
        if table.verdict is not None:
            finite = np.isfinite(table.verdict.claims)
            far = finite & (table.verdict.claims > FARTHEST_CLAIM * high.max())
            claims = np.where(finite & ~far, table.verdict.claims, np.nan)
            beyond = int(far.sum())
        return cls(
            delta=np.where(deltas > 0, deltas, least),
            low=low,
            median=median,
            high=high,
            claim=claims,
            rising=table.curve.rising,
            level=table.level,
            has_zero=bool(deltas[0] == 0),
            claims_beyond=beyond,
        )

    @property
    def caption(self) -> str:
        text = (
            f"The band holds {100 * self.level:g} % of the posterior of epsilon at each delta taken "
            "alone; the line is its median."
        )
        if self.has_zero:
            text += " The leftmost point is delta = 0, which has no place on this axis."
        if np.isfinite(self.claim).any():
            text += " Where the claim lies below the band, the counts speak against it."
        if self.claims_beyond:
            text += f" {self.claims_beyond} claims lie above the plot."
        if self.rising.any():
            text += " Circles: a quantile is higher than at some smaller delta; see the notes."
        return text

    @property
    def logarithmic(self) -> bool:
        """Whether epsilon too needs a logarithmic axis."""
        return bool(self.median.max() > WIDE * self.median.min())

    def sheet(self, *, fine: bool) -> Sheet:
        x, low, high = self.delta, self.low, self.high
        rows = np.stack([low, high], axis=1).tolist()
        ends = None
        if len(x) == 1:  # a band over one delta has no width
            ends = (float(0.1 * x[0]), float(10 * x[0]))
            x, low, high = x * [0.9, 1.1], np.repeat(low, 2), np.repeat(high, 2)
        marker = "circle" if len(self.delta) <= MOST_DOTS else None
        hover = "delta %{x:.3g}: median %{y:.4g}, %{customdata[0]:.4g} to %{customdata[1]:.4g}"
        line = Line(
            self.delta, self.median, "blue", "median", marker=marker, hover=hover, rows=rows
        )
        marks: list[Mark] = [Band(x, low, high, "blue", f"{100 * self.level:g} % interval"), line]
        if np.isfinite(self.claim).any():
            hover = "claimed at delta %{x:.3g}: %{y:.4g}"
            look: dict[str, Any] = {"marker": marker, "step": "post", "hover": hover}
            marks.append(Line(self.delta, self.claim, "orange", "claim", **look))
        if self.rising.any():
            where = self.delta[self.rising], self.median[self.rising]
            marks.append(Points(*where, "purple", "higher than at a smaller delta", hollow=True))
        log = self.logarithmic
        axis = Axis("epsilon", logarithmic=log, from_zero=not log)
        plot = Plot(Axis("delta", ends, logarithmic=True, powers=True), axis, marks)
        return Sheet(self.title, [plot], (6.4, 4.2))
