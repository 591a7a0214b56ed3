"""Statistics, and the scores that they compute from losses.  A higher score suggests membership.

A statistic is called with an array of losses, one row per challenge base with all its models and NaN for
missing ones, and returns an array of the same shape.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.stats import rankdata

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.repeats import repeats
from epsilometer.errors import InputError
from epsilometer.model.base_scores import pairs_of
from epsilometer.model.scores import Scores

#: What the score of a failed model is: the lowest; or for failures that may be caused or noticed
#: differently without and with the point, what speaks most for privacy (highest without, lowest with
#: the point).  ``dropped`` leaves it and its partner out, which is valid only if failures cannot
#: depend on the data.
FAILURES = ("lowest", "worst", "dropped")

#: Losses down to here are zeros that single-precision arithmetic has made negative.
LEAST_LOSS = -1e-6


class Statistic(Protocol):
    """Scores from losses; see the module docstring for shapes."""

    @property
    def name(self) -> str: ...

    @property
    def least_loss(self) -> float:
        """The smallest loss in its domain."""

    def __call__(self, losses: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The negated loss: members have low losses.  The paper's choice."""

    name: ClassVar[str] = "loss"
    least_loss: ClassVar[float] = -np.inf

    def __call__(self, losses: FloatArray) -> FloatArray:
        return -losses


@dataclass(frozen=True, kw_only=True)
class Logit:
    """LiRA's statistic, log(p / (1 - p)) = -log(expm1(loss)) for a cross-entropy loss -log p.

    Its distribution is much closer to normal than that of the loss.  A loss of 0 is a rounded value too
    small for the arithmetic that computed it.  It is replaced by the smallest positive loss of its base
    divided by 2e, the geometric mean of a uniform distribution below half of that loss.  Its score is
    thus finite, and no other of the base is above it.  In a base without a positive loss all scores are
    equal.

    Examples
    --------
    >>> Logit()(np.array([[1.0, 0.0]])).round(3).tolist()
    [[-0.541, 1.6]]
    """

    name: ClassVar[str] = "logit"
    least_loss: ClassVar[float] = LEAST_LOSS

    def __call__(self, losses: FloatArray) -> FloatArray:
        positive = losses > 0
        smallest = np.min(losses, axis=-1, where=positive, initial=np.inf, keepdims=True)
        # Dividing a denormal number could give 0 again.
        floor = np.where(np.isfinite(smallest), np.maximum(smallest / (2 * math.e), 5e-324), 1.0)
        shown = np.where(losses <= 0, floor, losses)
        # log(expm1(x)) = x + log(-expm1(-x)), which does not overflow.
        return -(shown + np.log(-np.expm1(-shown)))


@dataclass(frozen=True, kw_only=True)
class CustomStatistic:
    """Any function of the losses; see the module docstring for shapes.

    Only `Offline` and `Threshold` depend on the direction (higher suggests membership); the likelihood
    ratio learns it.
    """

    function: Callable[[FloatArray], FloatArray]
    name: str = "custom"
    least_loss: float = -np.inf

    def __call__(self, losses: FloatArray) -> FloatArray:
        scores = np.asarray(self.function(losses), dtype=np.float64)
        _validate.shape(f"scores by the statistic {self.name}", scores, losses.shape)
        return scores


#: Statistics that can be selected by name.
STATISTICS: dict[str, Statistic] = {"loss": Loss(), "logit": Logit()}


def scored(losses: FloatArray, statistic: Statistic, names: Sequence[str]) -> FloatArray:
    """Scores of losses, one row per base; NaN if the loss or its score is not finite."""
    usable = np.where(np.isfinite(losses), losses, np.nan)
    _check_domain(usable, statistic, names)
    scores = statistic(usable)
    return np.where(np.isfinite(scores), scores, np.nan)


def _check_domain(losses: FloatArray, statistic: Statistic, names: Sequence[str]) -> None:
    """Refuse losses that a statistic does not accept; one row per base."""
    low = losses < statistic.least_loss
    if low.any():
        name = names[int(np.nonzero(low)[0][0])]
        least = 0.0 if statistic.least_loss == LEAST_LOSS else statistic.least_loss
        raise InputError(
            f"challenge base {name!r}: expected losses >= {least:g} for the statistic {statistic.name}, "
            f"got loss={losses[low][0]:g}; the statistic loss accepts any "
            '(`statistic="loss"`, em.attacks.Loss()).'
        )


