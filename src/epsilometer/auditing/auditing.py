"""An audit as Python asks for it: an algorithm and a population, or a file with other settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer import _validate
from epsilometer.attacks.statistics import CustomStatistic, Statistic
from epsilometer.auditing.config import AuditConfig, assembled, counted, read_audit
from epsilometer.auditing.execution import Execution
from epsilometer.auditing.tables import AttackTable, AuditTable, EstimateTable
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.inputs.recorded import COUNT, CURVE
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.bases import ADJACENCIES, Adjacency
from epsilometer.measurement.designs import CrossFed, Design
from epsilometer.measurement.executors import check_name
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Population
from epsilometer.model.count_model import CountModel
from epsilometer.model.curve_model import CurveModel

DEFAULTS = AuditTable.model_fields
SEED = 1


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is audited, as `em.audit` takes it; None is the default."""

    deltas: tuple[float, ...]
    claim: Any = None
    design: Design | None = None
    bases: Any = None
    dataset_size: int | None = None
    challenge: Any = None
    adjacency: Any = None
    seed: int | None = None
    statistic: Any = None
    model: Any = None
    level: float | None = None


def population_of(given: Any) -> Population:
    """A population from itself, a pair of arrays (features, labels), or a name or path."""
    from epsilometer.datasets.named import load_population

    if isinstance(given, Population):
        return given
    if isinstance(given, str | PathLike):
        return load_population(str(given))
    if isinstance(given, tuple | list) and len(given) == 2:
        features, labels = given
        return Population(features=_array(features), labels=_array(labels))
    raise InputError(
        "expected a population: em.Population(features=..., labels=...), a pair of arrays (features, "
        f"labels), a name such as 'digits', or a path of records; got {type(given).__name__}."
    )


def _array(given: Any) -> Any:
    """An array, also from a data frame or a tensor."""
    return given.to_numpy() if hasattr(given, "to_numpy") else given


def of_objects(algorithm: Any, population: Any, wanted: Wanted, store: Any) -> AuditConfig:
    """The audit of an algorithm on a population."""
    if population is None:
        raise InputError(
            "expected a population too: em.audit(algorithm, population, delta=...), where the "
            "population is em.Population(...), a pair of arrays (features, labels), a name or a path."
        )
    if not wanted.deltas and not isinstance(wanted.model, CountModel | CurveModel):
        raise InputError("expected `delta=` with 0 <= delta < 1: it has no default.")
    algorithms.check(algorithm)
    records = population_of(population)
    design: Design = wanted.design or CrossFed(replicates=DEFAULTS["replicates"].default)
    adjacency = _adjacency(wanted.adjacency)
    statistic = _statistic(wanted.statistic)
    plan = Plan(
        population=records,
        algorithm=algorithm,
        design=design,
        dataset_size=_size(wanted, records, design, adjacency),
        adjacency=adjacency,
        challenge="random" if wanted.challenge is None else wanted.challenge,
        challenge_bases=_bases(wanted, design),
        seed=SEED if wanted.seed is None else wanted.seed,
    )
    table = _estimate_table(wanted)
    config = assembled(plan, estimate=table, statistic=statistic, store=store)
    config = replace(config, deltas=wanted.deltas or config.deltas)
    config = config.with_model(wanted.model, wanted.deltas)
    return config.with_own_claim() if wanted.claim is None else config.claiming(wanted.claim)


def _bases(wanted: Wanted, design: Design) -> Any:
    """Challenge bases; of canaries the training runs, of a pool one."""
    if wanted.bases is not None:
        return wanted.bases
    if not counted(design):
        return 1
    if isinstance(wanted.challenge, Sequence) and not isinstance(wanted.challenge, str):
        return None  # one for each point
    return DEFAULTS["challenge_bases"].default


def _size(wanted: Wanted, population: Population, design: Any, adjacency: Adjacency) -> int | None:
    """Records of D: half of the population, of canaries and pools all that are left."""
    if wanted.dataset_size is not None or isinstance(wanted.bases, Sequence):
        return wanted.dataset_size
    records = len(population)
    if counted(design):
        return max(1, min(records // 2, records - adjacency.extra_records))
    if not design.canaries:
        return max(1, records - int(design.references))
    used = design.canaries if getattr(design.kind, "uses_records", True) else 0
    return max(1, records - (0 if design.in_gradients else used))


def _adjacency(given: Any) -> Adjacency:
    if given is None or isinstance(given, str):
        name = _validate.one_of("adjacency", given or "include", ADJACENCIES)
        return ADJACENCIES[name]
    return given  # type: ignore[no-any-return]


def _statistic(given: Any) -> Statistic:
    if hasattr(given, "least_loss"):
        return given  # type: ignore[no-any-return]
    if isinstance(given, Callable):  # type: ignore[arg-type]
        return CustomStatistic(function=given, name=getattr(given, "__name__", "custom"))
    name = AttackTable.model_fields["statistic"].default if given is None else given
    return loading.statistic_of(name, folder=Path(), place="`statistic=`")


def _estimate_table(wanted: Wanted) -> EstimateTable:
    """The assumptions as the table [estimate] has them; a model that was made has its own."""
    model: Any = CURVE if wanted.model is None else wanted.model
    if isinstance(model, CountModel | CurveModel):
        if wanted.deltas and wanted.deltas[0] != model.delta:
            raise InputError(
                f"expected `delta=` or a model, which has delta={model.delta:g}, got both."
            )
        delta, kind = model.delta, COUNT if isinstance(model, CountModel) else CURVE
    else:
        delta, kind = wanted.deltas[0], _validate.one_of("model", model, (CURVE, COUNT))
    values: dict[str, Any] = {"delta": _validate.delta(delta), "model": kind}
    if wanted.level is not None:
        values["level"] = _validate.level(wanted.level)
    return EstimateTable(**values)


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


def of_file(path: str | PathLike[str] | None, wanted: Wanted, store: Any) -> AuditConfig:
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
    config = read_audit(path, tables=tables, store=store)
    if wanted.claim is not None and not plain:
        config = config.claiming(wanted.claim)
    return config.with_model(wanted.model, wanted.deltas)


def executed(config: AuditConfig, execution: Execution, **given: Any) -> AuditConfig:
    """The configuration with its execution, where nothing else was given."""
    how = {name: getattr(config.execution, name) for name in ("executor", "workers", "retries")}
    chosen = {name: value for name, value in given.items() if value is not None}
    if isinstance(chosen.get("executor"), str):
        check_name(chosen["executor"])
    return replace(config, execution=replace(execution, **(how | chosen)))
