"""Canaries: points inserted into one training run by coin flips, and told apart afterwards.

Each canary is in the training data with probability one half, decided by its own fair coin.  After
training it is scored without knowledge of its coin.  The better the scores separate the included from
the excluded canaries, the larger epsilon is.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _files, _npz, _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer._display import Displayed
from epsilometer.errors import InputError
from epsilometer.measurement import canary_kinds
from epsilometer.measurement.canary_kinds import check_coins, check_stream, flip
from epsilometer.measurement.population import (
    Array,
    Dataset,
    Point,
    Population,
    array_fingerprint,
    points_of,
)
from epsilometer.model.score_tables import CANARIES
from epsilometer.model.scores import Scores

#: Format version of a canary file.
FORMAT = 1

#: Largest size in bytes to which a canary file may decompress.
LARGEST_CANARY_FILE = 2**30

#: What returns the loss of one point, or the losses of all canaries in their order.
LossOf = Callable[[Point], float] | ArrayLike


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Canaries(Displayed):
    """Canaries and their coin flips; create them with :meth:`draw`, :meth:`of` or :meth:`read`.

    Attributes
    ----------
    kind
        Name of the kind of canaries.
    coins
        Whether each was put into the training data.
    records
        Indices in the population of canaries that are records; None for crafted ones.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> population = Population(features=rng.normal(size=(100, 3)), labels=[0, 1] * 50)
    >>> canaries = Canaries.draw(population, count=20, rng=rng, kind="mislabelled")
    >>> len(canaries), len(canaries.included), int(canaries.coins.sum())
    (20, 12, 12)
    >>> scores = canaries.scores(lambda point: float(point.features @ point.features))
    >>> scores.one_run, scores.trials_h1.tolist()
    (True, [12])
    """

    kind: str
    coins: BoolArray
    _points: Dataset
    records: IntArray | None = None
    _population: Population | None = None

    @classmethod
    def draw(
        cls,
        population: Population,
        *,
        count: int,
        rng: np.random.Generator,
        kind: str | canary_kinds.CanaryKind | Callable[..., Any] = "population",
        outside: ArrayLike = (),
    ) -> Canaries:
        """Draw or craft canaries, and flip their coins.

        Parameters
        ----------
        population
            The records to choose from or to imitate.
        count
            Number of canaries; at least one must be included and one excluded.
        kind
            ``population`` (unchanged records), ``mislabelled``, ``noise``, or a function
            ``(population, count, rng)`` that creates them.
        outside
            Indices of records that cannot be canaries because they are always trained on.
        """
        count = _validate.whole_number("count", count, least=2)
        check_stream(rng)
        chosen = canary_kinds.kind_of(kind)
        records = np.empty(0, dtype=np.int64)
        if chosen.uses_records:
            free = np.setdiff1d(np.arange(len(population)), _indices(outside, len(population)))
            if count > len(free):
                raise InputError(
                    f"expected at most {len(free)} canaries, as many as records (of {len(population)}) "
                    f"are not always trained on, got {count}; draw fewer, or use kind='noise'."
                )
            records = rng.choice(free, size=count, replace=False)
        points = chosen.craft(canary_kinds.Wanted(population, records, count, rng))
        whose: dict[str, Any] = {"records": records, "_population": population}
        held = whose if chosen.uses_records else {}
        return cls(kind=chosen.name, coins=flip(count, rng), _points=points, **held)

    @classmethod
    def of(
        cls, *, features: ArrayLike, labels: ArrayLike | None = None, rng: np.random.Generator
    ) -> Canaries:
        """Your own points, one per entry of the first axis, with coins flipped by ``rng``."""
        points = canary_kinds.as_points(features, labels)
        return cls(kind="custom", coins=flip(len(points), rng), _points=points)

    def __post_init__(self) -> None:
        check_coins(self.coins)
        for name, array in vars(self._points).items():
            if array is not None and len(array) != len(self):
                raise InputError(f"expected {len(self)} {name}, one per canary, got {len(array)}.")

    def __len__(self) -> int:
        return len(self.coins)

    @property
    def points(self) -> Dataset:
        """All canaries in order, as copies."""
        return self._points.take(np.arange(len(self)))

    @property
    def included(self) -> Dataset:
        """The canaries whose coin includes them: add exactly these to the training data."""
        return self._points.take(self.coins)

    @property
    def rest(self) -> Dataset:
        """The records of the population that are not canaries; train on these plus :attr:`included`."""
        if self._population is None or self.records is None:
            raise InputError(
                "expected canaries that are records of a population, got crafted ones."
            )
        return self._population.take(np.delete(np.arange(len(self._population)), self.records))

    def added_to(self, dataset: Dataset) -> Dataset:
        """``dataset`` followed by the included canaries."""
        self._check_disjoint(dataset)
        included = self.included
        shape, theirs = dataset.features.shape[1:], included.features.shape[1:]
        if shape != theirs:
            raise InputError(
                f"expected canaries with the shape of the records, {shape}, got {theirs}."
            )
        if (dataset.labels is None) != (included.labels is None):
            where = "canaries" if dataset.labels is None else "records"
            raise InputError(
                f"expected labels of records and of canaries, got only those of {where}."
            )
        features = np.concatenate([dataset.features, included.features])
        if dataset.labels is None or included.labels is None:
            return Dataset(features=features)
        return Dataset(features=features, labels=np.concatenate([dataset.labels, included.labels]))

    def _check_disjoint(self, dataset: Dataset) -> None:
        """Refuse a dataset that already has the canaries: the excluded ones would be trained on."""
        if self.kind != canary_kinds.RandomRecords.name:
            return
        features = self._points.features
        there = {row.tobytes() for row in np.asarray(dataset.features, features.dtype)}
        out = [row.tobytes() in there for row in features[~self.coins]]
        # A few duplicates can occur naturally.
        if sum(out) > len(out) / 2:
            raise InputError(
                f"expected a dataset without the canaries, got {sum(out)} of {len(out)} excluded "
                "canaries in it; train on `canaries.rest`, or draw canaries with outside=."
            )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the points and coins."""
        digest = hashlib.sha256(self.kind.encode() + self.coins.astype(np.uint8).tobytes())
        for array in (self._points.features, self._points.labels):
            digest.update(b"" if array is None else array_fingerprint(array).encode())
        return digest.hexdigest()

    def scores(
        self, loss_of: LossOf, *, compared_with: LossOf | None = None, name: str = CANARIES
    ) -> Scores:
        """Scores of the canaries: their negated losses, since members have lower losses.

        Parameters
        ----------
        loss_of
            The trained model's loss of one point; or all losses, in the order of the canaries.
        compared_with
            The same for a model that saw no canary, such as the model before training; the score of a
            canary is then the decrease of its loss.
        name
            Name of the run, for joining several runs.
        """
        losses = self.losses(loss_of)
        if compared_with is not None:
            with np.errstate(invalid="ignore"):
                losses = self.losses(losses - self.losses(compared_with))
        without, with_point = [-losses[~self.coins]], [-losses[self.coins]]
        return Scores(without=without, with_point=with_point, names=[name], one_run=True)

    def losses(self, loss_of: LossOf) -> FloatArray:
        """The loss of every canary, in order; NaN is refused."""
        if callable(loss_of):
            losses = np.array([_loss(loss_of, point) for point in points_of(self.points)])
        else:
            try:
                losses = np.asarray(loss_of, dtype=float)
            except (TypeError, ValueError, RuntimeError) as error:
                raise InputError(f"expected one number per canary as losses ({error}).") from None
        if losses.shape != self.coins.shape:
            raise InputError(
                f"expected {len(self)} losses, one per canary in their order, got shape "
                f"{losses.shape}; not their mean, not one per class, and of the same canaries."
            )
        missing = np.flatnonzero(np.isnan(losses))
        if len(missing):
            raise InputError(
                f"canary {missing[0]}: expected a number as loss, got nan ({len(missing)} of "
                f"{len(losses)} canaries); fix the loss, or return an uninformative number."
            )
        return losses

    def write(self, target: str | PathLike[str]) -> None:
        """Write coins and identities to a file .npz; records are stored as indices, not copied.

        A file with other coins is never overwritten: a model may have been trained with them.
        """
        path = Path(target)
        _files.ending(path, ".npz")
        kept: dict[str, Array] = {
            "format": np.array(FORMAT),
            "kind": np.array(self.kind),
            "coins": self.coins.astype(np.uint8),
            "sha256": np.array(self.fingerprint),
        }
        points = vars(self._points) if self.records is None else {"records": self.records}
        points = {**points, "labels": self._points.labels}
        kept |= {name: array for name, array in points.items() if array is not None}
        held = io.BytesIO()
        np.savez(held, **kept)  # type: ignore[arg-type]
        if path.exists() and path.read_bytes() != held.getvalue():
            raise InputError(
                f"{path}: exists with other content, perhaps coins in use; choose another name."
            )
        _files.replace(path, lambda place: place.write_bytes(held.getvalue()))

    @classmethod
    def read(cls, source: str | PathLike[str], population: Population | None = None) -> Canaries:
        """Read a file written by :meth:`write`; canaries that are records need their ``population``.

        Raises
        ------
        InputError
            If the file is damaged or not a canary file, or its canaries are from another population.
        """
        path = Path(source)
        kept = _npz.read_arrays(
            path,
            ("format", "kind", "coins", "sha256"),
            optional=("records", "features", "labels"),
            largest=LARGEST_CANARY_FILE,
        )
        records = kept.get("records")
        if not _well_formed(kept):
            raise InputError(f"{path}: expected a file written by `Canaries.write`.")
        if records is None:
            population, features = None, kept["features"]
        elif population is None:
            raise InputError(f"{path}: its canaries are records: pass read(path, population).")
        elif not ((records >= 0) & (records < len(population))).all():
            raise InputError(
                f"{path}: its records are not in this population; is it the right one?"
            )
        else:
            records = records.astype(np.int64)
            features = population.features[records]
        with _validate.within(path):
            canaries = cls(
                kind=str(kept["kind"]),
                coins=kept["coins"].astype(bool),
                _points=Dataset(features=features, labels=kept.get("labels")),
                records=records,
                _population=population,
            )
        if canaries.fingerprint != str(kept["sha256"]):
            raise InputError(
                f"{path}: coins or points differ from those that were saved; is this another "
                "population, or was the file changed?"
            )
        return canaries


