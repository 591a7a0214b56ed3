"""Views of the input of an audit: populations, canaries, plans, configurations; and of its size."""

from __future__ import annotations

from epsilometer._table import Cell, Table, facts
from epsilometer.auditing.config import AuditConfig
from epsilometer.display.view import View
from epsilometer.measurement.canaries import Canaries
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Dataset, Population
from epsilometer.planning import wording
from epsilometer.planning.plan import AuditPlan
from epsilometer.report.figures.plan import plan_sheet

Facts = list[tuple[str, Cell]]


def _dataset(found: Dataset | Population) -> Facts:
    labels = found.labels
    return [
        ("features of a record", " x ".join(map(str, found.features.shape[1:])) or "1"),
        ("type", str(found.features.dtype)),
        ("different labels", None if labels is None else len(set(labels.tolist()))),
    ]


def _dataset_table(found: Dataset) -> Table:
    return facts([("records", len(found)), *_dataset(found)])


def _population_table(found: Population) -> Table:
    sizes: Facts = [("records", found.records), ("crafted records", found.crafted)]
    return facts([("name", found.name), *sizes, *_dataset(found)])


def _canaries_table(found: Canaries) -> Table:
    inside = int(found.coins.sum())
    return facts(
        [
            ("canaries", len(found)),
            ("kind", found.kind),
            ("included in training", inside),
            ("left out", len(found) - inside),
            ("records of a population", found.records is not None),
        ]
    )


def _plan(found: Plan) -> Facts:
    sizes = found.sizes
    return [
        ("population", found.population.name),
        ("algorithm", type(found.algorithm).__name__),
        ("design", type(found.design).__name__),
        ("challenge bases", sizes.challenge_bases),
        ("records of a dataset", found.dataset_size),
        ("models to train", sizes.models),
        ("variants", len(sizes.variants)),
        ("adjacency", type(found.adjacency).__name__),
        ("seed", found.seed),
    ]


def _audit_table(found: AuditConfig) -> Table:
    rows: Facts = [
        *_plan(found.plan),
        ("store", found.store.name),
        ("attack", type(found.attack).__name__),
        ("delta", f"{found.delta:g}"),
        ("claimed epsilon", None if found.claim is None else found.claim.epsilon),
    ]
    return facts(rows, found.warnings)


DATASET = View(table=_dataset_table)
POPULATION = View(table=_population_table)
CANARIES = View(table=_canaries_table)
PLAN = View(table=lambda found: facts(_plan(found)))
AUDIT = View(table=_audit_table)


# --- how large it should be, by simulation ----------------------------------------------------------


def _planned_line(plan: AuditPlan) -> str:
    best = plan.recommended
    if best is not None:
        least = "" if plan.complete else "at most "
        return f"{least}{best.words}; reach the goals in {wording.reached_words(best)} simulations"
    if plan.nothing_needed:
        return "nothing needed"
    return (
        plan.impossible or f"no size {'within the limits' if plan.complete else 'found'} is enough"
    )


def _planned_table(plan: AuditPlan) -> Table:
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


PLANNED = View(line=_planned_line, table=_planned_table, figures={"plan": plan_sheet})
