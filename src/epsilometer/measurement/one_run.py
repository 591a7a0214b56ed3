"""Design one-run: canaries are included in a training run by coin flips and scored afterwards.

Each run is a base, with a dataset, canaries and coins derived from the seed and the run's number.  A
store holds one loss per canary, under hypothesis 1 if the canary was included.  Where a model is meant,
a run is identified by its first canary.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.attacks.result import AttackResult
from epsilometer.attacks.statistics import Loss, Statistic, scores_of
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.bases import Adjacency, Base, LossRow, Source
from epsilometer.measurement.canaries import Canaries
from epsilometer.measurement.canary_kinds import flip, kind_of
from epsilometer.measurement.designs import Design, check_numbers
from epsilometer.measurement.population import Dataset, Population, stream_of
from epsilometer.model.scores import Scores

#: First element of the spawn key of the streams that draw runs.
RUNS = 2

#: Kind of canaries that an algorithm inserts into its own gradients.
GRADIENT = "gradient"

#: What losses are compared with: nothing, the model before training, or a model without canaries.
COMPARISONS = ("nothing", "initial", "reference")


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryRun(Base):
    """One training run: indices of D, and canaries with their coins.

    ``canaries`` is None if the algorithm inserts its own.
    """

    dataset: IntArray
    coins: BoolArray
    canaries: Canaries | None
    name: str

    def train_on(self, population: Population, hypothesis: int, replicate: int = 0) -> Dataset:
        """D plus the included canaries."""
        # Each canary has its own hypothesis.
        dataset = self.without_canaries(population)
        return dataset if self.canaries is None else self.canaries.added_to(dataset)

    def without_canaries(self, population: Population) -> Dataset:
        """D alone."""
        return population.take(self.dataset)

    def points(self, population: Population) -> Iterator[Dataset]:
        """The canaries, at which the trained model is evaluated."""
        assert self.canaries is not None
        yield self.canaries.points

    def rows(self, place: tuple[int, int, int], variant: str, losses: FloatArray) -> list[LossRow]:
        """One row per canary, with its coin as hypothesis and its number as replicate."""
        return [
            LossRow(place[0], int(coin), number, variant, float(loss))
            for number, (coin, loss) in enumerate(zip(self.coins, losses, strict=True))
        ]

    def coins_of(self, replicate: int) -> BoolArray:
        """Those of the run, which is one model."""
        return self.coins

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the records, canaries and coins."""
        digest = hashlib.sha256(self.dataset.astype("<i8").tobytes())
        digest.update(self.coins.astype(np.uint8).tobytes())
        digest.update(b"" if self.canaries is None else self.canaries.fingerprint.encode())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class OneRun(Design):
    """Many canaries in each of a few training runs; the plan's challenge bases are the runs.

    Parameters
    ----------
    canaries
        Number of canaries per run; at least 2.  Each is included by its own fair coin.
    kind
        ``population``, ``mislabelled``, ``noise``, a function ``(population, count, rng)``,
        or ``gradient`` for an algorithm that inserts canaries into its gradients, such as
        `DpSgd(..., gradient_canaries=...)`.
    compare_with
        ``nothing``, or the model whose score of each canary is subtracted: ``initial`` is the model
        before training (the algorithm must have ``initial_model(dataset, rng)``), ``reference`` is one
        more model, trained without canaries.  The claim must then hold against an adversary who knows
        the initial weights, as that of DP-SGD does.
    statistic
        Scale on which scores are compared; `Loss()` or `Logit()`.  Without a comparison, scores have the
        order of the losses on either scale.

    Examples
    --------
    >>> OneRun(canaries=1000, kind="mislabelled").identity()["canaries"]
    1000
    """

    canaries: int
    kind: Any = "population"
    compare_with: str = "nothing"
    statistic: Statistic = field(default_factory=Loss)

    def __post_init__(self) -> None:
        check_numbers(self, canaries=2)
        _validate.one_of("compare_with", self.compare_with, COMPARISONS)
        if self.kind != GRADIENT:
            object.__setattr__(self, "kind", kind_of(self.kind))
        elif self.compares:
            raise InputError(
                "gradient canaries are scored by gradients: compare_with applies to losses only."
            )

    def attack_description(self, statistic: str) -> dict[str, object]:
        """Attacked through the scores of its canaries."""
        return {"statistic": statistic, "attack": "canaries of one training run"}

    @property
    def compares(self) -> bool:
        """Whether scores are differences from those of another model."""
        return self.compare_with != "nothing"

    @property
    def in_gradients(self) -> bool:
        """Whether the algorithm inserts and scores the canaries itself."""
        return bool(self.kind == GRADIENT)

    @property
    def facts(self) -> dict[str, object]:
        kind = self.kind if isinstance(self.kind, str) else self.kind.name
        return {"canaries": self.canaries, "canary_kind": kind, "compare_with": self.compare_with}

    def identity(self) -> dict[str, object]:
        settings: dict[str, object] = {
            "name": "MeasureOneRun",
            "canaries": self.canaries,
            "kind": GRADIENT if isinstance(self.kind, str) else algorithms.identity(self.kind),
            "compare_with": self.compare_with,
        }
        # Without a comparison the losses themselves are stored, and any statistic can be applied later.
        return settings | (
            {"statistic": algorithms.identity(self.statistic)} if self.compares else {}
        )

    def models(self, hypothesis: int) -> int:
        """Number of losses that a run may have under a hypothesis; the run itself is one model."""
        return self.canaries

    def check(self, algorithm: object, adjacency: Adjacency) -> None:
        """Refuse an algorithm that this design does not support, before anything is trained."""
        if adjacency.name != "include":
            raise InputError(
                "expected adjacency include for one-run, since a canary is included or not and nothing "
                f"replaces it; got {adjacency.name}."
            )
        planted = int(getattr(algorithm, "gradient_canaries", 0))
        if self.in_gradients and not isinstance(algorithm, algorithms.PlantsCanaries):
            raise InputError(
                "expected an algorithm that supports gradient canaries, such as DpSgd, got "
                f"{type(algorithm).__name__}."
            )
        if self.in_gradients and planted != self.canaries:
            raise InputError(
                f"expected as many canaries as the algorithm has, gradient_canaries={planted}, got "
                f"canaries={self.canaries}."
            )
        if self.compare_with == "initial" and not isinstance(algorithm, algorithms.HasInitialModel):
            raise InputError(
                "compare_with initial: expected an algorithm with initial_model(dataset, rng), got "
                f"{type(algorithm).__name__} without it; use compare_with reference instead."
            )

    def draw(self, number: int, source: Source) -> CanaryRun:
        """The run of a given number, from its own random stream."""
        population, dataset_size = source.population, source.dataset_size
        _validate.whole_number("dataset_size", dataset_size, most=len(population))
        rng = stream_of(source.seed, RUNS, number)
        records = rng.choice(len(population), size=dataset_size, replace=False)
        canaries = None
        with _validate.within(f"run {number}"):
            if not self.in_gradients:
                canaries = Canaries.draw(
                    population, count=self.canaries, rng=rng, kind=self.kind, outside=records
                )
            coins = flip(self.canaries, rng) if canaries is None else canaries.coins
        return CanaryRun(dataset=records, coins=coins, canaries=canaries, name=f"run {number}")

    def groups(self, base: Any) -> Iterator[tuple[int, range]]:
        yield int(base.coins[0]), range(1)

    def attack(self, losses: Any, attack: Any = None, *, statistic: Any = None) -> AttackResult:
        raise InputError(
            "these are losses of canaries in one training run, which have no shadow models to attack "
            "with; estimate, prove and compare read the store directly."
        )

    def scores(
        self, losses: Any, statistic: Any = None, *, skip: bool = False, failures: str = "lowest"
    ) -> Scores:
        """Scores of the canaries of each run; a statistic sees them in order, never with their coins."""
        chosen = Loss() if self.compares or self.in_gradients else statistic or Loss()
        found = scores_of(losses, chosen, skip=skip and failures == "dropped", failures=failures)
        return found.assuming_independent_noise() if self.in_gradients else found
