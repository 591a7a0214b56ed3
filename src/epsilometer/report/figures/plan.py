"""What audits of several sizes would report: widths or proofs, and how often the goals are reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epsilometer._text import percent
from epsilometer.planning.goals import IntervalWidth, ProvenEpsilon
from epsilometer.report.figures import style
from epsilometer.report.figures.marks import Axis, Line, Mark, Note, Plot, Points, Reference, Sheet

if TYPE_CHECKING:
    from epsilometer.planning.plan import AuditPlan


def plan_sheet(plan: AuditPlan) -> Sheet:
    """The width, or what is proven if no goal needs a posterior, and how often goals are reached.

    Points are simulated sizes, with the 10 to 90 % range, or one standard error of probabilities; the
    star is the recommended size.  One line for each number of bases, runs or points.
    """
    by, across = plan.design.names
    if plan.scenario.pilot is not None:  # only the number of bases varies
        across, by = by, across
    estimated = any(design.width is not None for design in plan.designs)
    value = "width" if estimated else "proven"
    wanted = plan.goal(IntervalWidth if estimated else ProvenEpsilon)
    values: list[Mark] = []
    shares: list[Mark] = [Reference(y=plan.wanted_probability, dash="dash", width=1)]
    if wanted is not None:
        goal = wanted.at_most if estimated else wanted.at_least
        most = max(design.sizes[across] for design in plan.designs)
        values += [Reference(y=goal, dash="dash", width=1), Note(f"wanted: {goal:g}", goal, most)]
    for number, group in enumerate(sorted({design.sizes[by] for design in plan.designs})):
        mine = [design for design in plan.designs if design.sizes[by] == group]
        mine.sort(key=lambda design: design.sizes[across])
        x, colour = [d.sizes[across] for d in mine], style.SEVERAL[number % len(style.SEVERAL)]
        y, share = [getattr(d, value) for d in mine], [d.probability for d in mine]
        label = f"{group:,} {by if group != 1 else by.removesuffix('s')}"
        values.append(Line(x, y, colour, label))
        shares.append(Line(x, share, colour, label))
        for at, design in zip(x, mine, strict=True):
            look: dict[str, Any] = {"size": 5}
            if design is plan.recommended:
                look = {"symbol": "star", "size": 15}
            low, high = ([getattr(design, f"{end}_{value}")] for end in ("low", "high"))
            error, middle = design.standard_error, design.probability
            ends = [max(middle - error, 0.0)], [min(middle + error, 1.0)]
            found = [getattr(design, value)]
            values.append(Points([at], found, colour, y_ends=(low, high), **look))
            shares.append(Points([at], [middle], colour, y_ends=ends, **look))
    title = f"width of the {percent(plan.level)} interval" if estimated else "proven epsilon"
    size = Axis(across, logarithmic=True, plain=True)
    plots = [
        Plot(size, Axis(title, from_zero=True), values),
        Plot(size, Axis("probability that the goals are reached", (-0.03, 1.06)), shares),
    ]
    whole = "What audits of this size would report"
    return Sheet(whole, plots, (9.6, 4.6), columns=2, legend="below")
