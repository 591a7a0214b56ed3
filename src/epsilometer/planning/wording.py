"""A plan as sentences, as a table, and as plain values."""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from epsilometer._files import csv_text
from epsilometer.judgement.next_step import MORE
from epsilometer.model.models import CountModel, CurveModel
from epsilometer.planning.designs import ManyModels, OneRunCanaries, PoolModels
from epsilometer.planning.goals import AssumedCurve, DecidedClaim, IntervalWidth, ProvenEpsilon
from epsilometer.planning.plan import AuditPlan, PlannedDesign
from epsilometer.proofs.proof import rounded_down

#: Up to this multiple of the floor, more models hardly narrow the interval.
NEAR_FLOOR = 1.15

INTERFERE = (
    "Canaries of one run interfere with each other; the simulated ones do not. Keep them a small share "
    "of the training data."
)
ONE_STRENGTH = (
    "One run cannot tell a weak attack on a leaky algorithm from a strong attack on a private one, so "
    "the interval has a floor unless the strength is known (--known-strength)."
)
NOT_JUDGED = (
    "Nothing is judged from points that share models: there, only a proof decides about a claim."
)


def recommendation(plan: AuditPlan) -> str:
    """The recommended size, in a sentence or two."""
    goals = " and ".join(
        goal.words.format(level=100 * plan.level, **vars(goal)) for goal in plan.goals
    )
    if plan.nothing_needed:
        return (
            f"Nothing needs to be measured: the prior alone gives {goals} (it is "
            f"{number_words(plan.prior_width)} wide)."
        )
    if plan.impossible:
        return f"No audit reaches {goals}: {plan.impossible}."
    often, best = f"with probability {plan.wanted_probability:g}", plan.recommended
    if best is None:
        if not plan.complete:
            return (
                f"No size was found that reaches {goals} {often}: the search reached its work limit. "
                "--thorough searches to the end."
            )
        return f"No audit within the limits reaches {goals} {often}: even {plan.largest} do not."
    size = size_words(plan, best)
    reach = f"{goals} in {reached_words(best)} simulated audits."
    if plan.complete:
        return f"Take {size}: they reach {reach}"
    return (
        f"At most {size} are needed: they reach {reach} This is not a recommendation: the search "
        "reached its work limit, and cheaper sizes may do. --thorough searches to the end."
    )


def size_words(plan: AuditPlan, design: PlannedDesign) -> str:
    """The sizes of a design in words, with their cost."""
    words = design.words
    if isinstance(plan.design, ManyModels):
        added = "" if plan.scenario.pilot is None else " in addition to the pilot's"
        words += f" ({design.models:,} models{added})"
    return words if design.hours is None else f"{words}, {number_words(design.hours)} h of training"


def help_sentences(plan: AuditPlan) -> list[str]:
    """What the plan assumes, what such audits report, the precision, and what would help."""
    if not plan.designs:
        return []
    shown = plan.recommended or plan.designs[-1]
    sentences = [_reported(plan, shown)]
    if plan.quick and plan.recommended is not None:
        sentences.append(
            f"This is a quick search: the probability comes from {shown.simulations} simulated audits "
            f"({_precision(shown)}). --thorough simulates 100, and more sizes."
        )
    floor = plan.floor
    if floor is not None and floor.width is not None and shown.width is not None:
        even = f"with {floor.words} it would be {number_words(floor.width)} wide"
        more = f"More {plan.design.names[1]}"
        near = shown.width <= NEAR_FLOOR * floor.width
        helps = "hardly narrow the interval: even" if near else "can narrow the interval:"
        sentences.append(f"{more} {helps} {even}.")
    if shown.no_limit:
        sentences.append(_without_limit(plan, shown))
    if shown.most_provable is not None:
        sentences.append(_at_best(plan, shown.most_provable))
    if isinstance(truth := plan.scenario, AssumedCurve):
        sentences.append(
            f"Assumed: scores of a {truth.family.name} trade-off curve with epsilon = "
            f"{truth.epsilon:g} at delta = {plan.model.delta:g}, and attacks of mean strength "
            f"{truth.strength:g}. Weaker attacks need more."
        )
    if isinstance(plan.design, OneRunCanaries):
        sentences.append(INTERFERE + _share(plan.design, shown))
        if plan.model.strength.fixed_value is None and plan.goal(IntervalWidth) is not None:
            sentences.append(ONE_STRENGTH)
    if isinstance(plan.design, PoolModels) and plan.goal(DecidedClaim) is not None:
        sentences.append(NOT_JUDGED)
    return sentences


def _reported(plan: AuditPlan, shown: PlannedDesign) -> str:
    """What audits of the size report, in a sentence."""
    who = "Such audits" if plan.recommended is not None else f"Audits of {shown.words}"
    width = ""
    if shown.width is not None:
        ends = f"{number_words(shown.low_width)} to {number_words(shown.high_width)}"
        width = f"an interval {number_words(shown.width)} wide ({ends} in 80 % of them), and "
    proven = f"{rounded_down(shown.low_proven)} to {rounded_down(shown.high_proven)} in 80 %"
    return (
        f"{who} typically report {width}a proof that epsilon is at least {rounded_down(shown.proven)} "
        f"({proven}; error {100 * plan.error:g} %)."
    )


