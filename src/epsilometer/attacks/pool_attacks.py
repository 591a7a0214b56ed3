"""Attacks on pools: scores of points under models, learnt from other models of the pool.

An attack learns from some models and scores others, and these never overlap: whoever teaches is not
judged.  `held_out_scores` judges the models that did not teach, which is what proofs read;
`cross_fitted_scores` lets every model be judged by the others in turn, which gives curves their full
size but leaves scores that depend on each other.  Each attack is in a module of its own.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.attacks.lira import Lira, LiraOffline, pooled_variances, sides
from epsilometer.attacks.own_losses import PoolLogOdds, PoolLoss, PopulationAttack
from epsilometer.attacks.pool_losses import LEAST_LOSS, PoolLosses
from epsilometer.attacks.quantile import QuantileAttack
from epsilometer.attacks.rmia import Rmia, RmiaOffline
from epsilometer.errors import InputError
from epsilometer.model.pool_scores import PoolScores

FOLDS = 4
"""Groups of models that are judged by the rest.  More teach a little more, and bias curves of points
more: by the areas under these, four to eight were best in pools of 16 to 256 models, leaving one out
never was (`docs/explanation/pool-attacks.md`).
"""

PRIOR_FREEDOM = 4.0
"""How many degrees of freedom the pooled variance weighs in that of a point, where points are chosen."""


class PoolAttack(Protocol):
    """Scores of points under models; higher looks more like a member."""

    @property
    def name(self) -> str: ...

    @property
    def least_teachers(self) -> int:
        """How many models it must learn from; 0 if it needs none."""

    def check(self, losses: PoolLosses) -> None:
        """Refuse losses that it cannot read: no references, no features, or losses below 0."""

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        """Scores (judged, challenges) of all points that may be members.

        Looks at the coins (`member`) of ``teachers`` only, and at all losses of one judged model at a
        time.
        """


POOL_ATTACKS: dict[str, PoolAttack] = {
    attack.name: attack
    for attack in (
        PoolLoss(),
        PoolLogOdds(),
        Lira(),
        LiraOffline(),
        Rmia(),
        RmiaOffline(),
        QuantileAttack(),
        PopulationAttack(),
    )
}
"""The attacks that have a name on the command line, with their published settings."""


LEAST_FLIPS = 20
"""Models and points from which the spread of members can be judged."""

UNLIKELY = 1e-6
"""Probability below which coins are not called fair."""


def held_out_scores(
    losses: PoolLosses,
    attack: PoolAttack | str,
    *,
    teachers: int | ArrayLike,
    points: ArrayLike | None = None,
) -> PoolScores:
    """Scores of the models that did not teach: no coin of a judged model was looked at.

    Parameters
    ----------
    attack
        How points are scored: an attack, or the name of one in `POOL_ATTACKS`.
    teachers
        How many of the first models teach, or which models do; all others are judged.
    points
        Numbers of the points that are wanted, all unless given.  Choose them without the judged models,
        as `most_leaking` does from teachers.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> member = rng.random((24, 50)) < 0.5
    >>> losses = PoolLosses(loss=rng.exponential(np.where(member, 0.2, 1.0)), member=member)
    >>> held_out_scores(losses, Lira(), teachers=16)
    PoolScores(8 models, 50 points)
    """
    if isinstance(attack, str):
        attack = POOL_ATTACKS[_validate.one_of("attack", attack, POOL_ATTACKS)]
    if isinstance(attack, type):
        raise InputError(f"expected an attack such as {attack.__name__}(), got a class.")
    if np.ndim(teachers) == 0:
        count = _validate.whole_number("teachers", teachers, least=0, most=losses.models - 1)
        taught: IntArray = np.arange(count)
    else:
        taught = _numbers("teachers", teachers, losses.models)
    _require_teachers(attack, len(taught))
    judged = np.setdiff1d(np.arange(losses.models), taught)
    if not len(judged):
        raise InputError("expected a model that does not teach, to be judged, got none.")
    if losses.fair_coins:
        _check_coins(losses.member[judged, : losses.challenges])
    attack.check(losses)
    blind = losses.without_coins(judged)
    value = attack.score(blind, teachers=taught, judged=judged)
    alone = attack.score(blind, teachers=taught, judged=judged[:1])
    scores = PoolScores(
        value=value,
        member=losses.member[judged, : losses.challenges],
        names=losses.names[: losses.challenges],
        fair_coins=losses.fair_coins,
        # A score that changes with who else is judged looks at several models at once.
        dependent=not np.allclose(value[:1], alone, rtol=1e-9, atol=1e-12),
    )
    return scores if points is None else scores.take(_numbers("points", points, losses.challenges))


def cross_fitted_scores(
    losses: PoolLosses, attack: PoolAttack, *, folds: int = FOLDS
) -> PoolScores:
    """Scores of all models, each judged by models that were not judged with it.

    Where the attack learns from other models, scores of a point depend on each other and on coins of
    other models: they have curves, but prove nothing.  Curves of single points read low: a model with
    the point has fewer teachers with it than a model without it has.  Curves of a model, or of all
    pairs of a model and a point, do not.

    Parameters
    ----------
    folds
        In how many groups models are judged, by the rest; model m is in group m modulo ``folds``,
        whatever its coins.  As many as there are models leaves one out, and reads lowest.
    """
    attack.check(losses)
    everybody: IntArray = np.arange(losses.models)
    learns = attack.least_teachers > 0
    groups = [everybody]
    if learns:
        _validate.whole_number("folds", folds, least=2, most=losses.models)
        groups = [everybody[start::folds] for start in range(folds)]
        _require_teachers(attack, losses.models - len(groups[0]))
    value = np.empty((losses.models, losses.challenges))
    for group in groups:
        teachers = np.setdiff1d(everybody, group) if learns else everybody[:0]
        value[group] = attack.score(losses, teachers=teachers, judged=group)
    return PoolScores(
        value=value,
        member=losses.member[:, : losses.challenges],
        names=losses.names[: losses.challenges],
        fair_coins=losses.fair_coins and not learns,
        dependent=learns,
    )


def most_leaking(losses: PoolLosses, *, models: ArrayLike, count: int) -> IntArray:
    """Numbers of the points that leak most in the view of some models, most first.

    By the difference of mean log odds under models with and without the point, over its standard error;
    of mean losses where some are below 0, which have no log odds.
    Variances are drawn towards the pooled one, which weighs as much as four models more: few models
    have a tiny variance by chance.  Equal points come in their order, points with fewer than two models
    on a side last.  Judge other models afterwards: under these the chosen points look worse than they
    are.
    """
    chosen = _numbers("models", models, losses.models)
    _validate.whole_number("count", count, most=losses.challenges)
    # The losses of others are not looked at, not even for this.
    plain = any(losses.loss[model].min() < LEAST_LOSS for model in chosen)
    found = sides(losses, chosen, averaged=True, plain=plain)
    error = np.zeros(losses.challenges)
    for side, pooled in zip(found, pooled_variances(*found), strict=True):
        freedom = np.maximum(side.count - 1, 0)
        shrunk = (side.squares[:, 0] + PRIOR_FREEDOM * pooled) / (freedom + PRIOR_FREEDOM)
        error += shrunk / np.maximum(side.count, 1)
    without, with_point = found
    leak = (with_point.mean - without.mean)[:, 0] / np.sqrt(error)
    leak[np.minimum(without.count, with_point.count) < 2] = -np.inf
    return np.argsort(-leak, kind="stable")[:count]


def _check_coins(member: BoolArray) -> None:
    """Refuse coins that cannot be fair ones of their own: one in a million that are is refused, too."""
    for axis, whose in ((1, "model"), (0, "point")):
        flips = member.shape[axis]
        if min(member.shape) < LEAST_FLIPS:
            return
        spread = float(np.sum((member.sum(axis=axis) - flips / 2) ** 2) / (flips / 4))
        number = member.shape[1 - axis]
        if min(chi2.cdf(spread, number), chi2.sf(spread, number)) < UNLIKELY:
            raise InputError(
                "expected each point in each model by a fair coin of its own, got numbers of members "
                f"per {whose} that such coins hardly give; leave fair_coins out."
            )


def _require_teachers(attack: PoolAttack, count: int) -> None:
    if count < attack.least_teachers:
        raise InputError(
            f"expected at least {attack.least_teachers} models to teach the attack {attack.name}, "
            f"got teachers={count}."
        )


def _numbers(name: str, values: ArrayLike, size: int) -> IntArray:
    """Different whole numbers below ``size``."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(f"expected {name} to be a list of whole numbers.")
    found = found.astype(np.int64)
    if np.any((found < 0) | (found >= size)) or len(np.unique(found)) != len(found):
        raise InputError(f"expected {name} from 0 to {size - 1}, each once, got others.")
    return found
