"""Statistics, and the scores that they compute from losses.  A higher score suggests membership.

A statistic is called with an array of losses, one row per challenge base with all its models and NaN for
missing ones, and returns an array of the same shape.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.stats import rankdata

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.repeats import repeats
from epsilometer.errors import InputError
from epsilometer.model.scores import Scores

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


def scores_of(losses: Losses, statistic: Statistic | None = None, *, skip: bool = False) -> Scores:
    """Scores of every model, by challenge base.

    Parameters
    ----------
    statistic
        Converts losses to scores; default: the logit, which needs cross-entropy losses, or the loss for
        canaries of a training run.  For canaries, any statistic may use all losses of a run.
    skip
        Drop NaN losses, and bases that then lack a hypothesis; otherwise NaN losses are refused.

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
    missing = np.isnan(losses.loss)
    if missing.any() and not (skip and not losses.one_run):
        name = losses.names[int(losses.base[missing][0])]
        raise InputError(
            f"challenge base {name!r}: expected numbers as losses, got nan ({int(missing.sum())} in "
            "total); remove these models."
        )
    parts = losses.by_hypothesis()
    _check_domain(np.hstack(parts), chosen, losses.names)
    if losses.one_run:
        return _canary_scores(losses, chosen)
    kept: dict[str, list[FloatArray]] = {}
    together = False
    for name, *sides in zip(losses.names, *parts, strict=True):
        # A statistic may use all models of a base together.
        every = np.concatenate(sides)
        values = chosen(every[None, :])[0]
        together = together or not _one_by_one(chosen, every, values)
        groups = zip(np.split(values, [len(sides[0])]), sides, strict=True)
        present = [group[~np.isnan(loss)] for group, loss in groups]
        if not skip or all(map(len, present)):
            kept[name] = present
    if not kept:
        raise InputError("expected losses of both hypotheses in at least one base, got none.")
    without, with_point = zip(*kept.values(), strict=True)
    scores = Scores(without=without, with_point=with_point, names=list(kept), dependent=together)
    return scores.with_flaws(repeats(losses))


def _canary_scores(losses: Losses, statistic: Statistic) -> Scores:
    """Scores of canaries; the statistic sees those of a run in order, never with their coins."""
    without, with_point = [], []
    for number in range(len(losses.names)):
        rows = np.flatnonzero(losses.base == number)
        rows = rows[np.argsort(losses.replicate[rows], kind="stable")]
        values = statistic(losses.loss[rows][None, :])[0]
        member = losses.hypothesis[rows] == 1
        without.append(values[~member])
        with_point.append(values[member])
    return Scores(without=without, with_point=with_point, names=losses.names, one_run=True)


def _one_by_one(statistic: Statistic, losses: FloatArray, scores: FloatArray) -> bool:
    """Whether the rank of a model's score depends neither on other models nor on its position.

    Otherwise nothing can be proven.  Checked by scoring models in reverse order, and every second one.
    """
    known = np.flatnonzero(~np.isnan(losses))
    for chosen in (known[::-1], known[::2]):
        again = statistic(losses[chosen][None, :])[0]
        if not np.array_equal(rankdata(again), rankdata(scores[chosen])):
            return False
    return True
