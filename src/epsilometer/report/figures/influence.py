"""How the interval of epsilon moves when one challenge base is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.influence import Influence
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, GREY, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

MOST_ROWS = 30
"""Bases drawn: those that move the interval most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class InfluenceChart(Chart):
    """Median and interval of epsilon without each base, beside those with all of them."""

    counts: AttackCounts
    influence: Influence
    interval: tuple[float, float]
    median: float
    order: NDArray[np.int64]

    name = "influence"
    title = "How much rests on single bases"

    @classmethod
    def of(cls, counts: AttackCounts, influence: Influence) -> InfluenceChart:
        """The chart of the influences of bases, the largest first."""
        low, median, high = influence.with_all
        moved = np.max(
            [
                np.abs(influence.low - low),
                np.abs(influence.median - median),
                np.abs(influence.high - high),
            ],
            axis=0,
        )
        return cls(
            counts=counts,
            influence=influence,
            interval=(low, high),
            median=median,
            order=np.argsort(-moved, kind="stable"),
        )

    @property
    def shown(self) -> NDArray[np.int64]:
        """The bases that are drawn, the most influential first."""
        return self.order[:MOST_ROWS]

    @property
    def caption(self) -> str:
        level = f"{100 * self.influence.level:g} %"
        first = int(self.order[0])
        name = style.printed_name(self.influence.names[first]).replace(r"\$", "$")
        moved = style.pair_text(float(self.influence.low[first]), float(self.influence.high[first]))
        text = (
            f"The {level} interval of epsilon if one base had not been attacked; the band is the one "
            f"with all of them. The base that matters most is {name}: without it the interval is "
            f"{moved} instead of {style.pair_text(*self.interval)}."
        )
        if len(self.order) > MOST_ROWS:
            text += f" Drawn are the {MOST_ROWS} most influential of {len(self.order):,} bases."
        doubtful = int((~self.influence.reliable).sum())
        if doubtful:
            text += f" For {doubtful:,} bases this could be worked out only roughly (hollow)."
        return text

    def draw(self) -> Figure:
        rows = len(self.shown)
        figure = style.new_figure(6.6, 1.6 + 0.24 * rows)
        axes = figure.add_subplot()
        axes.axvspan(*self.interval, color=BLUE, alpha=0.12, linewidth=0)
        axes.axvline(self.median, color=BLUE, linewidth=1)
        for row, base in enumerate(self.shown.tolist()):
            ends = (self.influence.low[base], self.influence.high[base])
            axes.plot(ends, [row, row], color=GREY, linewidth=1.6)
            face = GREY if self.influence.reliable[base] else "white"
            axes.plot(
                self.influence.median[base],
                row,
                "o",
                color=GREY,
                markersize=5,
                markerfacecolor=face,
            )
        names = [style.printed_name(self.influence.names[base]) for base in self.shown.tolist()]
        axes.set_yticks(range(rows), names, fontsize=8.5)
        axes.set_ylim(rows - 0.4, -0.6)
        level = f"{100 * self.influence.level:g} %"
        axes.set(xlabel=f"epsilon without the base: median and {level} interval", title=self.title)
        style.tidy(axes)
        return figure

    def panels(self) -> list[Panel]:
        found, shown = self.influence, self.shown
        rows = list(range(len(shown)))
        hover = style.hover_of_bases(self.counts)
        customdata = [
            [
                *hover["customdata"][base],
                style.pair_text(float(found.low[base]), float(found.high[base])),
            ]
            for base in shown.tolist()
        ]
        symbols = ["circle" if found.reliable[base] else "circle-open" for base in shown.tolist()]
        data: list[dict[str, Any]] = [
            {
                "type": "scatter",
                "mode": "markers",
                "x": style.numbers(found.median[shown]),
                "y": rows,
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": style.numbers(found.high[shown] - found.median[shown]),
                    "arrayminus": style.numbers(found.median[shown] - found.low[shown]),
                    "color": "@grey",
                    "thickness": 2,
                    "width": 0,
                },
                "marker": {"color": "@grey", "size": 8, "symbol": symbols},
                "customdata": customdata,
                "hovertemplate": hover["hovertemplate"].replace(
                    "<extra>", "<br>without it: median %{x:.4g}, interval %{customdata[3]}<extra>"
                ),
            }
        ]
        low, high = self.interval
        band = {
            "type": "rect",
            "x0": low,
            "x1": high,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "fillcolor": style.SHADE.format(0.15),
            "line": {"width": 0},
            "layer": "below",
        }
        frame = style.layout(
            "epsilon without the base",
            "",
            yaxis={
                "tickvals": rows,
                "ticktext": [_tick(found.names[base]) for base in shown.tolist()],
                "range": [len(rows) - 0.4, -0.6],
                "automargin": True,
            },
            shapes=[band, style.vertical(self.median, "@blue", width=1)],
            height=140 + 20 * max(len(rows), 4),
        )
        return [style.panel(data, frame)]


def _tick(name: str) -> str:
    """A name short enough for an axis on a phone; shortened before it is escaped."""
    return style.page_name(name if len(name) <= 16 else f"{name[:15]}…")
