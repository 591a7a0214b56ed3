"""The configuration of an audit: a TOML file, validated whole before anything is trained."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from epsilometer import _files
from epsilometer.attacks.pool_attacks import POOL_ATTACKS
from epsilometer.attacks.rules import ATTACKS, Attack, LikelihoodRatio
from epsilometer.attacks.statistics import Statistic
from epsilometer.audit import claims, loading
from epsilometer.audit.assumptions import (
    CORRELATED,
    INDEPENDENT,
    LIKELIHOOD_KINDS,
    model_of,
    profile_of,
)
from epsilometer.audit.challenge import challenge_of, check_number, is_challenge
from epsilometer.audit.claims import Claim, Say
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.bases import ADJACENCIES
from epsilometer.measurement.canary_kinds import KINDS, OwnCanaries
from epsilometer.measurement.designs import Design, MeasureMIA, MeasureMIAFast
from epsilometer.measurement.executors import check_name
from epsilometer.measurement.one_run import COMPARISONS, GRADIENT, MeasureOneRun
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Population
from epsilometer.model.families import AVERAGE, FAMILIES
from epsilometer.model.joint import AuditModel
from epsilometer.model.profile import ProfileModel

SHIPPED = {
    "clipped-mean": "epsilometer.training.clipped_mean:ClippedMean",
    "network": "epsilometer.training.network:network",
}
"""Algorithms that have a name."""

DEFAULT = Path(__file__).with_name("default_audit.toml")
"""The audit that ships."""

LARGEST_SIZE = 10**9
"""Models, bases or records that nobody means: a slip of the keyboard is refused before it is planned."""

Count = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PopulationTable(_Table):
    """What D and z are drawn from."""

    source: str
    path: str | None = None
    shape: list[Count] | None = None


class AuditTable(_Table):
    """Which models are trained: many for each challenge base, or one with many canaries."""

    design: Literal["many-models", "one-run", "pool"] = "many-models"
    models: Annotated[int, Field(ge=4, le=LARGEST_SIZE)] | None = None
    pool_size: Count | None = None
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    references: Annotated[int, Field(ge=0, le=LARGEST_SIZE)] = 0
    points: Count | None = None
    first_stage: Annotated[int, Field(ge=0, le=LARGEST_SIZE)] | None = None
    runs: Count = 1
    canaries: Annotated[int, Field(ge=2, le=LARGEST_SIZE)] | None = None
    canary_kind: Annotated[str, Field(min_length=1)] | None = None
    compare_with: Literal[COMPARISONS] = "nothing"  # type: ignore[valid-type]
    challenge: str | list[int] = "random"
    challenge_bases: Count = 20
    replicates: Count = 100
    shadows: Annotated[int, Field(ge=2, le=LARGEST_SIZE)] | None = None
    dataset_size: Count | None = None
    adjacency: Literal["include", "replace"] = "include"
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    store: Annotated[str, Field(min_length=1)] = "audit.db"

    @field_validator("challenge", mode="wrap")
    @classmethod
    def _challenge(cls, value: Any, _: Any) -> str | list[int]:
        if is_challenge(value):
            return value  # type: ignore[no-any-return]
        raise PydanticCustomError("challenge", "expected a kind or a list of whole numbers")


class AlgorithmTable(_Table):
    """What is audited."""

    object: str
    options: dict[str, Any] = Field(default_factory=dict)
    output_perturbation: float | list[float] | None = None

    @field_validator("output_perturbation", mode="wrap")
    @classmethod
    def _noise(cls, value: Any, _: Any) -> float | list[float] | None:
        items = value if isinstance(value, list) else [value]
        plain = all(_is_number(item) and 0 <= item < math.inf for item in items)
        if value is None or (items and plain):
            return [float(item) for item in items] if isinstance(value, list) else value
        raise PydanticCustomError("noise", "expected a number >= 0 or a list of such")


ONE_RUN_KEYS = ("runs", "canaries", "canary_kind", "compare_with")
MANY_MODELS_KEYS = ("challenge_bases", "replicates", "shadows")
"""Keys of [audit] that belong to one design."""

CANARIES = 1000
"""Of a run, if the configuration does not say."""


class AttackTable(_Table):
    """How it is attacked."""

    statistic: str = "loss"
    target_alpha: Annotated[float, Field(gt=0, lt=1)] = 0.1
    method: Literal[tuple(ATTACKS | POOL_ATTACKS)] | None = None  # type: ignore[valid-type]


class EstimateTable(_Table):
    """What is assumed; delta has no default: a privacy parameter is never guessed.

    ``family`` and ``mixing`` are of the whole-curve model, ``likelihood`` of the published one, which
    stands beside it.
    """

    delta: Annotated[float, Field(ge=0, lt=1)]
    model: Literal["profile", "published"] = "profile"
    family: Literal[(AVERAGE, *FAMILIES)] = AVERAGE  # type: ignore[valid-type]
    mixing: str | float = "free"
    likelihood: Literal[tuple(LIKELIHOOD_KINDS)] | None = None  # type: ignore[valid-type]
    claim: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    strength: str | float | None = None
    epsilon_prior_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    level: Annotated[float, Field(gt=0, lt=1)] = 0.9

    @field_validator("strength", mode="wrap")
    @classmethod
    def _strength(cls, value: Any, _: Any) -> float | None:
        if value in (None, "free"):
            return None
        if _is_number(value) and 0 <= value <= 1:
            return float(value)
        raise PydanticCustomError("strength", "expected free or a number in [0, 1]")

    @field_validator("mixing", mode="wrap")
    @classmethod
    def _mixing(cls, value: Any, _: Any) -> str | float:
        if value in ("free", "none") or (_is_number(value) and 0 < value <= 1):
            return value  # type: ignore[no-any-return]
        raise PydanticCustomError("mixing", "expected free, none or a number in (0, 1]")


class ExecutionTable(_Table):
    """Who trains; the command line has the last word."""

    executor: str = "serial"
    workers: Count | None = None
    retries: Annotated[int, Field(ge=0, le=1000)] = 2


class AuditFile(_Table):
    """The whole file."""

    population: PopulationTable
    audit: AuditTable
    algorithm: AlgorithmTable
    attack: AttackTable = Field(default_factory=AttackTable)
    estimate: EstimateTable
    execution: ExecutionTable = Field(default_factory=ExecutionTable)


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditConfig:
    """A configuration with everything it names loaded and checked."""

    file: AuditFile
    plan: Plan
    store: Path
    attack: Attack
    statistic: Statistic
    model: AuditModel | None
    """The published model; None for canaries, which it does not know."""
    profile: ProfileModel | None
    claim: Claim | None
    promise: algorithms.Promise | None = None
    """What trained models promise, where `with_promise` asked them."""

    @property
    def delta(self) -> float:
        """What epsilon is asked at."""
        return self.file.estimate.delta

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about the configuration itself, in sentences."""
        records = self.file.audit.dataset_size
        if self.delta < 1 / records:
            return ()
        return (
            f"delta = {self.delta:g} is not below 1/{records}, one over the number of records: training "
            "that publishes a record as it is can keep such a promise, so a small epsilon means little.",
        )

    def claimed_at(self, delta: float) -> float:
        """What is claimed at another delta: the algorithm's own promise there, or the same."""
        if self.claim is None:
            return math.inf
        if self.claim.source == "algorithm":
            promises = self.promise or self.plan.algorithm
            assert isinstance(promises, algorithms.Claims)
            return claims.promised(promises, delta)
        return self.claim.epsilon

    def with_promise(self, say: Say = _files.warn) -> AuditConfig:
        """The same with the claim of an algorithm that accounts for its training, such as Opacus.

        Trains the first model of each hypothesis to see it (of canaries the first run), unless something
        is claimed already.  ``say`` is told before that, and what speaks against the promise.
        """
        if self.claim is not None:
            return self
        found = claims.by_training(self.plan, self.delta, say)
        return self if found is None else replace(self, claim=found[0], promise=found[1])

    def claiming(self, claim: Callable[[float], float]) -> AuditConfig:
        """The same with another claim, at the delta of the model; none where it is infinite."""
        epsilon = claim(self.delta)
        stated = Claim(epsilon, "option") if math.isfinite(epsilon) else None
        return replace(self, claim=stated)


