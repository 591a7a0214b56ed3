"""What to know before a number is quoted, said as Python warnings: each sentence once per call."""

import sys
import warnings
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from epsilometer.errors import EpsilometerWarning

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

PACKAGE = str(Path(__file__).parent)

#: The sentences that the running call has said.
_told: ContextVar[set[str] | None] = ContextVar("told", default=None)


def says_once(call: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """A public call that says each sentence once, also if it makes other such calls."""

    @wraps(call)
    def said(*arguments: Arguments.args, **options: Arguments.kwargs) -> Returned:
        __tracebackhide__ = True  # pytest shows the caller's line
        if _told.get() is not None:
            return call(*arguments, **options)
        token = _told.set(set())
        try:
            return call(*arguments, **options)
        finally:
            _told.reset(token)

    return said


def tell(sentences: Iterable[str], category: type[Warning] = EpsilometerWarning) -> None:
    """Warn with each sentence, at the line of the user that led here."""
    told = _told.get()
    for text in sentences:
        sentence = f"{text[:1].upper()}{text[1:]}"
        if told is not None:
            if sentence in told:
                continue
            told.add(sentence)
        warnings.warn(sentence, category, stacklevel=_level())


def _level() -> int:
    """The ``stacklevel`` of the first caller outside the package, for a call from `tell`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
