"""Design one-run: canaries are put into a training run by coin flips and scored when it has ended.

A run is a base of its own, with a data set, canaries and coins that come from the seed and its number.
What is kept is a loss for each canary, under hypothesis 1 if it was in.  A run is known by its first
canary wherever a model is meant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.result import AttackResult
from epsilometer.attacks.rules import Attack
from epsilometer.attacks.scoring import scores_of
from epsilometer.attacks.statistics import Loss, Statistic
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.bases import Adjacency
from epsilometer.measurement.canaries import Canaries, flip
from epsilometer.measurement.canary_kinds import CanaryKind, kind_of
from epsilometer.measurement.challenges import Chosen
from epsilometer.measurement.population import Dataset, Population
from epsilometer.measurement.rows import LossRow
from epsilometer.model.scores import Scores

RUNS = 2
"""Leads the spawn key of the streams that draw runs."""

GRADIENT = "gradient"
"""Kind of canaries that an algorithm plants in its own gradients."""

COMPARISONS = ("nothing", "initial", "reference")
"""What losses are compared with: nothing, the model before training, or one without canaries."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryRun:
    """One training run: indices of D, and canaries with their coins.

    ``canaries`` is None where the algorithm plants its own.
    """

    dataset: IntArray
    coins: BoolArray
    canaries: Canaries | None
    name: str

    def train_on(self, population: Population, hypothesis: int, replicate: int = 0) -> Dataset:
        """D with the canaries that are in."""
        del hypothesis, replicate  # every canary has its own
        own = self.without_canaries(population)
        return own if self.canaries is None else self.canaries.added_to(own)

    def without_canaries(self, population: Population) -> Dataset:
        """D alone."""
        return population.take(self.dataset)

    def size(self, hypothesis: int, replicate: int) -> int:
        del hypothesis, replicate
        return len(self.dataset) + int(self.coins.sum())

    def points(self, population: Population) -> Iterator[Dataset]:
        """What the trained model is asked about."""
        del population
        assert self.canaries is not None
        yield self.canaries.points

    def rows(self, place: tuple[int, int, int], variant: str, losses: FloatArray) -> list[LossRow]:
        """Each loss is kept under the coin and the number of its canary."""
        return [
            LossRow(place[0], int(coin), number, variant, float(loss))
            for number, (coin, loss) in enumerate(zip(self.coins, losses, strict=True))
        ]

    def shared_points(self) -> dict[str, Any]:
        return {}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its records, canaries and coins."""
        digest = hashlib.sha256(self.dataset.astype("<i8").tobytes())
        digest.update(self.coins.astype(np.uint8).tobytes())
        digest.update(b"" if self.canaries is None else self.canaries.fingerprint.encode())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class MeasureOneRun:
    """Many canaries in each of a few training runs; the plan's challenge bases are the runs.

    Parameters
    ----------
    canaries
        How many a run has; at least 2.  Each is in by a fair coin of its own.
    kind
        ``population``, ``mislabelled``, ``noise``, ``blank``, a function ``(population, count, rng)``,
        or ``gradient`` for an algorithm that plants canaries in its gradients, such as
        `DpSgd(..., gradient_canaries=...)`.
    compare_with
        ``nothing``, or the model whose score of a canary is taken off: ``initial`` is the model before
        training (the algorithm has ``initial_model(dataset, rng)``), ``reference`` one more model,
        trained without canaries.  A claim must then hold against who knows the initial weights, as
        that of DP-SGD does.
    statistic
        Scale on which scores are compared; `Loss()` or `Logit()`.  Without a comparison scores follow
        the order of losses on either scale.

    Examples
    --------
    >>> MeasureOneRun(canaries=1000, kind="mislabelled").identity()["canaries"]
    1000
    """

    canaries: int
    kind: CanaryKind | str
    compare_with: str
    statistic: Statistic

    def __init__(
        self,
        *,
        canaries: int,
        kind: Any = "population",
        compare_with: str = "nothing",
        statistic: Statistic | None = None,
    ) -> None:
        chosen = kind if kind == GRADIENT else kind_of(kind)
        _validate.one_of("compare_with", compare_with, COMPARISONS)
        if chosen == GRADIENT and compare_with != "nothing":
            raise InputError(
                "gradient canaries are scored from gradients: compare_with is for losses."
            )
        count = _validate.whole_number("canaries", canaries, least=2)
        object.__setattr__(self, "canaries", count)
        object.__setattr__(self, "kind", chosen)
        object.__setattr__(self, "compare_with", compare_with)
        object.__setattr__(self, "statistic", statistic or Loss())

    asks_queries: ClassVar[bool] = False

    def attacked_by(self, statistic: str) -> dict[str, object]:
        """By the scores of its canaries."""
        return {"statistic": statistic, "attack": "canaries of one training run"}

    @property
    def judging(self) -> dict[str, object]:
        return {}

    @property
    def replicates(self) -> int:
        return self.canaries

    @property
    def compares(self) -> bool:
        """Whether scores are differences to those of another model."""
        return self.compare_with != "nothing"

    @property
    def in_gradients(self) -> bool:
        """Whether the algorithm plants and scores the canaries itself."""
        return self.kind == GRADIENT

    @property
    def facts(self) -> dict[str, object]:
        kind = self.kind if isinstance(self.kind, str) else self.kind.name
        return {
            "canaries": self.canaries,
            "canary_kind": kind,
            "compare_with": self.compare_with,
        }

    def identity(self) -> dict[str, object]:
        found: dict[str, object] = {
            "name": "MeasureOneRun",
            "canaries": self.canaries,
            "kind": GRADIENT if isinstance(self.kind, str) else algorithms.identity(self.kind),
            "compare_with": self.compare_with,
        }
        # Without a comparison losses are kept, and any statistic may look at them.
        return found | ({"statistic": algorithms.identity(self.statistic)} if self.compares else {})

    def models(self, hypothesis: int) -> int:
        """Losses that a run may have under a hypothesis; the model itself is one."""
        del hypothesis
        return self.canaries

    def challenge_points(self, bases: int, dataset_size: int) -> int:
        """None: it has canaries."""
        del bases, dataset_size
        return 0

    def check(self, algorithm: object, adjacency: Adjacency) -> None:
        """Refuse an algorithm that cannot be measured this way, before anything is trained."""
        if adjacency.name != "include":
            raise InputError(
                "expected adjacency include for one-run: a canary is in or out, nothing replaces it; "
                f"got {adjacency.name}."
            )
        own = int(getattr(algorithm, "gradient_canaries", 0))
        if self.in_gradients and not isinstance(algorithm, algorithms.PlantsCanaries):
            raise InputError(
                "expected an algorithm that plants gradient canaries, such as DpSgd, got "
                f"{type(algorithm).__name__}."
            )
        if self.in_gradients and own == 0:
            raise InputError("gradient canaries: give the algorithm a number, gradient_canaries=N.")
        if self.in_gradients and own != self.canaries:
            raise InputError(
                f"expected as many canaries as the algorithm plants, gradient_canaries={own}, got "
                f"canaries={self.canaries}."
            )
        if self.compare_with == "initial" and not isinstance(algorithm, algorithms.HasInitialModel):
            raise InputError(
                "compare_with initial: expected an algorithm with initial_model(dataset, rng), got "
                f"{type(algorithm).__name__} without it; compare with reference instead."
            )

    def draw(
        self,
        number: int,
        *,
        population: Population,
        dataset_size: int,
        adjacency: Adjacency,
        seed: int,
        chosen: Chosen | None = None,
    ) -> CanaryRun:
        """Run of a given number, from a stream of its own."""
        del adjacency, chosen  # it has canaries
        if dataset_size > len(population):
            raise InputError(
                f"expected dataset_size <= {len(population)}, the records of the population, got "
                f"dataset_size={dataset_size}."
            )
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(RUNS, number)))
        records = rng.choice(len(population), size=dataset_size, replace=False)
        canaries = None
        try:
            if not self.in_gradients:
                canaries = Canaries.draw(
                    population, count=self.canaries, rng=rng, kind=self.kind, outside=records
                )
            coins = flip(self.canaries, rng) if canaries is None else canaries.coins
        except InputError as error:
            raise InputError(f"run {number}: {error}") from None
        return CanaryRun(dataset=records, coins=coins, canaries=canaries, name=f"run {number}")

    def groups(self, base: Any) -> Iterator[tuple[int, range]]:
        yield int(base.coins[0]), range(1)

    def attack(
        self, losses: Losses, attack: Attack | None = None, *, statistic: Statistic | None = None
    ) -> AttackResult:
        raise InputError(
            "the losses are of canaries in one training run, which have no shadow models to attack "
            "with; estimate, prove and compare read the store as it is."
        )

    def scores(
        self, losses: Losses, statistic: Statistic | None = None, *, skip: bool = False
    ) -> Scores:
        """Scores of the canaries of each run; a statistic sees them in order, never with their coins."""
        del skip  # a run is there whole or not at all
        chosen = Loss() if self.compares or self.in_gradients else statistic or Loss()
        return scores_of(losses, chosen)
