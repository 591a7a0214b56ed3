"""Shared by commands: progress, one estimate, printing, warnings and folders."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _files, _progress
from epsilometer._text import in_shell_words
from epsilometer.errors import InputError
from epsilometer.inputs.source import NO_OPTIONS, LossOptions, Source

if TYPE_CHECKING:
    from epsilometer.measurement.designs import Design

Report = Callable[[str], None]
Advance = Callable[[int, int], None]

STDIN, STDIN_NAME = "-", "standard input"

#: Between lines of progress where there is no terminal: few enough for a log.
SECONDS_BETWEEN_LINES = 5

warn, tell = _files.warn, _progress.tell

#: Warnings that this run has printed.
_warned: set[str] = set()


def warn_all(sentences: Iterable[str]) -> None:
    """Print each sentence as a warning, once in a run."""
    for sentence in sentences:
        text = in_shell_words(f"{sentence[:1].upper()}{sentence[1:]}")
        if text not in _warned:
            _warned.add(text)
            warn(f"warning: {text}")


@contextmanager
def heard() -> Iterator[None]:
    """Print the library's warnings as lines on stderr, each once."""
    _warned.clear()

    def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, em.EpsilometerWarning):
            warn_all([str(message)])
        else:
            usual(message, category, *place)

    with warnings.catch_warnings():
        warnings.simplefilter("always", em.EpsilometerWarning)
        usual: Any = warnings.showwarning
        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextmanager
def progress(
    title: str, *, unit: str = " iterations"
) -> Iterator[tuple[Report | None, Advance | None]]:
    """What shows a line, and what shows numbers in ``unit``, if stderr is a terminal."""

    def state(done: int, total: int) -> tuple[str, int, int]:
        count = f": {done:,} of {total:,}{unit}" if unit else ""
        return f"{title}{count}", done, total

    with _progress.progress_of(None, state=state, title=title) as (advance, report):
        yield report, advance


@contextmanager
def counting(title: str) -> Iterator[Callable[[int], None]]:
    """Progress of work without a known end: a display on a terminal, elsewhere lines now and then."""
    started = last = time.monotonic()
    with progress(title) as (report, _):

        def count(done: int) -> None:
            nonlocal last
            if report is not None:
                report(f"{done:,} done")
            elif time.monotonic() - last >= SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                warn(f"{title}: {done:,} done after {last - started:.0f} s")

        yield count


def say(text: str) -> None:
    """Write to stdout at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say_json(data: Any) -> None:
    """One JSON object on one line."""
    say(json.dumps(data, allow_nan=False) + "\n")


def answer(as_json: bool, data: Callable[[], Any], text: Callable[[], str]) -> int:
    """Print an answer as JSON or text; returns the exit code 0."""
    if as_json:
        say_json(data())
    else:
        say(text())
    return 0


def _standard_input() -> str:
    return _files.decode(sys.stdin.buffer.read(_files.LARGEST_FILE + 1), name=STDIN_NAME)


def source_of(file: str, options: LossOptions = NO_OPTIONS) -> Source:
    """The data of a file, a folder, a store or standard input."""
    from epsilometer.inputs import held, sources

    if file != STDIN:
        return held.source_of(file, options)
    return sources.read_text(_standard_input(), STDIN_NAME, options)


def assuming_independent_noise(data: Any) -> em.Scores:
    """Scores of canaries as :class:`~epsilometer.Scores` assumes it; other data are refused."""
    if not isinstance(data, em.Scores):
        raise InputError("--assume-independent-noise is for scores of canaries (score, member).")
    return data.assuming_independent_noise()


def losses_of(
    file: str, variant: str | None, shadows: int | None = None
) -> tuple[em.Losses, Design]:
    """Losses of a file, a store or standard input, and their design."""
    from epsilometer.inputs import sources
    from epsilometer.model.counts import failure_flaws

    if file != STDIN:
        losses, design, failed = sources.read_losses(Path(file), variant, shadows)
        warn_all(failure_flaws(failed or 0))
        return losses, design
    sources.refuse_variant(variant)
    losses = em.Losses.parse_csv(_standard_input(), name=STDIN_NAME)
    return losses, sources.design_for(losses, shadows)


def written_to(paths: list[Path]) -> str:
    """The last line of a command that wrote something."""
    return f"\nWritten to {', '.join(map(_files.printable, paths))}\n" if paths else ""
