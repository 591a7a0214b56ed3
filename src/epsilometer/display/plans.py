"""Views of plans: what to measure, by simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilometer._table import Cell, Table
from epsilometer._text import percent
from epsilometer.display.view import View
from epsilometer.planning import one_run_wording, wording
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, ReferenceLine, Sheet
from epsilometer.report.figures.plan import plan_sheet

if TYPE_CHECKING:
    from epsilometer.planning.one_run import OneRunPlan
    from epsilometer.planning.plan import AuditPlan


def _audit_line(found: AuditPlan) -> str:
    best = found.recommended
    if best is None:
        if found.nothing_needed:
            return "nothing needed"
        within = "the limits" if found.complete else "the work of a quick search"
        return f"no design within {within} is enough"
    return (
        f"{'' if found.complete else 'at most '}{best.bases:,} challenge bases x {best.challenges:,} "
        f"challenges, {best.models:,} models; reaches the goal in {wording.share_words(best)}"
    )


def _audit_table(found: AuditPlan) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            "*" if design == found.recommended else "",
            design.bases,
            design.challenges,
            design.median_width,
            design.floor_width,
            design.probability,
            design.standard_error,
            design.models,
            design.hours,
        )
        for design in found.designs
    ]
    columns = ("", "bases", "challenges", "median width", "floor", "P(goal)", "standard error",
               "models", "hours")  # fmt: skip
    notes = [wording.recommendation(found), *wording.help_sentences(found)]
    return Table(columns=columns, rows=rows, notes=notes)


AUDIT = View(line=_audit_line, table=_audit_table, figures={"plan": plan_sheet})


def _one_run_line(found: OneRunPlan) -> str:
    best = found.recommended
    if best is None:
        return "nothing needed" if found.nothing_needed else "no number of canaries is enough"
    return (
        f"{best.canaries:,} canaries in {found.design.runs} training run"
        f"{'s' if found.design.runs > 1 else ''}; reaches the goal in {wording.share_words(best)}"
    )


def _one_run_table(found: OneRunPlan) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            "*" if design == found.recommended else "",
            design.canaries,
            design.median_width,
            design.probability,
            design.standard_error,
            design.proven,
            design.refuted_share,
        )
        for design in found.designs
    ]
    columns = ("", "canaries", "median width", "P(goal)", "standard error", "proven (median)",
               "P(refuted)")  # fmt: skip
    notes = [one_run_wording.recommendation(found), *one_run_wording.help_sentences(found)]
    return Table(columns=columns, rows=rows, notes=notes)


def _one_run_sheet(found: OneRunPlan) -> Sheet:
    sizes = [design.canaries for design in found.designs]
    width = [design.median_width for design in found.designs]
    ends = (
        [design.low_width for design in found.designs],
        [design.high_width for design in found.designs],
    )
    widths: list[Mark] = [Points(sizes, width, "blue", "median, 10 to 90 %", y_ends=ends, size=5)]
    share = [design.probability for design in found.designs]
    shares: list[Mark] = [
        ReferenceLine(y=found.wanted_probability, dash="dash", width=1),
        Line(sizes, share, "blue", "goal reached", marker="circle"),
    ]
    if found.claim_goal is not None and found.proofs:
        refuted = [proof.refuted_share for proof in found.proofs if proof.refuted_share is not None]
        places = [proof.canaries for proof in found.proofs if proof.refuted_share is not None]
        shares.append(Line(places, refuted, "orange", "claim refuted", marker="circle"))
    across = Axis("canaries", logarithmic=True, plain=True)
    up = Axis(f"width of the {percent(found.level)} interval of epsilon", from_zero=True)
    plots = [
        Plot(across, up, widths, legend=False),
        Plot(across, Axis("probability", (-0.03, 1.06)), shares),
    ]
    return Sheet("What so many canaries would find", plots, (9.6, 4.0), columns=2)


ONE_RUN = View(line=_one_run_line, table=_one_run_table, figures={"plan": _one_run_sheet})
