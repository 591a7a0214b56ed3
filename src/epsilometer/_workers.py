"""Worker processes: how they start and stop, and that they stop when their parent does."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

#: Longest time to wait for a pool whose processes were terminated.
END_SECONDS = 2.0


def begin_worker(then: Callable[..., object] | None = None, *arguments: object) -> None:
    """Set up a process that a pool has started (call it first); then call ``then``."""
    # Ctrl-C reaches every process of a terminal; only the coordinating process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Text printed by user code must not mix with the program's own output.
    sys.stdout = sys.stderr
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if then is not None:
        then(*arguments)


def _begin_with(start_method: str, then: Callable[..., object] | None, *arguments: object) -> None:
    # A spawned process spawns its children by default, so training code that starts processes (such as a
    # data loader) would import its libraries again in each. Give it the default start method instead.
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
    """A pool of freshly spawned processes, each calling ``then``: threads do not survive a fork."""
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_with,  # type: ignore[arg-type]
        initargs=(multiprocessing.get_start_method(), then, *arguments),  # type: ignore[arg-type]
    )


def close_pool(pool: ProcessPoolExecutor, *, wait: bool = True) -> None:
    """Close a pool; ``wait=False`` terminates running tasks, which the pool's own methods cannot do."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    manager = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=wait, cancel_futures=True)
    if not wait:
        for process in processes:
            process.terminate()
        if manager is not None:
            # It ends with its processes; the program exits cleanly, without leaked semaphores, after it.
            manager.join(END_SECONDS)


@contextmanager
def process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool as a context manager; after an exception it does not wait for running tasks."""
    pool = new_pool(workers)
    try:
        yield pool
    except BaseException:
        close_pool(pool, wait=False)
        raise
    close_pool(pool)
