"""How the models of an audit are trained and where their losses are kept."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilometer._arrays import OnMessage
from epsilometer._progress import OnProgress
from epsilometer._warnings import tell
from epsilometer.measurement.engine import (
    RETRIES,
    Measurement,
    TrainingCheck,
    check_training,
    measure,
)
from epsilometer.measurement.first_models import WARNING
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.store import MemoryStore

NO_STORE = "none"
"""The word for losses that are kept for one run only."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Who trains, and what is said meanwhile.

    Parameters
    ----------
    executor, workers, retries, accept_changed_code, on_progress
        As for `measure`.
    on_message
        Called with a line of text now and then; warnings are Python's own.
    """

    executor: str | Executor = "serial"
    workers: int | None = None
    retries: int = RETRIES
    accept_changed_code: bool = False
    on_progress: OnProgress = None
    on_message: OnMessage | None = None

    def say(self, line: str) -> None:
        """A line of progress, or a warning."""
        if line.startswith(WARNING):
            tell([line.removeprefix(WARNING)])
        elif self.on_message is not None:
            self.on_message(line)

    def measure(self, plan: Plan, store: Any) -> Measurement:
        """Train the models that the store does not have."""
        return measure(
            plan,
            store,
            executor=self.executor,
            workers=self.workers,
            retries=self.retries,
            accept_changed_code=self.accept_changed_code,
            on_progress=self.on_progress,
            on_message=self.say,
        )

    def check(self, plan: Plan, store: Any) -> TrainingCheck:
        """Train the first models only."""
        return check_training(
            plan,
            store,
            executor=self.executor,
            workers=self.workers,
            accept_changed_code=self.accept_changed_code,
        )


def chosen_store(given: Any) -> Any:
    """The store to use instead of the configuration's, None to use that one."""
    if given == NO_STORE:
        return MemoryStore()
    return Path(given).absolute() if isinstance(given, str) else given
