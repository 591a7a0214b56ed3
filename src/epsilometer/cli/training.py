"""The progress of training, as a bar or as lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import epsilometer as em
from epsilometer.auditing.execution import Execution
from epsilometer.cli import results

SECONDS_BETWEEN_LINES = 30
"""Between lines of progress where there is no terminal: few enough for a log."""


@dataclass(frozen=True, kw_only=True)
class ShownExecution(Execution):
    """Training with a display."""

    def measure(self, plan: em.Plan, store: Any) -> em.rows.Measurement:
        """Train the models that the store does not have."""
        with training_progress() as show:
            return Execution.measure(replace(self, on_progress=show), plan, store)


@contextmanager
def training_progress() -> Iterator[Callable[[em.rows.Progress], None]]:
    """A bar on a terminal, lines from time to time elsewhere."""
    start = last = time.monotonic()
    with results.progress("training", unit="") as (report, advance):

        def show(now: em.rows.Progress) -> None:
            nonlocal last
            seconds = time.monotonic()
            if report is not None and advance is not None:
                report(progress_text(now, seconds - start))
                advance(now.done, now.total)
            elif seconds - last >= SECONDS_BETWEEN_LINES:
                last = seconds
                results.warn(progress_text(now, last - start))

        yield show


def progress_text(now: em.rows.Progress, seconds: float) -> str:
    """Finished models, speed and remaining time."""
    from epsilometer.measurement.first_models import duration

    text = f"{now.done:,} of {now.total:,} models"
    if now.failed:
        text += f", {now.failed:,} failed"
    rate = now.trained / seconds if seconds > 0 else 0.0
    if rate <= 0:
        return text
    left = (now.total - now.done - now.failed) / rate
    speed = f"{rate:.3g} per second" if rate >= 0.1 else f"{60 * rate:.3g} per minute"
    return f"{text}, {speed}, {duration(left)} left"
