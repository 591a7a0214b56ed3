"""Worker processes of ours: how they begin, how they end, and that they end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager


def begin_worker(then: Callable[..., object] | None = None, *arguments: object) -> None:
    """Call this first in a process that a pool has started; ``then`` is called after it."""
    # Ctrl-C reaches every process of a terminal; the one that coordinates decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What code of others prints is not the program's answer.
    sys.stdout = sys.stderr
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if then is not None:
        then(*arguments)


def _begin_with(start_method: str, then: Callable[..., object] | None, *arguments: object) -> None:
    # A process that was spawned spawns its own by default: code that starts some, such as a loader of
    # batches, would import its libraries again in each.  It shall find what it finds without a pool.
    multiprocessing.set_start_method(start_method, force=True)
    begin_worker(then, *arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def new_pool(
    workers: int, then: Callable[..., object] | None = None, *arguments: object
) -> ProcessPoolExecutor:
    """Processes that start afresh, each with ``then``: libraries with threads do not survive a fork."""
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_with,  # type: ignore[arg-type]
        initargs=(multiprocessing.get_start_method(), then, *arguments),  # type: ignore[arg-type]
    )


def close_pool(pool: ProcessPoolExecutor, *, wait: bool = True) -> None:
    """End a pool; without ``wait`` what is under way is lost, which no method of a pool's own can do."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=wait, cancel_futures=True)
    if not wait:
        for process in processes:
            process.terminate()


@contextmanager
def process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool for a while; if anything goes wrong, nothing under way is waited for."""
    pool = new_pool(workers)
    try:
        yield pool
    except BaseException:
        close_pool(pool, wait=False)
        raise
    close_pool(pool)
