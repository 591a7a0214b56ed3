"""Sums over runs of one estimator in one cell; they add up, so that runs can come in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from operator import add

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError

ROUNDING = 1e-9
"""A bound above the truth by no more than this is not above it."""


@dataclass(frozen=True)
class Tally:
    """Of ``runs``: how often the lower end was above the truth, the upper end below it, and more."""

    runs: int = 0
    above: int = 0
    below: int = 0
    sum_low: float = 0.0
    bounded: int = 0
    sum_width: float = 0.0

    @classmethod
    def of(cls, low: FloatArray, high: FloatArray, *, truth: float) -> Tally:
        """The sums; ``high`` is infinite where there is no upper end."""
        finite = np.isfinite(high)
        return cls(
            runs=len(low),
            above=int(np.sum(low > truth + ROUNDING)),
            below=int(np.sum(high < truth - ROUNDING)),
            sum_low=float(np.sum(low)),
            bounded=int(finite.sum()),
            sum_width=float(np.sum(high[finite] - low[finite])),
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(add, astuple(self), astuple(other)))

    as_dict = asdict

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Tally:
        """From a file, whose text is checked."""
        names = set(asdict(cls()))
        if set(data) != names or any(type(value) not in (int, float) for value in data.values()):
            raise InputError(f"expected a tally with {', '.join(sorted(names))}.")
        return cls(**data)  # type: ignore[arg-type]
