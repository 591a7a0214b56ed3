"""Plans: everything that determines which models are trained and what their losses are.

A plan's identity must not change between two runs on one store; its sizes (bases, replicates, variants)
may grow.  Each model has a random stream that depends only on its place in the plan.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from epsilometer._display import Displayed
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement import challenges
from epsilometer.measurement.algorithm import Algorithm
from epsilometer.measurement.bases import Adjacency, Base, ChallengeBase, Include, Source
from epsilometer.measurement.designs import CrossFed, Design, ShadowModels, check_numbers
from epsilometer.measurement.one_run import GRADIENT, OneRun
from epsilometer.measurement.pool import PoolBase, pool_design
from epsilometer.measurement.population import Population, stream_of

#: Version of how random streams are derived; another version trains different models.
STREAMS = 1

#: First element of the spawn key of the streams of tasks.
TASKS = 0


class Task(NamedTuple):
    """One model: number of its challenge base, hypothesis 0 or 1, replicate from 0."""

    base: int
    hypothesis: int
    replicate: int

    def __str__(self) -> str:
        return f"base {self.base}, hypothesis {self.hypothesis}, replicate {self.replicate}"


class Sizes(NamedTuple):
    """The requested sizes of a plan; all of them may grow."""

    challenge_bases: int
    models_h0: int
    models_h1: int
    variants: tuple[str, ...]
    #: Canaries per base, if they share one model; both numbers of models then equal it.
    canaries: int = 0
    #: Points of a pool, if every model is evaluated on all of them.
    points: int = 0

    @property
    def models(self) -> int:
        """Total number of models."""
        return self.challenge_bases * (1 if self.canaries else self.models_h0 + self.models_h1)

    @property
    def pairs(self) -> tuple[int, int]:
        """Numbers of bases and of pairs of each base."""
        return self.challenge_bases, min(self.models_h0, self.models_h1)

    def side(self, hypothesis: int) -> int:
        """The group that a model belongs to: its hypothesis; with canaries, all runs are one group."""
        return 0 if self.canaries else hypothesis

    def described(self) -> list[object]:
        """As plain values for a store."""
        return list(self if self.points else self[:5] if self.canaries else self[:4])

    def named(self, task: Task) -> str:
        """Display name of a model."""
        if self.points:
            return f"model {task.replicate}"
        return f"run {task.base}" if self.canaries else str(task)


def training_stream(seed: int, task: Task, *purpose: int) -> np.random.Generator:
    """The random stream of one model's training; others of the same model have a ``purpose``."""
    return stream_of(seed, TASKS, *task, *purpose)


def release_stream(seed: int, task: Task, variant: str) -> np.random.Generator:
    """The random stream that derives one variant from a trained model."""
    return training_stream(seed, task, 1, zlib.crc32(variant.encode()))


