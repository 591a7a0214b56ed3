"""Whether attacks like these would be expected, if the model were right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer.inference.predictive import SURPRISING, PredictiveCheck, SortedQuantity
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW_BASES = 12
MOST_POINTS = 400
"""Points drawn of each sorted quantity; of more, evenly spaced ones are picked."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictiveChart(Chart):
    """Sorted rates of the attacks beside those of attacks that the posterior would predict."""

    counts: AttackCounts
    check: PredictiveCheck

    name = "predictive"
    title = "Counts that were seen, and counts that the model predicts"

    @property
    def caption(self) -> str:
        level = f"{100 * self.check.level:g} %"
        odd = [item.name for item in self.check.statistics if item.surprising]
        text = (
            "Dots: the bases in the order of each rate. Band: where "
            f"{level} of newly made-up attacks with the posterior's epsilon and strength would put "
            "them. Advantage is 1 less both error rates. Attacks worse than guessing are reflected. "
            f"P-values below {SURPRISING:g} are marked."
        )
        if odd:
            return (
                f"{text} Hard to explain by the model: {', '.join(odd)}. Attacks near one place do "
                "this, as when all aim at one false-positive rate: the model takes their rates to lie "
                "anywhere in the region."
            )
        return f"{text} Nothing checked here is hard to explain by the model."

    def picked(self, quantity: SortedQuantity) -> Any:
        """Indices of the points that are drawn."""
        size = len(quantity.observed)
        return np.unique(np.linspace(0, size - 1, min(size, MOST_POINTS)).round().astype(int))

    def draw(self) -> Figure:
        figure = style.new_figure(11.0, 3.9)
        grid = figure.subplots(1, len(self.check.quantities))
        for axes, quantity in zip(grid, self.check.quantities, strict=True):
            kept = self.picked(quantity)
            x = kept + 1
            axes.fill_between(
                x, quantity.low[kept], quantity.high[kept], color=BLUE, alpha=0.22, linewidth=0,
                label=f"predicted, {100 * self.check.level:g} %", step=None,
            )  # fmt: skip
            axes.plot(x, quantity.middle[kept], color=BLUE, linewidth=1.2)
            if len(x) == 1:
                # A band over one base has no width.
                axes.vlines(x, quantity.low, quantity.high, color=BLUE, alpha=0.4, linewidth=6)
            axes.plot(x, quantity.observed[kept], label="seen", **style.dots(len(x)))
            axes.set(xlabel="bases in order", ylabel=quantity.name, ylim=(-0.02, 1.02))
            style.tidy(axes)
            style.calm_ticks(axes)
        grid[0].legend(fontsize=8.5, framealpha=0.9)
        figure.suptitle(self.title)
        return figure

    def panels(self) -> list[Panel]:
        return [self._panel(quantity) for quantity in self.check.quantities]

    def _panel(self, quantity: SortedQuantity) -> Panel:
        kept = self.picked(quantity)
        x = [int(index) + 1 for index in kept]
        hover = style.hover_of_bases(self.counts)
        bases = quantity.order[kept].tolist()
        level = f"{100 * self.check.level:g} %"
        low, high = style.numbers(quantity.low[kept]), style.numbers(quantity.high[kept])
        # One base alone would make a band without width.
        ends = [x[0] - 0.4, x[0] + 0.4] if len(x) == 1 else x
        if len(x) == 1:
            low, high = low * 2, high * 2
        data = [
            style.band(ends, low, high, style.SHADE.format(0.22), f"predicted, {level}"),
            {
                "type": "scatter",
                "mode": "markers",
                "x": x,
                "y": style.numbers(quantity.observed[kept]),
                "marker": {
                    "color": "@orange",
                    "size": float(np.clip(18 / len(x) ** 0.25, 3.5, 9)),
                },
                "name": "seen",
                "customdata": [hover["customdata"][base] for base in bases],
                "hovertemplate": hover["hovertemplate"],
            },
        ]
        frame = style.layout(
            "bases in order",
            quantity.name,
            # Of few bases every one has its tick, and no tick lies between two.
            xaxis={"dtick": 1} if len(x) <= FEW_BASES else {},
            yaxis={"range": [-0.03, 1.03]},
            showlegend=True,
        )
        return style.panel(data, frame)
