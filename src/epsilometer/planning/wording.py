"""A plan in sentences, as a table, and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, fields
from typing import Any, Protocol

from epsilometer._files import csv_text
from epsilometer.planning.goals import DecidedClaim, IntervalWidth
from epsilometer.planning.plan import AuditPlan, PlannedDesign


class HasGoals(Protocol):
    """A plan of any design."""

    @property
    def width_goal(self) -> IntervalWidth | None:
        """The width asked for, if one was."""

    @property
    def claim_goal(self) -> DecidedClaim | None:
        """The claim to be settled, if there is one."""

    @property
    def level(self) -> float:
        """Of the credible interval."""


NEAR_FLOOR = 1.15
"""Widths up to this multiple of the floor: more challenges cannot narrow them further to speak of."""


def recommendation(plan: AuditPlan) -> str:
    """What to do, in one sentence."""
    if plan.nothing_needed:
        return (
            f"Nothing needs to be measured: {goal_words(plan)} is what the prior says before any data "
            f"(its {100 * plan.level:g} % interval is {number_words(plan.prior_width)} wide)."
        )
    found = plan.recommended
    if found is None:
        tried = f"{plan.most.bases:,} bases"
        if plan.curves:
            tried = f"audits of up to {tried} with {plan.most.challenges:,} challenges each"
        if not plan.complete:
            return (
                f"No design was found in the quick search that reaches {goal_words(plan)} with "
                f"probability {plan.wanted_probability:g}; larger ones within the limits were not "
                "simulated. Search them with --thorough."
            )
        return (
            f"No audit within the limits reaches {goal_words(plan)} with probability "
            f"{plan.wanted_probability:g}: {tried} do not."
        )
    time = "" if found.hours is None else f" ({number_words(found.hours)} h)"
    added = ""
    if plan.scenario.pilot is not None:
        new = found.bases - len(plan.scenario.pilot)
        added = f" ({new:,} new ones beside those of the pilot)"
    return (
        f"Take {found.bases:,} challenge bases{added} with {found.challenges:,} challenges each under "
        f"either hypothesis: {found.models:,} models{time} reach {goal_words(plan)} with "
        f"probability {found.probability:.2f}, and the interval is likely to be "
        f"{number_words(found.median_width)} wide ({number_words(found.low_width)} to "
        f"{number_words(found.high_width)} in 8 of 10 such audits)."
    )


def help_sentences(plan: AuditPlan) -> list[str]:
    """What would help, and what would not: challenges, bases, stronger attacks."""
    if plan.nothing_needed or not plan.designs:
        return []
    said = []
    if plan.quick and plan.recommended is not None:
        found = plan.recommended
        said.append(
            f"This is a quick search: the probability comes from {found.simulations} simulated audits "
            f"(standard error {found.standard_error:.2f}), and a cheaper design may exist. --thorough "
            "simulates 100, and alternatives."
        )
    design = plan.recommended or max(plan.designs, key=lambda d: (d.bases, d.challenges))
    floor = f"{number_words(design.floor_width)} with {design.bases:,} bases"
    if design.median_width <= NEAR_FLOOR * design.floor_width:
        said.append(
            f"More challenges no longer help: were every error rate known, the width would still be "
            f"{floor}; only more bases or a stronger attack would narrow it."
        )
    else:
        said.append(f"More challenges can narrow the interval to {floor} at best, its floor.")
    wanted = plan.wanted_probability
    short = [f.bases for f in plan.floors if f.probability is not None and f.probability < wanted]
    if short and plan.width_goal is not None:
        said.append(
            f"With {max(short):,} bases or fewer no number of challenges reaches a width of "
            f"{plan.width_goal.at_most:g} often enough."
        )
    if plan.stronger is not None:
        said.append(
            f"Attacks of strength {plan.stronger.strength:g} would make the interval of "
            f"{design.bases:,} x {design.challenges:,} about "
            f"{number_words(plan.stronger.median_width)} wide instead of "
            f"{number_words(design.median_width)}."
        )
    if plan.model.likelihood.parameters:
        said.append("Widths with estimated correlations are worked out to 5 %.")
    return said


def table(plan: AuditPlan) -> str:
    """The designs in 80 columns, the recommended one marked."""
    verdicts = plan.claim_goal is not None
    head = f"  {'bases':>6} {'challenges':>10}  {'width (10-90 %)':<19} {'floor':>6} {'reached':>9}"
    head += (
        f" {'PASS':>5} {'FAIL':>5} {'models':>10}" if verdicts else f" {'models':>11} {'hours':>7}"
    )
    lines = [head]
    for design in plan.designs:
        mark = "*" if design == plan.recommended else " "
        spread = f"{number_words(design.low_width)}-{number_words(design.high_width)}"
        line = (
            f"{mark} {design.bases:>6,} {design.challenges:>10,}  "
            f"{number_words(design.median_width):<5} ({spread + ')':<12} "
            f"{number_words(design.floor_width):>6} "
            f"{design.probability:.2f}\u00b1{design.standard_error:.2f}"
        )
        if verdicts:
            line += f" {design.pass_share:5.2f} {design.fail_share:5.2f} {design.models:>10,}"
        else:
            hours = "" if design.hours is None else number_words(design.hours)
            line += f" {design.models:>11,} {hours:>7}"
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def described(plan: AuditPlan) -> dict[str, Any]:
    """The whole plan as plain values."""
    return {
        "recommendation": recommendation(plan),
        "what_helps": help_sentences(plan),
        "nothing_needed": plan.nothing_needed,
        "wanted": {
            "width": None if plan.width_goal is None else plan.width_goal.at_most,
            "claim": None if plan.claim_goal is None else plan.claim_goal.claim,
            "probability": plan.wanted_probability,
            "level": plan.level,
        },
        "scenario": plan.scenario.described(),
        "model": {
            "delta": plan.model.delta,
            "likelihood": type(plan.model.likelihood).__name__,
            "epsilon_prior": repr(plan.model.epsilon),
            "strength_prior": repr(plan.model.strength),
        },
        "recommended": None if plan.recommended is None else asdict(plan.recommended),
        "designs": [asdict(design) for design in plan.designs],
        "floors": [asdict(floor) for floor in plan.floors],
        "stronger_attack": None if plan.stronger is None else asdict(plan.stronger),
        "prior_width": plan.prior_width,
        "most": plan.most._asdict(),
        "seed": plan.seed,
        "quick": plan.quick,
        "complete": plan.complete,
    }


def designs_csv(designs: Sequence[PlannedDesign]) -> str:
    """The table as CSV, all its numbers in full."""
    rows = [["" if value is None else value for value in astuple(design)] for design in designs]
    return csv_text([field.name for field in fields(PlannedDesign)], rows)


def goal_words(plan: HasGoals) -> str:
    """What is wanted."""
    parts = []
    if plan.width_goal is not None:
        parts.append(
            f"a {100 * plan.level:g} % interval of epsilon at most {plan.width_goal.at_most:g} wide"
        )
    if plan.claim_goal is not None:
        parts.append(f"a verdict on the claim of {plan.claim_goal.claim:g}")
    return " and ".join(parts)


def number_words(value: float) -> str:
    """Three significant digits, without an exponent where one is not needed."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
