"""Progress of long calls: a bar in notebooks and terminals, or a callback.

Public calls have ``on_progress``: None shows a bar in a notebook and on a terminal, ``"bar"`` shows one
everywhere, ``"none"`` shows nothing, and a function is called periodically.  A call that another one
makes shows its progress in the bar of that one.
"""

from __future__ import annotations

import html
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol

from epsilometer import _files
from epsilometer._arrays import OnMessage
from epsilometer.errors import InputError

SECONDS_BETWEEN = 0.2
"""Time between two updates of a bar."""

PATIENCE = 1.0
"""Seconds before calls that are usually short show a bar."""

OnProgress = Callable[..., None] | str | None


_open: list[Bar] = []
"""The bars of the running calls, the innermost last."""


class Bar(Protocol):
    """Shows a line of text and how much of the work is done."""

    def show(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show the current state; may be skipped if the last update was very recent."""

    def close(self) -> None:
        """Show the last state, or remove the bar."""


def in_notebook() -> bool:
    """Whether this runs in a notebook kernel; never imports IPython."""
    module: Any = sys.modules.get("IPython")
    shell = module.get_ipython() if hasattr(module, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A bar in the output of a notebook's cell."""

    def __init__(self, *, keep: bool) -> None:
        self._keep, self._handle = keep, None
        self._started = self._shown = time.monotonic()
        self._last: tuple[str, int | None, int | None] | None = None

    def show(self, text: str, done: int | None = None, total: int | None = None) -> None:
        self._last = (text, done, total)
        now = time.monotonic()
        waiting = not self._keep and now - self._started < PATIENCE
        if waiting or (self._handle is not None and now - self._shown < SECONDS_BETWEEN):
            return
        self._shown = now
        self._display(*self._last)

    def close(self) -> None:
        if self._keep and self._last is not None:
            self._display(*self._last)
        elif self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)

    def _display(self, text: str, done: int | None, total: int | None) -> None:
        said = html.escape(_files.printable(text))
        bar = "" if total is None else f'<progress value="{done or 0}" max="{total}"></progress> '
        data = {"text/html": f"<div>{bar}{said}</div>", "text/plain": _files.printable(text)}
        if self._handle is None:
            shown: Any = import_module("IPython.display")
            self._handle = shown.display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class TerminalBar:
    """A bar on stderr; on a terminal it is removed when the work is done.

    Short work shows none: the bar appears after ``wait`` seconds, also if nothing is reported meanwhile.
    """

    def __init__(self, *, wait: float = 0.0) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
        )
        console = Console(file=sys.stderr)
        # In a log, where nothing can be taken away, the last state stays.
        self._bar = Progress(*columns, console=console, transient=console.is_terminal)
        self._task = self._bar.add_task("", total=None)
        self._timer: threading.Timer | None = None
        if not wait:
            self._bar.start()
            return
        self._timer = threading.Timer(wait, self._bar.start)
        self._timer.daemon = True
        self._timer.start()

    def show(self, text: str, done: int | None = None, total: int | None = None) -> None:
        said = _files.printable(text)
        self._bar.update(self._task, description=said, completed=done or 0, total=total)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be starting the bar
        self._bar.stop()


def _bar(on_progress: OnProgress, on_message: OnMessage | None, *, keep: bool) -> Bar | None:
    if callable(on_progress) or on_progress == "none":
        return None
    if on_progress not in (None, "bar"):
        raise InputError(
            f"expected on_progress to be a function, 'bar', 'none' or None, got {on_progress!r}."
        )
    if in_notebook():
        return NotebookBar(keep=keep)
    if on_progress == "bar":
        return TerminalBar()
    # Who hears the messages shows the progress.
    return TerminalBar(wait=PATIENCE) if on_message is None and sys.stderr.isatty() else None


class _Shown:
    """Combines the numbers and messages of a call in one line of a bar."""

    def __init__(self, bar: Bar, state: Callable[..., tuple[str, int | None, int | None]]) -> None:
        self._bar, self._state = bar, state
        self._numbers: tuple[str, int | None, int | None] = ("", None, None)
        self._message = ""

    def progress(self, *numbers: Any) -> None:
        self._numbers = self._state(*numbers)
        self._show()

    def message(self, text: str) -> None:
        self._message = text
        self._show()

    def finish(self) -> None:
        """Drop the last message, which is about the remaining work."""
        self._message = ""
        self._show()

    def _show(self) -> None:
        text, done, total = self._numbers
        self._bar.show("; ".join(filter(None, (text, self._message))), done, total)


@contextmanager
def progress_of(
    on_progress: OnProgress,
    on_message: OnMessage | None = None,
    *,
    state: Callable[..., tuple[str, int | None, int | None]],
    keep: bool = False,
) -> Iterator[tuple[Callable[..., None] | None, OnMessage | None]]:
    """The two callbacks of a call: for numbers, and for messages.

    Parameters
    ----------
    on_progress, on_message
        As passed by the user.
    state
        Converts the numbers to text, the amount done, and the total (None if unknown).
    keep
        Whether the bar is shown immediately and stays when the work is done.
    """
    outer = _open[-1] if _open and on_progress is None else None
    bar = outer or _bar(on_progress, on_message, keep=keep)
    if bar is None:
        yield (on_progress if callable(on_progress) else None), on_message
        return
    shown = _Shown(bar, state)
    _open.append(bar)
    try:
        yield shown.progress, on_message or shown.message
        shown.finish()
    finally:
        _open.pop()
        if outer is None:
            bar.close()
