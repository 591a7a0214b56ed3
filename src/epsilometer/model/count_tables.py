"""Files of error counts, in CSV and JSON, and how the counts in them were measured.

Files are untrusted: every row is checked, and errors name the row.  CSV: a header row with the columns
false_positives, trials_h0, false_negatives, trials_h1 and, optionally, challenge_base and group, in any
order; design, target_alpha and statistic, the same in every row, describe how the counts were measured.
JSON: a list of objects with those keys, or an object with such a list under "bases".

How counts were measured determines the likelihood: decisions of cross-fed models depend on each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from epsilometer import _files, _validate
from epsilometer._arrays import IntArray
from epsilometer.errors import InputError

COLUMNS = ("false_positives", "trials_h0", "false_negatives", "trials_h1")
NAME_COLUMN = "challenge_base"
GROUP_COLUMN = "group"

CROSS_FED, INDEPENDENT, POOL = "cross-fed", "independent", "pool"
DESIGNS = (CROSS_FED, INDEPENDENT, POOL)
DESIGN_COLUMN = "design"

_WHOLE = re.compile(r"[+-]?\d{1,16}")


@dataclass(frozen=True, kw_only=True)
class MeasuredBy:
    """Metadata on how counts were measured.

    Parameters
    ----------
    design
        ``cross-fed``: models served as each other's shadow models.  ``independent``: every challenge
        had its own shadow models.  ``pool``: cross-fed, and the points share models too.
    target_alpha
        The false-positive rate that the attack aimed at, in (0, 1); None if there were several, or if
        it is unknown.
    statistic
        Name of the attack's statistic; None if there were several or unknown.  A name is never run.

    Examples
    --------
    >>> MeasuredBy(design="cross-fed", target_alpha=0.1).columns()
    {'design': 'cross-fed', 'target_alpha': 0.1}
    """

    design: str
    target_alpha: float | None = None
    statistic: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "design", _validate.one_of("design", self.design, DESIGNS))
        if self.target_alpha is not None:
            rate = _validate.open_unit_interval("target_alpha", self.target_alpha)
            object.__setattr__(self, "target_alpha", rate)
        if self.statistic is not None:
            name = _files.label(self.statistic, "statistic", "counts")
            if not isinstance(self.statistic, str) or not name or not name.isprintable():
                raise InputError(
                    "expected a name of printable characters as statistic, got "
                    f"{_files.shown(self.statistic)}."
                )
            object.__setattr__(self, "statistic", name)

    @property
    def cross_fed(self) -> bool:
        """Whether decisions share models, and so depend on each other."""
        return self.design in (CROSS_FED, POOL)

    @property
    def pool(self) -> bool:
        """Whether different points share models."""
        return self.design == POOL

    @property
    def description(self) -> str:
        """One sentence for reports."""
        how = "with separate shadow models for every challenge"
        if self.cross_fed:
            how = "by cross-feeding: models served as each other's shadow models"
        how += ", and points share models" if self.pool else ""
        known = [] if self.statistic is None else [f"statistic {self.statistic}"]
        known += [] if self.target_alpha is None else [f"target rate {self.target_alpha:g}"]
        how += f" ({', '.join(known)})" if known else ""
        return f"According to their metadata, the counts were measured {how}."

    def columns(self) -> dict[str, str | float]:
        """Values for files: one column for each part that is known."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def shared(cls, several: Iterable[MeasuredBy | None]) -> MeasuredBy | None:
        """What holds for all: None if any design is unknown or differs; the same for other parts."""
        known = list(several)
        values = {name: {getattr(each, name, None) for each in known} for name in MEASURED}
        parts: dict[str, Any] = {name: v.pop() for name, v in values.items() if len(v) == 1}
        return cls(**parts) if parts.get(DESIGN_COLUMN) else None


#: Columns of files that describe how counts were measured, the same in every row.
MEASURED = tuple(part.name for part in fields(MeasuredBy))

OPTIONAL = (NAME_COLUMN, GROUP_COLUMN, *MEASURED)


def check_counts(columns: Mapping[str, IntArray], places: Sequence[str]) -> None:
    """Raise :class:`InputError` unless each row can be the counts of a base; ``places`` names rows."""
    most = _validate.LARGEST_COUNT
    for count, trials in (COLUMNS[:2], COLUMNS[2:]):
        errors, total = columns[count], columns[trials]
        for right, expected, names in (
            ((total >= 1) & (total <= most), f"1 <= {trials} <= {most:.0e}", [trials]),
            ((errors >= 0) & (errors <= total), f"0 <= {count} <= {trials}", [count, trials]),
        ):
            if not right.all():
                row = int(np.argmin(right))
                got = ", ".join(f"{name}={columns[name][row]}" for name in names)
                raise InputError(f"{places[row]}: expected {expected}, got {got}.")


