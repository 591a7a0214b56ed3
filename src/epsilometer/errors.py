"""The exceptions Epsilometer raises on purpose.

Everything a caller may want to catch derives from :class:`EpsilometerError`.  Bad input is an
:class:`InputError`, which is also a :class:`ValueError`, so plain Python code can catch it as such.
"""

from __future__ import annotations


class EpsilometerError(Exception):
    """Base of every error raised on purpose by this package."""


class InputError(EpsilometerError, ValueError):
    """An argument, a file or a row of a file is outside its stated domain."""


class ContradictionError(EpsilometerError):
    """The counts have no weight anywhere under the model, so there is no posterior to report."""


class NotConvergedError(EpsilometerError):
    """A run did not reach the accuracy that was asked of it."""


class StoreError(EpsilometerError):
    """A store of losses cannot be used: of another plan, damaged, or with no room left to write."""


class ExecutorError(EpsilometerError):
    """What should train the models cannot be reached or is gone; losses that came in are kept."""


class TrainingError(EpsilometerError):
    """The training code fails, whatever the model; losses that came in are kept.

    ``traceback`` is the part of its traceback that is in the user's code, as text; it may be empty.
    """

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback
        if traceback:
            self.add_note(traceback)