def read_audit(
    path: str | PathLike[str],
    *,
    folder: Path | None = None,
    estimate: Mapping[str, Any] | None = None,
    say: Say = _files.warn,
) -> AuditConfig:
    """Read and check a configuration; everything wrong with it is named with its place.

    Parameters
    ----------
    path
        A TOML file; the code that it names is imported.
    folder
        Where relative paths and modules start; the folder of the file unless given.
    estimate
        Values that go before those of the table ``[estimate]``, such as ``{"claim": 2.0}``.
    say
        Is told in words before something is downloaded, and when an algorithm's claim is left aside.
    """
    path = Path(path)
    name = path.name
    text = _files.load(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: not valid TOML ({error}).") from None
    try:
        if estimate and isinstance(data.get("estimate", {}), dict):
            data["estimate"] = {**data.get("estimate", {}), **estimate}
        file = AuditFile.model_validate(data)
    except ValidationError as error:
        wrong = "; ".join(_worded(detail) for detail in error.errors(include_url=False))
        raise InputError(f"{name}: {wrong}.") from None
    try:
        found = _loaded(file, folder or path.absolute().parent, say)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if found.claim is not None and "claim" in (estimate or {}):
        return replace(found, claim=found.claim._replace(source="option"))
    return found


def _loaded(file: AuditFile, folder: Path, say: Say) -> AuditConfig:
    from epsilometer.datasets import named

    check_name(file.execution.executor)
    statistic = loading.statistic_of(
        file.attack.statistic, folder=folder, place="[attack] statistic"
    )
    table = file.population
    try:
        population = named.load_population(
            table.source,
            folder=folder,
            path=None if table.path is None else Path(table.path),
            say=say,
        )
    except InputError as error:
        raise InputError(f"[population] source: {error}") from None
    if table.shape is not None:
        try:
            population = population.shaped(table.shape)
        except InputError as error:
            raise InputError(f"[population] {error}") from None
    algorithm = _algorithm(file.algorithm, folder)
    design = _design(file, algorithm, statistic, folder)
    try:
        plan = _plan(file.audit, design, population, algorithm, folder)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith("[") else f"[audit] {text}") from None
    except loading.RAISED as error:
        # Canaries and challenge points are made while a plan is: by somebody's own function.
        said = f"{type(error).__name__}: {error}"
        key = "canary_kind" if design.canaries else "challenge"
        raise InputError(f"[audit] {key}: {getattr(file.audit, key)} failed ({said}).") from None
    return AuditConfig(
        file=file,
        plan=plan,
        store=folder / file.audit.store,
        attack=ATTACKS.get(file.attack.method or "", LikelihoodRatio()),
        statistic=statistic,
        model=_published(file.estimate, design),
        profile=_profile(file.estimate, design, algorithm),
        claim=claims.known(file.estimate.claim, plan, file.estimate.delta, say),
    )