def _without_limit(plan: AuditPlan, shown: PlannedDesign) -> str:
    """How often such audits set no upper limit, and how much more models would raise what they show."""
    assert shown.no_limit is not None  # neither, in audits that need an interval
    assert shown.most_shown is not None
    often, most = round(shown.no_limit * shown.simulations), shown.most_shown
    return (
        f"In {often:,} of {shown.simulations:,} of them the data set no upper limit of epsilon: "
        f"{shown.words} can show at most {most:.2f}. {MORE} times as many {plan.design.names[1]} would "
        f"raise what can be shown to {most + math.log(MORE):.2f}."
    )


def _at_best(plan: AuditPlan, most: float) -> str:
    """What perfect attacks would prove, and what could prove more where the goal is not reached."""
    said = f"Perfect attacks on as many would prove at most {rounded_down(most)}"
    goal = plan.goal(ProvenEpsilon)
    if goal is None or plan.recommended is not None:
        return f"{said}."
    what = "a stronger attack" if goal.at_least < most else "only a larger audit"
    return f"{said}: {what} could reach the goal."


def _share(design: OneRunCanaries, shown: PlannedDesign) -> str:
    if design.dataset_size is None:
        return ""
    inside = shown.sizes["canaries"] // (2 * design.runs)
    return (
        f" Here about {inside:,} are in a run, {100 * inside / design.dataset_size:.3g} % of "
        f"{design.dataset_size:,} records."
    )


def reached_words(design: PlannedDesign) -> str:
    """How many simulated audits reached the goals.

    A share with a standard error would say less: of 8 of 8 audits it is 1.00, with an error of 0.
    """
    return f"{round(design.probability * design.simulations):,} of {design.simulations:,}"


#: Columns of the table after the sizes; one without values is left out.
COLUMNS: dict[str, Callable[[PlannedDesign], str]] = {
    "reached": reached_words,
    "width": lambda design: number_words(design.width),
    "(10-90 %)": lambda d: f"{number_words(d.low_width)}-{number_words(d.high_width)}",
    "proven": lambda design: rounded_down(design.proven),
    "PASS": lambda design: number_words(design.pass_share),
    "FAIL": lambda design: number_words(design.fail_share),
    "models": lambda design: f"{design.models:,}",
    "hours": lambda design: number_words(design.hours),
}


def table_rows(plan: AuditPlan) -> list[tuple[str, ...]]:
    """Heading and rows of the simulated sizes, the recommended one marked."""
    first, sizes = plan.designs[0], [*plan.designs[0].sizes]
    columns = {
        name: words
        for name, words in COLUMNS.items()
        if words(first).strip("-") and not (name == "models" and "bases" not in sizes)
    }
    rows = [("", *sizes, *columns)]
    for design in plan.designs:
        mark = "*" if design is plan.recommended else ""
        counted = (f"{number:,}" for number in design.sizes.values())
        rows.append((mark, *counted, *(words(design) for words in columns.values())))
    return rows


def described(plan: AuditPlan) -> dict[str, Any]:
    """The plan as plain values."""
    names = {IntervalWidth: "width", DecidedClaim: "claim", ProvenEpsilon: "proven"}
    wanted = {names[type(goal)]: next(iter(vars(goal).values())) for goal in plan.goals}
    return {
        "design": plan.design.name,
        "recommendation": recommendation(plan),
        "what_helps": help_sentences(plan),
        "nothing_needed": plan.nothing_needed,
        "impossible": plan.impossible,
        "wanted": {
            **(dict.fromkeys(names.values()) | wanted),
            "probability": plan.wanted_probability,
            "level": plan.level,
            "error": plan.error,
        },
        "scenario": plan.scenario.described(),
        "model": _model(plan.model),
        "recommended": None if plan.recommended is None else asdict(plan.recommended),
        "designs": [asdict(design) for design in plan.designs],
        "floor": None if plan.floor is None else asdict(plan.floor),
        "limits": asdict(plan.design),
        "prior_width": plan.prior_width,
        "seed": plan.seed,
        "quick": plan.quick,
        "complete": plan.complete,
    }


def _model(model: CountModel | CurveModel) -> dict[str, object]:
    values: dict[str, object] = {"kind": "curve", "delta": model.delta}
    if isinstance(model, CountModel):
        values |= {"kind": "count", "likelihood": type(model.likelihood).__name__}
    else:
        values |= {"families": [f.name for f in model.families], "mixing": model.mixing.name}
    return values | {"epsilon_prior": repr(model.epsilon), "strength": repr(model.strength)}


def designs_csv(plan: AuditPlan) -> str:
    """The table as CSV, with full precision."""
    rows = []
    for design in plan.designs:
        values = asdict(design)
        rows.append(values.pop("sizes") | values)
    names = list(rows[0]) if rows else []
    return csv_text(names, [["" if row[n] is None else row[n] for n in names] for row in rows])


def _precision(design: PlannedDesign) -> str:
    """The precision of a share: its standard error, or a confidence bound if all audits agree."""
    if design.probability < 1:
        return f"standard error {design.standard_error:.2f}"
    return f"at least {0.05 ** (1 / design.simulations):.2f} with 95 % confidence"


def number_words(value: float | None) -> str:
    """Three significant digits, without an exponent where possible; nothing for None."""
    if value is None:
        return ""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
