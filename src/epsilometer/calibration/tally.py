"""Tallies: sums over runs that can be added in any order and stored as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass
from operator import add
from typing import Any, Self, TypeVar

from epsilometer.errors import InputError


@dataclass(frozen=True)
class Sums:
    """Counts and sums, 0 before the first run; subclasses add fields."""

    runs: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, astuple(self), astuple(other)))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """From the checked contents of a file."""
        names = set(asdict(cls()))
        if set(data) != names or any(type(value) not in (int, float) for value in data.values()):
            raise InputError(f"expected a tally with {', '.join(sorted(names))}.")
        return cls(**data)  # type: ignore[arg-type]


AnyTally = TypeVar("AnyTally", bound=Sums)


def summed(found: Iterable[Mapping[str, Any]], kind: type[AnyTally]) -> dict[str, AnyTally]:
    """Tallies of all jobs of a cell, by label."""
    sums: dict[str, AnyTally] = {}
    for result in found:
        for name, data in result.items():
            sums[name] = sums.get(name, kind()) + kind.from_dict(data)
    return sums
