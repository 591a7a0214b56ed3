"""Design pool: a few models, each trained on a random share of a pool of records and evaluated on all.

The pool is a single base.  Its models are replicates under hypothesis 0, which is only nominal here:
each model has its own members.  Every record of the pool is a challenge point; some models were trained
on it and the others were not.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.attacks import pool_attacks
from epsilometer.attacks.pool_attacks import POOL_ATTACKS, PoolAttack
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.result import AttackResult
from epsilometer.errors import InputError
from epsilometer.measurement.bases import Base, PoolRow, Source
from epsilometer.measurement.designs import Design
from epsilometer.measurement.population import Dataset, Population, stream_of
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores

#: First element of the spawn key of the streams that draw pools and their coins.
POOL = 3

#: Points that are scored at a time: a dataset of this size fits into memory.
POINTS_AT_ONCE = 4096

#: Fewest records of a pool; with fewer, a model might be trained on none.
LEAST_RECORDS = 10

#: Fewest models that choose points: with fewer, no point has two models on both sides.
LEAST_PILOT = 4

#: Default number of evaluated points, for which the posterior takes seconds.
DEFAULT_POINTS = 100

DEFAULT_ATTACK = "lira"


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolBase(Base):
    """The records and reference points of a pool, and the coins of every model.

    Parameters
    ----------
    records
        Indices of the pool's records in the population.
    references
        Indices of records that no model is trained on but every model is evaluated on.
    share
        Probability that a record is in a model's data.
    fixed_size
        Whether every model has exactly that share of the records, so that leaving one out means
        including another; otherwise each record has its own coin.
    seed
        Seed of the plan.
    crafted
        Hash of the crafted points; None if all points are unchanged records.
    """

    records: IntArray
    references: IntArray
    share: float
    fixed_size: bool
    seed: int
    crafted: str | None = None
    name: ClassVar[str] = "pool"  # type: ignore[misc]  # of every pool

    @cached_property
    def everything(self) -> IntArray:
        """All points: the records, then the references."""
        return np.concatenate([self.records, self.references])

    def member(self, replicate: int) -> BoolArray:
        """Which records a model is trained on; depends only on its number."""
        rng, size = stream_of(self.seed, POOL, 1, replicate), len(self.records)
        if not self.fixed_size:
            return np.asarray(rng.random(size) < self.share)
        members = np.zeros(size, dtype=bool)
        members[rng.permutation(size)[: round(self.share * size)]] = True
        return members

    def train_on(self, population: Population, hypothesis: int, replicate: int = 0) -> Dataset:
        """The records that a model's coins include."""
        return population.take(self.records[self.member(replicate)])

    def points(self, population: Population) -> Iterator[Dataset]:
        """All points, one block at a time."""
        for first in range(0, len(self.everything), POINTS_AT_ONCE):
            yield population.take(self.everything[first : first + POINTS_AT_ONCE])

    def rows(self, place: tuple[int, int, int], variant: str, losses: FloatArray) -> list[PoolRow]:
        """One row per model."""
        member = self.coins_of(place[2])
        return [PoolRow(*place, variant, losses.reshape(len(member), -1), member)]

    def coins_of(self, replicate: int) -> BoolArray:
        """Which points a model is trained on; none of the references."""
        return np.concatenate([self.member(replicate), np.zeros(len(self.references), dtype=bool)])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the indices and of how coins are flipped."""
        coins = f"{self.share!r},{self.fixed_size},{self.seed},{len(self.records)}"
        digest = hashlib.sha256(coins.encode())
        digest.update(self.everything.astype("<i8").tobytes())
        digest.update((self.crafted or "").encode())
        return digest.hexdigest()

    def shared_points(self) -> dict[str, Any]:
        """What a store must know about the points to read their losses without the population."""
        return {
            "names": [str(number) for number in self.everything.tolist()],
            "references": len(self.references),
            "fair_coins": self.share == 0.5 and not self.fixed_size,
        }


@dataclass(frozen=True, kw_only=True)
class Pool(Design):
    """A few models trained on random shares of a pool; every record of the pool is a challenge point.

    The plan's ``dataset_size`` is the number of records in the pool, and its ``challenge_bases`` is 1.

    Parameters
    ----------
    models
        Number of models, at least 4; it may grow on the same store.
    share
        Probability that a record is in a model's data, in (0, 1).  Only with 0.5 does each model count
        as a one-run audit, which proves more.
    references
        Number of additional records that every model is evaluated on and none is trained on; some
        attacks compare with them.
    attack
        The attack: a name in `POOL_ATTACKS`, or an attack object.
    first_stage
        Number of first models that choose points and train the attack, and are not evaluated.  None:
        half of the models if the attack learns from models or ``pilot`` is set, otherwise none.
    pilot
        Whether the first stage selects the points that leak most; otherwise the first points of the
        pool, which is in random order, are evaluated.
    judged
        Number of points to evaluate; None: 100, or all if there are fewer.

    Examples
    --------
    >>> Pool(models=128).teachers
    64
    """

    models_trained: int
    share: float
    references: int
    attack_method: PoolAttack
    first_stage: int | None
    pilot: bool
    judged: int | None

    uses_queries: ClassVar[bool] = True

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
        chosen = attack
        if isinstance(chosen, str):
            chosen = POOL_ATTACKS[_validate.one_of("attack", chosen, POOL_ATTACKS)]
        number = _validate.whole_number("models", models, least=4)
        if first_stage is not None:
            # At least two models are left to evaluate.
            least = max(chosen.least_teachers, LEAST_PILOT if pilot else 0)
            _validate.whole_number("first_stage", first_stage, least=least, most=number - 2)
        vars(self).update(
            models_trained=number,
            share=_validate.open_unit_interval("share", share),
            references=_validate.whole_number("references", references, least=0),
            attack_method=chosen,
            first_stage=first_stage,
            pilot=bool(pilot),
            judged=None if judged is None else _validate.whole_number("points", judged),
        )

    @property
    def teachers(self) -> int:
        """Number of models that choose points and train the attack, and are not evaluated."""
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
        """Excludes how models are attacked and evaluated, which may change."""
        return {"name": "MeasurePool", "share": self.share, "references": self.references}

    def attack_description(self, statistic: str) -> dict[str, object]:
        """Attacked by an attack on pools, which has its own statistic."""
        return {"statistic": "pool", "attack": self.attack_method.name}

    @property
    def judging(self) -> dict[str, object]:
        """How losses are evaluated, as plain values for the store."""
        return {
            "attack": self.attack_method.name,
            "first_stage": self.first_stage,
            "pilot": self.pilot,
            "points": self.judged,
        }

    def models(self, hypothesis: int) -> int:
        return 0 if hypothesis else self.models_trained

    def challenge_points(self, bases: int, dataset_size: int) -> int:
        """Number of evaluated points, of a pool of ``dataset_size`` records."""
        return min(DEFAULT_POINTS, dataset_size) if self.judged is None else self.judged

    def draw(self, number: int, source: Source) -> PoolBase:
        """The pool: chosen points, other records in random order, and references."""
        dataset_size, chosen = source.dataset_size, source.chosen
        if number:
            raise InputError("expected one pool, got challenge_bases > 1.")
        _validate.whole_number("records of a pool", dataset_size, least=LEAST_RECORDS)
        if self.judged is not None:
            _validate.whole_number("points", self.judged, most=dataset_size)
        drawn = stream_of(source.seed, POOL, 0).permutation(source.population.records)
        crafted = None
        if chosen is not None:
            # Chosen points first, then others, but never the record that a point was made from.
            others = drawn[~np.isin(drawn, chosen.excluded())]
            drawn = np.concatenate([chosen.indices, others])
            crafted = ",".join(str(chosen.fingerprint(n)) for n in range(len(chosen)))
        wanted = dataset_size + self.references
        _validate.whole_number("records and references", wanted, most=len(drawn))
        return PoolBase(
            records=drawn[:dataset_size],
            references=drawn[dataset_size:wanted],
            crafted=crafted,
            share=self.share,
            fixed_size=source.adjacency.name != "include",
            seed=source.seed,
        )

    def pool_scores(
        self, losses: PoolLosses, attack: PoolAttack | None = None, *, failures: str = "lowest"
    ) -> PoolScores:
        """Scores of the evaluated points, under the models that are not in the first stage."""
        given: Any = {"teachers": self.first_models(losses), "points": self.judged_points(losses)}
        chosen = attack or self.attack_method
        return pool_attacks.held_out_scores(losses, chosen, failures=failures, **given)

    def judged_points(self, losses: PoolLosses) -> IntArray:
        """The evaluated points: those that leak most in the first stage, or the first of the pool."""
        first = self.first_models(losses)
        count = min(self.judged or DEFAULT_POINTS, losses.challenges)
        if not self.pilot:
            return np.arange(count)
        return pool_attacks.most_leaking(losses, models=first, count=count)

    def first_models(self, losses: PoolLosses) -> IntArray:
        """Rows of the first-stage models, by number, even if other models are missing."""
        first: IntArray = np.flatnonzero(losses.numbers < self.teachers)
        if losses.models - len(first) < 2:
            raise InputError(
                f"expected at least two models in addition to the {self.teachers} of the first stage, "
                f"got {losses.models} in total; train more, or use a smaller first_stage."
            )
        return first

    def scores(
        self, losses: Any, statistic: Any = None, *, skip: bool = False, failures: str = "lowest"
    ) -> Scores:
        """Scores per point; the attack has its own statistic."""
        return self.pool_scores(losses, failures=failures).by_point()

    def perfect_scores(self, bases: int, dataset_size: int | None) -> Scores:
        points = self.challenge_points(bases, dataset_size or 0)
        even = np.arange(self.models_trained - self.teachers) % 2 == 0
        member = np.repeat(even[:, None], points, axis=1)
        fair = self.share == 0.5
        return PoolScores(value=1.0 * member, member=member, fair_coins=fair).by_point()

    def attack(self, losses: Any, attack: Any = None, *, statistic: Any = None) -> AttackResult:
        """Decisions on every evaluated model, from the ranks of the scores without the point."""
        chosen = attack or self.attack_method
        scores = self.pool_scores(losses, chosen, failures="dropped")
        return pool_attacks.attack_result(scores, chosen.name)


def pool_design(identity: Mapping[str, Any], judging: object, models: int) -> Pool:
    """The design recorded in a store; a custom attack is replaced by the default."""
    known = judging if isinstance(judging, dict) else {}
    attack, first, judged = (known.get(key) for key in ("attack", "first_stage", "points"))
    with _validate.within("expected a known pool design"):
        return Pool(
            models=models,
            share=identity.get("share", 0.5),
            references=identity.get("references", 0),
            attack=attack if attack in POOL_ATTACKS else DEFAULT_ATTACK,
            first_stage=first,
            pilot=known.get("pilot") is True,
            judged=judged,
        )
