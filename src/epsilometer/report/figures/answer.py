"""The first figure: what is proven, shown, estimated and claimed, on one axis of epsilon."""

from __future__ import annotations

from typing import Any, NamedTuple

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
)

POINTS = 240
"""Points of the density, besides some at its own quantiles."""

FARTHEST_CLAIM = 4.0
"""A claim beyond this multiple of the other values is not drawn."""

DENSITY_ROWS = 1.9
"""Height of the density, in rows."""


class _Row(NamedTuple):
    """A row of the figure: name, colour, interval with median."""

    name: str
    colour: str
    low: float
    median: float
    high: float


def answer_chart(result: Result) -> Chart | None:
    """Proven bound, intervals and claim on one axis, below the posterior density of epsilon.

    The curve model has a row for what the worst base has shown.  None if epsilon is fixed.
    """
    if "epsilon" not in result.posterior.parameters:
        return None
    units = units_of(result.data) if isinstance(result.data, Scores) else None
    level, claim, proof = result.level, result.claims.get(result.delta), result.proof
    proven = 0.0 if proof is None else proof.at_least
    rows = _rows(result, units)
    end = 1.15 * max(float(result.posterior.quantile("epsilon", 0.99)), rows[0].high, proven) or 1.0
    drawn = claim is not None and claim < FARTHEST_CLAIM * end
    if claim is not None and drawn:
        end = max(end, 1.15 * claim)
    marks: list[Mark] = [*_proven(proven, end), *_intervals(rows, level)]
    marks += _density(result, rows[-1], len(rows) + 1, end)
    if claim is not None and drawn:
        look: dict[str, Any] = {"colour": "orange", "width": 1.6, "dash": "solid"}
        marks.append(ReferenceLine(x=claim, label=f"claim {claim:.4g}", **look))
    names = ["proven", *(row.name for row in rows), "posterior"]
    top = len(rows) + 1 - 0.35 + DENSITY_ROWS
    plot = Plot(
        Axis(f"epsilon at delta = {result.posterior.model.delta:g}", (0, end)),
        Axis("", (-0.55, top + 0.1), names=names),
        marks,
        legend=False,
        page_height=62 * (len(rows) + 3),
    )
    return Chart(
        name="answer",
        title=_title(shown=len(rows) > 1, claimed=claim is not None),
        caption=_caption(result, units, claim_is_drawn=drawn),
        plots=[plot],
        size=(7.2, 0.62 * (len(rows) + 3) + 1.0),
    )


def _title(*, shown: bool, claimed: bool) -> str:
    """The quantities of the figure, as a heading."""
    words = ["proven", *["shown"] * shown, "estimated", *["claimed"] * claimed]
    return f"Epsilon: {', '.join(words[:-1])} and {words[-1]}"


def _rows(result: Result, units: Units | None) -> list[_Row]:
    """The intervals, the one for epsilon itself last."""
    rows = []
    names = [("epsilon", "estimated", "blue")]
    if units is not None:
        names.insert(0, ("shown", units.shown, "green"))
    for parameter, name, colour in names:
        low, high = result.posterior.credible_interval(parameter, result.level)
        rows.append(_Row(name, colour, low, result.posterior.median(parameter), high))
    return rows


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


def _intervals(rows: list[_Row], level: float) -> list[Mark]:
    marks: list[Mark] = []
    for place, (name, colour, low, median, high) in enumerate(rows, start=1):
        marks += [
            style.interval_row(place, median, (low, high), level, colour, name),
            Note(estimate_text(median, low, high), place, median),
        ]
    return marks


def _density(result: Result, row: _Row, base: int, end: float) -> list[Mark]:
    """The posterior density above the rows, its interval darker; a spike is cut."""
    posterior, floor = result.posterior, base - 0.35
    spread = posterior.quantile("epsilon", np.linspace(0.005, 0.995, POINTS))
    grid = [np.linspace(0, end, POINTS), spread, np.array([row.low, row.high])]
    x = np.unique(np.concatenate(grid))
    x = x[(x >= 0) & (x <= end)]
    density = np.nan_to_num(posterior.density("epsilon", x), nan=0.0, posinf=0.0)
    tallest = style.end_of_densities(float(density.max()), row.high - row.low)
    if not tallest > 0:
        return []
    height: FloatArray = floor + DENSITY_ROWS * np.minimum(density / tallest, 1.0)
    inside = (x >= row.low) & (x <= row.high)
    floors = np.full(len(x), floor)
    above = [
        [probability_text(posterior.probability_above("epsilon", value))] for value in x.tolist()
    ]
    label = f"{percent(result.level)} interval"
    return [
        Band(x, floors, height, "blue", "posterior", opacity=0.15),
        Band(x[inside], floors[inside], height[inside], "blue", label, opacity=0.3),
        Line(x, height, "blue", "posterior density", width=1.4, rows=above,
             hover="epsilon {x:.3g}\nexceeded with probability {0}"),
    ]  # fmt: skip


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
