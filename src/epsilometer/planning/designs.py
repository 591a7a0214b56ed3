"""The designs that can be planned: their sizes, their cost, and simulated data of a given size."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.model.likelihoods import normal_counts
from epsilometer.model.models import CountModel
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.region import sample_rings
from epsilometer.model.scores import Scores
from epsilometer.planning.goals import CountTruth, CurveTruth

#: Sizes are these times a power of ten.
DIGITS_OF_SIZES = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)

#: Smaller audits tell hardly more than the prior.
FEWEST_BASES, FEWEST_CHALLENGES, FEWEST_CANARIES, FEWEST_MODELS = 5, 20, 40, 16

#: Most challenge bases; rates are drawn for so many, so that the first ones are always the same.
MOST_BASES = 5000

#: The random streams of one simulation, by number.
Streams = Callable[[int], np.random.Generator]


class Size(NamedTuple):
    """Bases and models per base and side; runs and canaries per run; points and the pool's models."""

    bases: int
    each: int


def sizes_between(least: int, most: int) -> list[int]:
    """Round numbers from ``least`` to ``most``, both included.

    Examples
    --------
    >>> sizes_between(5, 40)
    [5, 7, 10, 15, 20, 30, 40]
    """
    round_numbers = {
        round(step * 10**power) for power in range(len(str(most))) for step in DIGITS_OF_SIZES
    }
    return sorted({size for size in round_numbers if least < size < most} | {least, most})


def grid(bases: tuple[int, int], each: tuple[int, int]) -> list[Size]:
    """Round sizes with bases and models each in these ranges."""
    return [Size(b, e) for b in sizes_between(*bases) for e in sizes_between(*each)]


class _Sized:
    """How sizes of a design are called."""

    name: ClassVar[str]
    #: What the two numbers of a size count: as keys, and for axes.
    names: ClassVar[tuple[str, str]]
    template: ClassVar[str]

    def named(self, size: Size) -> dict[str, int]:
        """The sizes by name."""
        return dict(zip(self.names, size, strict=True))

    def words(self, size: Size) -> str:
        """The sizes in words."""
        return self.template.format(each=size.each, bases=size.bases, total=math.prod(size))


@dataclass(frozen=True, kw_only=True)
class ManyModels(_Sized):
    """Separate models for each challenge base, without and with its point.

    Parameters
    ----------
    most_bases, most_challenges
        Most challenge bases, and most challenges per base under each hypothesis.
    shadows
        Separate shadow models of each challenge under each hypothesis; None: every model is a challenge,
        and a shadow model of the rest.

    Examples
    --------
    >>> ManyModels(shadows=10).models(Size(1, 1))
    42
    """

    most_bases: int = 150
    most_challenges: int = 2000
    shadows: int | None = None
    name = "many"
    names = ("bases", "challenges")
    template = "{bases:,} challenge bases with {each:,} challenges each per hypothesis"

    def __post_init__(self) -> None:
        _validate.whole_number("most_bases", self.most_bases, least=FEWEST_BASES, most=MOST_BASES)
        _validate.whole_number(
            "most_challenges", self.most_challenges, least=FEWEST_CHALLENGES, most=10**6
        )
        if self.shadows is not None:
            _validate.whole_number("shadows", self.shadows)

    def sizes(self, pilot: AttackCounts | Scores | None) -> list[Size]:
        """Sizes to choose from; a pilot that is extended fixes the number of challenges."""
        if pilot is None:
            return grid((FEWEST_BASES, self.most_bases), (FEWEST_CHALLENGES, self.most_challenges))
        old = len(pilot)
        if old >= self.most_bases:
            raise InputError(
                f"expected most_bases above the {old} bases of the pilot, "
                f"got most_bases={self.most_bases}."
            )
        new = sizes_between(1, self.most_bases - old)
        return [Size(old + more, pilot.largest_trials) for more in new]

    def models(self, size: Size, old: int = 0) -> int:
        """Models to train, without those of ``old`` bases."""
        per_challenge = 2 if self.shadows is None else 2 * (1 + 2 * self.shadows)
        return (size.bases - old) * size.each * per_challenge

    def draw(self, truth: Any, size: Size, model: Any, stream: Streams) -> AttackCounts | Scores:
        """Simulated data; the first bases and models do not depend on the size."""
        if isinstance(truth, CountTruth):
            return _counts(truth, size, model, stream)
        strengths = truth.strengths(size.bases, rng=stream(0))
        without, with_point = _sides(truth, strengths, size.each, stream)
        names = [f"planned {number}" for number in range(size.bases)]
        return Scores(without=without, with_point=with_point, names=names)


