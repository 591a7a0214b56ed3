"""Designs with separate models: cross-feeding, or dedicated shadow models for every challenge.

Canaries that share a model are in `one_run.py`, points that share models in `pool.py`.

A design states how many models each base needs under each hypothesis, and turns their losses into an
attack result.
"""

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.repeats import repeats
from epsilometer.attacks.result import AttackResult
from epsilometer.attacks.rules import Attack, CrossFedScores, LikelihoodRatio, Shadows, ShadowScores
from epsilometer.attacks.statistics import Loss, Statistic, scored, scores_of
from epsilometer.errors import InputError
from epsilometer.measurement.bases import Adjacency, Base, Source, draw_base
from epsilometer.model.count_tables import CROSS_FED, INDEPENDENT
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.model.scores import Scores

#: Scores of challenges under one hypothesis, and of their shadows under both.
Arranged = tuple[FloatArray, ShadowScores, ShadowScores]


class Design(abc.ABC):
    """How the models of a plan are used; defaults are those of designs with separate models."""

    #: Number of canaries that share one model; 0 if a base has many models and one point.
    canaries: int = 0
    #: Whether models are also queried at augmentations of the points.
    uses_queries: ClassVar[bool] = False

    @property
    def in_gradients(self) -> bool:
        """Whether the algorithm inserts and scores the canaries itself."""
        return False

    @property
    def facts(self) -> dict[str, object]:
        """Details for display in addition to the name, as plain values."""
        return {}

    @property
    def judging(self) -> dict[str, object]:
        """How losses are evaluated, as stored and changeable later; empty if there is no choice."""
        return {}

    def attack_description(self, statistic: str) -> dict[str, object]:
        """How its losses are attacked, as plain values; ``statistic`` is the requested one."""
        return {"statistic": statistic}

    def check(self, algorithm: object, adjacency: Adjacency) -> None:  # noqa: B027 - any is supported
        """Raise :class:`InputError` if the algorithm or adjacency does not support this design."""

    def challenge_points(self, bases: int, dataset_size: int) -> int:
        """Total number of challenge points of ``bases`` bases; 0 for designs with canaries."""
        return 0 if self.canaries else bases

    @abc.abstractmethod
    def identity(self) -> dict[str, object]:
        """Everything except the number of replicates, which may grow."""

    @abc.abstractmethod
    def models(self, hypothesis: int) -> int:
        """Number of losses that a base has under a hypothesis; replicates count from 0."""

    def draw(self, number: int, source: Source) -> Base:
        """The base of a given number, independent of how many are drawn."""
        return draw_base(number, source)

    def groups(self, base: Any) -> Iterator[tuple[int, range]]:
        """The models of a base, as hypothesis and replicates."""
        for hypothesis in (0, 1):
            if models := self.models(hypothesis):
                yield hypothesis, range(models)

    @abc.abstractmethod
    def attack(self, losses: Any, attack: Any = None, *, statistic: Any = None) -> AttackResult:
        """Attack losses measured with this design: `Losses`, or `PoolLosses` for a pool."""

    def scores(
        self, losses: Any, statistic: Any = None, *, skip: bool = False, failures: str = "lowest"
    ) -> Scores:
        """Scores of every model, challenge or shadow; see `epsilometer.attacks.scores_of`."""
        pairs = min(self.models(0), self.models(1))
        return scores_of(losses, statistic, skip=skip, failures=failures, most_pairs=pairs)

    def perfect_scores(self, bases: int, dataset_size: int | None) -> Scores:
        """Scores of attacks without an error, for as many models: what could be proven at best."""
        pairs = self.canaries // 2 or min(self.models(0), self.models(1))
        sides = [np.zeros(pairs)] * bases, [np.ones(pairs)] * bases
        found = Scores(without=sides[0], with_point=sides[1], one_run=bool(self.canaries))
        if self.canaries:
            return found.assuming_independent_noise() if self.in_gradients else found
        return found.in_planned_order(PlannedOrder.of([[bases, pairs]], np.arange(bases)))


@dataclass(frozen=True, kw_only=True)
class CrossFed(Design):
    """Cross-feeding (the paper's MeasureMIAFast): every model is a challenge and a shadow of the others.

    The decisions of a base share shadow models, so its counts are correlated: estimate with the
    correlated likelihood.

    Parameters
    ----------
    replicates
        Models per base under each hypothesis, N0 = N1; at least 3.

    Examples
    --------
    >>> CrossFed(replicates=100).models(0)
    100
    """

    replicates: int

    def __post_init__(self) -> None:
        check_numbers(self, replicates=3)

    def identity(self) -> dict[str, object]:
        return {"name": "MeasureMIAFast"}

    def models(self, hypothesis: int) -> int:
        return self.replicates

    def attack(self, losses: Any, attack: Any = None, *, statistic: Any = None) -> AttackResult:
        """Attack each model with all others of its base as shadows; see `cross_feed`."""
        return cross_feed(losses, attack, statistic=statistic)


def cross_feed(
    losses: Losses, attack: Attack | None = None, *, statistic: Statistic | None = None
) -> AttackResult:
    """Attack every model with all others of its base as shadow models, in one pass.

    Parameters
    ----------
    losses
        Any number of models per base; non-finite losses are dropped and reported.
    attack
        Default: `LikelihoodRatio()`.
    statistic
        Default: `Loss()`.

    Raises
    ------
    InputError
        If no base has enough losses, or a loss is outside the statistic's domain.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> losses = Losses(
    ...     challenge_base=["a"] * 40, hypothesis=[0] * 20 + [1] * 20,
    ...     replicate=list(range(20)) * 2, loss=rng.normal([2.0] * 20 + [0.0] * 20),
    ... )
    >>> counts = cross_feed(losses).counts(0.1)
    >>> counts.false_positives.tolist(), counts.false_negatives.tolist()
    ([3], [3])
    """

    def others(scores: FloatPair, hypothesis: int) -> Arranged:
        h0, h1 = (
            CrossFedScores(part) if side == hypothesis else Shadows(part)
            for side, part in enumerate(scores)
        )
        return scores[hypothesis], h0, h1

    every = np.ones(len(losses), dtype=bool)
    return _attacked(losses, every, losses.by_hypothesis(), others, attack, statistic, CROSS_FED)