def is_json(text: str, *, name: str) -> bool:
    """Whether text is JSON: by the name of its file, or if it begins with a bracket."""
    return name.lower().endswith(".json") or text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{")


def parse(text: str, *, name: str) -> dict[str, Any]:
    """Arguments of `AttackCounts` from JSON or CSV text; ``name`` is the file in error messages."""
    if is_json(text, name=name):
        return _assemble(_json_records(text, name=name), name=name)
    header, rows, places = _files.table(text, COLUMNS, name=name)
    _files.check_columns(header, COLUMNS, OPTIONAL, where=f"{name} row 1")
    records = [dict(zip(header, cells, strict=True)) for cells in rows]
    return _assemble(list(zip(records, places, strict=True)), name=name)


def _json_records(text: str, *, name: str) -> list[tuple[dict[str, Any], str]]:
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{name}: not valid JSON ({error}).") from None
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    if isinstance(data, dict) and isinstance(data.get("bases"), list):
        data = data["bases"]  # what `epsilometer attack --json` prints
    if not isinstance(data, list):
        raise InputError(f"{name}: expected a list of objects, got a {type(data).__name__}.")
    records = [(item, f"{name} item {number}") for number, item in enumerate(data, start=1)]
    for item, place in records:
        if not isinstance(item, dict):
            raise InputError(f"{place}: expected an object, got {_files.shown(item)}.")
        _files.check_columns(list(item), COLUMNS, OPTIONAL, where=place)
    return records


def _no_constant(word: str) -> float:
    raise ValueError(f"expected whole numbers, got {word}.")


def _assemble(records: Sequence[tuple[Mapping[str, Any], str]], *, name: str) -> dict[str, Any]:
    """Combine records, each with its location in the file, into columns."""
    if not records:
        raise InputError(f"{name}: expected at least one challenge base, got none.")
    columns = {
        column: np.array([_integer(record[column], column, place) for record, place in records])
        for column in COLUMNS
    }
    check_counts(columns, [place for _, place in records])
    names = [
        _files.label(record.get(NAME_COLUMN, row), NAME_COLUMN, place)
        for row, (record, place) in enumerate(records)
    ]
    groups = [_files.label(record.get(GROUP_COLUMN, ""), GROUP_COLUMN, p) for record, p in records]
    origin = _measured_by(*records[0])
    for record, place in records:
        if (other := _measured_by(record, place)) != origin:
            got, before = ({} if m is None else m.columns() for m in (other, origin))
            raise InputError(
                f"{place}: expected the same {', '.join(MEASURED)} in every row, got "
                f"{_files.shown(got)} after {_files.shown(before)}; put counts that were measured "
                "differently into separate files."
            )
    return {**columns, "names": names, "groups": groups, "measured": origin}


def _measured_by(record: Mapping[str, Any], place: str) -> MeasuredBy | None:
    """Metadata from one row of a file, None if there is none.  ``place`` names the row in messages."""
    cells = {name: record[name] for name in MEASURED if record.get(name) is not None}
    given: dict[str, Any] = {n: c.strip() if isinstance(c, str) else c for n, c in cells.items()}
    given = {name: cell for name, cell in given.items() if cell != ""}
    if not given:
        return None
    if DESIGN_COLUMN not in given:
        raise InputError(
            f"{place}: expected a {DESIGN_COLUMN} ({' or '.join(DESIGNS)}) together with "
            f"{', '.join(given)}, got none."
        )
    rate = given.get("target_alpha")
    if isinstance(rate, str):
        number = _files.number(rate)
        given["target_alpha"] = rate if number is None else number
    try:
        return MeasuredBy(**given)
    except InputError as error:
        raise InputError(f"{place}: {str(error).removeprefix('counts: ')}") from None


def _integer(value: object, column: str, place: str) -> int:
    number = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) else value
    most = _validate.LARGEST_COUNT
    if isinstance(number, int) and not isinstance(number, bool) and abs(number) <= 10 * most:
        return number
    raise InputError(
        f"{place}: expected a whole number up to {most:.0e} in {column}, "
        f"got {column}={_files.shown(value)}."
    )
