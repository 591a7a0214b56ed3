"""What an audit of a given size would find: widths and probabilities over the number of challenges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epsilometer._text import percent
from epsilometer.planning.plan import AuditPlan, PlannedDesign
from epsilometer.report.figures import render_print, style
from epsilometer.report.figures.marks import (
    Axis,
    Line,
    Mark,
    Note,
    Plot,
    Points,
    ReferenceLine,
    Sheet,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_plan(plan: AuditPlan) -> Figure:
    """Draw the sheet below."""
    return render_print.draw(plan_sheet(plan))


def plan_sheet(plan: AuditPlan) -> Sheet:
    """The width and how often the goals are reached, for several numbers of bases.

    Points are simulated designs, with the 10 to 90 % range of widths and one standard error of
    probabilities; lines a surface fitted to all simulations; the star is the recommended design.
    A pilot that is extended has one number of challenges: then the bases are on the axis.
    """
    widths, shares = _limits(plan)
    for curve in plan.curves:
        label, colour = f"{curve.bases:,} bases", _colour(plan, curve.bases)
        widths.append(Line(curve.challenges, curve.width, colour, label))
        shares.append(Line(curve.challenges, curve.probability, colour, label))
    for design in plan.designs:
        look: dict[str, Any] = {"size": 5}
        if design == plan.recommended:
            look = {"symbol": "star", "size": 15}
        x, colour = [_place(plan, design)], _colour(plan, design.bases)
        ends = [design.low_width], [design.high_width]
        widths.append(Points(x, [design.median_width], colour, y_ends=ends, **look))
        share, error = design.probability, design.standard_error
        ends = [share - error], [share + error]
        shares.append(Points(x, [share], colour, y_ends=ends, **look))
    what = "challenges a base" if plan.curves else "challenge bases"
    across = Axis(what, logarithmic=True, plain=True)
    width = f"width of the {percent(plan.level)} interval of epsilon"
    plots = [
        Plot(across, Axis(width, logarithmic=True, plain=True), widths),
        Plot(across, Axis("probability that the goal is reached", (-0.03, 1.06)), shares),
    ]
    title = "dotted: the floor, if every error rate were known"
    whole = "What an audit of this size would find"
    return Sheet(whole, plots, (9.6, 4.6), columns=2, legend="below", legend_title=title)


def _place(plan: AuditPlan, design: PlannedDesign) -> int:
    return design.challenges if plan.curves else design.bases


def _colour(plan: AuditPlan, bases: int) -> str:
    known = [curve.bases for curve in plan.curves]
    if not known:
        return style.SEVERAL[0]
    return style.SEVERAL[known.index(bases) % len(style.SEVERAL)] if bases in known else "grey"


def _limits(plan: AuditPlan) -> tuple[list[Mark], list[Mark]]:
    """What is wanted, and the floors of widths."""
    floors = {floor.bases: floor.median_width for floor in plan.floors}
    widths: list[Mark] = []
    if floors and not plan.curves:
        widths.append(Line(list(floors), list(floors.values()), "grey", width=1.2, dash="dot"))
        most = max(floors)
        widths.append(Note("floor", floors[most], most))
    for curve in plan.curves:
        widths.append(
            ReferenceLine(y=floors[curve.bases], colour=_colour(plan, curve.bases), width=1.2)
        )
    if plan.width_goal is not None:
        # Words at the end where curves of large audits have left it.
        wanted, most = plan.width_goal.at_most, max(_place(plan, design) for design in plan.designs)
        widths += [
            ReferenceLine(y=wanted, dash="dash", width=1),
            Note(f"wanted: {wanted:g}", wanted, most),
        ]
    return widths, [ReferenceLine(y=plan.wanted_probability, dash="dash", width=1)]
