"""The probability that epsilon exceeds e, as a curve over e."""

from __future__ import annotations

import numpy as np

from epsilometer.inference.posterior import Posterior
from epsilometer.inference.verdict import Thresholds, Verdict
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, Rule
from epsilometer.report.text import probability_text

POINTS = 240
"""Smooth at the width of a plot."""

FARTHEST_CLAIM = 4.0
"""In units of where the posterior ends: a claim beyond that is not shown."""


def exceedance_chart(
    posterior: Posterior, *, verdict: Verdict | None, thresholds: Thresholds
) -> Chart:
    """P(epsilon > e) after and before the data, with the claim if there is one."""
    spread = posterior.quantile("epsilon", np.linspace(0.0005, 0.9995, POINTS))
    end = 1.1 * float(spread[-1])
    # A claim far beyond would squeeze the curve into a corner.
    if verdict is not None and verdict.claim < FARTHEST_CLAIM * end:
        end = max(end, 1.1 * verdict.claim)
    x = np.unique(np.concatenate([np.linspace(0, end, POINTS), spread])).tolist()
    after = [posterior.probability_above("epsilon", value) for value in x]
    before = [posterior.model.epsilon.probability_above(value) for value in x]
    low, high = thresholds.pass_at_most, thresholds.fail_at_least
    caption = (
        "Read it at any epsilon somebody might claim: a claim where the curve is below "
        f"{low:g} passes, one where it is above {high:g} fails."
    )
    hover = "P(epsilon > %{x:.3f}) = %{y:.4f}", "before the data: %{y:.4f}"
    marks: list[Mark] = [
        Line(x, after, "blue", "posterior", width=1.8, hover=hover[0]),
        Line(x, before, "grey", "prior", width=1.2, dash="dash", hover=hover[1]),
        Rule(y=low),
        Rule(y=high),
    ]
    if verdict is not None:
        claim, above = verdict.claim, verdict.probability_above
        caption += (
            f" Epsilon exceeds the claim of {claim:g} with probability {probability_text(above)}; "
            f"before any data it was {probability_text(verdict.prior_probability_above)}."
        )
        if claim > x[-1]:
            caption += " The claim lies to the right of the plot."
        else:
            said = "claim %{x:g}: exceeded with probability %{y:.4f}"
            marks.append(Rule(x=claim, colour="orange", width=1.2, dash="solid"))
            marks.append(Points([claim], [above], "orange", f"claim {claim:g}", hover=said))
    plot = Plot(Axis("e", (0, x[-1])), Axis("P(epsilon > e)", (-0.02, 1.02)), marks)
    title = "Probability that epsilon exceeds a value"
    return Chart(name="exceedance", title=title, caption=caption, plots=[plot], size=(6.4, 4.2))
