"""Views of the input of an audit: populations, canaries, plans, configurations.  They have no figure."""

from __future__ import annotations

from epsilometer._table import Cell, Table, facts
from epsilometer.auditing.config import AuditConfig
from epsilometer.display.view import View
from epsilometer.measurement.canaries import Canaries
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Dataset, Population

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