def _published(table: EstimateTable, design: Design) -> AuditModel | None:
    """The published model; none of canaries, nor of points that share models."""
    if design.canaries or not design.models(1):
        return None
    default = INDEPENDENT if isinstance(design, MeasureMIA) else CORRELATED
    strength: Any = table.strength  # a number or None, as its validator says
    return model_of(
        table.delta,
        likelihood=table.likelihood or default,
        strength=strength,
        epsilon_prior_scale=table.epsilon_prior_scale,
    )


def _profile(table: EstimateTable, design: Design, algorithm: Any) -> ProfileModel | None:
    """The whole-curve model, if it was not declined."""
    if table.model != "profile":
        return None
    strength: Any = table.strength
    chosen = {"family", "mixing"} & table.model_fields_set
    found = profile_of(
        table.delta,
        family=table.family,
        mixing=table.mixing,
        strength=strength,
        epsilon_prior_scale=table.epsilon_prior_scale,
    )
    if chosen or not isinstance(design, MeasureOneRun) or not design.in_gradients:
        return found
    # What canaries in gradients look like is known: the algorithm says it.
    known: ProfileModel = algorithm.canary_model(table.delta)
    return replace(
        known,
        epsilon=known.epsilon if table.epsilon_prior_scale is None else found.epsilon,
        strength=found.strength if "strength" in table.model_fields_set else known.strength,
    )


