"""The view of plans: what to measure, by simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilometer._table import Table
from epsilometer.display.view import View
from epsilometer.planning import wording
from epsilometer.report.figures.plan import plan_sheet

if TYPE_CHECKING:
    from epsilometer.planning.plan import AuditPlan


def _line(plan: AuditPlan) -> str:
    best = plan.recommended
    if best is not None:
        least = "" if plan.complete else "at most "
        return f"{least}{best.words}; reach the goals in {wording.reached_words(best)} simulations"
    if plan.nothing_needed:
        return "nothing needed"
    return (
        plan.impossible or f"no size {'within the limits' if plan.complete else 'found'} is enough"
    )


def _table(plan: AuditPlan) -> Table:
    names = ("probability", "standard_error", "width", "proven", "models", "hours")
    sizes = list(plan.designs[0].sizes) if plan.designs else []
    rows = [
        (
            "*" if design is plan.recommended else "",
            *design.sizes.values(),
            *(getattr(design, name) for name in names if name not in sizes),
        )
        for design in plan.designs
    ]
    columns = ["", *sizes, *(name.replace("_", " ") for name in names if name not in sizes)]
    notes = [wording.recommendation(plan), *wording.help_sentences(plan)]
    return Table(columns=columns, rows=rows, notes=notes)


PLAN = View(line=_line, table=_table, figures={"plan": plan_sheet})
