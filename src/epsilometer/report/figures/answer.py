"""The first figure: what is proven, shown, estimated and claimed, on one axis of epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import estimate_text, percent, probability_text
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import Units, units_of
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import rounded_down
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import (
    Axis,
    Band,
    Line,
    Mark,
    Note,
    Plot,
    Points,
    ReferenceLine,
)  # fmt: skip

POINTS = 240
"""Points of the density, besides some at its own quantiles."""

FARTHEST_CLAIM = 4.0
"""A claim beyond this multiple of the other values is not drawn."""

DENSITY_ROWS = 1.9
"""Height of the density, in rows."""


def answer_chart(result: Result) -> Chart:
    """Proven bound, intervals and claim on one axis, below the posterior density of epsilon.

    The curve model has a row for what the worst base has shown.
    """
    units = units_of(result.data) if isinstance(result.data, Scores) else None
    posterior, level, claim = result.posterior, result.level, result.claims.get(result.delta)
    proven = 0.0 if result.proof is None else result.proof.at_least
    rows = [] if units is None else [("shown", units.shown, "green")]
    rows.append(("epsilon", "estimated", "blue"))
    ends = [posterior.credible_interval(parameter, level)[1] for parameter, *_ in rows]
    end = 1.15 * max(float(posterior.quantile("epsilon", 0.99)), ends[0], proven) or 1.0
    drawn = claim is not None and claim < FARTHEST_CLAIM * end
    marks: list[Mark] = []
    for place, (parameter, name, colour) in enumerate(rows, start=1):
        row = style.interval_row(place, posterior, parameter, level, colour, name)
        median, interval = (
            posterior.median(parameter),
            posterior.credible_interval(parameter, level),
        )
        marks += [row, Note(estimate_text(median, *interval), place, median)]
    if claim is not None and drawn:
        end = max(end, 1.15 * claim)
        look: dict[str, Any] = {"colour": "orange", "width": 1.6, "dash": "solid"}
        marks.append(ReferenceLine(x=claim, label=f"claim {claim:.4g}", **look))
    floor = len(rows) + 0.65
    marks += [*_proven(proven, end), *_density(result, floor, end)]
    names = ["proven", *(name for _, name, _ in rows), "posterior"]
    words = [
        "proven",
        *["shown"] * (len(rows) > 1),
        "estimated",
        *["claimed"] * (claim is not None),
    ]
    plot = Plot(
        Axis(f"epsilon at delta = {posterior.model.delta:g}", (0, end)),
        Axis("", (-0.55, floor + DENSITY_ROWS + 0.1), names=names),
        marks,
        legend=False,
        page_height=62 * (len(rows) + 3),
    )
    return Chart(
        name="answer",
        title=f"Epsilon: {', '.join(words[:-1])} and {words[-1]}",
        caption=_caption(result, units, claim_is_drawn=drawn),
        plots=[plot],
        size=(7.2, 0.62 * (len(rows) + 3) + 1.0),
    )


def _proven(bound: float, end: float) -> list[Mark]:
    """An arrow from the bound upwards; a note if there is none."""
    if not bound > 0:
        return [Note("nothing proven", 0, 0.0)]
    said = f"at least {rounded_down(bound)}"
    hover = f"proven: epsilon is {said}"
    return [
        Line([bound, 0.985 * end], [0, 0], "purple", width=2.4),
        Points([bound], [0], "purple", "proven", symbol="end", size=9, hover=hover),
        Points([0.985 * end], [0], "purple", symbol="arrow", size=6),
        Note(said, 0, bound),
    ]


def _density(result: Result, floor: float, end: float) -> list[Mark]:
    """The posterior density above the rows, its interval darker; a spike is cut."""
    posterior = result.posterior
    low, high = posterior.credible_interval("epsilon", result.level)
    spread = posterior.quantile("epsilon", np.linspace(0.005, 0.995, POINTS))
    x = np.unique(np.concatenate([np.linspace(0, end, POINTS), spread, [low, high]]))
    x = x[(x >= 0) & (x <= end)]
    density = np.nan_to_num(posterior.density("epsilon", x), nan=0.0, posinf=0.0)
    tallest = style.end_of_densities(float(density.max()), high - low)
    if not tallest > 0:
        return []
    height: FloatArray = floor + DENSITY_ROWS * np.minimum(density / tallest, 1.0)
    inside, floors = (x >= low) & (x <= high), np.full(len(x), floor)
    above = [[probability_text(posterior.probability_above("epsilon", e))] for e in x.tolist()]
    label = f"{percent(result.level)} interval"
    hover = "epsilon {x:.3g}\nexceeded with probability {0}"
    return [
        Band(x, floors, height, "blue", "posterior", opacity=0.15),
        Band(x[inside], floors[inside], height[inside], "blue", label, opacity=0.3),
        Line(x, height, "blue", "posterior density", width=1.4, rows=above, hover=hover),
    ]


def _caption(result: Result, units: Units | None, *, claim_is_drawn: bool) -> str:
    level, error = percent(result.level), percent(result.question.error)
    text = (
        f"Proven: the attacks refute every smaller epsilon, with an error rate of at most {error} and "
        "without assuming the model. "
    )
    if units is not None:
        text += f"{units.about_shown} "
    text += (
        f"Estimated: epsilon of the algorithm, median and {level} interval, with its posterior density "
        "above."
    )
    no_leak = style.no_leak_text(result.posterior)
    if no_leak:
        text += f" The density excludes the probability {no_leak} of no leak at all."
    if result.contradiction is not None:
        text += " The same data refute this estimate: do not quote it."
    claim = result.claims.get(result.delta)
    if claim is not None:
        text += " Orange: the claim." if claim_is_drawn else (
            f" The claim of {claim:.4g} is to the right of the plot."
        )  # fmt: skip
    return text
