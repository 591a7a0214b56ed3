"""From a file, or from Python objects, to the configuration of an audit."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer.auditing import config as configurations
from epsilometer.auditing.config import AuditConfig, read_audit
from epsilometer.auditing.designs import Pilot
from epsilometer.auditing.execution import NO_STORE, Execution
from epsilometer.auditing.from_python import Wanted, config_of
from epsilometer.errors import InputError
from epsilometer.measurement.executors import check_name
from epsilometer.model.count_model import CountModel
from epsilometer.model.curve_model import CurveModel

TABLES = {
    "bases": ("audit", "challenge_bases"),
    "dataset_size": ("audit", "dataset_size"),
    "challenge": ("audit", "challenge"),
    "adjacency": ("audit", "adjacency"),
    "seed": ("audit", "seed"),
    "statistic": ("attack", "statistic"),
    "model": ("estimate", "model"),
    "level": ("estimate", "level"),
}
"""Where the settings of `em.audit` are in a file."""


def of_file(
    path: str | PathLike[str] | None, wanted: Wanted, store: Any, execution: Execution
) -> AuditConfig:
    """The audit of a configuration, None for the one that ships, with other settings where given."""
    if wanted.design is not None:
        raise InputError(
            "`design=` is for an algorithm and a population; a file has its own in the table [audit]."
        )
    tables: dict[str, dict[str, Any]] = {"audit": {}, "attack": {}, "estimate": {}}
    for name, (table, key) in TABLES.items():
        value = getattr(wanted, name)
        if value is not None and not isinstance(value, CountModel | CurveModel):
            tables[table][key] = value
    if wanted.deltas:
        tables["estimate"]["delta"] = wanted.deltas
    plain = isinstance(wanted.claim, Real)
    if plain:
        tables["estimate"]["claim"] = float(wanted.claim)
    config = read_config(path, tables, store, execution)
    if wanted.claim is not None and not plain:
        config = config.claiming(wanted.claim)
    model = wanted.model
    if isinstance(model, CurveModel):
        return replace(config, curve=model, deltas=wanted.deltas or (model.delta,))
    if isinstance(model, CountModel):
        return replace(config, model=model, curve=None, deltas=wanted.deltas or (model.delta,))
    return config


def read_config(
    path: str | PathLike[str] | None,
    tables: dict[str, dict[str, Any]],
    store: Any,
    execution: Execution,
    train_pilot: Any = None,
) -> AuditConfig:
    """Read a configuration, or the one that ships; a pilot is trained for its challenge points."""

    def trained(pilot: Pilot) -> None:
        kept = f", stored in {pilot.store.name}" if execution.kept else ""
        models = pilot.plan.sizes.models
        execution.say(f"pilot: {models:,} models that select the challenge points{kept}")
        execution.measure(pilot.plan, pilot.store)

    return read_audit(
        configurations.DEFAULT if path is None else path,
        folder=None if path is not None else Path.cwd(),
        tables={name: values for name, values in tables.items() if values},
        store=store,
        train_pilot=train_pilot or trained,
    )


def of_objects(algorithm: Any, population: Any, wanted: Wanted, store: Any) -> AuditConfig:
    """The audit of an algorithm on a population."""
    if population is None:
        raise InputError(
            "expected a population too: em.audit(algorithm, population, delta=...), where the "
            "population is em.Population(...), a pair of arrays (features, labels), a name or a path."
        )
    if not wanted.deltas and not isinstance(wanted.model, CountModel | CurveModel):
        raise InputError("expected `delta=` with 0 <= delta < 1: it has no default.")
    return config_of(algorithm, population, wanted, None if store == NO_STORE else store)


def executed(config: AuditConfig, execution: Execution, **given: Any) -> AuditConfig:
    """The configuration with its execution, where nothing else was given."""
    configured = config.execution
    chosen = {name: value for name, value in given.items() if value is not None}
    if isinstance(chosen.get("executor"), str):
        check_name(chosen["executor"])
    how = {
        "executor": configured.executor,
        "workers": configured.workers,
        "retries": configured.retries,
    }
    return replace(config, execution=replace(execution, **(how | chosen)))
