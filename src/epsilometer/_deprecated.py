"""Renamed parameters: old names work for one release, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed_parameters(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept old names of keyword parameters, given as ``old="new"``.

    Examples
    --------
    >>> @renamed_parameters(colour="color")
    ... def paint(*, color):
    ...     return color
    >>> paint(color="red")
    'red'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            given: dict[str, Any] = kwargs
            for old, new in names.items():
                if old not in given:
                    continue
                if new in given:
                    raise TypeError(
                        f"{function.__name__}() got {old} and {new}, which are the same."
                    )
                warnings.warn(
                    f"{function.__name__}(): {old} is deprecated and will be removed in 0.3: use {new}.",
                    DeprecationWarning,
                    stacklevel=2,
                )
                given[new] = given.pop(old)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def renamed_property(old: str, new: str) -> Any:
    """A property with an old name that reads the new one.

    Examples
    --------
    >>> class Paint:
    ...     color = "red"
    ...     colour = renamed_property("colour", "color")
    """

    def read(self: object) -> Any:
        kind = type(self).__name__
        message = f"{kind}.{old} is deprecated and will be removed in 0.3: use {kind}.{new}."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(read, doc=f"Deprecated: use ``{new}``.")