def _design(file: AuditFile, algorithm: Any, statistic: Statistic, folder: Path) -> Design:
    """How models are put to use; keys of another design are refused."""
    table, given = file.audit, file.audit.model_fields_set
    one_run = table.design == "one-run"
    if one_run and "challenge" in given:
        raise InputError("[audit] challenge does not go with one-run; canaries have canary_kind.")
    for key in MANY_MODELS_KEYS if one_run else ONE_RUN_KEYS:
        if key in given:
            other = "runs and canaries" if one_run else 'design = "one-run"'
            raise InputError(f"[audit] {key} does not go with {table.design}; it has {other}.")
    try:
        return _one_run(file, algorithm, statistic, folder) if one_run else _many_models(table)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith("[") else f"[audit] {text}") from None


def _many_models(table: AuditTable) -> Design:
    if table.shadows is None:
        return MeasureMIAFast(replicates=table.replicates)
    return MeasureMIA(
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
    if file.estimate.model != "profile":
        raise InputError("[estimate] model: canaries are read by the whole-curve model, profile.")
    planted = int(getattr(algorithm, "gradient_canaries", 0))
    kind: Any = table.canary_kind or (GRADIENT if planted else "population")
    count = table.canaries or (planted if kind == GRADIENT else 0) or CANARIES
    if ":" in kind:
        function = loading.load_object(kind, folder=folder, place="[audit] canary_kind")
        kind = OwnCanaries(function=function, name=kind)
    elif kind != GRADIENT and kind not in KINDS:
        known = ", ".join([*KINDS, GRADIENT])
        raise InputError(
            f"[audit] canary_kind: expected {known} or module:function, got {_files.shown(kind)}."
        )
    return MeasureOneRun(
        canaries=count, kind=kind, compare_with=table.compare_with, statistic=statistic
    )


def _plan(
    table: AuditTable, design: Design, population: Population, algorithm: Any, folder: Path
) -> Plan:
    kind = challenge_of(table.challenge, folder=folder)
    if "challenge_bases" in table.model_fields_set:
        check_number(kind, table.challenge_bases)
    bases = kind.number or table.challenge_bases
    return Plan(
        population=population,
        algorithm=algorithm,
        design=design,
        challenge_bases=table.runs if design.canaries else bases,
        challenge=kind,
        dataset_size=table.dataset_size,
        adjacency=ADJACENCIES[table.adjacency],
        seed=table.seed,
    )


def _algorithm(table: AlgorithmTable, folder: Path) -> Any:
    place = "[algorithm] object"
    found = loading.load_object(SHIPPED.get(table.object, table.object), folder=folder, place=place)
    if not hasattr(found, "train") or isinstance(found, type):
        if not callable(found):
            raise InputError(f"{place}: expected an algorithm or what makes one, got {found!r}.")
        failure = f"{place}: cannot be made with {', '.join(table.options) or 'no options'}"
        found = loading.run_user_code(failure, found, **table.options)
    elif table.options:
        raise InputError(
            f"[algorithm] options: {table.object} is made already; options are for a class or a "
            "function that makes one."
        )
    algorithms.check(found, name=place)
    noise = table.output_perturbation
    if noise is None:
        return found
    from epsilometer.training.output_perturbation import NoiseLevels, OutputPerturbation

    if isinstance(noise, list):
        return NoiseLevels(algorithm=found, scales=tuple(noise))
    return OutputPerturbation(algorithm=found, scale=noise)


_WORDS = {"String should have": "expected", "a valid integer": "a whole number", "a valid ": "a "}


def _worded(detail: ErrorDetails) -> str:
    """One thing that is wrong, with its place: ``[audit] replicates: expected ..., got ...``."""
    table, *keys = map(str, detail["loc"])
    where = f"[{table}] {'.'.join(keys)}".strip()
    if detail["type"] == "missing":
        return f"{where if keys else f'table {where}'} is missing"
    if detail["type"] == "extra_forbidden":
        known: Any = AuditFile.model_fields
        if keys:
            known = known[table].annotation.model_fields
        near = difflib.get_close_matches(keys[-1] if keys else table, known, 1)
        hint = f"is it {near[0]}" if near else f"known are {', '.join(known)}"
        return f"unknown {'key' if keys else 'table'} {where}: {hint}"
    message = detail["msg"].replace("Input should be", "expected")
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return f"{where}: {message}, got {_files.shown(detail['input'])}"
