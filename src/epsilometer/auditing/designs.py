"""From the table [audit] to a design and a plan: many models, one run or a pool."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epsilometer import _files
from epsilometer.attacks.pool_attacks import POOL_ATTACKS
from epsilometer.attacks.rules import ATTACKS
from epsilometer.attacks.statistics import Statistic
from epsilometer.auditing.tables import AuditFile, AuditTable
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.inputs.recorded import CURVE
from epsilometer.measurement import challenges
from epsilometer.measurement.bases import ADJACENCIES
from epsilometer.measurement.canary_kinds import KINDS, CustomCanaries
from epsilometer.measurement.designs import CrossFed, Design, ShadowModels
from epsilometer.measurement.one_run import GRADIENT, OneRun
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.pool import DEFAULT_ATTACK, Pool
from epsilometer.measurement.population import Population

MANY_MODELS, ONE_RUN, POOL = "many-models", "one-run", "pool"

#: Keys of [audit] that belong to designs.
KEYS = {
    MANY_MODELS: ("challenge_bases", "replicates", "shadows", "dataset_size"),
    ONE_RUN: ("runs", "canaries", "canary_kind", "compare_with", "dataset_size"),
    POOL: ("models", "pool_size", "share", "references", "points", "first_stage"),
}

NEEDED = {MANY_MODELS: ("dataset_size",), ONE_RUN: ("dataset_size",), POOL: ("models", "pool_size")}

#: Keys of [attack] and [estimate] that another design does not have.
FOR_MANY = {
    ONE_RUN: ("target_alpha", "method", "likelihood"),
    POOL: ("statistic", "target_alpha"),
}

INSTEAD = {ONE_RUN: "canaries have scores alone", POOL: "on a pool the method decides"}

#: Of a run, if the configuration does not say.
CANARIES = 1000

PILOT = "pilot"
CHALLENGE = "[audit] challenge"


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Errors begin with their place, unless they name a table already."""
    try:
        yield
    except InputError as error:
        named = place[:1] == str(error)[:1] == "["
        raise InputError(str(error) if named else f"{place}{error}") from None


def design_of(file: AuditFile, algorithm: Any, statistic: Statistic, folder: Path) -> Design:
    """How models are put to use; keys of another design are refused."""
    table, name = file.audit, file.audit.design
    _refuse_other_keys(file)
    with placed("[audit] "):
        if name == POOL:
            return _pool(table, file.attack.method or DEFAULT_ATTACK)
        if name == ONE_RUN:
            return _one_run(table, algorithm, statistic, folder)
        if table.shadows is None:
            return CrossFed(replicates=table.replicates)
        shadows = {"shadows_h0": table.shadows, "shadows_h1": table.shadows}
        return ShadowModels(replicates=table.replicates, **shadows)


def _refuse_other_keys(file: AuditFile) -> None:
    table, given, design = file.audit, file.audit.model_fields_set, file.audit.design
    if design == ONE_RUN and "challenge" in given:
        raise InputError(f"{CHALLENGE} cannot be combined with one-run; canaries have canary_kind.")
    for name, keys in KEYS.items():
        for key in keys:
            if key in given and key not in KEYS[design]:
                raise InputError(
                    f"[audit] {key} is for design {name} and cannot be combined with {design}, "
                    f"which has {', '.join(KEYS[design])}."
                )
    if table.challenge == PILOT and design != POOL:
        raise InputError(
            f'{CHALLENGE} = "pilot" is for design pool; list the points that a pool has selected.'
        )
    for key in NEEDED[design]:
        if getattr(table, key) is None:
            raise InputError(f"[audit] {key} is missing")
    for where, part in (("attack", file.attack), ("estimate", file.estimate)):
        for key in FOR_MANY.get(design, ()):
            if key in part.model_fields_set:
                raise InputError(f"[{where}] {key} is for many models; {INSTEAD[design]}.")
    if design in FOR_MANY and file.estimate.model != CURVE:
        data = "pools" if design == POOL else "canaries"
        raise InputError(f"[estimate] model: {data} are read by the curve model, curve.")
    known: Any = POOL_ATTACKS if design == POOL else ATTACKS
    if file.attack.method not in (None, *known):
        other = "many models" if design == POOL else "design pool"
        raise InputError(
            f"[attack] method: {file.attack.method} is for {other}; expected {', '.join(known)}."
        )


def _pool(table: AuditTable, method: str) -> Pool:
    listed = len(table.challenge) if isinstance(table.challenge, list) else None
    if listed is not None and table.points not in (None, listed):
        raise InputError(
            f"points: expected points = {listed}, those of the list challenge, got points = "
            f"{table.points}; it can be left out."
        )
    names = ("models", "share", "references", "first_stage")
    same: dict[str, Any] = {name: getattr(table, name) for name in names}
    pilot = table.challenge == PILOT
    return Pool(**same, attack=method, pilot=pilot, judged=table.points or listed)


def _one_run(table: AuditTable, algorithm: Any, statistic: Statistic, folder: Path) -> Design:
    planted = int(getattr(algorithm, "gradient_canaries", 0))
    kind: Any = table.canary_kind or (GRADIENT if planted else "population")
    count = table.canaries or (planted if kind == GRADIENT else 0) or CANARIES
    if ":" in kind:
        function = loading.load_object(kind, folder=folder, place="[audit] canary_kind")
        kind = CustomCanaries(function=function, name=kind)
    elif kind != GRADIENT and kind not in KINDS:
        known = ", ".join([*KINDS, GRADIENT])
        raise InputError(
            f"canary_kind: expected {known} or module:function, got {_files.shown(kind)}."
        )
    return OneRun(canaries=count, kind=kind, compare_with=table.compare_with, statistic=statistic)


def plan_of(
    table: AuditTable, design: Design, population: Population, algorithm: Any, folder: Path
) -> Plan:
    """The plan of a design around the challenge points that the file means."""
    kind = challenge_of(table.challenge, folder=folder)
    given = "challenge_bases" in table.model_fields_set
    if given and kind.number not in (None, table.challenge_bases):
        raise InputError(
            f"{CHALLENGE}: expected challenge_bases = {kind.number}, one for each point of the list, "
            f"got challenge_bases = {table.challenge_bases}; it can be left out."
        )
    bases = kind.number or table.challenge_bases
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


def challenge_of(value: str | list[int], *, folder: Path) -> challenges.ChallengeKind:
    """The challenge points that the file names; modules in ``folder`` can be imported."""
    if isinstance(value, list):
        with placed(f"{CHALLENGE}: "):
            return challenges.GivenPoints(indices=tuple(value))
    if value == PILOT:  # the first stage of a pool chooses among all points
        return challenges.RandomPoints()
    if ":" in value:
        function = loading.load_object(value, folder=folder, place=CHALLENGE)
        if not callable(function):
            raise InputError(f"{CHALLENGE}: expected a function, got {_files.shown(value)}.")
        return challenges.CustomPoints(function=function, name=value)
    if value not in challenges.CHALLENGE_KINDS:
        known = ", ".join([*challenges.CHALLENGE_KINDS, PILOT])
        raise InputError(
            f"{CHALLENGE}: expected {known}, module:function or a list of indices, got "
            f"{_files.shown(value)}."
        )
    return challenges.CHALLENGE_KINDS[value]
