"""The exceptions that Epsilometer raises deliberately.

Everything a caller may want to catch derives from :class:`EpsilometerError`.  Bad input is an
:class:`InputError`, which is also a :class:`ValueError`, so plain Python code can catch it as such.
"""


class EpsilometerError(Exception):
    """Base class of every error that this package raises deliberately."""


class InputError(EpsilometerError, ValueError):
    """An argument, a file or a row of a file is outside its documented domain."""


class ContradictionError(EpsilometerError):
    """The counts have zero likelihood everywhere under the model, so there is no posterior."""


class NotConvergedError(EpsilometerError):
    """A run did not reach the requested accuracy."""


class StoreError(EpsilometerError):
    """A store of losses cannot be used: it belongs to another plan, is damaged, or the disk is full."""


class ExecutorError(EpsilometerError):
    """The executor cannot be reached or was lost; losses received so far are kept."""


class TrainingError(EpsilometerError):
    """The training code fails for every model; losses received so far are kept.

    ``traceback`` is the part of the traceback that lies in the user's code, as text; it may be empty.
    """

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback
        if traceback:
            self.add_note(traceback)


class EpsilometerWarning(UserWarning):
    """What the shell prints as a warning: something to know before a number is quoted."""
