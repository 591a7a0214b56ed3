"""Progress of long calls: a bar in notebooks and terminals, or a callback.

Public calls have ``on_progress``: None shows a bar in a notebook and on a terminal, ``"bar"`` shows one
everywhere, ``"none"`` shows nothing, and a function is called periodically.  A call that another one
makes shows its progress in the bar of that one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from epsilometer import _files
from epsilometer._table import escaped
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer._arrays import OnMessage  # which imports NumPy; a command's help needs none

#: Time between two updates of a bar.
SECONDS_BETWEEN = 0.2

#: Seconds before calls that are usually short show a bar.
PATIENCE = 1.0

OnProgress = Callable[..., None] | str | None
#: A line of text, how much is done, and the total if it is known.
State = tuple[str, int | None, int | None]


#: The bars of the running calls with what shows a message in them, the innermost last.
_open: list[tuple[Bar, OnMessage]] = []


def in_notebook() -> bool:
    """Whether this runs in a notebook kernel; never imports IPython."""
    module: Any = sys.modules.get("IPython")
    shell = module.get_ipython() if hasattr(module, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A bar in the output of a notebook's cell."""

    def __init__(self, *, keep: bool) -> None:
        self._keep, self._handle = keep, None
        self._next = time.monotonic() + (0.0 if keep else PATIENCE)
        self._last: State | None = None

    def show(self, text: str, done: int | None, total: int | None) -> None:
        self._last = (text, done, total)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN
            self._display(*self._last)

    def close(self) -> None:
        if self._keep and self._last is not None:
            self._display(*self._last)
        elif self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)

    def _display(self, text: str, done: int | None, total: int | None) -> None:
        bar = "" if total is None else f'<progress value="{done or 0}" max="{total}"></progress> '
        data = {"text/html": f"<div>{bar}{escaped(text)}</div>"}
        data["text/plain"] = _files.printable(text)
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
        from rich import progress
        from rich.console import Console

        text = progress.TextColumn("{task.description}", markup=False)
        left = progress.TimeRemainingColumn()
        columns = (progress.SpinnerColumn(), text, progress.BarColumn(), left)
        console = Console(file=sys.stderr)
        # In a log, where nothing can be taken away, the last state stays.
        self._bar = progress.Progress(*columns, console=console, transient=console.is_terminal)
        self._task = self._bar.add_task("", total=None)
        self._timer = threading.Timer(wait, self._bar.start)
        self._timer.daemon = True
        if wait:
            self._timer.start()
        else:
            self._bar.start()

    def show(self, text: str, done: int | None, total: int | None) -> None:
        said = _files.printable(text)
        self._bar.update(self._task, description=said, completed=done or 0, total=total)

    def close(self) -> None:
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()  # it may be starting the bar
        self._bar.stop()


Bar = NotebookBar | TerminalBar


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


@contextmanager
def progress_of(
    on_progress: OnProgress,
    on_message: OnMessage | None = None,
    *,
    state: Callable[..., State],
    title: str = "",
    keep: bool = False,
) -> Iterator[tuple[Callable[..., None] | None, OnMessage | None]]:
    """The two callbacks of a call: for numbers, and for messages.

    Parameters
    ----------
    on_progress, on_message
        As passed by the user.
    state
        Converts the numbers to a line, the amount done, and the total.
    title
        What is shown until there are numbers.
    keep
        Whether the bar is shown immediately and stays when the work is done.
    """
    outer = _open[-1][0] if _open and on_progress is None else None
    bar = outer or _bar(on_progress, on_message, keep=keep)
    if bar is None:
        yield (on_progress if callable(on_progress) else None), on_message
        return
    last: State = (title, None, None)
    said = ""

    def show() -> None:
        text, done, total = last
        bar.show("; ".join(filter(None, (text, said))), done, total)

    def progress(*numbers: Any) -> None:
        nonlocal last
        last = state(*numbers)
        show()

    def message(text: str) -> None:
        nonlocal said
        said = text
        show()

    _open.append((bar, message))
    try:
        if title:
            show()
        yield progress, on_message or message
        message("")  # the last one is about the remaining work
    finally:
        _open.pop()
        if outer is None:
            bar.close()


def tell(line: str) -> None:
    """Show a line in the bar of the running call, if there is one."""
    if _open:
        _open[-1][1](line)