def failed_scores(member: BoolArray, failures: str) -> FloatArray:
    """Scores of failed models, by whether they were to be trained on the point; see `FAILURES`."""
    return np.where(member | (failures != "worst"), -np.inf, np.inf)


def scores_of(
    losses: Losses,
    statistic: Statistic | None = None,
    *,
    skip: bool = False,
    failures: str = "lowest",
    most_pairs: int | None = None,
) -> Scores:
    """Scores of every model, by challenge base.

    Parameters
    ----------
    statistic
        Converts losses to scores; default: the logit, which needs cross-entropy losses, or the loss for
        canaries of a training run.  For canaries, any statistic may use all losses of a run.
    skip
        Leave out bases that lack a hypothesis; otherwise they are refused.
    failures
        What a loss of NaN means, the loss of a model that failed; see `FAILURES`.
    most_pairs
        The smaller number of models that a base is to have without and with the point.  Others have no
        partner.

    Examples
    --------
    >>> losses = Losses(
    ...     challenge_base=["a"] * 4, hypothesis=[0, 0, 1, 1], replicate=[0, 1, 0, 1],
    ...     loss=[0.9, 1.1, 0.2, 0.3],
    ... )
    >>> scores_of(losses).bases[0].auc()
    1.0
    """
    chosen = statistic or (Loss() if losses.one_run else Logit())
    _validate.one_of("failures", failures, FAILURES)
    _check_domain(losses.loss[:, None], chosen, losses.challenge_base)
    kept: dict[str, list[FloatArray]] = {}
    pairs: list[tuple[int, int]] = []
    together, alone, limit = False, 0, most_pairs or np.inf
    # Failures that are dropped leave gaps that are never filled.
    planned = losses.planned_order is not None and failures != "dropped"
    whole: list[int] = []
    for base, name in enumerate(losses.names):
        rows = np.flatnonzero(losses.base == base)
        if losses.one_run:  # in their order, so that the statistic never sees coins
            rows = rows[np.argsort(losses.replicate[rows], kind="stable")]
        every, number = losses.loss[rows], losses.replicate[rows]
        member = losses.hypothesis[rows] == 1
        failed = np.isnan(every)
        # A statistic may use all models of a base together.
        values = every if failed.all() else chosen(every[None, :])[0]
        together = together or not (losses.one_run or _one_by_one(chosen, every, values))
        values = np.where(failed, failed_scores(member, failures), values)
        if failures == "dropped":  # with the partner, so that pairs stay together
            left = ~np.isin(number, number[failed])
            values, member, number = values[left], member[left], number[left]
        sides = [member == coin for coin in (False, True)]
        if skip and not all(side.any() for side in sides):
            alone += len(number)  # pairs begun, of which none is complete
            continue
        kept[name] = [values[side] for side in sides]
        whole.append(base)
        numbers = (number[side & (number < limit)] for side in sides)
        pairs.append(pairs_of(*numbers, from_zero=planned))
    if not kept:
        raise InputError("expected losses of both hypotheses in at least one base, got none.")
    without, with_point = zip(*kept.values(), strict=True)
    sides_of: dict[str, Any] = {"without": without, "with_point": with_point, "names": list(kept)}
    if losses.one_run:
        return Scores(one_run=True, **sides_of)
    # What was begun in bases that are left out counts in the last one.
    pairs[-1] = pairs[-1][0], pairs[-1][1] + alone
    scores = Scores(dependent=together, **sides_of).with_pairs(pairs)
    if planned and losses.planned_order is not None:
        scores = scores.in_planned_order(losses.planned_order.take(whole))
    return scores.with_flaws(repeats(losses))


def _one_by_one(statistic: Statistic, losses: FloatArray, scores: FloatArray) -> bool:
    """Whether the rank of a model's score depends neither on other models nor on its position.

    Otherwise nothing can be proven.  Checked by scoring models in reverse order, and every second one.
    """
    known = np.flatnonzero(~np.isnan(losses))
    for chosen in (known[::-1], known[::2]) if len(known) else ():
        again = statistic(losses[chosen][None, :])[0]
        if not np.array_equal(rankdata(again), rankdata(scores[chosen])):
            return False
    return True
