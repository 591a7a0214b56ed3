"""Design pool: a few models, each trained on a random share of a pool of records, asked about all of it.

The pool is one base.  Its models are replicates under hypothesis 0, which here is a name only: each
model has its own members.  Every record of the pool is a challenge point, with some models trained on
it and the others not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.attacks.pool_attacks import POOL_ATTACKS, PoolAttack, held_out_scores, most_leaking
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.pool_result import attack_result
from epsilometer.attacks.result import AttackResult
from epsilometer.errors import InputError
from epsilometer.measurement.bases import Adjacency
from epsilometer.measurement.challenges import Chosen
from epsilometer.measurement.population import Dataset, Population
from epsilometer.measurement.rows import PoolRow
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores

POOL = 3
"""Leads the spawn key of the streams that draw pools and their coins."""

BLOCK = 4096
"""Points that are scored at a time: data sets of so many records fit anywhere."""

LEAST_RECORDS = 10
"""Of a pool; with fewer a model may well be trained on nothing."""

LEAST_PILOT = 4
"""Models that choose points, at least: fewer are never two on either side."""

POINTS = 100
"""Points that are judged unless told otherwise: the posterior takes seconds for so many."""

DEFAULT_ATTACK = "lira"


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """Records of a pool and references, and the coins of every model.

    Parameters
    ----------
    records
        Indices of the pool's records in the population.
    references
        Indices of records that no model is trained on, but every model is asked about.
    share
        Probability that a record is in a model's data.
    fixed_size
        Whether every model has exactly that share of the records, so that leaving one out means taking
        another in; else each record has a coin of its own.
    seed
        Of the plan.
    crafted
        What tells crafted points from others; None if all are records as they are.
    """

    records: IntArray
    references: IntArray
    share: float
    fixed_size: bool
    seed: int
    crafted: str | None = None
    name: ClassVar[str] = "pool"

    @cached_property
    def everything(self) -> IntArray:
        """All points: the records, then the references."""
        return np.concatenate([self.records, self.references])

    def member(self, replicate: int) -> BoolArray:
        """Which of the records a model is trained on, by its number alone."""
        key = np.random.SeedSequence(self.seed, spawn_key=(POOL, 1, replicate))
        rng, size = np.random.default_rng(key), len(self.records)
        if not self.fixed_size:
            return np.asarray(rng.random(size) < self.share)
        found = np.zeros(size, dtype=bool)
        found[rng.permutation(size)[: round(self.share * size)]] = True
        return found

    def train_on(self, population: Population, hypothesis: int, replicate: int = 0) -> Dataset:
        """The records that the coins of a model put in."""
        del hypothesis
        return population.take(self.records[self.member(replicate)])

    def size(self, hypothesis: int, replicate: int) -> int:
        del hypothesis
        return int(self.member(replicate).sum())

    def points(self, population: Population) -> Iterator[Dataset]:
        """All points, a block at a time."""
        for first in range(0, len(self.everything), BLOCK):
            yield population.take(self.everything[first : first + BLOCK])

    def rows(self, place: tuple[int, int, int], variant: str, losses: FloatArray) -> list[PoolRow]:
        """One row for the whole model."""
        outside = np.zeros(len(self.references), dtype=bool)
        member = np.concatenate([self.member(place[2]), outside])
        table = losses.reshape(len(member), -1)
        return [PoolRow(*place, variant, table, member)]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its indices and of how coins are flipped."""
        coins = f"{self.share!r},{self.fixed_size},{self.seed},{len(self.records)}"
        digest = hashlib.sha256(coins.encode())
        digest.update(self.everything.astype("<i8").tobytes())
        digest.update((self.crafted or "").encode())
        return digest.hexdigest()

    def shared_points(self) -> dict[str, Any]:
        """What a store must know of its points to read them without the population."""
        return {
            "names": [str(number) for number in self.everything.tolist()],
            "references": len(self.references),
            "fair_coins": self.share == 0.5 and not self.fixed_size,
        }


