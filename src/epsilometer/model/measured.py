"""How error counts were measured, as recorded in files.

It determines the likelihood: decisions of cross-fed models depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from epsilometer import _files, _validate
from epsilometer.errors import InputError

CROSS_FED, INDEPENDENT, POOL = "cross-fed", "independent", "pool"
DESIGNS = (CROSS_FED, INDEPENDENT, POOL)
DESIGN_COLUMN = "design"


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
            if not name or not name.isprintable():
                raise InputError(
                    f"expected a name of printable characters as statistic, got {_files.shown(name)}."
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
        how = (
            "by cross-feeding: models served as each other's shadow models"
            if self.cross_fed
            else "with separate shadow models for every challenge"
        )
        how += ", and points share models" if self.pool else ""
        known = []
        if self.statistic is not None:
            known.append(f"statistic {self.statistic}")
        if self.target_alpha is not None:
            known.append(f"target rate {self.target_alpha:g}")
        how += f" ({', '.join(known)})" if known else ""
        return f"According to their metadata, the counts were measured {how}."

    def columns(self) -> dict[str, str | float]:
        """Values for files: one column for each part that is known."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: value for name, value in parts.items() if value is not None}

    @classmethod
    def shared(cls, several: Iterable[MeasuredBy | None]) -> MeasuredBy | None:
        """What holds for all: None if any design is unknown or differs; the same for other parts."""
        known = list(several)
        designs = {None if measurement is None else measurement.design for measurement in known}
        if len(designs) != 1 or None in designs:
            return None
        parts: dict[str, Any] = {}
        for part in fields(cls):
            values = {getattr(measurement, part.name) for measurement in known}
            parts[part.name] = values.pop() if len(values) == 1 else None
        return cls(**parts)


COLUMNS = tuple(part.name for part in fields(MeasuredBy))
"""Columns of files that describe how counts were measured, the same in every row."""


def of_record(record: Mapping[str, object], place: str) -> MeasuredBy | None:
    """Metadata from one row of a file, None if there is none.  ``place`` names the row in messages."""
    given = {name: record[name] for name in COLUMNS if not _empty(record.get(name))}
    if not given:
        return None
    if DESIGN_COLUMN not in given:
        raise InputError(
            f"{place}: expected a {DESIGN_COLUMN} ({' or '.join(DESIGNS)}) together with "
            f"{', '.join(given)}, got none."
        )
    design = given[DESIGN_COLUMN]
    given[DESIGN_COLUMN] = design.strip() if isinstance(design, str) else design
    rate = given.get("target_alpha")
    if isinstance(rate, str):
        given["target_alpha"] = _files.number(rate)
        if given["target_alpha"] is None:
            raise InputError(f"{place}: expected 0 < target_alpha < 1, got {_files.shown(rate)}.")
    try:
        if not isinstance(given.get("statistic", ""), str):
            raise InputError(
                f"expected statistic to be text, got {_files.shown(given['statistic'])}."
            )
        return MeasuredBy(**given)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{place}: {str(error).removeprefix('counts: ')}") from None


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
