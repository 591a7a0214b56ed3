"""The probability that epsilon exceeds e, as a curve over e."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.verdict import Thresholds, Verdict
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, Rule, Sheet
from epsilometer.report.text import probability_text

POINTS = 240
"""Smooth at the width of a plot."""

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

    def sheet(self, *, fine: bool) -> Sheet:
        x, low, high = self.epsilon, self.thresholds.pass_at_most, self.thresholds.fail_at_least
        after, before = "P(epsilon > %{x:.3f}) = %{y:.4f}", "before the data: %{y:.4f}"
        marks: list[Mark] = [
            Line(x, self.probability, "blue", "posterior", width=1.8, hover=after),
            Line(x, self.prior, "grey", "prior", width=1.2, dash="dash", hover=before),
            Rule(y=low),
            Rule(y=high),
        ]
        if self.verdict is not None and self.verdict.claim <= x[-1]:
            claim, above = self.verdict.claim, self.verdict.probability_above
            hover = "claim %{x:g}: exceeded with probability %{y:.4f}"
            marks.append(Rule(x=claim, colour="orange", width=1.2, dash="solid"))
            marks.append(Points([claim], [above], "orange", f"claim {claim:g}", hover=hover))
        plot = Plot(Axis("e", (0, x[-1])), Axis("P(epsilon > e)", (-0.02, 1.02)), marks)
        return Sheet(self.title, [plot], (6.4, 4.2))
