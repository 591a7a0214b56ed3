"""Claims: one epsilon, a curve over delta, an accountant, or training that promises nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _columns, _files, _validate
from epsilometer.errors import InputError

COLUMNS = ("delta", "epsilon")


@dataclass(frozen=True)
class NoPromise:
    """The claim of training whose accountant states infinity, or cannot state an epsilon.

    It is a claim of its own, not the absence of one: nobody may read its audit as a pass.

    Parameters
    ----------
    reason
        Why nothing is promised, without a full stop.
    """

    reason: str = "its epsilon is stated to be infinite"


#: One epsilon for every delta, a function from delta to the epsilon claimed there, or no promise.
Claim = float | Callable[[float], float] | NoPromise


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimedCurve:
    """A claimed epsilon at each of some deltas; call it with a delta.

    Between two deltas the claim is that of the smaller one, since a mechanism that satisfies it does so
    at every larger delta; beyond the largest delta its claim continues to hold.  Below the smallest
    delta nothing is claimed.

    Parameters
    ----------
    deltas
        Distinct, each in [0, 1); sorted on construction.
    epsilons
        The claim at each delta, at least 0; it must not increase with delta.

    Examples
    --------
    >>> claim = ClaimedCurve(deltas=[1e-6, 1e-4], epsilons=[3.0, 2.0])
    >>> claim(1e-5), claim(0.1)
    (3.0, 2.0)
    """

    deltas: ArrayLike
    epsilons: ArrayLike

    def __post_init__(self) -> None:
        given, claims = np.ravel(self.deltas), np.ravel(self.epsilons)
        if not len(given) or len(given) != len(claims):
            raise InputError(
                "expected a claimed epsilon for each of one or more deltas, got "
                f"{len(given)} deltas and {len(claims)} epsilons."
            )
        deltas = np.array(_validate.deltas(given.tolist()))
        numbers = [_validate.non_negative("epsilon", value) for value in claims.tolist()]
        epsilons = np.array(numbers)[np.argsort(given)]
        rising = np.flatnonzero(np.diff(epsilons) > 0)
        if len(rising):
            place = rising[0]
            raise InputError(
                "expected a claim that does not increase with delta, got "
                f"epsilon={epsilons[place]:g} at delta={deltas[place]:g} and "
                f"epsilon={epsilons[place + 1]:g} at delta={deltas[place + 1]:g}."
            )
        object.__setattr__(self, "deltas", deltas)
        object.__setattr__(self, "epsilons", epsilons)

    def __call__(self, delta: float) -> float:
        """The epsilon claimed at a delta; infinite below the smallest, where nothing is claimed."""
        deltas, epsilons = np.asarray(self.deltas), np.asarray(self.epsilons)
        place = int(np.searchsorted(deltas, _validate.delta(delta), side="right")) - 1
        return float(epsilons[place]) if place >= 0 else math.inf

    @classmethod
    def read_csv(cls, source: str | PathLike[str]) -> ClaimedCurve:
        """Read a CSV file with the columns delta and epsilon, in any order of rows."""
        text, name = _files.load(source), Path(source).name
        columns = _columns.parse_csv(text, dict.fromkeys(COLUMNS, _columns.NUMBER), name=name)
        with _validate.within(name):
            return cls(deltas=columns["delta"], epsilons=columns["epsilon"])
