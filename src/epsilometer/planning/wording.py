"""A plan as sentences, as a table, and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, fields
from typing import Any, Protocol

from epsilometer._files import csv_text
from epsilometer.planning.goals import WithGoals
from epsilometer.planning.plan import AuditPlan, PlannedDesign


class SimulatedShare(Protocol):
    """A design of either plan."""

    @property
    def probability(self) -> float:
        """Share of simulations that reached every goal."""

    @property
    def standard_error(self) -> float:
        """The Monte Carlo standard error of this share."""

    @property
    def simulations(self) -> int:
        """Number of simulated audits."""


SIMULATED_WITH = (
    "Plans are simulated with the count model, not with the curve model that `audit` reports first."
)

NEAR_FLOOR = 1.15
"""Up to this multiple of the floor, more challenges hardly narrow the interval."""


def recommendation(plan: AuditPlan) -> str:
    """The recommended design, in one sentence."""
    if plan.nothing_needed:
        return (
            f"Nothing needs to be measured: the prior alone gives {goal_words(plan)} "
            f"(its {100 * plan.level:g} % interval is {number_words(plan.prior_width)} wide)."
        )
    design = plan.recommended
    if design is None:
        tried = f"{plan.most.bases:,} bases"
        if plan.curves:
            tried = f"audits of up to {tried} with {plan.most.challenges:,} challenges each"
        if not plan.complete:
            return (
                f"No design was found in the quick search that reaches {goal_words(plan)} with "
                f"probability {plan.wanted_probability:g}. It did not examine every design; --thorough "
                "does."
            )
        return (
            f"No audit within the limits reaches {goal_words(plan)} with probability "
            f"{plan.wanted_probability:g}: {tried} do not."
        )
    time = "" if design.hours is None else f" ({number_words(design.hours)} h)"
    added = ""
    if plan.scenario.pilot is not None:
        new = design.bases - len(plan.scenario.pilot)
        added = f" ({new:,} in addition to those of the pilot)"
    size = (
        f"{design.bases:,} challenge bases{added} with {design.challenges:,} challenges per base under "
        "each hypothesis"
    )
    often = f"{goal_words(plan)} in {share_words(design)}"
    widths = (
        f"the median width is {number_words(design.median_width)} ({number_words(design.low_width)} to "
        f"{number_words(design.high_width)} in 80 % of such audits)."
    )
    if plan.complete:
        return f"Take {size}: {design.models:,} models{time} reach {often}; {widths}"
    return (
        f"At most {design.models:,} models{time} are needed: {size} reach {often}; {widths} This is not "
        "a recommendation: the quick search reached its work limit before it had examined "
        f"designs of down to half this cost. Run --thorough to find the cheapest."
    )


def help_sentences(plan: AuditPlan) -> list[str]:
    """The precision of the search, and the effect of more challenges, bases or stronger attacks."""
    if plan.nothing_needed or not plan.designs:
        return []
    sentences = []
    if plan.quick and plan.recommended is not None:
        recommended = plan.recommended
        sentences.append(
            f"This is a quick search: the probability comes from {recommended.simulations} simulated "
            f"audits ({precision_words(recommended)}), and a cheaper design may exist. --thorough "
            "simulates 100, and alternatives."
        )
    design = plan.recommended or max(plan.designs, key=lambda d: (d.bases, d.challenges))
    floor = f"{number_words(design.floor_width)} with {design.bases:,} bases"
    if design.median_width <= NEAR_FLOOR * design.floor_width:
        sentences.append(
            f"More challenges no longer help: even with known error rates the width would be {floor}; "
            "only more bases or a stronger attack would narrow it."
        )
    else:
        sentences.append(f"More challenges can narrow the interval to {floor} at best (its floor).")
    wanted = plan.wanted_probability
    short = [f.bases for f in plan.floors if f.probability is not None and f.probability < wanted]
    if short and plan.width_goal is not None:
        sentences.append(
            f"With {max(short):,} bases or fewer, no number of challenges reaches a width of "
            f"{plan.width_goal.at_most:g} often enough."
        )
    if plan.stronger is not None:
        sentences.append(
            f"With attacks of strength {plan.stronger.strength:g}, the interval of {design.bases:,} x "
            f"{design.challenges:,} would be about {number_words(plan.stronger.median_width)} wide "
            f"instead of {number_words(design.median_width)}."
        )
    if plan.model.likelihood.parameters:
        sentences.append("Widths with estimated correlations are accurate to 5 %.")
    return [*sentences, SIMULATED_WITH]


def table_rows(plan: AuditPlan) -> list[tuple[str, ...]]:
    """Heading and rows of the designs, the recommended one marked."""
    verdicts = plan.claim_goal is not None
    hours = any(design.hours is not None for design in plan.designs)
    head = ("", "bases", "challenges", "width", "(10-90 %)", "floor", "reached")
    ends = (*(("PASS", "FAIL") if verdicts else ()), "models", *(("hours",) if hours else ()))
    rows: list[tuple[str, ...]] = [(*head, *ends)]
    for design in plan.designs:
        shares = (design.pass_share, design.fail_share)
        time = "" if design.hours is None else number_words(design.hours)
        rows.append(
            (
                "*" if design == plan.recommended else " ",
                f"{design.bases:,}",
                f"{design.challenges:,}",
                number_words(design.median_width),
                f"{number_words(design.low_width)}-{number_words(design.high_width)}",
                number_words(design.floor_width),
                reached_words(design),
                *((f"{share:.2f}" for share in shares) if verdicts else ()),
                f"{design.models:,}",
                *((time,) if hours else ()),
            )
        )
    return rows


def described(plan: AuditPlan) -> dict[str, Any]:
    """The plan as plain values."""
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
    """The table as CSV, with full precision."""
    rows = [["" if value is None else value for value in astuple(design)] for design in designs]
    return csv_text([field.name for field in fields(PlannedDesign)], rows)


def goal_words(plan: WithGoals) -> str:
    """The goals in words."""
    parts = []
    if plan.width_goal is not None:
        parts.append(
            f"a {100 * plan.level:g} % interval of epsilon at most {plan.width_goal.at_most:g} wide"
        )
    if plan.claim_goal is not None:
        parts.append(f"a verdict on the claim of {plan.claim_goal.claim:g}")
    return " and ".join(parts)


def reached_words(design: SimulatedShare) -> str:
    """How many simulated audits reached the goals.

    A share with a standard error would say less: of 8 of 8 audits it is 1.00, with an error of 0.
    """
    return f"{round(design.probability * design.simulations):,} of {design.simulations:,}"


def share_words(design: SimulatedShare) -> str:
    """The share of simulated audits that reached the goals, as counts."""
    return f"{reached_words(design)} simulated audits"


def precision_words(design: SimulatedShare) -> str:
    """The precision of a share: its standard error, or a confidence bound if all audits agree."""
    if design.probability < 1:
        return f"standard error {design.standard_error:.2f}"
    return f"at least {0.05 ** (1 / design.simulations):.2f} with 95 % confidence"


def number_words(value: float) -> str:
    """Three significant digits, without an exponent where possible."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