@dataclass(frozen=True, kw_only=True)
class ShadowModels(Design):
    """Independent shadow models for every challenge (the paper's MeasureMIA).

    Costs 2 N (1 + M0 + M1) models per base.  Decisions are independent given the attack's error rates,
    so the counts are binomial.

    The models of challenge j form a block of 1 + 2 M_h replicates under each hypothesis h: first the
    challenge under h, then M_h shadows for the challenge under H0, then M_h for the one under H1.
    Adding challenges appends blocks and leaves earlier ones unchanged.

    Parameters
    ----------
    replicates
        N: challenges per base under each hypothesis, at least 1.
    shadows_h0, shadows_h1
        M0 and M1: shadow models under each hypothesis for every challenge, at least 2.
    """

    replicates: int
    shadows_h0: int
    shadows_h1: int

    def __post_init__(self) -> None:
        check_numbers(self, replicates=1, shadows_h0=2, shadows_h1=2)

    def identity(self) -> dict[str, object]:
        shadows = {"shadows_h0": self.shadows_h0, "shadows_h1": self.shadows_h1}
        return {"name": "MeasureMIA", **shadows}

    def models(self, hypothesis: int) -> int:
        return self.replicates * self._block(hypothesis)

    def _block(self, hypothesis: int) -> int:
        return 1 + 2 * (self.shadows_h1 if hypothesis else self.shadows_h0)

    def attack(self, losses: Any, attack: Any = None, *, statistic: Any = None) -> AttackResult:
        """Attack each challenge with the shadows of its block."""
        models = self.models(0), self.models(1)
        used = losses.replicate < np.take(models, losses.hypothesis)
        # By replicate number, NaN for missing models.
        tables: Any = tuple(np.full((len(losses.names), number), np.nan) for number in models)
        for hypothesis, table in enumerate(tables):
            chosen = used & (losses.hypothesis == hypothesis)
            table[losses.base[chosen], losses.replicate[chosen]] = losses.loss[chosen]
        return _attacked(losses, used, tables, self._arranged, attack, statistic, INDEPENDENT)

    def _arranged(self, scores: FloatPair, hypothesis: int) -> Arranged:
        blocks = [
            part.reshape(len(part), self.replicates, self._block(side))
            for side, part in enumerate(scores)
        ]
        h0, h1 = (
            Shadows(part[:, :, 1 + hypothesis * size : 1 + (hypothesis + 1) * size])
            for part, size in zip(blocks, (self.shadows_h0, self.shadows_h1), strict=True)
        )
        return blocks[hypothesis][:, :, 0], h0, h1


def check_numbers(holder: object, **least: int) -> None:
    """Make whole numbers of fields, or refuse them."""
    for name, smallest in least.items():
        number = _validate.whole_number(name, getattr(holder, name), least=smallest)
        object.__setattr__(holder, name, number)


def _attacked(
    losses: Losses,
    used: BoolArray,
    tables: FloatPair,
    arranged: Callable[[FloatPair, int], Arranged],
    attack: Attack | None,
    statistic: Statistic | None,
    design: str,
) -> AttackResult:
    """Attack the used losses, in tables (bases, models), without bases that have too few."""
    attack, statistic = attack or LikelihoodRatio(), statistic or Loss()
    # Both hypotheses together, so that a statistic sees all models of a base at once.
    both = scored(np.hstack(tables), statistic, losses.names)
    split = tables[0].shape[1]
    sides = [arranged((both[:, :split], both[:, split:]), hypothesis) for hypothesis in (0, 1)]
    p_values = [_p_values(attack, *side) for side in sides]
    kept = np.all([(~np.isnan(part)).any(axis=1) for part in p_values], axis=0)
    if not kept.any():
        raise InputError(
            f"expected enough finite losses under both hypotheses to attack with {attack.name}, "
            f"got too few in each of {len(losses.names)} challenge bases."
        )
    given = np.bincount(losses.base[used], minlength=len(losses.names))
    dropped = (given - np.sum(~np.isnan(both), axis=1)).tolist()
    return AttackResult(
        names=tuple(compress(losses.names, kept)),
        statistic=statistic.name,
        attack=attack.name,
        p_values_h0=p_values[0][kept],
        p_values_h1=p_values[1][kept],
        scores_h0=sides[0][0][kept],
        scores_h1=sides[1][0][kept],
        left_out=tuple(compress(losses.names, ~kept)),
        dropped=tuple(pair for pair in zip(losses.names, dropped, strict=True) if pair[1]),
        design=design,
        flaws=tuple(repeats(losses)),
    )


def _p_values(
    attack: Attack, scores: FloatArray, shadows_h0: ShadowScores, shadows_h1: ShadowScores
) -> FloatArray:
    """P-values, NaN if a challenge is missing or has too few shadows under a hypothesis."""
    p_values = attack.learn(shadows_h0, shadows_h1)(scores)
    least_h0, least_h1 = attack.least_shadows
    few = (shadows_h0.moments().count < least_h0) | (shadows_h1.moments().count < least_h1)
    return np.where(np.isnan(scores) | few, np.nan, p_values)
