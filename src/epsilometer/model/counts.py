"""Error counts of membership-inference attacks, one entry a challenge base.

This is the whole contract between measuring attacks and estimating privacy.  Reading files is in
`counts_files.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer import _validate
from epsilometer.errors import InputError

IntArray = NDArray[np.int64]

COLUMNS = ("false_positives", "trials_h0", "false_negatives", "trials_h1")


def check_base(
    false_positives: int, trials_h0: int, false_negatives: int, trials_h1: int, *, where: str = ""
) -> None:
    """Raise :class:`InputError` unless the four numbers can be the counts of one challenge base."""
    for name, value in (("trials_h0", trials_h0), ("trials_h1", trials_h1)):
        if not 1 <= value <= _validate.LARGEST_COUNT:
            raise InputError(
                f"{where}expected 1 <= {name} <= {_validate.LARGEST_COUNT:.0e}, got {name}={value}."
            )
    for name, value, total_name, total in (
        ("false_positives", false_positives, "trials_h0", trials_h0),
        ("false_negatives", false_negatives, "trials_h1", trials_h1),
    ):
        if not 0 <= value <= total:
            raise InputError(
                f"{where}expected 0 <= {name} <= {total_name}, "
                f"got {name}={value}, {total_name}={total}."
            )


def _whole(name: str, values: ArrayLike) -> IntArray:
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1:
        raise InputError(f"expected {name} to be one-dimensional, got shape {array.shape}.")
    if array.dtype.kind == "f":
        if not np.all(np.isfinite(array)):
            raise InputError(f"expected finite {name}, got {name}={array[~np.isfinite(array)][0]}.")
        if np.any(array != np.rint(array)):
            bad = array[array != np.rint(array)][0]
            raise InputError(f"expected whole numbers in {name}, got {name}={bad}.")
        if np.any(np.abs(array) > _validate.LARGEST_COUNT):
            raise InputError(
                f"expected {name} <= {_validate.LARGEST_COUNT:.0e}, got {array.max()}."
            )
    elif array.dtype.kind not in "iu":
        raise InputError(f"expected whole numbers in {name}, got {array.dtype} values.")
    return array.astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackCounts:
    """Counts X of N0 and Y of N1 for each challenge base.

    Parameters
    ----------
    false_positives
        X: challenges without the point that the attack called members; 0 <= X <= trials_h0.
    trials_h0
        N0: challenges without the point, at least 1.  A single number serves all bases.
    false_negatives
        Y: challenges with the point that the attack missed; 0 <= Y <= trials_h1.
    trials_h1
        N1: challenges with the point, at least 1.  A single number serves all bases.
    names
        A label for each base; its number, from 0, unless given.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[40, 50], trials_h0=1000, false_negatives=[250, 200], trials_h1=1000
    ... )
    >>> len(counts), counts.false_positive_rates.tolist()
    (2, [0.04, 0.05])
    """

    false_positives: IntArray
    trials_h0: IntArray
    false_negatives: IntArray
    trials_h1: IntArray
    names: tuple[str, ...] = field(default=())

    def __init__(
        self,
        *,
        false_positives: ArrayLike,
        trials_h0: ArrayLike,
        false_negatives: ArrayLike,
        trials_h1: ArrayLike,
        names: Sequence[str] | None = None,
    ) -> None:
        given = {
            "false_positives": _whole("false_positives", false_positives),
            "trials_h0": _whole("trials_h0", trials_h0),
            "false_negatives": _whole("false_negatives", false_negatives),
            "trials_h1": _whole("trials_h1", trials_h1),
        }
        sizes = {len(values) for values in given.values()} - {1}
        if len(sizes) > 1:
            described = ", ".join(f"{name} has {len(v)}" for name, v in given.items())
            raise InputError(f"expected equally many entries, got: {described}.")
        size = sizes.pop() if sizes else 1
        if size == 0:
            raise InputError("expected at least one challenge base, got none.")
        for name, values in given.items():
            column = np.ascontiguousarray(np.broadcast_to(values, size))
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        labels = tuple(str(i) for i in range(size)) if names is None else tuple(map(str, names))
        if len(labels) != size:
            raise InputError(f"expected {size} names, got {len(labels)}.")
        object.__setattr__(self, "names", labels)
        columns = [getattr(self, name) for name in COLUMNS]
        bad = (
            (self.trials_h0 < 1)
            | (self.trials_h1 < 1)
            | (self.trials_h0 > _validate.LARGEST_COUNT)
            | (self.trials_h1 > _validate.LARGEST_COUNT)
            | (self.false_positives < 0)
            | (self.false_positives > self.trials_h0)
            | (self.false_negatives < 0)
            | (self.false_negatives > self.trials_h1)
        )
        if bad.any():
            first = int(np.argmax(bad))
            where = f"challenge base {labels[first]!r}: "
            check_base(*(int(column[first]) for column in columns), where=where)

    def __len__(self) -> int:
        """The number of challenge bases."""
        return len(self.false_positives)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AttackCounts):
            return NotImplemented
        return self.names == other.names and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in COLUMNS
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def false_positive_rates(self) -> NDArray[np.float64]:
        """X / N0."""
        return np.asarray(self.false_positives / self.trials_h0)

    @property
    def false_negative_rates(self) -> NDArray[np.float64]:
        """Y / N1."""
        return np.asarray(self.false_negatives / self.trials_h1)

    @classmethod
    def read(cls, source: str | PathLike[str]) -> AttackCounts:
        """Read counts from a file: JSON if its name ends in .json, otherwise CSV."""
        from epsilometer.model import counts_files

        return counts_files.read(source)

    @classmethod
    def read_csv(cls, source: str | PathLike[str]) -> AttackCounts:
        """Read counts from a CSV file with a header row; see `counts_files.py` for the columns."""
        from epsilometer.model import counts_files

        return counts_files.read_csv(source)

    @classmethod
    def read_json(cls, source: str | PathLike[str]) -> AttackCounts:
        """Read counts from a JSON file: a list of objects with the same keys as the CSV columns."""
        from epsilometer.model import counts_files

        return counts_files.read_json(source)

    def distinct(self) -> tuple[AttackCounts, IntArray]:
        """The bases that differ up to the model's symmetries, and how often each occurs.

        Exchanging the roles of the hypotheses and reflecting the decisions leave every mass of the
        model unchanged, so (X, N0, Y, N1), (Y, N1, X, N0), (N0 - X, N0, N1 - Y, N1) and
        (N1 - Y, N1, N0 - X, N0) are one case.
        """
        x, n0 = self.false_positives, self.trials_h0
        y, n1 = self.false_negatives, self.trials_h1
        forms = np.stack(
            [
                np.stack([x, n0, y, n1], axis=1),
                np.stack([y, n1, x, n0], axis=1),
                np.stack([n0 - x, n0, n1 - y, n1], axis=1),
                np.stack([n1 - y, n1, n0 - x, n0], axis=1),
            ]
        )
        best = forms[0].copy()
        for form in forms[1:]:
            differs = form != best
            first = np.argmax(differs, axis=1)
            rows = np.arange(len(best))
            smaller = differs.any(axis=1) & (form[rows, first] < best[rows, first])
            best[smaller] = form[smaller]
        unique, multiplicity = np.unique(best, axis=0, return_counts=True)
        counts = AttackCounts(
            false_positives=unique[:, 0],
            trials_h0=unique[:, 1],
            false_negatives=unique[:, 2],
            trials_h1=unique[:, 3],
        )
        return counts, multiplicity.astype(np.int64)
