"""Scores from losses, as used by the curve model."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from epsilometer._arrays import FloatArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.repeats import repeats
from epsilometer.attacks.statistics import Logit, Loss, Statistic
from epsilometer.errors import InputError
from epsilometer.model.scores import Scores


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
    outside = losses.loss < chosen.least_loss
    if outside.any():
        raise InputError(
            f"expected losses of at least 0 for statistic {chosen.name}, got "
            f'{losses.loss[outside][0]:g}; `statistic="loss"` accepts any, and so does '
            "em.attacks.scores_of(losses, em.attacks.Loss())."
        )
    if losses.one_run:
        return _canary_scores(losses, chosen)
    without, with_point, names = [], [], []
    together = False
    parts = [losses.padded(hypothesis) for hypothesis in (0, 1)]
    for number, name in enumerate(losses.names):
        sides = [part[number] for part in parts]
        sizes = [len(values) for values in sides]
        # A statistic may use all models of a base together.
        values = chosen(np.concatenate(sides)[None, :])[0]
        groups = np.split(values, [sizes[0]])
        together = together or not _one_by_one(chosen, np.concatenate(sides), values)
        kept = [group[~np.isnan(loss)] for group, loss in zip(groups, sides, strict=True)]
        if skip and not all(len(side) for side in kept):
            continue
        without.append(kept[0])
        with_point.append(kept[1])
        names.append(name)
    if not names:
        raise InputError("expected losses of both hypotheses in at least one base, got none.")
    scores = Scores(without=without, with_point=with_point, names=names, dependent=together)
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
