"""Epsilon under other assumptions, side by side, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.inference.checks.comparison import ModelComparison
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Mark, Note, Plot, Sheet

COLOURS = {"used": "orange", "other": "blue", "apart": "grey"}
"""Of the model used, of those that compare with it, and of those whose evidence does not."""


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

    def sheet(self, *, fine: bool) -> Sheet:
        marks: list[Mark] = []
        for row, line in enumerate(self.lines):
            extra = f"<br>{line.evidence}"
            label = style.page_name(line.label)
            ends = (line.median, line.interval, self.level)
            marks.append(style.interval_row(row, *ends, COLOURS[line.colour], label, extra=extra))
            marks.append(Note(line.evidence, row))
        plot = Plot(
            Axis(f"epsilon: median and {100 * self.level:g} % interval", (0, self.end)),
            Axis("", (len(self.lines) - 0.4, -0.6), names=[line.label for line in self.lines]),
            marks,
            legend=False,
        )
        return Sheet(self.title, [plot], (6.6, 1.3 + 0.42 * len(self.lines)))
