"""From the table [audit] to a design and a plan: many models, one run or a pool; and pilots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer.attacks.pool_attacks import POOL_ATTACKS, most_leaking
from epsilometer.attacks.rules import ATTACKS
from epsilometer.attacks.statistics import Statistic
from epsilometer.auditing.challenge import PILOT, challenge_of, check_number
from epsilometer.auditing.tables import AuditFile, AuditTable
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.inputs.recorded import CURVE
from epsilometer.measurement.bases import ADJACENCIES
from epsilometer.measurement.canary_kinds import KINDS, CustomCanaries
from epsilometer.measurement.challenges import ChallengeKind, PilotPoints, RandomPoints
from epsilometer.measurement.designs import CrossFed, Design, ShadowModels
from epsilometer.measurement.one_run import GRADIENT, OneRun
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.pool import DEFAULT_ATTACK, LEAST_PILOT, Pool
from epsilometer.measurement.population import Population
from epsilometer.measurement.store import SqliteStore
from epsilometer.measurement.tasks import Chunk

MANY_MODELS, ONE_RUN, POOL = "many-models", "one-run", "pool"

KEYS = {
    MANY_MODELS: ("challenge_bases", "replicates", "shadows", "dataset_size"),
    ONE_RUN: ("runs", "canaries", "canary_kind", "compare_with", "dataset_size"),
    POOL: ("models", "pool_size", "share", "references", "points"),
}
"""Keys of [audit] that belong to designs."""

CANARIES = 1000
"""Of a run, if the configuration does not say."""

PILOT_MODELS = 32
"""Of a first stage, if the configuration does not say: enough to tell points that leak from others."""

PILOTS = 6
"""Leads the spawn key of the seeds of pilots."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pilot:
    """A first stage of an audit: models on random halves that select its challenge points.

    They have their own seeds and store, and are not used in the estimate.
    """

    plan: Plan
    store: Path

    def ranking(self) -> tuple[int, ...] | None:
        """Records of its pool, those that leak most first; None before all its models are trained."""
        if not self.store.is_file():
            return None
        sizes = self.plan.sizes
        with SqliteStore(self.store, read_only=True) as store:
            # Code that changed since is no objection: whoever chose the points, others are judged.
            store.check(self.plan, accept_changed_code=True)
            done = store.done(Chunk(0, 0, tuple(range(sizes.models))), sizes.variants)
            if sizes.models - len(done) > len(store.failures()):
                return None
            losses = store.pool_losses(sizes, sizes.variants[0])
        models = np.arange(losses.models)
        ranked = most_leaking(losses, models=models, count=losses.challenges)
        return tuple(int(losses.names[number]) for number in ranked)


TrainPilot = Callable[[Pilot], object]
"""Trains the models of a pilot into its store."""


def design_of(file: AuditFile, algorithm: Any, statistic: Statistic, folder: Path) -> Design:
    """How models are put to use; keys of another design are refused."""
    table, given = file.audit, file.audit.model_fields_set
    if table.design == ONE_RUN and "challenge" in given:
        raise InputError(
            "[audit] challenge cannot be combined with one-run; canaries have canary_kind."
        )
    own_keys = KEYS[table.design]
    for name, keys in KEYS.items():
        for key in keys:
            if key in given and key not in own_keys:
                raise InputError(
                    f"[audit] {key} is for design {name} and cannot be combined with {table.design}, "
                    f"which has {', '.join(own_keys)}."
                )
    if "first_stage" in given and table.design != POOL and table.challenge != PILOT:
        raise InputError('[audit] first_stage is for design pool and for challenge = "pilot".')
    try:
        if table.design == POOL:
            return _pool(file)
        _refuse_pool_attack(file)
        if table.dataset_size is None:
            raise InputError("[audit] dataset_size is missing")
        if table.design == ONE_RUN:
            return _one_run(file, algorithm, statistic, folder)
        return _many_models(table)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith("[") else f"[audit] {text}") from None


def _refuse_pool_attack(file: AuditFile) -> None:
    method = file.attack.method
    if method is not None and method not in ATTACKS:
        raise InputError(
            f"[attack] method: {method} is for design pool; expected {', '.join(ATTACKS)}."
        )


def _pool(file: AuditFile) -> Pool:
    table, attack = file.audit, file.attack
    for key in ("models", "pool_size"):
        if getattr(table, key) is None:
            raise InputError(f"[audit] {key} is missing")
    for key in ("statistic", "target_alpha"):
        if key in attack.model_fields_set:
            raise InputError(f"[attack] {key} is for many models; on a pool the method decides.")
    if file.estimate.model != CURVE:
        raise InputError("[estimate] model: pools are read by the curve model, curve.")
    method = attack.method or DEFAULT_ATTACK
    if method not in POOL_ATTACKS:
        raise InputError(
            f"[attack] method: {method} is for many models; expected {', '.join(POOL_ATTACKS)}."
        )
    listed = len(table.challenge) if isinstance(table.challenge, list) else None
    if listed is not None and table.points not in (None, listed):
        raise InputError(
            f"[audit] points: expected points = {listed}, those of the list challenge, got points = "
            f"{table.points}; it can be left out."
        )
    assert table.models is not None
    return Pool(
        models=table.models,
        share=table.share,
        references=table.references,
        attack=method,
        first_stage=table.first_stage,
        pilot=table.challenge == PILOT,
        judged=table.points or listed,
    )


