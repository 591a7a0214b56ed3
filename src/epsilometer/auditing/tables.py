"""The tables of an audit's configuration: what a file may say, checked before anything is loaded."""

import difflib
import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from epsilometer import _files
from epsilometer.attacks.pool_attacks import POOL_ATTACKS
from epsilometer.attacks.rules import ATTACKS
from epsilometer.attacks.statistics import FAILURES
from epsilometer.measurement.one_run import COMPARISONS
from epsilometer.model.families import AVERAGE, FAMILIES
from epsilometer.model.models import LIKELIHOOD_KINDS

#: Models, bases or records that nobody means: a slip of the keyboard is refused before it is
#: planned.
LARGEST_SIZE = 10**9

Count = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PopulationTable(_Table):
    """What D and z are drawn from."""

    source: str
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
    failures: Literal[FAILURES] = FAILURES[0]  # type: ignore[valid-type]

    @field_validator("challenge", mode="wrap")
    @classmethod
    def _challenge(cls, value: Any, _: Any) -> str | list[int]:
        listed = value if isinstance(value, list) else []
        whole = all(type(index) is int and abs(index) < 2**62 for index in listed)
        if value and (isinstance(value, str) or (listed and whole)):
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


class AttackTable(_Table):
    """How it is attacked."""

    statistic: str = "loss"
    target_alpha: Annotated[float, Field(gt=0, lt=1)] = 0.1
    method: Literal[tuple(ATTACKS | POOL_ATTACKS)] | None = None  # type: ignore[valid-type]


class EstimateTable(_Table):
    """The assumptions; delta, a privacy parameter, has no default.

    ``family`` and ``mixing`` are of the curve model, ``likelihood`` of the count model, which is
    estimated too.
    """

    delta: Annotated[float, Field(ge=0, lt=1)]
    model: Literal["curve", "count"] = "curve"
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


_WORDS = {"String should have": "expected", "a valid integer": "a whole number", "a valid ": "a "}


def worded(detail: ErrorDetails) -> str:
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
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        return f"unknown {'key' if keys else 'table'} {where}: {hint}"
    message = detail["msg"].replace("Input should be", "expected")
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return f"{where}: {message}, got {_files.shown(detail['input'])}"
