"""Epsilon under other assumptions, side by side, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from epsilometer.inference.model_comparison import ModelComparison
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, GREY, ORANGE, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"used": ("@orange", ORANGE), "other": ("@blue", BLUE), "apart": ("@grey", GREY)}


@dataclass(frozen=True, kw_only=True)
class Line:
    """Epsilon under one assumption; ``colour`` is a key of `COLOURS`."""

    label: str
    evidence: str
    median: float
    interval: tuple[float, float]
    colour: str


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelsChart(Chart):
    """Intervals of epsilon, one for each assumption; the one used is at the top."""

    lines: tuple[Line, ...]
    sentences: tuple[str, ...]
    level: float

    name = "models"
    title = "Would other assumptions fit better?"

    @classmethod
    def of(cls, comparison: ModelComparison, *, level: float) -> ModelsChart:
        """The chart of a comparison, without assumptions under which nothing was found."""
        lines = []
        for each in comparison.assumptions:
            if each.posterior is None:
                continue
            factor = each.log_bayes_factor
            lines.append(
                Line(
                    label=each.label,
                    evidence=each.words if factor is None or each.own else f"log BF {factor:+.1f}",
                    median=each.posterior.median("epsilon"),
                    interval=each.posterior.credible_interval("epsilon", level),
                    colour="used" if each.own else "apart" if factor is None else "other",
                )
            )
        return cls(lines=tuple(lines), sentences=tuple(comparison.sentences()), level=level)

    @property
    def caption(self) -> str:
        return (
            f"The median of epsilon and its {100 * self.level:g} % interval under the model used, and "
            "under others on the same counts. BF: Bayes factor against the model used. "
            + " ".join(self.sentences)
        )

    @property
    def end(self) -> float:
        """End of the axis of epsilon."""
        return 1.05 * max(line.interval[1] for line in self.lines)

    def draw(self) -> Figure:
        figure = style.new_figure(6.6, 1.3 + 0.42 * len(self.lines))
        axes = figure.subplots()
        for row, line in enumerate(self.lines):
            colour = COLOURS[line.colour][1]
            axes.plot(line.interval, [row, row], color=colour, linewidth=3)
            axes.plot(line.median, row, "o", color=colour, markersize=6)
            axes.annotate(
                line.evidence,
                (1.01, row),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=9,
                annotation_clip=False,
            )
        axes.set(
            title=self.title,
            xlabel=f"epsilon: median and {100 * self.level:g} % interval",
            xlim=(0, self.end),
            yticks=range(len(self.lines)),
            yticklabels=[line.label for line in self.lines],
        )
        axes.set_ylim(len(self.lines) - 0.4, -0.6)
        style.tidy(axes)
        return figure

    def panels(self) -> list[Panel]:
        found = []
        for row, line in enumerate(self.lines):
            low, high = line.interval
            colour = COLOURS[line.colour][0]
            found.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [line.median],
                    "y": [row],
                    "error_x": {
                        "type": "data",
                        "symmetric": False,
                        "array": [high - line.median],
                        "arrayminus": [line.median - low],
                        "color": colour,
                        "thickness": 3,
                        "width": 0,
                    },
                    "marker": {"color": colour, "size": 10},
                    "hovertemplate": f"{style.page_name(line.label)}<br>median {line.median:.4g}, "
                    f"{100 * self.level:g} % interval {low:.4g} to {high:.4g}<br>{line.evidence}"
                    "<extra></extra>",
                }
            )
        return [
            style.panel(
                found,
                style.layout(
                    f"epsilon, {100 * self.level:g} % interval",
                    "",
                    xaxis={"range": [0, self.end]},
                    yaxis={
                        "tickvals": list(range(len(self.lines))),
                        "ticktext": [style.page_name(line.label) for line in self.lines],
                        "range": [len(self.lines) - 0.4, -0.6],
                        "automargin": True,
                    },
                ),
            )
        ]
