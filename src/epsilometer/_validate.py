"""Range checks of arguments: each error names what was expected and what was given."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

from epsilometer.errors import InputError

#: Counts above this lose exactness in double precision, so they are refused rather than rounded.
LARGEST_COUNT = 10**15


def _number(name: str, value: object, expected: str, allowed: Callable[[float], bool]) -> float:
    """Return ``value`` as a float if it is finite and allowed; ``expected`` describes the domain."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"expected {name} to be a number, got {name}={value!r}.")
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"expected a finite {name}, got {name}={number}.")
    if not allowed(number):
        raise InputError(f"expected {expected}, got {name}={number}.")
    return number


def positive(name: str, value: object) -> float:
    """Return ``value`` as a float if it is finite and above zero."""
    return _number(name, value, f"{name} > 0", lambda x: x > 0)


def non_negative(name: str, value: object) -> float:
    """Return ``value`` as a float if it is finite and not below zero."""
    return _number(name, value, f"{name} >= 0", lambda x: x >= 0)


def delta(value: object) -> float:
    """Return ``value`` if it can be the delta of (epsilon, delta)-DP: 0 <= delta < 1."""
    return below_one("delta", value)


def deltas(values: Iterable[object]) -> list[float]:
    """Return deltas in increasing order, if there are some, in [0, 1) and distinct."""
    checked = sorted(delta(value) for value in values)
    if not checked:
        raise InputError("expected at least one delta, got none.")
    for before, after in pairwise(checked):
        if before == after:
            raise InputError(f"expected distinct deltas, got delta={after} twice.")
    return checked


def level(value: object) -> float:
    """Return ``value`` if it can be the level of an interval: 0 < level < 1."""
    return open_unit_interval("level", value)


def below_one(name: str, value: object) -> float:
    """Return ``value`` if it is in [0, 1), with 0 and without 1."""
    return _number(name, value, f"0 <= {name} < 1", lambda x: 0 <= x < 1)


def open_unit_interval(name: str, value: object) -> float:
    """Return ``value`` if it is in (0, 1), endpoints excluded."""
    return _number(name, value, f"0 < {name} < 1", lambda x: 0 < x < 1)


def unit_interval(name: str, value: object) -> float:
    """Return ``value`` if it is in [0, 1], endpoints included."""
    return _number(name, value, f"0 <= {name} <= 1", lambda x: 0 <= x <= 1)


def whole_number(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """Return ``value`` as an int if it is a whole number in [least, most]."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"expected {name} to be a whole number, got {name}={value!r}.")
    number = int(value)
    if number < least:
        raise InputError(f"expected {name} >= {least}, got {name}={number}.")
    if most is not None and number > most:
        raise InputError(f"expected {name} <= {most}, got {name}={number}.")
    return number


@contextmanager
def within(place: object) -> Iterator[None]:
    """Errors about what a place holds, such as a file, begin with its name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def shape(what: str, array: Any, expected: tuple[int, ...]) -> None:
    """Raise :class:`InputError` unless an array has the expected shape."""
    if array.shape != expected:
        raise InputError(f"expected {what} of shape {expected}, got shape {array.shape}.")


def one_of(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    known = list(choices)
    if value not in known:
        raise InputError(f"expected {name} to be one of {', '.join(known)}, got {name}={value!r}.")
    return str(value)
