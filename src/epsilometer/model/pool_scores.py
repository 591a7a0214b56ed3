"""Scores of many points under models that share them, as a matrix.

By point: each point is a challenge base, scored by the models trained without and with it; the points
share models.  By model: each model is one training run, and the points are its canaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _files, _npz
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer._display import Plotted
from epsilometer.errors import InputError
from epsilometer.model.base_scores import labels_of
from epsilometer.model.scores import Scores

ENDINGS = (".npz", ".csv", ".parquet")
LARGEST_SCORES = 4 * 1024**3
"""Bytes that the arrays of a file may unpack to."""


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
    >>> len(scores.by_point()), len(scores.by_model())  # in one model all coins came up the same
    (3, 7)
    """

    value: FloatArray
    member: BoolArray
    names: tuple[str, ...]
    fair_coins: bool
    dependent: bool

    def __init__(
        self,
        *,
        value: ArrayLike,
        member: ArrayLike,
        names: Sequence[object] | None = None,
        fair_coins: bool = False,
        dependent: bool = False,
    ) -> None:
        values, inside = np.asarray(value, dtype=np.float64), np.asarray(member)
        if values.ndim != 2 or 0 in values.shape or np.isnan(values).any():
            raise InputError(
                f"expected scores of shape (models, points) without nan, got shape {values.shape}."
            )
        if inside.dtype != np.bool_ or inside.shape != values.shape:
            raise InputError(
                f"expected member of shape {values.shape}, true or false, got shape {inside.shape} of "
                f"{inside.dtype}."
            )
        parts = {"value": values, "member": inside, "names": labels_of(names, values.shape[1])}
        flags = {"fair_coins": bool(fair_coins), "dependent": bool(dependent)}
        for name, part in (parts | flags).items():
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
        return PoolScores(
            value=self.value[:, kept],
            member=self.member[:, kept],
            names=[self.names[number] for number in kept],
            fair_coins=self.fair_coins,
            dependent=self.dependent,
        )

    @classmethod
    def read(cls, source: str | PathLike[str]) -> PoolScores:
        """Read NPZ, CSV or Parquet, by the ending of the name; see :meth:`write`."""
        path = Path(source)
        if _files.ending(path, *ENDINGS) == ".npz":
            return cls._of_arrays(path)
        pool = pool_of(Scores.read(path))
        if pool is None:
            raise InputError(
                f"{path.name}: expected a column model and a row for each model and point, got other "
                "scores; Scores.read may read them."
            )
        return pool

    def write(self, target: str | PathLike[str]) -> None:
        """Write NPZ, CSV or Parquet, by the ending of the name; replaces a file of that name.

        An NPZ holds everything.  CSV and Parquet have the columns of scores of points that share models,
        which :meth:`Scores.read` and ``epsilometer estimate`` take too; every point must have models
        with and without it there, and scores that depend on each other are refused.
        """
        path = Path(target)
        if _files.ending(path, *ENDINGS) == ".npz":
            _files.replace(path, self._write_npz)
            return
        one_sided = ~(self.member.any(axis=0) & ~self.member.all(axis=0))
        if one_sided.any():
            name = self.names[int(np.argmax(one_sided))]
            raise InputError(
                f"expected models with and without every point, got point {_files.shown(name)} with one "
                "kind only; write .npz instead."
            )
        self.by_point().write(path)

    def _write_npz(self, path: Path) -> None:
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                score=self.value,
                member=self.member,
                names=np.array(self.names),
                fair_coins=self.fair_coins,
                dependent=self.dependent,
            )

    @classmethod
    def _of_arrays(cls, path: Path) -> PoolScores:
        names = ("score", "member", "names", "fair_coins", "dependent")
        kept = _npz.read_arrays(path, names, largest=LARGEST_SCORES)
        kinds = {"score": "f", "member": "b", "names": "U", "fair_coins": "b", "dependent": "b"}
        shapes = {"score": 2, "member": 2, "names": 1, "fair_coins": 0, "dependent": 0}
        for name, array in kept.items():
            if array.dtype.kind != kinds[name] or array.ndim != shapes[name]:
                raise InputError(
                    f"{path.name}: expected {name} as `PoolScores.write` writes it, got shape "
                    f"{array.shape} of {array.dtype}."
                )
        try:
            return cls(
                value=kept["score"],
                member=kept["member"],
                names=kept["names"].tolist(),
                fair_coins=bool(kept["fair_coins"]),
                dependent=bool(kept["dependent"]),
            )
        except InputError as error:
            raise InputError(f"{path.name}: {error}") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PoolScores):
            return NotImplemented
        mine, theirs = ((p.names, p.fair_coins, p.dependent) for p in (self, other))
        same = np.array_equal(self.value, other.value) and np.array_equal(self.member, other.member)
        return mine == theirs and same

    __hash__ = None  # type: ignore[assignment]

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

    def by_model(self) -> Scores:
        """One run for each model with included and excluded points; the points are its canaries."""
        both = self.member.any(axis=1) & ~self.member.all(axis=1)
        if not both.any():
            raise InputError("expected a model with included and excluded points, got none.")
        kept = np.flatnonzero(both)
        return Scores(
            without=[self.value[n, ~self.member[n]] for n in kept],
            with_point=[self.value[n, self.member[n]] for n in kept],
            names=[f"model {n}" for n in kept],
            one_run=True,
            dependent=self.dependent or not self.fair_coins,
        )

    def pooled(self) -> tuple[FloatArray, FloatArray]:
        """Scores of all pairs of a model and a point, without and with the point."""
        return self.value[~self.member], self.value[self.member]


def pool_of(scores: Scores) -> PoolScores | None:
    """The matrix behind scores of points that share models; None unless every point has every model."""
    if scores.models is None:
        return None
    first = np.sort(np.concatenate(scores.models[0]))
    value = np.empty((len(first), len(scores)))
    member = np.zeros(value.shape, dtype=bool)
    for number, (base, pair) in enumerate(zip(scores.bases, scores.models, strict=True)):
        whole = np.concatenate(pair)
        if len(whole) != len(first) or not np.array_equal(np.sort(whole), first):
            return None
        rows = np.searchsorted(first, whole)
        value[rows, number] = np.concatenate(base.in_training_order)
        member[rows[len(pair[0]) :], number] = True
    return PoolScores(
        value=value,
        member=member,
        names=scores.names,
        fair_coins=scores.fair_coins,
        dependent=scores.dependent,
    )
