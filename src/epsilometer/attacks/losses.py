"""Losses of the challenge point, one per trained model, in memory and in files.

This is the only interface between training models and attacking them.  Files are CSV or Parquet with
columns challenge_base, hypothesis (0 or 1), replicate, loss.  Canaries of training runs have the column
member instead of hypothesis, so that they cannot be mistaken for models.  Files are untrusted: every row
is checked, and errors name the row.  Numbers are written so that they are read back exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer import _columns, _files, _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer._columns import FLAG, NUMBER, TEXT
from epsilometer._display import Plotted
from epsilometer.errors import InputError
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.model.score_tables import BASE, CANARIES, HYPOTHESIS, MEMBER, header_of

#: Exact in double precision, which other programs' files may use.
LARGEST_REPLICATE = 10**15

COLUMNS = (BASE, HYPOTHESIS, "replicate", "loss")
PARQUET = ".parquet"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Losses(Plotted, view="data.LOSSES"):
    """Losses by challenge base, hypothesis and replicate, sorted by these three.

    Parameters
    ----------
    challenge_base
        The base of each loss: any text.  Bases keep the order of their first occurrence.
    hypothesis
        0: the model was trained without the challenge point (or with its replacement); 1: with it.
    replicate
        Number of the model among those of its base and hypothesis, from 0; gaps are allowed.
    loss
        Loss of the challenge point under the model, NaN if the model failed.  May be infinite.  Attacks
        drop such losses and report them; proofs do not.
    one_run
        Whether a base is one training run and replicates are its canaries, included by coin flips.

    Raises
    ------
    InputError
        If columns are empty, out of range or of different lengths, or a model occurs twice.

    Examples
    --------
    >>> losses = Losses(
    ...     challenge_base=["a"] * 4, hypothesis=[0, 0, 1, 1], replicate=[0, 1, 0, 1],
    ...     loss=[0.9, 1.1, 0.2, 0.3],
    ... )
    >>> without, with_point = losses.by_hypothesis()
    >>> with_point.tolist()
    [[0.2, 0.3]]
    """

    names: tuple[str, ...]
    base: IntArray
    hypothesis: IntArray
    replicate: IntArray
    loss: FloatArray
    one_run: bool = False
    planned_order: PlannedOrder | None = None

    def __init__(
        self,
        *,
        challenge_base: Sequence[object] | NDArray[np.generic],
        hypothesis: ArrayLike,
        replicate: ArrayLike,
        loss: ArrayLike,
        one_run: bool = False,
    ) -> None:
        plain = (name.item() if isinstance(name, np.generic) else name for name in challenge_base)
        # Names are stripped of surrounding whitespace, as in files.
        labels = [_files.label(name, BASE, "losses") for name in plain]
        if not labels:
            raise InputError("expected at least one loss, got none.")
        place = {name: number for number, name in enumerate(dict.fromkeys(labels))}
        columns = {
            "base": np.array([place[label] for label in labels], dtype=np.int64),
            "hypothesis": _whole("hypothesis", hypothesis, 1),
            "replicate": _whole("replicate", replicate, LARGEST_REPLICATE),
            "loss": _numbers(loss),
        }
        for name, column in columns.items():
            _validate.shape(name, column, (len(labels),))
        order = np.lexsort([columns[name] for name in ("replicate", "hypothesis", "base")])
        for name, column in columns.items():
            columns[name] = column[order]
            columns[name].flags.writeable = False
        vars(self).update(columns, names=tuple(place), one_run=bool(one_run))
        self._refuse_repeats()

    def _refuse_repeats(self) -> None:
        keys = np.stack([self.base, self.replicate, self.hypothesis])
        if self.one_run:
            keys = keys[:2]  # a canary is included or excluded, never both
        keys = keys[:, np.lexsort(keys[::-1])]
        twice = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
        if twice.any():
            base, replicate, *side = keys[:, 1:][:, twice][:, 0]
            what = f"hypothesis {side[0]}, replicate" if side else "canary"
            raise InputError(
                f"expected each one once, got {what} {replicate} of {self.names[base]!r} twice."
            )

    @staticmethod
    def read(source: str | PathLike[str]) -> Losses:
        """Read CSV, or Parquet if the name ends in .parquet."""
        path = Path(source)
        if path.suffix.lower() != PARQUET:
            return Losses.parse_csv(_files.load(path), name=path.name)
        kinds = _kinds(_files.parquet_columns(path))
        return _of_columns(_columns.read(path, kinds), name=path.name)

    @staticmethod
    def parse_csv(text: str, *, name: str) -> Losses:
        """Read CSV text; ``name`` is the file name in error messages."""
        return _of_columns(_columns.parse_csv(text, _kinds(header_of(text)), name=name), name=name)

    def to_csv(self) -> str:
        """CSV text; each loss in the shortest form that is read back exactly."""
        return _columns.csv_text(self._table)

    def write(self, target: str | PathLike[str]) -> None:
        """Write CSV or Parquet, by the ending of the name; replaces an existing file.

        :meth:`read` returns the same losses.
        """
        _columns.write(Path(target), self._table)

    @property
    def _table(self) -> dict[str, Any]:
        """The columns of a file."""
        values = (self.challenge_base, self.hypothesis, self.replicate, self.loss)
        return dict(zip(_header(self.one_run), values, strict=True))

    def __len__(self) -> int:
        return len(self.loss)

    def __eq__(self, other: object) -> bool:
        """Equal bit for bit, NaN included."""
        if not isinstance(other, Losses):
            return NotImplemented
        return (self.names, self.one_run) == (other.names, other.one_run) and all(
            getattr(self, name).tobytes() == getattr(other, name).tobytes()
            for name in ("base", "hypothesis", "replicate", "loss")
        )

    __hash__ = None  # type: ignore[assignment]

    def in_planned_order(self, order: PlannedOrder | None) -> Losses:
        """The same losses, of pairs in an order that was fixed before they were trained."""
        other = copy(self)
        object.__setattr__(other, "planned_order", order)
        return other

    @property
    def failed(self) -> int:
        """The number of models that failed; of canaries, of runs with canaries that have no loss."""
        bases = self.base[np.isnan(self.loss)]
        return len(np.unique(bases)) if self.one_run else len(bases)

    @property
    def challenge_base(self) -> list[str]:
        """Name of the base of each loss."""
        return [self.names[number] for number in self.base]

    def rows(self) -> Iterator[tuple[str, int, int, float]]:
        """Base name, hypothesis, replicate and loss of each model, as plain values."""
        columns = (self.hypothesis, self.replicate, self.loss)
        return zip(self.challenge_base, *(column.tolist() for column in columns), strict=True)

    def by_hypothesis(self) -> tuple[FloatArray, FloatArray]:
        """Arrays (bases, models) under H0 and H1 in order of replicate, padded with NaN."""
        return self.padded(0), self.padded(1)

    def padded(self, hypothesis: int) -> FloatArray:
        """Losses under one hypothesis, one row per base, padded with NaN at the end."""
        chosen = self.hypothesis == hypothesis
        base = self.base[chosen]
        sizes = np.bincount(base, minlength=len(self.names))
        within = np.arange(len(base)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        table = np.full((len(self.names), int(sizes.max(initial=0))), np.nan)
        table[base, within] = self.loss[chosen]
        return table


def _header(one_run: bool) -> tuple[str, ...]:
    """The columns of a file."""
    return tuple(MEMBER if one_run and column == HYPOTHESIS else column for column in COLUMNS)


def _kinds(header: Sequence[str]) -> dict[str, str | int]:
    """The columns that a file must have: those of models, or of canaries with or without numbers."""
    if set(header) == {"loss", MEMBER}:
        return {"loss": NUMBER, MEMBER: FLAG}
    kinds = (TEXT, FLAG, LARGEST_REPLICATE, NUMBER)
    return dict(zip(_header(MEMBER in header), kinds, strict=True))


def _whole(name: str, values: ArrayLike, most: int) -> IntArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InputError(f"expected whole numbers in {name}, got {array.dtype} values.")
    wrong = array[(array < 0) | (array > most)]
    if wrong.size:
        raise InputError(f"expected 0 <= {name} <= {most:g}, got {name}={wrong.flat[0]}.")
    return array.astype(np.int64)


def _numbers(values: ArrayLike) -> FloatArray:
    try:
        array = np.array(values)
    except ValueError:
        raise InputError("expected numbers in loss, got rows of different lengths.") from None
    if array.dtype.kind not in "iuf":
        raise InputError(f"expected numbers in loss, got {array.dtype} values.")
    array = array.astype(np.float64)
    array[np.isnan(array)] = np.nan  # normalise the sign and payload of NaN
    return array


def _of_columns(columns: dict[str, Any], *, name: str) -> Losses:
    rows, one_run = len(columns["loss"]), MEMBER in columns
    with _validate.within(name):
        return Losses(
            challenge_base=columns.get(BASE, [CANARIES] * rows),
            hypothesis=columns[MEMBER if one_run else HYPOTHESIS],
            replicate=columns.get("replicate", np.arange(rows)),
            loss=columns["loss"],
            one_run=one_run,
        )
