"""The key ``challenge`` of a configuration: which records are challenge points."""

from __future__ import annotations

from pathlib import Path

from epsilometer import _files
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.measurement.challenges import (
    CHALLENGE_KINDS,
    ChallengeKind,
    CustomPoints,
    GivenPoints,
)

PLACE = "[audit] challenge"
PILOT = "pilot"


def is_challenge(value: object) -> bool:
    """Whether a value of the file can be meant: text, or whole numbers."""
    if isinstance(value, list):
        return bool(value) and all(type(index) is int and abs(index) < 2**62 for index in value)
    return isinstance(value, str) and value != ""


def challenge_of(value: str | list[int], *, folder: Path) -> ChallengeKind:
    """The kind that the file names; modules in ``folder`` can be imported."""
    if isinstance(value, list):
        try:
            return GivenPoints(indices=tuple(value))
        except InputError as error:
            raise InputError(f"{PLACE}: {error}") from None
    if ":" in value:
        function = loading.load_object(value, folder=folder, place=PLACE)
        if not callable(function):
            raise InputError(f"{PLACE}: expected a function, got {_files.shown(value)}.")
        return CustomPoints(function=function, name=value)
    if value not in CHALLENGE_KINDS:
        known = ", ".join([*CHALLENGE_KINDS, PILOT])
        raise InputError(
            f"{PLACE}: expected {known}, module:function or a list of indices, got "
            f"{_files.shown(value)}."
        )
    return CHALLENGE_KINDS[value]


def check_number(kind: ChallengeKind, challenge_bases: int) -> None:
    """Refuse a number of bases that is not that of the points that are given."""
    if kind.number not in (None, challenge_bases):
        raise InputError(
            f"{PLACE}: expected challenge_bases = {kind.number}, one for each point of the list, got "
            f"challenge_bases = {challenge_bases}; it can be left out."
        )
