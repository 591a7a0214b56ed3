"""Attacks on pools: scores of points under target models, learnt from shadow models of the same pool.

An attack learns from some models (``teachers``, its shadow models) and scores others (``judged``, the
target models); the two never overlap.  `held_out_scores` scores the models that the attack did not learn
from, which is what proofs use.  `cross_fitted_scores` scores every model with an attack learnt from
others, which uses all data but makes scores depend on each other.  Each attack has its own module.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.attacks.lira import Lira, LiraOffline, pooled_variances, sides
from epsilometer.attacks.pool_losses import LEAST_LOSS, PoolLosses
from epsilometer.attacks.result import AttackResult
from epsilometer.attacks.rmia import Rmia, RmiaOffline
from epsilometer.attacks.rules import CrossFedScores, Shadows, Threshold
from epsilometer.attacks.single_loss import PoolLogOdds, PoolLoss, PopulationAttack
from epsilometer.attacks.statistics import FAILURES, failed_scores
from epsilometer.errors import InputError
from epsilometer.model.count_tables import POOL
from epsilometer.model.pool_scores import PoolScores

#: Number of cross-fitting folds.  More folds leave more shadow models, but bias the curves of
#: points more: by the areas under these, four to eight were best in pools of 16 to 256 models, and
#: leave-one-out never was (`docs/explanation/pool-attacks.md`).
FOLDS = 4

#: Degrees of freedom that the pooled variance adds to that of a point, when points are selected.
PRIOR_FREEDOM = 4.0


class PoolAttack(Protocol):
    """Scores points under models; higher scores suggest membership."""

    @property
    def name(self) -> str: ...

    @property
    def least_teachers(self) -> int:
        """Fewest shadow models it must learn from; 0 if it needs none."""

    def check(self, losses: PoolLosses) -> None:
        """Refuse unsuitable losses: without references, without features, or below 0."""

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        """Scores (judged, challenges) of all points that may be members.

        Uses the coins (`member`) of ``teachers`` only, and the losses of one target model at a time.
        """


#: Attacks that can be selected by name, with their published settings.
POOL_ATTACKS: dict[str, PoolAttack] = {
    attack.name: attack
    for attack in (
        PoolLoss(),
        PoolLogOdds(),
        Lira(),
        LiraOffline(),
        Rmia(),
        RmiaOffline(),
        PopulationAttack(),
    )
}


#: Fewest models and points for testing whether coins are fair.
LEAST_FLIPS = 20

#: P-value below which coins are not accepted as fair.
UNFAIR_COINS = 1e-6


def held_out_scores(
    losses: PoolLosses,
    attack: PoolAttack | str,
    *,
    teachers: int | ArrayLike,
    points: ArrayLike | None = None,
    failures: str = "lowest",
) -> PoolScores:
    """Scores of the models that the attack did not learn from; their coins are never used.

    Parameters
    ----------
    attack
        An attack, or its name in `POOL_ATTACKS`.
    teachers
        Number of first models, or indices of the models, that the attack learns from (its shadow
        models); all others are scored.
    points
        Indices of the points to score; default: all.  Choose them without using the scored models, as
        `most_leaking` does.
    failures
        The scores of models that failed, at all points; see `statistics.FAILURES`.  The attack learns
        nothing from them.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> member = rng.random((24, 50)) < 0.5
    >>> losses = PoolLosses(loss=rng.exponential(np.where(member, 0.2, 1.0)), member=member)
    >>> held_out_scores(losses, Lira(), teachers=16).value.shape
    (8, 50)
    """
    if isinstance(attack, str):
        attack = POOL_ATTACKS[_validate.one_of("attack", attack, POOL_ATTACKS)]
    if isinstance(attack, type):
        raise InputError(f"expected an attack object such as {attack.__name__}(), got a class.")
    if np.ndim(teachers) == 0:
        count = _validate.whole_number("teachers", teachers, least=0, most=losses.models - 1)
        shadow: IntArray = np.arange(count)
    else:
        shadow = _numbers("teachers", teachers, losses.models)
    _validate.one_of("failures", failures, FAILURES)
    every, trained = np.arange(losses.models), losses.trained
    judged = np.setdiff1d(trained if failures == "dropped" else every, shadow)
    whole = np.isin(judged, trained)
    shadow = np.intersect1d(shadow, trained)
    _require_teachers(attack, len(shadow))
    if not whole.any():
        raise InputError("expected at least one model to score that is not a teacher, got none.")
    member = losses.member[judged, : losses.challenges]
    if losses.fair_coins:
        _check_coins(member)
    # The attack sees no failed model.
    blind = losses.without_coins(judged).without_failed()
    attack.check(blind)
    places: Any = {"teachers": np.searchsorted(trained, shadow)}
    targets = np.searchsorted(trained, judged[whole])
    value = failed_scores(member, failures)
    value[whole] = attack.score(blind, judged=targets, **places)
    alone = attack.score(blind, judged=targets[:1], **places)
    scores = PoolScores(
        value=value,
        member=member,
        names=losses.names[: losses.challenges],
        fair_coins=losses.fair_coins,
        # A score that depends on which other models are scored uses several models at once.
        dependent=not np.allclose(value[whole][:1], alone, rtol=1e-9, atol=1e-12),
    )
    return scores if points is None else scores.take(_numbers("points", points, losses.challenges))


def cross_fitted_scores(
    losses: PoolLosses, attack: PoolAttack, *, folds: int = FOLDS
) -> PoolScores:
    """Scores of all models, each by an attack learnt from models of other folds.

    If the attack learns from other models, the scores of a point depend on each other and on the coins
    of other models: they have ROC curves, but prove nothing.  Curves of single points are biased
    downwards, because a model with the point has fewer shadow models with it than a model without the
    point has. Curves per model, or over all pairs of a model and a point, are not.

    Parameters
    ----------
    folds
        Number of folds; model m is in fold m modulo ``folds``, whatever its coins.  As many folds as
        models is leave-one-out, which has the largest bias.
    """
    losses = losses.without_failed()  # these scores prove nothing
    attack.check(losses)
    every: IntArray = np.arange(losses.models)
    learns = attack.least_teachers > 0
    groups = [every]
    if learns:
        _validate.whole_number("folds", folds, least=2, most=losses.models)
        groups = [every[start::folds] for start in range(folds)]
        _require_teachers(attack, losses.models - len(groups[0]))
    value = np.empty((losses.models, losses.challenges))
    for group in groups:
        teachers = np.setdiff1d(every, group) if learns else every[:0]
        value[group] = attack.score(losses, teachers=teachers, judged=group)
    return PoolScores(
        value=value,
        member=losses.member[:, : losses.challenges],
        names=losses.names[: losses.challenges],
        fair_coins=losses.fair_coins and not learns,
        dependent=learns,
    )


def most_leaking(losses: PoolLosses, *, models: ArrayLike, count: int) -> IntArray:
    """Indices of the points that leak most according to some models, most leaking first.

    Points are ranked by the difference of mean log odds between models with and without the point,
    divided by its standard error; by mean losses if some losses are below 0 and have no log odds.
    Variances are shrunk towards the pooled one, which counts as four additional models, because a
    variance from few models can be tiny by chance.  Ties keep their order; points with fewer than two
    models on a side come last.  Evaluate the points on other models: on these the selected points look
    worse than they are.
    """
    chosen = np.intersect1d(_numbers("models", models, losses.models), losses.trained)
    _validate.whole_number("count", count, most=losses.challenges)
    # The losses of other models are never used, not even for this check.
    plain = any(losses.loss[model].min() < LEAST_LOSS for model in chosen)
    both_sides = sides(losses, chosen, averaged=True, plain=plain)
    error = np.zeros(losses.challenges)
    for side, pooled in zip(both_sides, pooled_variances(*both_sides), strict=True):
        freedom = np.maximum(side.count - 1, 0)
        shrunk = (side.squares[:, 0] + PRIOR_FREEDOM * pooled) / (freedom + PRIOR_FREEDOM)
        error += shrunk / np.maximum(side.count, 1)
    without, with_point = both_sides
    leak = (with_point.mean - without.mean)[:, 0] / np.sqrt(error)
    leak[np.minimum(without.count, with_point.count) < 2] = -np.inf
    return np.argsort(-leak, kind="stable")[:count]


def attack_result(scores: PoolScores, attack: str) -> AttackResult:
    """Call a model a member if few other models without the point have as high a score.

    The p-value of a score is its rank among the scores of the other models without the point, so counts
    depend on each other, within and between points.
    """
    both: BoolArray = np.asarray(scores.member.any(axis=0) & ~scores.member.all(axis=0))
    pooled = scores.take(np.flatnonzero(both))
    without, with_point = (_padded(pooled.value, side) for side in (~pooled.member, pooled.member))
    learn = Threshold().learn
    return AttackResult(
        names=pooled.names,
        statistic="pool",
        attack=attack,
        p_values_h0=learn(CrossFedScores(without), Shadows(with_point))(without),
        p_values_h1=learn(Shadows(without), CrossFedScores(with_point))(with_point),
        scores_h0=without,
        scores_h1=with_point,
        left_out=tuple(name for name, there in zip(scores.names, both, strict=True) if not there),
        design=POOL,
    )


def _padded(value: FloatArray, side: BoolArray) -> FloatArray:
    """Scores of one side, one row per point, in the order of models, padded with NaN."""
    first = np.argsort(~side, axis=0, kind="stable")[: side.sum(axis=0).max()]
    return np.take_along_axis(np.where(side, value, np.nan), first, axis=0).T


def _check_coins(member: BoolArray) -> None:
    """Refuse coins that cannot be independent and fair; false-alarm rate about one in a million."""
    for axis, whose in ((1, "model"), (0, "point")):
        flips = member.shape[axis]
        if min(member.shape) < LEAST_FLIPS:
            return
        spread = float(np.sum((member.sum(axis=axis) - flips / 2) ** 2) / (flips / 4))
        number = member.shape[1 - axis]
        if min(chi2.cdf(spread, number), chi2.sf(spread, number)) < UNFAIR_COINS:
            raise InputError(
                "expected each point in each model by its own fair coin, got numbers of members per "
                f"{whose} that are implausible for such coins; omit fair_coins."
            )


def _require_teachers(attack: PoolAttack, count: int) -> None:
    if count < attack.least_teachers:
        raise InputError(
            f"expected at least {attack.least_teachers} shadow models for the attack {attack.name}, "
            f"got teachers={count}."
        )


def _numbers(name: str, values: ArrayLike, size: int) -> IntArray:
    """Check and return distinct whole numbers below ``size``."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise InputError(f"expected {name} to be a list of whole numbers.")
    numbers = numbers.astype(np.int64)
    if np.any((numbers < 0) | (numbers >= size)) or len(np.unique(numbers)) != len(numbers):
        raise InputError(f"expected {name} from 0 to {size - 1}, each once, got other numbers.")
    return numbers
