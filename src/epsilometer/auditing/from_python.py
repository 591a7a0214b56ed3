"""An audit described in Python: an algorithm, a population and settings, as a configuration has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer import _validate
from epsilometer.attacks.rules import LikelihoodRatio
from epsilometer.attacks.statistics import CustomStatistic, Statistic
from epsilometer.auditing import claims
from epsilometer.auditing.config import AuditConfig, counted, likelihood_of
from epsilometer.auditing.execution import Execution
from epsilometer.auditing.tables import AttackTable, AuditTable
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.inputs.recorded import COUNT, CURVE
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.bases import ADJACENCIES, Adjacency
from epsilometer.measurement.designs import CrossFed, Design
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Population
from epsilometer.model.count_model import CountModel
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.from_words import model_of

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


def config_of(algorithm: Any, population: Any, wanted: Wanted, store: Any) -> AuditConfig:
    """The audit of an algorithm on a population."""
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
    count, curve = _models(wanted, design, algorithm)
    deltas = wanted.deltas or (wanted.model.delta,)
    config = AuditConfig(
        plan=plan,
        store=Path(store) if isinstance(store, str | PathLike) else store,
        attack=LikelihoodRatio(),
        statistic=statistic,
        target_alpha=AttackTable.model_fields["target_alpha"].default,
        model=count,
        curve=curve,
        deltas=deltas,
        level=0.9 if wanted.level is None else _validate.level(wanted.level),
        claim=None,
        execution=Execution(),
    )
    if wanted.claim is not None:
        return config.claiming(wanted.claim)
    claim, doubts = claims.of_algorithm(plan, deltas)
    return replace(config, claim=claim, doubts=doubts)


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


def _models(
    wanted: Wanted, design: Any, algorithm: Any
) -> tuple[CountModel | None, CurveModel | None]:
    """The count model and the curve model; the first that is not None answers, the curve model first."""
    model: Any = CURVE if wanted.model is None else wanted.model
    known = isinstance(model, CountModel | CurveModel)
    if not known:
        model = _validate.one_of("model", model, (CURVE, COUNT))
    if known and wanted.deltas and wanted.deltas[0] != model.delta:
        raise InputError(
            f"expected `delta=` or a model, which has delta={model.delta:g}, got both."
        )
    delta = model.delta if known else wanted.deltas[0]
    count = model_of(delta, likelihood=likelihood_of(design)) if counted(design) else None
    if isinstance(model, CountModel) or model == COUNT:
        if count is None:
            raise InputError(
                "expected the curve model for canaries and pools, got the count model."
            )
        return (model if isinstance(model, CountModel) else count), None
    if isinstance(model, CurveModel):
        return count, model
    planted = bool(design.canaries and design.in_gradients)
    return count, algorithm.canary_model(delta) if planted else CurveModel(delta=delta)
