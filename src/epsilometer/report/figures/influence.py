"""How the interval of epsilon moves when one challenge base is left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilometer._arrays import IntArray
from epsilometer.inference.checks.influence import Influence
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Plot, Points, Rule, Sheet, Span

MOST_ROWS = 30
"""Bases drawn: those that move the interval most."""

LONGEST_TICK = 16
"""A name short enough for an axis on a phone."""


@dataclass(frozen=True, kw_only=True, eq=False)
class InfluenceChart(Chart):
    """Median and interval of epsilon without each base, beside those with all of them."""

    counts: AttackCounts
    influence: Influence
    interval: tuple[float, float]
    median: float
    order: IntArray

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
    def shown(self) -> IntArray:
        """The bases that are drawn, the most influential first."""
        return self.order[:MOST_ROWS]

    @property
    def caption(self) -> str:
        level = f"{100 * self.influence.level:g} %"
        first = int(self.order[0])
        name = style.shortened(self.influence.names[first], 24)
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

    def sheet(self, *, fine: bool) -> Sheet:
        found, shown = self.influence, self.shown
        rows, hover = style.hover_of_bases(self.counts)
        low, median, high = found.low[shown], found.median[shown], found.high[shown]
        dots = Points(
            median,
            range(len(shown)),
            "grey",
            x_ends=(low, high),
            bar=1.6,
            size=5,
            hollow=~found.reliable[shown],
            rows=[
                [*rows[base], style.pair_text(*map(float, ends))]
                for base, *ends in zip(shown.tolist(), low, high, strict=True)
            ],
            hover=f"{hover}<br>without it: median %{{x:.4g}}, interval %{{customdata[3]}}",
        )
        names = [style.shortened(found.names[base], LONGEST_TICK) for base in shown.tolist()]
        plot = Plot(
            Axis(f"epsilon without the base, {100 * found.level:g} % interval"),
            Axis("", (len(shown) - 0.4, -0.6), names=names),
            [Span(*self.interval), Rule(x=self.median, colour="blue", dash="solid"), dots],
            legend=False,
            page_height=140 + 20 * max(len(shown), 4),
        )
        return Sheet(self.title, [plot], (6.6, 1.6 + 0.24 * len(shown)))
