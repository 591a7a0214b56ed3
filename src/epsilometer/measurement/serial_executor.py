"""An executor that runs each call at once in the calling thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class SerialExecutor(Executor):
    """Runs each call at once in the calling thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            # Whatever a call raises belongs to its future; an interrupt is the program's.
            future.set_exception(error)
            if isinstance(error, KeyboardInterrupt):
                raise
        return future
