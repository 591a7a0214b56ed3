"""Epsilon over delta: a band and the median, with what is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.report.delta_table import CurveTable
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, ORANGE, PURPLE, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

FARTHEST_CLAIM = 2.5
"""In units of where the band ends: claims beyond that are not shown, they would flatten the band."""

WIDE = 30.0
"""Medians whose largest is so many times their smallest need a logarithmic axis."""


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
    rising: NDArray[np.bool_]
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

    @property
    def _marked(self) -> tuple[FloatArray, FloatArray]:
        return self.delta[self.rising], self.median[self.rising]

    def draw(self) -> Figure:
        figure = style.new_figure(6.4, 4.2)
        axes = figure.add_subplot()
        label = f"{100 * self.level:g} % interval"
        marker = "o" if len(self.delta) <= 30 else ""
        axes.fill_between(
            self.delta, self.low, self.high, color=BLUE, alpha=0.2, linewidth=0, label=label
        )
        axes.plot(
            self.delta,
            self.median,
            color=BLUE,
            linewidth=1.8,
            marker=marker,
            markersize=3,
            label="median",
        )
        if len(self.delta) == 1:
            axes.vlines(self.delta, self.low, self.high, color=BLUE, alpha=0.4, linewidth=6)
        if np.isfinite(self.claim).any():
            style_of: dict[str, Any] = {
                "drawstyle": "steps-post",
                "linewidth": 1.5,
                "marker": marker,
            }
            axes.plot(self.delta, self.claim, color=ORANGE, markersize=3, label="claim", **style_of)
        if self.rising.any():
            axes.plot(
                *self._marked,
                "o",
                color=PURPLE,
                markerfacecolor="none",
                markersize=7,
                label="higher than at a smaller delta",
            )
        axes.set(xscale="log", xlabel="delta", ylabel="epsilon", title=self.title)
        if self.logarithmic:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        style.tidy(axes)
        return figure

    def panels(self) -> list[Panel]:
        x = style.numbers(self.delta)
        band = {
            "type": "scatter",
            "mode": "lines",
            "x": x + x[::-1],
            "y": style.numbers(np.concatenate([self.high, self.low[::-1]])),
            "fill": "toself",
            "fillcolor": style.SHADE.format(0.2),
            "line": {"width": 0, "color": "rgba(0, 0, 0, 0)"},
            "name": f"{100 * self.level:g} % interval",
            "hoverinfo": "skip",
        }
        median = style.line(
            x,
            style.numbers(self.median),
            "@blue",
            width=2.2,
            name="median",
            hover="delta %{x:.3g}: median %{y:.4g}, %{customdata[0]:.4g} to %{customdata[1]:.4g}",
        )
        median["customdata"] = style.numbers(np.stack([self.low, self.high], axis=1))
        data = [band, median]
        if np.isfinite(self.claim).any():
            claim = style.line(
                x,
                style.numbers(self.claim),
                "@orange",
                name="claim",
                hover="claimed at delta %{x:.3g}: %{y:.4g}",
            )
            claim["line"] = claim["line"] | {"shape": "hv"}
            claim["mode"] = "lines+markers"
            data.append(claim)
        if self.rising.any():
            rising, heights = self._marked
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": style.numbers(rising),
                    "y": style.numbers(heights),
                    "marker": {"color": "@purple", "size": 9, "symbol": "circle-open"},
                    "name": "higher than at a smaller delta",
                    "hoverinfo": "skip",
                }
            )
        frame = style.layout(
            "delta",
            "epsilon",
            xaxis={"type": "log", "exponentformat": "power"},
            yaxis={"type": "log"} if self.logarithmic else {"rangemode": "tozero"},
            showlegend=True,
        )
        return [style.panel(data, frame)]
