"""Scores of many points under models that share them, as a matrix.

By point: each point is a challenge base, scored by the models trained without and with it; the points
share models.  These are :class:`~epsilometer.Scores`, which read and write files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer._display import Plotted
from epsilometer.errors import InputError
from epsilometer.model.base_scores import labels_of
from epsilometer.model.scores import Scores


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PoolScores(Plotted, view="data.POOL_SCORES"):
    """Scores by model and point; higher looks more like a member.

    Parameters
    ----------
    value
        (models, points), without NaN.  Models are in the order in which they were trained.
    member
        (models, points): whether the model was trained on the point.
    names
        A label for each point.  Default: its number, from 0.
    fair_coins
        Whether each point was included in each model by its own fair coin, and no score depends on a
        coin of any model here (except through the model itself).  Then each model is a one-run audit.
    dependent
        Whether the score under a model depends on other models here, or on their coins: such scores
        have curves, but prove nothing.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> member = rng.random((8, 3)) < 0.5
    >>> scores = PoolScores(value=rng.normal(size=(8, 3)) + member, member=member)
    >>> len(scores.by_point()), scores.by_point().shared_models
    (3, 8)
    """

    value: FloatArray
    member: BoolArray
    names: tuple[str, ...] = ()
    fair_coins: bool = False
    dependent: bool = False

    def __post_init__(self) -> None:
        values, inside = np.asarray(self.value, dtype=np.float64), np.asarray(self.member)
        if values.ndim != 2 or 0 in values.shape or np.isnan(values).any():
            raise InputError(
                f"expected scores of shape (models, points) without nan, got shape {values.shape}."
            )
        if inside.dtype != np.bool_ or inside.shape != values.shape:
            raise InputError(
                f"expected member of shape {values.shape}, true or false, got shape {inside.shape} of "
                f"{inside.dtype}."
            )
        labels = labels_of(self.names or None, values.shape[1])
        for name, part in (("value", values), ("member", inside), ("names", labels)):
            object.__setattr__(self, name, part)

    @property
    def models(self) -> int:
        """The number of scored models."""
        return len(self.value)

    @property
    def points(self) -> int:
        """The number of scored points."""
        return int(self.value.shape[1])

    def take(self, points: ArrayLike) -> PoolScores:
        """Select points."""
        kept = np.asarray(points, dtype=np.int64)
        names = tuple(self.names[number] for number in kept)
        return replace(self, value=self.value[:, kept], member=self.member[:, kept], names=names)

    def by_point(self) -> Scores:
        """One base for each point that has models without and with it; the bases share models."""
        both = self.member.any(axis=0) & ~self.member.all(axis=0)
        if not both.any():
            raise InputError("expected a point with models without and with it, got none.")
        kept = np.flatnonzero(both)
        sides = [~self.member, self.member]
        parts = [[self.value[side[:, n], n] for n in kept] for side in sides]
        models = [
            (np.flatnonzero(~inside), np.flatnonzero(inside)) for inside in self.member[:, kept].T
        ]
        return Scores(
            without=parts[0],
            with_point=parts[1],
            names=[self.names[n] for n in kept],
            dependent=self.dependent,
            models=models,
            fair_coins=self.fair_coins,
        )

    def pooled(self) -> tuple[FloatArray, FloatArray]:
        """Scores of all pairs of a model and a point, without and with the point."""
        return self.value[~self.member], self.value[self.member]