def reference_stream(seed: int, task: Task) -> np.random.Generator:
    """The random stream of the model that another model's scores are compared with."""
    return training_stream(seed, task, 2)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan(Displayed):
    """The models to train.

    Parameters
    ----------
    population
        Source of datasets and challenge points.
    algorithm
        The algorithm under audit: see `epsilometer.measurement.algorithm.Algorithm`.
    design
        `CrossFed(replicates=...)`, `ShadowModels(...)`, `OneRun(canaries=...)` or
        `Pool(models=...)`.
    challenge_bases
        Number of bases to draw, or the bases themselves.  For `OneRun`, the number of training
        runs; for `Pool`, 1.  May be omitted if ``challenge`` is a list.
    dataset_size
        Records in D, if bases are drawn; canaries are added to these.  For a pool, its number of
        records.
    adjacency
        `Include()` or `Replace()`, if bases are drawn.
    challenge
        The challenge points, if bases are drawn: ``random``, ``mislabelled``, ``outliers`` or
        `Outliers(...)`, a list of indices, or a function ``(population, count, rng)`` as described in
        `CustomPoints`.
    seed
        Determines bases and random streams; a whole number >= 0.
    """

    population: Population
    algorithm: Algorithm
    design: Design
    challenge_bases: int | Sequence[ChallengeBase] = None  # type: ignore[assignment]  # see below
    dataset_size: int | None = None
    adjacency: Adjacency = field(default_factory=Include)
    challenge: challenges.Challenge = "random"
    seed: int

    def __post_init__(self) -> None:
        algorithms.check(self.algorithm)
        check_numbers(self, seed=0)
        names = self.variants
        if not names or len(set(names)) != len(names):
            raise InputError(f"expected variants with distinct names, got {names!r}.")
        self.design.check(self.algorithm, self.adjacency)
        if not isinstance(self.challenge_bases, Sequence):
            if self.dataset_size is None:
                raise InputError("expected dataset_size, since bases are drawn, got none.")
            if self.challenge_bases is None:
                object.__setattr__(self, "challenge_bases", self.challenge_kind.number)
            check_numbers(self, challenge_bases=1, dataset_size=1)
        else:
            object.__setattr__(self, "challenge_bases", tuple(self.challenge_bases))
            self._check_bases(self.challenge_bases)
        _ = self.bases

    def _check_bases(self, given: Sequence[ChallengeBase]) -> None:
        if not given:
            raise InputError("expected at least one challenge base, got none.")
        if self.design.canaries:
            raise InputError("expected a number of training runs, got challenge bases.")
        if self.dataset_size is not None or not self.challenge_kind.random:
            name = "challenge" if self.dataset_size is None else "dataset_size"
            raise InputError(
                f"{name} applies to drawn bases only, but challenge_bases lists them; omit it."
            )
        for number, base in enumerate(given):
            largest = int(max(base.records(0).max(), base.records(1).max()))
            if largest >= len(self.population):
                raise InputError(
                    f"challenge base {number}: expected indices below {len(self.population)}, "
                    f"the size of the population, got {largest}."
                )

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants released from each trained model."""
        return algorithms.variants_of(self.algorithm)

    @cached_property
    def challenge_kind(self) -> challenges.ChallengeKind:
        """How challenge points are chosen."""
        return challenges.challenge_kind_of(self.challenge)

    @cached_property
    def chosen(self) -> challenges.Chosen | None:
        """The challenge points; None if each is drawn together with its D."""
        if not isinstance(self.challenge_bases, int) or self.challenge_kind.random:
            return None
        count = self.design.challenge_points(self.challenge_bases, self.dataset_size or 0)
        if count == 0:
            raise InputError("challenge is for designs with whole models; for canaries use kind.")
        rng = stream_of(self.seed, challenges.CHALLENGES)
        return self.challenge_kind.choose(self.population, count, rng)

    @property
    def all_records(self) -> Population:
        """The population that bases index into, followed by any crafted challenge points."""
        return self.population if self.chosen is None else self.chosen.population

    @cached_property
    def bases(self) -> tuple[Base, ...]:
        """The challenge bases."""
        if not isinstance(self.challenge_bases, int):
            return tuple(self.challenge_bases)
        source = Source(**{part.name: getattr(self, part.name) for part in fields(Source)})
        return tuple(self.design.draw(number, source) for number in range(self.challenge_bases))

    def first(self, bases: int) -> Plan:
        """A plan of the first bases only; these do not change, whatever chose their points."""
        plan = copy(self)
        plan.__dict__.pop("names", None)
        plan.__dict__["bases"] = self.bases[:bases]
        given = self.challenge_bases
        kept = bases if isinstance(given, int) else given[:bases]
        object.__setattr__(plan, "challenge_bases", kept)
        return plan

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the bases; default: their numbers."""
        names = tuple(
            str(number) if base.name is None else base.name
            for number, base in enumerate(self.bases)
        )
        if len(set(names)) != len(names):
            raise InputError("expected challenge bases with distinct names, got a duplicate.")
        return names

    @cached_property
    def pool(self) -> dict[str, Any]:
        """What a store must know about the points of a pool; empty for other designs."""
        pool = self.bases[0]
        return pool.shared_points() if isinstance(pool, PoolBase) else {}

    def with_records(self, losses: Any) -> Any:
        """Losses of this plan; those of a pool with the records of its points, which attacks may use."""
        pool = self.bases[0]
        if not isinstance(losses, PoolLosses) or not isinstance(pool, PoolBase):
            return losses
        records = self.all_records.take(pool.everything)
        return losses.with_records(records.features, records.labels)

    @property
    def sizes(self) -> Sizes:
        """The requested sizes."""
        design, points = self.design, len(self.pool.get("names", ()))
        models = (design.models(0), design.models(1))
        return Sizes(len(self.bases), *models, self.variants, design.canaries, points)

    def groups(self) -> Iterator[tuple[int, int, range]]:
        """The models by base and hypothesis, with their replicates."""
        for number, base in enumerate(self.bases):
            for hypothesis, replicates in self.design.groups(base):
                yield number, hypothesis, replicates

    def tasks(self) -> Iterator[Task]:
        """Every model, in order."""
        for base, hypothesis, replicates in self.groups():
            for replicate in replicates:
                yield Task(base, hypothesis, replicate)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must not differ between two runs on one store, as plain values."""
        kind, drawn = self.challenge_kind, isinstance(self.challenge_bases, int)
        how: dict[str, Any] = {"drawn": drawn}
        if drawn:
            how |= {"dataset_size": self.dataset_size, "adjacency": self.adjacency.name}
        if not kind.random:
            how["challenge"] = {"name": kind.name} | algorithms.identity(kind)
        algorithm = algorithms.identity(self.algorithm)
        if self.design.in_gradients and isinstance(self.algorithm, algorithms.PlantsCanaries):
            algorithm["canaries"] = self.algorithm.canary_settings
        # Excludes crafted points, which may be added to: each base identifies its own.
        population = {"records": len(self.population), "sha256": self.population.fingerprint}
        return {
            "population": population,
            "bases": how,
            "algorithm": algorithm,
            "design": self.design.identity(),
            "seed": self.seed,
            "streams": STREAMS,
        }

    def refused(self, identity: Any, accept_changed_code: bool) -> str:
        """Why a store of another identity cannot continue with this plan; empty if it can."""
        found = differences(identity, self.identity)
        code = [line for line in found if f".{algorithms.SOURCE}" in line.split(" is ")[0]]
        if accept_changed_code:
            found = [line for line in found if line not in code]
        if not found:
            return ""
        if found == code:
            places = (line.split(" is ")[0].split(algorithms.SOURCE)[-1] for line in code)
            files = ", ".join(dict.fromkeys(place.lstrip(".") for place in places))
            return (
                f"code has changed since it was created ({files}). Use another store, or delete this "
                "one to start over; if the change does not affect training, continue with "
                "`accept_changed_code=True`."
            )
        rest = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        shown = "; ".join(found[:5]) + rest
        return f"{shown}. Use another store, or the settings it was created with."

    @property
    def content_hash(self) -> str:
        """SHA-256 of identity, bases and sizes."""
        content = [self.identity, [base.fingerprint for base in self.bases], self.sizes.described()]
        return hashlib.sha256(canonical(content).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Plain values as JSON text in a canonical form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def differences(there: Any, here: Any, place: str = "") -> list[str]:
    """Where two identities differ, in words: ``seed is 1 there and 2 here``."""
    if isinstance(there, dict) and isinstance(here, dict):
        sentences = []
        for key in sorted({*there, *here}):
            inner = f"{place}.{key}" if place else key
            sentences += differences(there.get(key), here.get(key), inner)
        return sentences
    if canonical(there) == canonical(here):
        return []  # compared as text: 1 is not 1.0, and 0.0 is not -0.0
    return [f"{place} is {_short(there)} there and {_short(here)} here"]


def _short(value: Any) -> str:
    text = "absent" if value is None else canonical(value)
    if len(text) <= 40:
        return text
    return f"{text[:20]}... (hash {hashlib.sha256(text.encode()).hexdigest()[:8]})"


def design_of(identity: object, models_h0: int, judging: object = None) -> Design:
    """The design recorded in a store, with its number of models under H0.

    ``judging`` is the stored description of how losses are evaluated.
    """
    described = identity if isinstance(identity, dict) else {}
    match described.get("name"):
        case "MeasureMIAFast":
            return CrossFed(replicates=models_h0)
        case "MeasureMIA":
            shadows = {key: described.get(key) for key in ("shadows_h0", "shadows_h1")}
            if all(isinstance(value, int) and value >= 2 for value in shadows.values()):
                blocks = max(1, models_h0 // (1 + 2 * described["shadows_h0"]))
                return ShadowModels(replicates=blocks, **shadows)  # type: ignore[arg-type]
        case "MeasureOneRun":
            # Custom kinds and statistics are not run again; the store already has their losses.
            compare = str(described.get("compare_with", "nothing"))
            kind = GRADIENT if described.get("kind") == GRADIENT else "population"
            return OneRun(canaries=models_h0, kind=kind, compare_with=compare)
        case "MeasurePool":
            return pool_design(described, judging, models_h0)
    raise InputError(f"expected a known design, got {described!r}.")
