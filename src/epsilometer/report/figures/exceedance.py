"""The probability that epsilon exceeds e, as a curve over e."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.posterior import Posterior
from epsilometer.inference.verdict import Thresholds, Verdict
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, GREY, ORANGE, Panel
from epsilometer.report.summary import probability_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

POINTS = 240
FARTHEST_CLAIM = 4.0
"""In units of where the posterior ends: a claim beyond that is not shown."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExceedanceChart(Chart):
    """P(epsilon > e) after and before the data."""

    epsilon: FloatArray
    probability: FloatArray
    prior: FloatArray
    thresholds: Thresholds
    verdict: Verdict | None

    name = "exceedance"
    title = "Probability that epsilon exceeds a value"

    @classmethod
    def of(
        cls, posterior: Posterior, *, verdict: Verdict | None, thresholds: Thresholds
    ) -> ExceedanceChart:
        """The chart of a posterior, with the claim if there is one."""
        spread = posterior.quantile("epsilon", np.linspace(0.0005, 0.9995, POINTS))
        end = 1.1 * float(spread[-1])
        # A claim far beyond would squeeze the curve into a corner.
        if verdict is not None and verdict.claim < FARTHEST_CLAIM * end:
            end = max(end, 1.1 * verdict.claim)
        points = np.unique(np.concatenate([np.linspace(0, end, POINTS), spread]))
        above = [posterior.probability_above("epsilon", float(value)) for value in points]
        prior = [posterior.model.epsilon.probability_above(float(value)) for value in points]
        return cls(
            epsilon=points,
            probability=np.array(above),
            prior=np.array(prior),
            thresholds=thresholds,
            verdict=verdict,
        )

    @property
    def caption(self) -> str:
        low, high = self.thresholds.pass_at_most, self.thresholds.fail_at_least
        text = (
            "Read it at any epsilon somebody might claim: a claim where the curve is below "
            f"{low:g} passes, one where it is above {high:g} fails."
        )
        if self.verdict is not None:
            text += (
                f" Epsilon exceeds the claim of {self.verdict.claim:g} with probability "
                f"{probability_text(self.verdict.probability_above)}; before any data it was "
                f"{probability_text(self.verdict.prior_probability_above)}."
            )
            if self.verdict.claim > self.epsilon[-1]:
                text += " The claim lies to the right of the plot."
        return text

    def draw(self) -> Figure:
        figure = style.new_figure(6.4, 4.2)
        axes = figure.add_subplot()
        axes.plot(self.epsilon, self.probability, color=BLUE, linewidth=1.8, label="posterior")
        axes.plot(self.epsilon, self.prior, "--", color=GREY, linewidth=1.2, label="prior")
        for value in (self.thresholds.pass_at_most, self.thresholds.fail_at_least):
            axes.axhline(value, color=GREY, linewidth=0.8, linestyle=":")
        if self.verdict is not None and self.verdict.claim <= self.epsilon[-1]:
            claim, above = self.verdict.claim, self.verdict.probability_above
            axes.axvline(claim, color=ORANGE, linewidth=1.2, label=f"claim {claim:g}")
            axes.plot(claim, above, "o", color=ORANGE, markersize=6, clip_on=False)
        axes.set(
            xlim=(0, self.epsilon[-1]),
            ylim=(0, 1),
            xlabel="e",
            ylabel="P(epsilon > e)",
            title=self.title,
        )
        axes.legend(frameon=False)
        style.tidy(axes)
        return figure

    def panels(self) -> list[Panel]:
        x = style.numbers(self.epsilon)
        data = [
            style.line(
                x,
                style.numbers(self.probability),
                "@blue",
                width=2.2,
                name="posterior",
                hover="P(epsilon > %{x:.3f}) = %{y:.4f}",
            ),
            style.line(
                x,
                style.numbers(self.prior),
                "@grey",
                dash="dash",
                name="prior",
                hover="before the data: %{y:.4f}",
            ),
        ]
        shapes = [
            style.horizontal(value)
            for value in (self.thresholds.pass_at_most, self.thresholds.fail_at_least)
        ]
        if self.verdict is not None and self.verdict.claim <= self.epsilon[-1]:
            claim = self.verdict.claim
            shapes.append(style.vertical(claim, "@orange"))
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [claim],
                    "y": [self.verdict.probability_above],
                    "marker": {"color": "@orange", "size": 10},
                    "name": f"claim {claim:g}",
                    "hovertemplate": "claim %{x:g}: exceeded with probability %{y:.4f}"
                    "<extra></extra>",
                }
            )
        frame = style.layout(
            "e",
            "P(epsilon > e)",
            xaxis={"range": [0, float(self.epsilon[-1])]},
            yaxis={"range": [-0.02, 1.02]},
            shapes=shapes,
            showlegend=True,
        )
        return [style.panel(data, frame)]
