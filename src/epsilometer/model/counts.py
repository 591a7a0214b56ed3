"""Error counts of membership-inference attacks, one entry per challenge base.

Counts are the whole interface between measuring attacks and estimating privacy.  `count_tables.py`
parses files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _files, _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer._display import Plotted
from epsilometer.errors import InputError
from epsilometer.model import count_tables
from epsilometer.model.count_tables import COLUMNS, GROUP_COLUMN, NAME_COLUMN, MeasuredBy


def _integers(name: str, values: ArrayLike) -> IntArray:
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1:
        raise InputError(f"expected {name} to be one-dimensional, got shape {array.shape}.")
    if array.dtype.kind not in "iuf":
        raise InputError(f"expected whole numbers in {name}, got {array.dtype} values.")
    most = _validate.LARGEST_COUNT
    wrong = array[~(np.abs(array) <= most) | (array % 1 != 0)]
    if len(wrong):
        raise InputError(f"expected whole numbers up to {most:.0e} in {name}, got {wrong[0]}.")
    return array.astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AttackCounts(Plotted, view="data.COUNTS"):
    """Error counts, X of N0 and Y of N1, for each challenge base.

    Parameters
    ----------
    false_positives
        X: challenges without the point that the attack called members; 0 <= X <= trials_h0.
    trials_h0
        N0: challenges without the point, at least 1.  A single number applies to all bases.
    false_negatives
        Y: challenges with the point that the attack missed; 0 <= Y <= trials_h1.
    trials_h1
        N1: challenges with the point, at least 1.  A single number applies to all bases.
    names
        A label for each base.  Default: its number, from 0.
    groups
        Which rows depend on each other: rows with the same label form one group; a row with an empty
        label is independent of all others.  Default: no groups.
    measured
        How the counts were measured, if known.  Counts measured differently do not compare equal.

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
    measured: MeasuredBy | None = None
    #: Why these counts cannot be relied on, a sentence each: no verdict is judged from them.
    flaws: tuple[str, ...] = field(default=(), init=False)

    def __init__(
        self,
        *,
        false_positives: ArrayLike,
        trials_h0: ArrayLike,
        false_negatives: ArrayLike,
        trials_h1: ArrayLike,
        names: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        measured: MeasuredBy | None = None,
    ) -> None:
        numbers = (false_positives, trials_h0, false_negatives, trials_h1)
        given = {
            name: _integers(name, entries) for name, entries in zip(COLUMNS, numbers, strict=True)
        }
        sizes = {len(values) for values in given.values()} - {1}
        if len(sizes) > 1:
            described = ", ".join(f"{name} has {len(v)}" for name, v in given.items())
            raise InputError(f"expected equally many entries, got: {described}.")
        size = sizes.pop() if sizes else 1
        if size == 0:
            raise InputError("expected at least one challenge base, got none.")
        columns = {name: np.array(np.broadcast_to(values, size)) for name, values in given.items()}
        for column in columns.values():
            column.setflags(write=False)
        labels = tuple(map(str, range(size) if names is None else names))
        kinds = tuple(map(str, () if groups is None else groups))
        for what, listed in (("names", labels), ("groups", kinds or labels)):
            if len(listed) != size:
                raise InputError(f"expected {size} {what}, got {len(listed)}.")
        count_tables.check_counts(columns, [f"challenge base {label!r}" for label in labels])
        parts = {"names": labels, "groups": kinds if any(kinds) else (), "measured": measured}
        for name, value in (columns | parts).items():
            object.__setattr__(self, name, value)

    def with_flaws(self, flaws: Iterable[str]) -> AttackCounts:
        """The same counts, with what is known against them; sentences that are known are kept once."""
        noted = copy(self)
        object.__setattr__(noted, "flaws", tuple(dict.fromkeys((*self.flaws, *flaws))))
        return noted

    def __len__(self) -> int:
        """The number of challenge bases."""
        return len(self.false_positives)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AttackCounts):
            return NotImplemented
        labels = (self.names, self.groups, self.measured)
        same = labels == (other.names, other.groups, other.measured)
        return same and np.array_equal(self._columns, other._columns)

    __hash__ = None  # type: ignore[assignment]

    @property
    def _columns(self) -> list[IntArray]:
        return [getattr(self, name) for name in COLUMNS]

    @property
    def _group_keys(self) -> list[tuple[str, int]]:
        """A key for each row's group: its label, or the row number if it has none."""
        labels = self.groups or ("",) * len(self)
        return [(label, -1 if label else row) for row, label in enumerate(labels)]

    @property
    def members(self) -> tuple[IntArray, ...]:
        """The rows of each group, in order of first rows; a row without a label is its own group."""
        groups: dict[tuple[str, int], list[int]] = {}
        for row, key in enumerate(self._group_keys):
            groups.setdefault(key, []).append(row)
        return tuple(np.array(rows, dtype=np.int64) for rows in groups.values())

    @property
    def dependent(self) -> bool:
        """Whether any group has more than one row."""
        labels = [label for label in self.groups if label]
        return len(set(labels)) < len(labels)

    @property
    def cross_fed(self) -> bool:
        """Whether decisions are known to share models, and so to depend on each other."""
        return self.measured is not None and self.measured.cross_fed

    @property
    def repeated_names(self) -> tuple[str, ...]:
        """Names shared by rows that are not in one group: one base entered as if it were several."""
        rows_of: dict[str, set[tuple[str, int]]] = {}
        for name, key in zip(self.names, self._group_keys, strict=True):
            rows_of.setdefault(name, set()).add(key)
        return tuple(name for name, kinds in rows_of.items() if len(kinds) > 1)

    def take(self, rows: ArrayLike) -> AttackCounts:
        """Select rows, in the given order."""
        index = np.asarray(rows, dtype=np.intp)
        return counts_of(
            *(column[index] for column in self._columns),
            names=[self.names[i] for i in index],
            groups=[self.groups[i] for i in index] if self.groups else None,
            measured=self.measured,
        ).with_flaws(self.flaws)

    def pooled(self) -> AttackCounts:
        """One row per group: its counts and trials added up, under the group's label.

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
        return counts_of(
            *([int(column[part].sum()) for part in rows] for column in self._columns),
            names=[self.groups[part[0]] if len(part) > 1 else self.names[part[0]] for part in rows],
            measured=self.measured,
        )

    def joined(self, *others: AttackCounts) -> AttackCounts:
        """These counts followed by others; rows with the same group label form one group.

        Of the measurement metadata, only what holds for all of them is kept.  Default names, numbers
        from 0, continue: the first rows of two files are not one base entered twice.
        """
        parts = (self, *others)
        names = list(self.names)
        for part in others:
            numbered = part.names == tuple(str(row) for row in range(len(part)))
            start = len(names)
            names += [str(start + i) for i in range(len(part))] if numbered else part.names
        return counts_of(
            *np.concatenate([part._columns for part in parts], axis=1),
            names=names,
            groups=[label for part in parts for label in (part.groups or ("",) * len(part))],
            measured=MeasuredBy.shared(part.measured for part in parts),
        ).with_flaws(flaw for part in parts for flaw in part.flaws)

    @property
    def by_hypothesis(self) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        """Errors and trials: (X, N0) and (Y, N1)."""
        return (self.false_positives, self.trials_h0), (self.false_negatives, self.trials_h1)

    @property
    def largest_trials(self) -> int:
        """The largest number of challenges of any base under either hypothesis."""
        return int(max(self.trials_h0.max(), self.trials_h1.max()))

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
        """Read counts from a file of JSON or CSV."""
        return cls.parse(_files.load(source), name=Path(source).name)

    @classmethod
    def parse(cls, text: str, *, name: str) -> AttackCounts:
        """Read CSV or JSON text; ``name`` names the file in error messages."""
        return cls(**count_tables.parse(text, name=name))

    def rows(self) -> list[dict[str, str | int | float]]:
        """One plain dictionary per challenge base, as written to files.

        Groups are included only if there are any, measurement metadata only if known.
        """
        labels = {NAME_COLUMN: self.names} | ({GROUP_COLUMN: self.groups} if self.groups else {})
        numbers = {name: getattr(self, name).tolist() for name in COLUMNS}
        table = labels | numbers
        known = {} if self.measured is None else self.measured.columns()
        return [
            dict(zip(table, row, strict=True)) | known for row in zip(*table.values(), strict=True)
        ]

    def to_csv(self) -> str:
        """CSV text that :meth:`parse` reads back."""
        rows = self.rows()
        return _files.csv_text(list(rows[0]), [list(row.values()) for row in rows])

    def write(self, target: str | PathLike[str]) -> None:
        """Write CSV or JSON, by the ending of the name; replaces a file of that name.

        :meth:`read` gives the same counts back.
        """
        path = Path(target)
        kind = _files.ending(path, ".csv", ".json", bare=".csv")
        for column, labels in ((NAME_COLUMN, self.names), (GROUP_COLUMN, self.groups)):
            _files.written_labels(labels, column)
        text = json.dumps(self.rows(), indent=2) + "\n" if kind == ".json" else self.to_csv()
        _files.write_text(path, text)

    def distinct(self) -> tuple[AttackCounts, IntArray]:
        """The bases that differ up to the model's symmetries, and which of them each row is.

        Exchanging the hypotheses and reflecting the decisions leave every mass of the model
        unchanged, so (X, N0, Y, N1), (Y, N1, X, N0), (N0 - X, N0, N1 - Y, N1) and
        (N1 - Y, N1, N0 - X, N0) are one case.
        """
        x, n0, y, n1 = self._columns
        forms = (x, n0, y, n1), (y, n1, x, n0), (n0 - x, n0, n1 - y, n1), (n1 - y, n1, n0 - x, n0)
        rows = zip(*(np.transpose(form).tolist() for form in forms), strict=True)
        first = [min(row) for row in rows]  # the form that sorts first stands for all
        unique, which = np.unique(first, axis=0, return_inverse=True)
        return counts_of(*unique.T), which.ravel().astype(np.int64)


def counts_of(x: Any, n0: Any, y: Any, n1: Any, **labels: Any) -> AttackCounts:
    """X of N0 and Y of N1 as counts; ``labels`` are the other parameters of :class:`AttackCounts`."""
    return AttackCounts(false_positives=x, trials_h0=n0, false_negatives=y, trials_h1=n1, **labels)


def failure_flaws(failed: int) -> tuple[str, ...]:
    """A sentence if models failed: what is estimated from the others is a selection."""
    if not failed:
        return ()
    return (
        f"{failed:,} of the models failed. In proofs a failure is an outcome, by default the lowest "
        "score (`failures=`); the estimate is biased if failures depend on who is in the data.",
    )