@dataclass(frozen=True, kw_only=True)
class OneRunCanaries(_Sized):
    """Canaries that share training runs, each included by an independent fair coin.

    Parameters
    ----------
    runs
        Training runs; canaries are split evenly among them.
    dataset_size
        Records per training run, including canaries, to compute the share of canaries.
    most
        Most canaries, in all runs together.
    """

    runs: int = 1
    dataset_size: int | None = None
    most: int = 20_000
    name = "one-run"
    names = ("runs", "canaries")
    template = "{total:,} canaries ({each:,} per training run)"

    def __post_init__(self) -> None:
        _validate.whole_number("runs", self.runs, most=100)
        if self.dataset_size is not None:
            _validate.whole_number("dataset_size", self.dataset_size)
        _validate.whole_number("most", self.most, least=FEWEST_CANARIES * self.runs, most=10**6)

    def sizes(self, pilot: object) -> list[Size]:
        """Sizes to choose from, with as many canaries in as out in every run."""
        totals = sizes_between(FEWEST_CANARIES * self.runs, self.most)
        return sorted({Size(self.runs, 2 * -(-total // (2 * self.runs))) for total in totals})

    def models(self, size: Size, old: int = 0) -> int:
        """Training runs; canaries make no more of them."""
        return size.bases - old

    def named(self, size: Size) -> dict[str, int]:
        """The sizes by name: canaries of all runs."""
        return super().named(size) | {"canaries": math.prod(size)}

    def draw(self, truth: CurveTruth, size: Size, model: Any, stream: Streams) -> Scores:
        """Simulated scores; the first canaries do not depend on the size."""
        equal = np.full(size.bases, truth.strength)
        without, with_point = _sides(truth, equal, size.each // 2, stream)
        return Scores(without=without, with_point=with_point, one_run=True)


@dataclass(frozen=True, kw_only=True)
class PoolModels(_Sized):
    """A few models on random halves of a pool of records: points share models.

    Parameters
    ----------
    most_models, most_points
        Most models, and most points that are evaluated.
    first_stage
        Share of the models that train the attack and are not evaluated, in [0, 1): 0.5 for attacks that
        learn from models, such as LiRA; 0 for the others.
    """

    most_models: int = 1000
    most_points: int = 100
    first_stage: float = 0.5
    name = "pool"
    names = ("points", "models")
    template = "{each:,} models of a pool, evaluated on {bases:,} points"

    def __post_init__(self) -> None:
        _validate.whole_number("most_models", self.most_models, least=FEWEST_MODELS, most=100_000)
        _validate.whole_number("most_points", self.most_points, least=FEWEST_BASES, most=10_000)
        if _validate.unit_interval("first_stage", self.first_stage) == 1:
            raise InputError("expected first_stage < 1: no model would be evaluated.")

    def sizes(self, pilot: object) -> list[Size]:
        """Sizes to choose from."""
        return grid((FEWEST_BASES, self.most_points), (FEWEST_MODELS, self.most_models))

    def models(self, size: Size, old: int = 0) -> int:
        """Models to train, however many points are evaluated."""
        return size.each

    def draw(self, truth: CurveTruth, size: Size, model: Any, stream: Streams) -> Scores:
        """Simulated scores of the models that are not in the first stage."""
        judged = size.each - int(self.first_stage * size.each)
        member = np.stack([stream(1 + 2 * p).random(judged) < 0.5 for p in range(size.bases)], 1)
        strengths = truth.strengths(size.bases, rng=stream(0))
        columns = [
            truth.scores(strength, member[:, point], rng=stream(2 + 2 * point))
            for point, strength in enumerate(strengths.tolist())
        ]
        return PoolScores(value=np.stack(columns, 1), member=member, fair_coins=True).by_point()


Design = ManyModels | OneRunCanaries | PoolModels
#: The designs by name.
DESIGNS: dict[str, type[Design]] = {
    kind.name: kind for kind in (ManyModels, OneRunCanaries, PoolModels)
}


def _sides(
    truth: CurveTruth, strengths: FloatArray, each: int, stream: Streams
) -> list[list[FloatArray]]:
    """For each base, scores of models without its point, and with it."""
    return [
        [
            truth.scores(strength, np.full(each, inside), rng=stream(1 + 2 * base + inside))
            for base, strength in enumerate(strengths.tolist())
        ]
        for inside in (False, True)
    ]


def _counts(truth: CountTruth, size: Size, model: CountModel, stream: Streams) -> AttackCounts:
    """Error rates uniform on the ring, and counts from the likelihood."""
    rates = sample_rings(
        truth.epsilon, model.delta, truth.strength, size=(MOST_BASES,), rng=stream(0)
    )
    alpha, beta = (rate[: size.bases] for rate in rates)
    if model.likelihood.parameters:
        z, w = stream(1).standard_normal((size.bases, 2)).T
        ratio, correlation = truth.variance_ratio, truth.count_correlation
        w = correlation * z + np.sqrt(1 - correlation**2) * w
        x, y = normal_counts(size.each, alpha, ratio, z), normal_counts(size.each, beta, ratio, w)
    else:
        from scipy.stats import binom

        # By inversion, so that other numbers of challenges use the same random numbers.
        uniform = stream(1).random((size.bases, 2)).T
        x, y = (
            np.asarray(binom.ppf(u, size.each, rate), dtype=np.int64)
            for u, rate in zip(uniform, (alpha, beta), strict=True)
        )
    return counts_of(x, size.each, y, size.each)