def _many_models(table: AuditTable) -> Design:
    if table.shadows is None:
        return CrossFed(replicates=table.replicates)
    return ShadowModels(
        replicates=table.replicates, shadows_h0=table.shadows, shadows_h1=table.shadows
    )


def _one_run(file: AuditFile, algorithm: Any, statistic: Statistic, folder: Path) -> Design:
    table = file.audit
    for name, part, keys in (
        ("attack", file.attack, ("target_alpha", "method")),
        ("estimate", file.estimate, ("likelihood",)),
    ):
        for key in keys:
            if key in part.model_fields_set:
                raise InputError(f"[{name}] {key} is for many models; canaries have scores alone.")
    if file.estimate.model != CURVE:
        raise InputError("[estimate] model: canaries are read by the curve model, curve.")
    planted = int(getattr(algorithm, "gradient_canaries", 0))
    kind: Any = table.canary_kind or (GRADIENT if planted else "population")
    count = table.canaries or (planted if kind == GRADIENT else 0) or CANARIES
    if ":" in kind:
        function = loading.load_object(kind, folder=folder, place="[audit] canary_kind")
        kind = CustomCanaries(function=function, name=kind)
    elif kind != GRADIENT and kind not in KINDS:
        known = ", ".join([*KINDS, GRADIENT])
        raise InputError(
            f"[audit] canary_kind: expected {known} or module:function, got {_files.shown(kind)}."
        )
    return OneRun(canaries=count, kind=kind, compare_with=table.compare_with, statistic=statistic)


def plan_of(
    table: AuditTable, design: Design, population: Population, algorithm: Any, kind: ChallengeKind
) -> Plan:
    """The plan of a design around challenge points of a kind."""
    bases = kind.number or table.challenge_bases
    if table.design == MANY_MODELS and "challenge_bases" in table.model_fields_set:
        check_number(kind, table.challenge_bases)
    return Plan(
        population=population,
        algorithm=algorithm,
        design=design,
        challenge_bases={ONE_RUN: table.runs, POOL: 1}.get(table.design, bases),
        challenge=kind,
        dataset_size=table.pool_size if table.design == POOL else table.dataset_size,
        adjacency=ADJACENCIES[table.adjacency],
        seed=table.seed,
    )


def kind_of(
    file: AuditFile,
    population: Population,
    algorithm: Any,
    folder: Path,
    store: Path,
    train_pilot: TrainPilot | None,
) -> ChallengeKind:
    """Which challenge points the file means; a pilot is trained for them if need be."""
    table = file.audit
    if table.challenge != PILOT:
        return challenge_of(table.challenge, folder=folder)
    if table.design == POOL:
        return RandomPoints()  # its own first stage chooses among all of them
    pilot = pilot_of(file, population, algorithm, store)
    records = pilot.plan.dataset_size or 0
    if table.challenge_bases > records:
        raise InputError(
            f"expected at most {records} challenge bases, the number of records in the pilot, got "
            f"challenge_bases={table.challenge_bases}."
        )
    ranking = pilot.ranking()
    if ranking is None and train_pilot is not None:
        train_pilot(pilot)
        ranking = pilot.ranking()
    if ranking is None:
        raise InputError(
            f"[audit] challenge: the models of the pilot are not all in {pilot.store.name} yet; "
            "`epsilometer audit` trains them."
        )
    return PilotPoints(ranking=ranking, models=pilot.plan.design.replicates)


def pilot_of(file: AuditFile, population: Population, algorithm: Any, store: Path) -> Pilot:
    """The first stage of an audit of many models: a pool of twice as many records, halves of it."""
    table = file.audit
    assert table.dataset_size is not None
    models = PILOT_MODELS if table.first_stage is None else table.first_stage
    if models < LEAST_PILOT:
        raise InputError(
            f"[audit] first_stage: expected {LEAST_PILOT} models or more to choose points, got "
            f"first_stage = {models}."
        )
    seeds = np.random.SeedSequence(table.seed, spawn_key=(PILOTS,))
    plan = Plan(
        population=population,
        algorithm=algorithm,
        design=Pool(models=models, attack="logit"),
        challenge_bases=1,
        dataset_size=min(2 * table.dataset_size, len(population)),
        adjacency=ADJACENCIES[table.adjacency],
        # Other streams than those of the models that judge.
        seed=int(seeds.generate_state(1, np.uint64)[0] >> np.uint64(1)),
    )
    own_store = store.with_name(f"{store.stem}-pilot{store.suffix}")
    return Pilot(plan=plan, store=own_store)
