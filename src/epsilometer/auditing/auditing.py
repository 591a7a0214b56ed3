"""`em.audit`: an algorithm and a population, or a file with other settings, to a result."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer._progress import OnProgress, progress_of
from epsilometer._warnings import says_once, tell
from epsilometer.attacks.statistics import FAILURES, CustomStatistic, Statistic
from epsilometer.auditing.config import (
    AuditConfig,
    assembled,
    chosen_store,
    counted,
    read_audit,
)
from epsilometer.auditing.running import run_audit, speak_to
from epsilometer.auditing.stopping import goal_of
from epsilometer.auditing.tables import AttackTable, AuditTable, EstimateTable
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.inputs.recorded import COUNT, CURVE
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import Thresholds
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.bases import ADJACENCIES, Adjacency
from epsilometer.measurement.designs import CrossFed, Design
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Population
from epsilometer.model.models import CountModel, CurveModel
from epsilometer.proofs.proof import ERROR

MODELS = (CountModel, CurveModel)
DEFAULTS = AuditTable.model_fields
SEED = 1


def population_of(given: Any) -> Population:
    """A population from itself, a pair of arrays (features, labels), or a name or path."""
    from epsilometer.datasets.named import load_population

    if isinstance(given, Population):
        return given
    if isinstance(given, str | PathLike):
        return load_population(str(given))
    if isinstance(given, tuple | list) and len(given) == 2:
        # Also of data frames and tensors.
        features, labels = (
            each.to_numpy() if hasattr(each, "to_numpy") else each for each in given
        )
        return Population(features=features, labels=labels)
    raise InputError(
        "expected a population: em.Population(features=..., labels=...), a pair of arrays (features, "
        f"labels), a name such as 'digits', or a path of records; got {type(given).__name__}."
    )


def of_objects(
    algorithm: Any, population: Any, deltas: tuple[float, ...], given: Mapping[str, Any], store: Any
) -> AuditConfig:
    """The audit of an algorithm on a population; ``given`` are settings of `em.audit`."""
    model = given.get("model", CURVE)
    made = isinstance(model, MODELS)
    if population is None:
        raise InputError(
            "expected a population too: em.audit(algorithm, population, delta=...), where the "
            "population is em.Population(...), a pair of arrays (features, labels), a name or a path."
        )
    if not deltas and not made:
        raise InputError("expected `delta=` with 0 <= delta < 1: it has no default.")
    algorithms.check(algorithm)
    records = population_of(population)
    design: Design = given.get("design") or CrossFed(replicates=DEFAULTS["replicates"].default)
    adjacency = given.get("adjacency", "include")
    if isinstance(adjacency, str):
        adjacency = ADJACENCIES[_validate.one_of("adjacency", adjacency, ADJACENCIES)]
    statistic = _statistic(given.get("statistic", AttackTable.model_fields["statistic"].default))
    challenge = given.get("challenge", "random")
    bases = DEFAULTS["challenge_bases"].default if counted(design) else 1
    if counted(design) and not isinstance(challenge, str) and isinstance(challenge, Sequence):
        bases = None  # one for each point
    bases = given.get("challenge_bases", bases)
    size = given.get("dataset_size")
    if size is None and not isinstance(bases, Sequence):
        size = _size(len(records), design, adjacency)
    plan = Plan(
        population=records,
        algorithm=algorithm,
        design=design,
        dataset_size=size,
        adjacency=adjacency,
        challenge=challenge,
        challenge_bases=bases,
        seed=given.get("seed", SEED),
    )
    if made:
        delta, kind = model.delta, COUNT if isinstance(model, CountModel) else CURVE
        if deltas and deltas[0] != delta:
            raise InputError(f"expected `delta=` or a model, which has delta={delta:g}, got both.")
    else:
        delta, kind = deltas[0], _validate.one_of("model", model, (CURVE, COUNT))
    assumed: dict[str, Any] = {"delta": _validate.delta(delta), "model": kind}
    if "level" in given:
        assumed["level"] = _validate.level(given["level"])
    failures = _validate.one_of("failures", given.get("failures", FAILURES[0]), FAILURES)
    tables: Any = {"estimate": EstimateTable(**assumed), "attack": AttackTable()}
    config = assembled(plan, statistic=statistic, failures=failures, **tables)
    config = replace(config, store=store, deltas=deltas or config.deltas).with_model(model, deltas)
    return config.claiming(given["claim"]) if "claim" in given else config.with_own_claim()


def _size(records: int, design: Any, adjacency: Adjacency) -> int:
    """Records of D: half of the population, of canaries and pools all that are left."""
    if counted(design):
        return max(1, min(records // 2, records - adjacency.extra_records))
    if not design.canaries:
        return max(1, records - int(design.references))
    used = design.canaries if getattr(design.kind, "uses_records", True) else 0
    return max(1, records - (0 if design.in_gradients else used))


def _statistic(given: Any) -> Statistic:
    if hasattr(given, "least_loss"):
        return given  # type: ignore[no-any-return]
    if callable(given):
        return CustomStatistic(function=given, name=getattr(given, "__name__", "custom"))
    return loading.statistic_of(given, folder=Path(), place="`statistic=`")


#: The settings of `em.audit` that a file has, by table.
TABLES = {
    "audit": ("challenge_bases", "dataset_size", "challenge", "adjacency", "seed", "failures"),
    "attack": ("statistic",),
    "estimate": ("model", "level"),
}


def of_file(
    path: Any, deltas: tuple[float, ...], given: Mapping[str, Any], store: Any
) -> AuditConfig:
    """The audit of a configuration, None for the one that ships, with other settings where given."""
    if "design" in given:
        raise InputError(
            "`design=` is for an algorithm and a population; a file has its own in the table [audit]."
        )
    words = {key: value for key, value in given.items() if not isinstance(value, MODELS)}
    tables = {
        table: {key: words[key] for key in keys if key in words} for table, keys in TABLES.items()
    }
    if deltas:
        tables["estimate"]["delta"] = deltas
    claim: Any = given.get("claim")
    plain = isinstance(claim, Real)
    if plain:
        tables["estimate"]["claim"] = float(claim)
    config = read_audit(path, tables=tables, store=store)
    if claim is not None and not plain:
        config = config.claiming(claim)
    return config.with_model(given.get("model"), deltas)


@says_once
def audit(
    algorithm: Any = None,
    population: Any = None,
    *,
    delta: float | Sequence[float] | None = None,
    claim: Any = None,
    design: Design | None = None,
    bases: int | Sequence[Any] | None = None,
    dataset_size: int | None = None,
    challenge: Any = None,
    adjacency: Any = None,
    seed: int | None = None,
    statistic: Any = None,
    failures: str | None = None,
    model: CurveModel | CountModel | str | None = None,
    store: Any = None,
    executor: Any = None,
    workers: int | None = None,
    retries: int | None = None,
    accept_changed_code: bool = False,
    level: float | None = None,
    thresholds: Thresholds | None = None,
    error: float | None = None,
    shared_models: bool = False,
    until_width: float | None = None,
    until_proven: bool = False,
    on_progress: OnProgress = None,
    on_message: OnMessage | None = None,
) -> Result:
    """Train models with and without challenge points, attack them, estimate epsilon and judge a claim.

    ``em.audit("audit.toml")`` does what ``epsilometer audit audit.toml`` does; ``em.audit()`` is the
    audit that ships, a small network on handwritten digits.  Settings that are given go before those of
    the file.

    Parameters
    ----------
    algorithm
        The path of a configuration; or the training: :class:`PyTorch`, :class:`Opacus`,
        :class:`ScikitLearn`, :class:`DpSgd`, or any object with ``train(dataset, rng)`` and
        ``loss(model, point)``, see :class:`Algorithm`.
    population
        The records: a :class:`Population`, a pair of arrays ``(features, labels)``, or a name or path.
    delta
        The delta of (epsilon, delta)-DP, in [0, 1); several are judged together.
    claim
        The claimed epsilon; a function from delta to epsilon; an accountant; or a
        :class:`~epsilometer.judgement.ClaimedCurve`.  Default: that of the algorithm, if it accounts
        for its training.
    design
        ``CrossFed(replicates=100)`` (default), ``ShadowModels(...)``, ``OneRun(...)`` or ``Pool(...)``.
    bases
        Number of challenge bases, default 20; of ``OneRun`` the number of runs.  Or the bases.
    dataset_size
        Records in D; default: half of the population, for ``OneRun`` and ``Pool`` all that are left.
    challenge, adjacency, seed
        As for :class:`Plan`; default: random points, ``"include"``, 1.
    statistic
        ``"loss"`` (default), ``"logit"``, or a function of losses.
    failures
        The score of models that fail, fixed beforehand: ``"lowest"`` (default); ``"worst"``, the highest
        without and the lowest with the point, if they may fail for different reasons; ``"dropped"``,
        left out with their partners, only if failures cannot depend on the data.
    model
        ``"curve"`` (default), ``"count"``, or a model with its delta.
    store
        Where losses are kept, so that the same call continues: a path or a store.  None: in memory, or
        where the configuration says; ``"none"``: nowhere.
    executor, workers, retries, accept_changed_code
        As for :func:`measure`.
    level, thresholds, error
        Probability of intervals; thresholds of the verdict; error probability of proofs.
    shared_models
        Whether bases share models: proofs then average over bases.
    until_width, until_proven
        Stop as soon as the interval is that narrow, or the claim is refuted.
    on_progress, on_message
        As for :func:`measure`.

    Returns
    -------
    Result
        ``verdict``, ``proof``, ``posterior``, ``leaks``, ``warnings``, ``next_step``; ``write(folder)``
        and ``report(path)``.  Of several variants of the models the most severe result, with all of them
        in ``variants``.
    """
    deltas = () if delta is None else tuple(np.atleast_1d(delta).tolist())
    settings = {"claim": claim, "design": design, "dataset_size": dataset_size}
    settings |= {"challenge": challenge, "challenge_bases": bases}
    settings |= {"adjacency": adjacency, "seed": seed}
    settings |= {"statistic": statistic, "failures": failures, "model": model, "level": level}
    given = {name: value for name, value in settings.items() if value is not None}
    how = {"executor": executor, "workers": workers, "retries": retries}
    how |= {"on_progress": on_progress, "on_message": on_message}
    bar = "none" if callable(on_progress) else on_progress
    store = chosen_store(store)
    # The state of an audit is that of its parts.
    with progress_of(bar, on_message, state=lambda *_: ("", None, None)) as (_, message):
        if algorithm is None or isinstance(algorithm, str | PathLike):
            config = of_file(algorithm, deltas, given, store)
        else:
            config = of_objects(algorithm, population, deltas, given, store)
        config = config.executed(accept_changed_code=accept_changed_code, **how)
        question = Question(
            level=config.level,
            thresholds=thresholds or Thresholds(),
            error=ERROR if error is None else error,
            independent=not shared_models,
        )
        config = config.with_training_claim(config.say)
        goal = goal_of(config, question, until_width=until_width, until_proven=until_proven)
        result = run_audit(config, question, goal=goal, on_message=message)
        tell(result.warnings)
    speak_to(result, on_message)  # what is computed later is not part of this call's display
    return result
