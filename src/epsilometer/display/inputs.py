"""Views of the input of an audit: populations, canaries, plans, configurations.  They have no figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from epsilometer._table import Cell, Table
from epsilometer._text import counted
from epsilometer.display.data import name_text
from epsilometer.display.view import View

if TYPE_CHECKING:
    from epsilometer.auditing.config import AuditConfig
    from epsilometer.measurement.canaries import Canaries
    from epsilometer.measurement.plan import Plan
    from epsilometer.measurement.population import Dataset, Population

LONGEST_NAME = 60


def _facts(rows: list[tuple[str, Cell]], notes: tuple[str, ...] = ()) -> Table:
    return Table(columns=("", "value"), rows=rows, notes=notes)


def _shape(array: np.ndarray) -> str:
    return " x ".join(map(str, array.shape[1:])) or "1"


def _classes(labels: np.ndarray | None) -> Cell:
    return None if labels is None else len(np.unique(labels))


def _dataset_line(found: Dataset) -> str:
    labels = (
        "no labels" if found.labels is None else counted(int(str(_classes(found.labels))), "label")
    )
    return f"{counted(len(found), 'record')} of {_shape(found.features)} features, {labels}"


def _dataset_table(found: Dataset) -> Table:
    return _facts(
        [
            ("records", len(found)),
            ("features of a record", _shape(found.features)),
            ("type", str(found.features.dtype)),
            ("different labels", _classes(found.labels)),
        ]
    )


DATASET = View(line=_dataset_line, table=_dataset_table)


def _population_line(found: Population) -> str:
    labels = (
        "no labels" if found.labels is None else counted(int(str(_classes(found.labels))), "label")
    )
    records = counted(found.records, "record")
    crafted = f", {found.crafted:,} crafted" if found.crafted else ""
    return f"{name_text(found.name)}: {records}{crafted} of {_shape(found.features)} features, {labels}"


def _population_table(found: Population) -> Table:
    return _facts(
        [
            ("name", found.name),
            ("records", found.records),
            ("crafted records", found.crafted),
            ("features of a record", _shape(found.features)),
            ("type", str(found.features.dtype)),
            ("different labels", _classes(found.labels)),
        ]
    )


POPULATION = View(line=_population_line, table=_population_table)


def _canaries_line(found: Canaries) -> str:
    return f"{len(found):,} of kind {found.kind}, {int(found.coins.sum()):,} included"


def _canaries_table(found: Canaries) -> Table:
    inside = int(found.coins.sum())
    return _facts(
        [
            ("canaries", len(found)),
            ("kind", found.kind),
            ("included in training", inside),
            ("left out", len(found) - inside),
            ("records of a population", found.records is not None),
        ]
    )


CANARIES = View(line=_canaries_line, table=_canaries_table)


def _design_words(plan: Plan) -> str:
    return type(plan.design).__name__


def _plan_line(found: Plan) -> str:
    algorithm = type(found.algorithm).__name__
    return (
        f"{counted(found.sizes.models, 'model')} of {algorithm}, design {_design_words(found)}, "
        f"{counted(len(found.bases), 'base')} from {name_text(found.population.name)}, seed {found.seed}"
    )


def _plan_table(found: Plan) -> Table:
    sizes = found.sizes
    return _facts(
        [
            ("population", found.population.name),
            ("algorithm", type(found.algorithm).__name__),
            ("design", _design_words(found)),
            ("challenge bases", sizes.challenge_bases),
            ("records of a dataset", found.dataset_size),
            ("models to train", sizes.models),
            ("variants", len(sizes.variants)),
            ("adjacency", type(found.adjacency).__name__),
            ("seed", found.seed),
        ]
    )


PLAN = View(line=_plan_line, table=_plan_table)


def _audit_line(found: AuditConfig) -> str:
    claim = "no claim" if found.claim is None else f"claim {found.claim.epsilon:.4g}"
    return f"{_plan_line(found.plan)}; delta = {found.delta:g}, {claim}"


def _audit_table(found: AuditConfig) -> Table:
    rows: list[tuple[str, Cell]] = [(str(label), value) for label, value in _plan_table(found.plan)]
    claim = None if found.claim is None else found.claim.epsilon
    rows += [
        ("store", found.store.name),
        ("attack", type(found.attack).__name__),
        ("delta", f"{found.delta:g}"),
        ("claimed epsilon", claim),
    ]
    return _facts(rows, found.warnings)


AUDIT = View(line=_audit_line, table=_audit_table)