def _indices(given: object, size: int) -> IntArray:
    """Indices into a population, from indices or from a mask of all its records."""
    array = np.asarray(given)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype == np.bool_ and array.shape == (size,):
        return np.flatnonzero(array)
    whole = array.ndim == 1 and array.dtype.kind in "iu"
    if not whole or array.min() < 0 or array.max() >= size:
        raise InputError(
            f"expected outside to be indices from 0 to {size - 1} or a mask of {size} records, got "
            f"{_files.shown(given)}."
        )
    return array.astype(np.int64)


def _well_formed(kept: dict[str, Array]) -> bool:
    """Whether the arrays of a file have the types and shapes written by :meth:`Canaries.write`."""
    coins, form, records = kept["coins"], kept["format"], kept.get("records")
    words = [kept[name] for name in ("kind", "sha256")]
    points = [kept[name] for name in ("records", "features", "labels") if name in kept]
    return bool(
        all(word.shape == () and word.dtype.kind == "U" for word in words)
        and (form.shape == () and form.dtype.kind in "iu" and form == FORMAT)
        and (coins.ndim == 1 and coins.dtype == np.uint8 and len(coins) and coins.max() <= 1)
        and all(array.ndim > 0 and len(array) == len(coins) for array in points)
        and (records is None or (records.ndim == 1 and records.dtype.kind in "iu"))
        and ("records" in kept) != ("features" in kept)
    )


def _loss(loss_of: Callable[[Point], float], point: Point) -> float:
    try:
        return float(loss_of(point))
    except (AttributeError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            "expected loss_of to return a number for one point (which has features and a label), got "
            f"{type(error).__name__}: {error}. To score all canaries at once, pass their losses."
        ) from error
