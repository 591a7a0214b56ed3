"""Failures of the user's training code: message, traceback, and when to stop trying."""

import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from epsilometer import _files
from epsilometer._text import shortened
from epsilometer.attacks.repeats import SIDES
from epsilometer.errors import TrainingError
from epsilometer.measurement.plan import Sizes, Task

#: Longest stored message of a failure, in characters.
LONGEST_STORED_MESSAGE = 500

#: Longest stored traceback: characters per line, and lines.
LONGEST_LINE, MOST_LINES = 200, 40

#: How many different models must fail with the same error, with none trained in between, to end a
#: run: if none was ever trained; if this run has trained none; and later.  If every other model
#: failed by chance, 20 failures in a row would be one in a million.
FIRST_EQUAL_FAILURES, EQUAL_FAILURES, EQUAL_FAILURES_LATER = 2, 5, 20

#: What is said of a model whose machine failed.  Its random stream is that of the first attempt, so a
#: loss that comes later is the one it would have had; the failure is then forgotten.
WORKER_DIED, RESULT_LOST = "the worker that trained it died", "its result was lost repeatedly"

#: In place of a hypothesis: models of both.
ALL = -1

_PACKAGE = Path(__file__).resolve().parents[1]


class Failure(NamedTuple):
    """A model that could not be trained: number of attempts and last error message, in one line."""

    task: Task
    attempts: int
    message: str
    #: Traceback in the user's code.
    traceback: str = ""

    def described(self) -> dict[str, int | str]:
        """As plain values for JSON."""
        return {**self.task._asdict(), "attempts": self.attempts, "message": self.message}


def message_of(error: BaseException) -> str:
    """An error as one line of text."""
    # Python's own formatting also handles errors whose __str__ raises.
    kind = traceback.TracebackException(type(error), error, None, compact=True)
    text = " ".join(f"{type(error).__name__}: {kind!s}".split())
    return shortened(text, LONGEST_STORED_MESSAGE)


def traceback_of(error: BaseException) -> str:
    """The part of an error's traceback that is in the user's code, safe to print."""
    trace = traceback.TracebackException.from_exception(error, compact=True)
    trace.stack = traceback.StackSummary.from_list(_user_frames(trace.stack))
    if not trace.stack and trace.__cause__ is None and trace.__context__ is None:
        return ""
    text = "".join(trace.format()).removeprefix("Traceback (most recent call last):\n")
    return truncated(text)


def _user_frames(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Frames in the user's code; those of a bundled algorithm are kept if there are no others."""
    depths = [_depth(Path(frame.filename)) for frame in frames]
    below = next((n for n, depth in enumerate(depths) if depth < 2), len(frames))
    users = next((n for n, depth in enumerate(depths) if depth < 1), below)
    return list(frames[users:])


def _depth(path: Path) -> int:
    """2 for the packages that run training, 1 for the rest of Epsilometer, 0 for other code."""
    if not path.is_relative_to(_PACKAGE):
        return 0
    return 2 if path.parent.name in ("epsilometer", "measurement") else 1


def truncated(text: str) -> str:
    """Traceback text made printable, with long lines truncated and middle lines omitted."""
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"  ... {len(lines) - 2 * half} lines ...", *lines[-half:]]
    return "\n".join(map(_short, lines))


def _short(line: str) -> str:
    # Truncate before escaping, to save work, and after, because escapes are longer.
    return shortened(_files.printable(line[: LONGEST_LINE + 1].expandtabs()), LONGEST_LINE)


@dataclass(frozen=True, kw_only=True)
class Streak:
    """Models that failed with the same error, with none trained in between."""

    tasks: tuple[Task, ...]
    #: Whether similar models were trained before.
    trained: bool
    #: Which models these are, if others can be trained.
    only: str = ""


def without_numbers(message: str) -> str:
    """An error message with numbers masked, since these may be batch sizes or positions.

    Examples
    --------
    >>> without_numbers("ValueError: got shape (36, 64)")
    'ValueError: got shape (#, #)'
    """
    return re.sub(r"\d+", "#", message)


def training_error(streak: Streak, sizes: Sizes, problem: Any, store: Any) -> TrainingError:
    """The error that ends a run, in one line, with the traceback of the last failure."""
    where = ""
    if store.kept and problem.traceback:
        path = store.path.name if store.path.absolute().parent == Path.cwd() else store.path
        where = f" `epsilometer status {path}` has the traceback."
    first, number = sizes.named(streak.tasks[0]), len(streak.tasks)
    text = (
        f"no model{streak.only} could be trained ({first}: {problem.message}); stopped after "
        f"{number} of {sizes.models:,}."
    )
    if streak.trained:
        text = (
            f"stopped: {number} models in a row failed with the same error, {problem.message} (first: "
            f"{first}). Losses received so far are kept."
        )
    return TrainingError(text + where, problem.traceback)


class Streaks:
    """Failures of a run, and which of them end it.

    Parameters
    ----------
    models
        Number of models to train.
    bases
        Number of bases they belong to.
    trained
        For each hypothesis, whether models of it were trained before.
    known
        Models that failed in earlier runs, with their messages.  Repeated failures of these do not end
        the run; otherwise a store with such models could never be completed.
    """

    def __init__(
        self, *, models: int, bases: int, trained: dict[int, bool], known: dict[Task, str]
    ) -> None:
        self._models, self._bases, self._known = models, bases, known
        self._before = trained | {ALL: any(trained.values())}
        self._now = dict.fromkeys(self._before, False)
        #: The message and models of each open streak: of one hypothesis, or of all.
        self._open: dict[int, tuple[str, dict[Task, None]]] = {}

    def ever_trained(self, hypothesis: int) -> bool:
        """Whether a model of a hypothesis, or of any, was trained, in this run or before."""
        return self._before.get(hypothesis, False) or self._now.get(hypothesis, False)

    def trained(self, hypothesis: int) -> None:
        """Record that a model was trained."""
        for streak in (ALL, hypothesis):
            self._now[streak] = True
            self._open.pop(streak, None)

    def failed(self, hypothesis: int, task: Task, message: str) -> Streak | None:
        """Record a failure; returns the reason to end the run, or None."""
        message = without_numbers(message)
        before = self.ever_trained(ALL)
        if before and without_numbers(self._known.get(task, "")) == message:
            return None
        for streak in (ALL, hypothesis):
            old, tasks = self._open.get(streak, ("", {}))
            tasks = (tasks if old == message else {}) | {task: None}
            self._open[streak] = message, tasks
            known = self.ever_trained(streak)
            if self._enough(tasks, known=known, now=self._now[streak]):
                side = "" if streak == ALL else f" {SIDES[hypothesis]} the challenge point"
                only = side if before else ""
                return Streak(tasks=tuple(tasks), trained=known, only=only)
        return None

    def _enough(self, tasks: dict[Task, None], *, known: bool, now: bool) -> bool:
        if not known:
            return len(tasks) >= min(FIRST_EQUAL_FAILURES, self._models)
        if not now:
            return len(tasks) >= EQUAL_FAILURES
        # One base whose models all fail is no reason to give up on the others.
        return len(tasks) >= EQUAL_FAILURES_LATER and (
            self._bases == 1 or len({task.base for task in tasks}) > 1
        )