@dataclass(frozen=True, kw_only=True)
class MeasurePool:
    """A few models on random shares of a pool, every record of which is a challenge point.

    The plan's ``dataset_size`` is the number of records in the pool, its ``challenge_bases`` is 1.

    Parameters
    ----------
    models
        How many models; may grow on the same store.  At least 4.
    share
        Probability that a record is in a model's data, in (0, 1).  Only 0.5 lets a model count as an
        audit in one run, which proves more.
    references
        How many other records every model is asked about and none is trained on; some attacks compare
        with them.
    attack
        How models are attacked: a name of `POOL_ATTACKS`, or an attack.
    first_stage
        The first so many models choose points and teach the attack, and judge nothing.  None: half of
        them if the attack learns from models or points are chosen by them, else none.
    pilot
        Whether the first stage chooses the points that leak most; else the first points of the pool are
        judged, which is in random order.
    judged
        How many points are judged; None: 100, or all if there are fewer.

    Examples
    --------
    >>> MeasurePool(models=128).teachers
    64
    """

    models_trained: int
    share: float
    references: int
    attack_method: PoolAttack
    first_stage: int | None
    pilot: bool
    judged: int | None

    canaries: ClassVar[int] = 0
    in_gradients: ClassVar[bool] = False
    asks_queries: ClassVar[bool] = True

    def __init__(
        self,
        *,
        models: int,
        share: float = 0.5,
        references: int = 0,
        attack: PoolAttack | str = DEFAULT_ATTACK,
        first_stage: int | None = None,
        pilot: bool = False,
        judged: int | None = None,
    ) -> None:
        chosen: PoolAttack = (
            POOL_ATTACKS[_validate.one_of("attack", attack, POOL_ATTACKS)]
            if isinstance(attack, str)
            else attack
        )
        number = _validate.whole_number("models", models, least=4)
        values = {
            "models_trained": number,
            "share": _validate.open_unit_interval("share", share),
            "references": _validate.whole_number("references", references, least=0),
            "attack_method": chosen,
            "first_stage": first_stage,
            "pilot": bool(pilot),
            "judged": None if judged is None else _validate.whole_number("points", judged),
        }
        if first_stage is not None:
            _validate.whole_number("first_stage", first_stage, least=0)
            if first_stage > number - 2:
                raise InputError(
                    f"expected first_stage <= {number - 2}, so that two models or more are left to "
                    f"judge, got first_stage={first_stage}."
                )
            least = max(chosen.least_teachers, LEAST_PILOT if pilot else 0)
            if first_stage < least:
                raise InputError(
                    f"expected first_stage >= {least} to choose points or to teach "
                    f"{chosen.name}, got first_stage={first_stage}."
                )
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def replicates(self) -> int:
        return self.models_trained

    @property
    def teachers(self) -> int:
        """How many models choose and teach, and are not judged."""
        if self.first_stage is not None:
            return self.first_stage
        needed = self.pilot or self.attack_method.least_teachers
        return self.models_trained // 2 if needed else 0

    @property
    def facts(self) -> dict[str, object]:
        return {
            "models": self.models_trained,
            "share": self.share,
            "references": self.references,
            "first_stage": self.teachers,
            "pilot": self.pilot,
        }

    def identity(self) -> dict[str, object]:
        """How models are attacked and judged is left out: that may change."""
        return {"name": "MeasurePool", "share": self.share, "references": self.references}

    def attacked_by(self, statistic: str) -> dict[str, object]:
        """By an attack on pools, which has its own statistic."""
        del statistic
        return {"statistic": "pool", "attack": self.attack_method.name}

    @property
    def judging(self) -> dict[str, object]:
        """How its losses are judged, in plain values that a store keeps."""
        return {
            "attack": self.attack_method.name,
            "first_stage": self.first_stage,
            "pilot": self.pilot,
            "points": self.judged,
        }

    def models(self, hypothesis: int) -> int:
        return 0 if hypothesis else self.models_trained

    def challenge_points(self, bases: int, dataset_size: int) -> int:
        """Those that are judged, of a pool of so many records."""
        del bases
        return min(POINTS, dataset_size) if self.judged is None else self.judged

    def check(self, algorithm: object, adjacency: Adjacency) -> None:
        """Any algorithm will do."""
        del algorithm, adjacency

    def draw(
        self,
        number: int,
        *,
        population: Population,
        dataset_size: int,
        adjacency: Adjacency,
        seed: int,
        chosen: Chosen | None = None,
    ) -> Pool:
        """The pool: chosen points, other records in random order, and references."""
        if number:
            raise InputError("expected one pool, got challenge_bases > 1.")
        if dataset_size < LEAST_RECORDS:
            raise InputError(
                f"expected a pool of at least {LEAST_RECORDS} records, got {dataset_size}."
            )
        if self.judged is not None and self.judged > dataset_size:
            raise InputError(
                f"expected points <= {dataset_size}, the size of the pool, got points={self.judged}."
            )
        key = np.random.SeedSequence(seed, spawn_key=(POOL, 0))
        drawn = np.random.default_rng(key).permutation(population.records)
        crafted = None
        if chosen is not None:
            # Chosen points come first, then others; never the record that a point was made from.
            others = drawn[~np.isin(drawn, chosen.apart())]
            drawn = np.concatenate([chosen.indices, others])
            crafted = ",".join(str(chosen.fingerprint(n)) for n in range(len(chosen)))
        if dataset_size + self.references > len(drawn):
            raise InputError(
                f"expected a pool and references of at most {len(drawn)} records, those of the "
                f"population, got {dataset_size} and {self.references}."
            )
        return Pool(
            records=drawn[:dataset_size],
            references=drawn[dataset_size : dataset_size + self.references],
            crafted=crafted,
            share=self.share,
            fixed_size=adjacency.name != "include",
            seed=seed,
        )

    def groups(self, base: Any) -> Iterator[tuple[int, range]]:
        del base
        yield 0, range(self.models_trained)

    def pool_scores(self, losses: PoolLosses, attack: PoolAttack | None = None) -> PoolScores:
        """Scores of the points that are judged, under the models that did not choose or teach."""
        chosen = attack or self.attack_method
        teachers = self.first_models(losses)
        return held_out_scores(losses, chosen, teachers=teachers, points=self.judged_points(losses))

    def judged_points(self, losses: PoolLosses) -> IntArray:
        """The points that are judged: the leakiest of the first stage, or the first of the pool."""
        first = self.first_models(losses)
        count = min(self.judged or POINTS, losses.challenges)
        if not self.pilot:
            return np.arange(count)
        return most_leaking(losses, models=first, count=count)

    def first_models(self, losses: PoolLosses) -> IntArray:
        """Rows of the models that choose and teach: by their numbers, whichever others are missing."""
        first: IntArray = np.flatnonzero(losses.numbers < self.teachers)
        if losses.models - len(first) < 2:
            raise InputError(
                f"expected two models or more beside the {self.teachers} of the first stage, got "
                f"{losses.models} in all; train more, or give a smaller first_stage."
            )
        return first

    def scores(self, losses: PoolLosses, statistic: object = None, *, skip: bool = False) -> Scores:
        """Scores by point; the attack has its own statistic."""
        del statistic, skip
        return self.pool_scores(losses).by_point()

    def attack(
        self, losses: PoolLosses, attack: PoolAttack | None = None, *, statistic: object = None
    ) -> AttackResult:
        """Decisions on every judged model, by the ranks of scores without the point."""
        del statistic
        chosen = attack or self.attack_method
        return attack_result(self.pool_scores(losses, chosen), chosen.name)


def pool_design(identity: Mapping[str, Any], judging: object, models: int) -> MeasurePool:
    """The design that a store recorded; an attack of somebody's own is not run here."""
    known = judging if isinstance(judging, dict) else {}
    attack, first, judged = (known.get(key) for key in ("attack", "first_stage", "points"))
    try:
        return MeasurePool(
            models=models,
            share=identity.get("share", 0.5),
            references=identity.get("references", 0),
            attack=attack if attack in POOL_ATTACKS else DEFAULT_ATTACK,
            first_stage=first,
            pilot=known.get("pilot") is True,
            judged=judged,
        )
    except InputError as error:
        raise InputError(f"expected a pool that is known here: {error}") from None
