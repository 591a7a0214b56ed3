"""From the table [audit] to a design and a plan: many models, one run or a pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epsilometer import _files
from epsilometer.attacks.pool_attacks import POOL_ATTACKS
from epsilometer.attacks.rules import ATTACKS
from epsilometer.attacks.statistics import Statistic
from epsilometer.auditing.challenge import PILOT, challenge_of, check_number
from epsilometer.auditing.tables import AuditFile, AuditTable
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.inputs.recorded import CURVE
from epsilometer.measurement.bases import ADJACENCIES
from epsilometer.measurement.canary_kinds import KINDS, CustomCanaries
from epsilometer.measurement.challenges import RandomPoints
from epsilometer.measurement.designs import CrossFed, Design, ShadowModels
from epsilometer.measurement.one_run import GRADIENT, OneRun
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.pool import DEFAULT_ATTACK, Pool
from epsilometer.measurement.population import Population

MANY_MODELS, ONE_RUN, POOL = "many-models", "one-run", "pool"

KEYS = {
    MANY_MODELS: ("challenge_bases", "replicates", "shadows", "dataset_size"),
    ONE_RUN: ("runs", "canaries", "canary_kind", "compare_with", "dataset_size"),
    POOL: ("models", "pool_size", "share", "references", "points", "first_stage"),
}
"""Keys of [audit] that belong to designs."""

CANARIES = 1000
"""Of a run, if the configuration does not say."""

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
    if table.challenge == PILOT and table.design != POOL:
        raise InputError(
            '[audit] challenge = "pilot" is for design pool; list the points that a pool has selected.'
        )
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
    table: AuditTable, design: Design, population: Population, algorithm: Any, folder: Path
) -> Plan:
    """The plan of a design around the challenge points that the file means."""
    # The first stage of a pool chooses among all points.
    pilot = table.challenge == PILOT
    kind = RandomPoints() if pilot else challenge_of(table.challenge, folder=folder)
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
