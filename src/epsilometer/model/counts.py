"""Error counts of membership-inference attacks, one entry a challenge base.

This is the whole contract between measuring attacks and estimating privacy.  Reading files is in
`count_tables.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.model import count_tables
from epsilometer.model.count_tables import COLUMNS, check_base


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
    groups
        Which rows depend on each other: rows with the same label belong to one group, an empty label
        is a row on its own.  Nothing depends on anything unless given.

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
    groups: tuple[str, ...] = field(default=())

    def __init__(
        self,
        *,
        false_positives: ArrayLike,
        trials_h0: ArrayLike,
        false_negatives: ArrayLike,
        trials_h1: ArrayLike,
        names: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
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
        kinds = () if groups is None else tuple(map(str, groups))
        if kinds and len(kinds) != size:
            raise InputError(f"expected {size} groups, got {len(kinds)}.")
        object.__setattr__(self, "groups", kinds if any(kinds) else ())
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
        same = self.names == other.names and self.groups == other.groups
        return same and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in COLUMNS
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def members(self) -> tuple[IntArray, ...]:
        """The rows of each group, groups in the order of their first rows; alone without a label."""
        found: dict[tuple[str, int], list[int]] = {}
        for row in range(len(self)):
            label = self.groups[row] if self.groups else ""
            found.setdefault((label, -1) if label else ("", row), []).append(row)
        return tuple(np.array(rows, dtype=np.int64) for rows in found.values())

    @property
    def dependent(self) -> bool:
        """Whether any group has more than one row."""
        labels = [label for label in self.groups if label]
        return len(set(labels)) < len(labels)

    @property
    def repeated_names(self) -> tuple[str, ...]:
        """Names that rows outside of a common group share: one base entered as if it were several."""
        rows_of: dict[str, set[tuple[str, int]]] = {}
        for row, name in enumerate(self.names):
            label = self.groups[row] if self.groups else ""
            rows_of.setdefault(name, set()).add((label, -1) if label else ("", row))
        return tuple(name for name, kinds in rows_of.items() if len(kinds) > 1)

    def take(self, rows: ArrayLike) -> AttackCounts:
        """The counts of some rows, in the given order."""
        index = np.asarray(rows, dtype=np.intp)
        return AttackCounts(
            false_positives=self.false_positives[index],
            trials_h0=self.trials_h0[index],
            false_negatives=self.false_negatives[index],
            trials_h1=self.trials_h1[index],
            names=[self.names[i] for i in index],
            groups=[self.groups[i] for i in index] if self.groups else None,
        )

    def pooled(self) -> AttackCounts:
        """One row a group: its counts and trials added up, under the group's label.

        Examples
        --------
        >>> counts = AttackCounts(
        ...     false_positives=[1, 2, 3],
        ...     trials_h0=10,
        ...     false_negatives=[4, 5, 6],
        ...     trials_h1=10,
        ...     groups=["a", "a", ""],
        ... )
        >>> counts.pooled().false_negatives.tolist(), counts.pooled().trials_h1.tolist()
        ([9, 6], [20, 10])
        """
        rows = self.members
        return AttackCounts(
            false_positives=[int(self.false_positives[part].sum()) for part in rows],
            trials_h0=[int(self.trials_h0[part].sum()) for part in rows],
            false_negatives=[int(self.false_negatives[part].sum()) for part in rows],
            trials_h1=[int(self.trials_h1[part].sum()) for part in rows],
            names=[self.groups[part[0]] if len(part) > 1 else self.names[part[0]] for part in rows],
        )

    def joined(self, *others: AttackCounts) -> AttackCounts:
        """These counts followed by others; groups of one label are one group."""
        parts = (self, *others)
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS
        }
        groups = [label for part in parts for label in (part.groups or ("",) * len(part))]
        return AttackCounts(
            **columns, names=[name for part in parts for name in part.names], groups=groups
        )

    @property
    def false_positive_rates(self) -> FloatArray:
        """X / N0."""
        return np.asarray(self.false_positives / self.trials_h0)

    @property
    def false_negative_rates(self) -> FloatArray:
        """Y / N1."""
        return np.asarray(self.false_negatives / self.trials_h1)

    @classmethod
    def read(cls, source: str | PathLike[str]) -> AttackCounts:
        """Read counts from a file: JSON if its name ends in .json, otherwise CSV."""
        return cls(**count_tables.read(source))

    @classmethod
    def read_csv(cls, source: str | PathLike[str]) -> AttackCounts:
        """Read counts from a CSV file with a header row; see `count_tables.py` for the columns."""
        return cls(**count_tables.read_csv(source))

    @classmethod
    def read_json(cls, source: str | PathLike[str]) -> AttackCounts:
        """Read counts from a JSON file: a list of objects with the same keys as the CSV columns."""
        return cls(**count_tables.read_json(source))

    def distinct(self) -> tuple[AttackCounts, IntArray]:
        """The bases that differ up to the model's symmetries, and how often each occurs.

        Exchanging the roles of the hypotheses and reflecting the decisions leave every mass of the
        model unchanged, so (X, N0, Y, N1), (Y, N1, X, N0), (N0 - X, N0, N1 - Y, N1) and
        (N1 - Y, N1, N0 - X, N0) are one case.
        """
        unique, which = self._kinds()
        counts = AttackCounts(
            false_positives=unique[:, 0],
            trials_h0=unique[:, 1],
            false_negatives=unique[:, 2],
            trials_h1=unique[:, 3],
        )
        return counts, np.bincount(which).astype(np.int64)

    def which_distinct(self) -> IntArray:
        """For each row, which of the :meth:`distinct` cases it is."""
        return self._kinds()[1]

    def _kinds(self) -> tuple[IntArray, IntArray]:
        x, n0 = self.false_positives, self.trials_h0
        y, n1 = self.false_negatives, self.trials_h1
        forms = [
            np.stack([x, n0, y, n1], axis=1),
            np.stack([y, n1, x, n0], axis=1),
            np.stack([n0 - x, n0, n1 - y, n1], axis=1),
            np.stack([n1 - y, n1, n0 - x, n0], axis=1),
        ]
        best = forms[0].copy()
        rows = np.arange(len(best))
        for form in forms[1:]:
            differs = form != best
            first = np.argmax(differs, axis=1)
            smaller = differs.any(axis=1) & (form[rows, first] < best[rows, first])
            best[smaller] = form[smaller]
        unique, which = np.unique(best, axis=0, return_inverse=True)
        return unique, which.ravel().astype(np.int64)
