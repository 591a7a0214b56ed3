"""Executors: this thread, threads, processes, or any `concurrent.futures.Executor`.

A pool wraps an executor with what the engine needs besides submitting work: how many chunks can run at
once, how the population reaches each worker only once, and how to recover when a worker dies.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from pathlib import Path

from epsilometer import _validate
from epsilometer._workers import close_pool, new_pool
from epsilometer.errors import ExecutorError, InputError
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.tasks import Answer, Chunk, SerialExecutor, train_chunk

NAMES = ("serial", "threads", "processes")

PLAN_FILE = "epsilometer-plan-"
"""Prefix of files that pass plans to workers; followed by the id of the process that wrote them."""


class WorkerPool:
    """Any executor; the plan is passed with each chunk, which is free between threads.

    ``slots`` is how many chunks can be trained at the same time.
    """

    def __init__(self, executor: Executor, plan: Plan, *, slots: int, name: str, own: bool) -> None:
        self.name, self.slots = name, slots
        self._executor, self._plan, self._own = executor, plan, own

    def submit(self, chunk: Chunk) -> Future[Answer]:
        return self._executor.submit(train_chunk, self._plan, chunk)

    def restart(self) -> None:
        """Make the pool usable again after it broke, or raise :class:`ExecutorError`."""
        raise ExecutorError(f"{self.name}: the executor broke; restart it yourself and run again.")

    def close(self, *, wait: bool = True) -> None:
        if self._own:
            self._executor.shutdown(wait=wait, cancel_futures=True)


class ProcessesPool(WorkerPool):
    """Processes on this machine; each receives the plan once, when it starts.

    Processes are spawned rather than forked, which is safe whatever threads are running.  They exit on
    their own when this process ends.
    """

    def __init__(self, plan: Plan, workers: int) -> None:
        self.name, self.slots = "processes", workers
        self._file = _write_plan(plan)
        try:
            self._processes = self._start()
        except BaseException:
            self._file.unlink(missing_ok=True)
            raise

    def _start(self) -> ProcessPoolExecutor:
        executor = new_pool(self.slots, _install, self._file)
        try:
            executor.submit(os.getpid).result()  # returns as soon as a worker has started
        except BrokenExecutor:
            raise ExecutorError(
                "processes: workers cannot start; the algorithm must be importable in a new "
                'process, and a script needs `if __name__ == "__main__":`.'
            ) from None
        return executor

    def submit(self, chunk: Chunk) -> Future[Answer]:
        return self._processes.submit(_train_installed, chunk)

    def restart(self) -> None:
        # Do not wait for a broken pool: a process started while it broke would never end.
        close_pool(self._processes, wait=False)
        self._processes = self._start()

    def close(self, *, wait: bool = True) -> None:
        close_pool(self._processes, wait=wait)
        self._file.unlink(missing_ok=True)


def _write_plan(plan: Plan) -> Path:
    """Write the plan to a file that only this user can read, for workers to load.

    Passing it through a new process's pipe would block indefinitely if that process dies during startup.
    """
    _remove_stale()
    number, name = tempfile.mkstemp(prefix=f"{PLAN_FILE}{os.getpid()}-")
    path = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            pickle.dump(plan, file)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, pickle.PicklingError | AttributeError | TypeError):
            raise InputError(
                f"the plan cannot be sent to other processes ({error}); define functions at the top "
                "level of a module, or use the executor threads."
            ) from None
        raise
    return path


def _remove_stale() -> None:
    """Remove plan files of this user's processes that were killed before they could."""
    for path in Path(tempfile.gettempdir()).glob(f"{PLAN_FILE}*-*"):
        owner = path.name.removeprefix(PLAN_FILE).partition("-")[0]
        with contextlib.suppress(OSError):
            if owner.isdigit() and path.stat().st_uid == os.getuid() and not _alive(int(owner)):
                path.unlink()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


_installed: list[Plan] = []


def _install(path: Path) -> None:
    with path.open("rb") as file:
        _installed[:] = [pickle.load(file)]  # written by `_write_plan` in the parent process


def _train_installed(chunk: Chunk) -> Answer:
    return train_chunk(_installed[0], chunk)


def available_workers() -> int:
    """Number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def planned_slots(executor: str | Executor, workers: int | None) -> int:
    """How many models will be trained at the same time, as far as this is known."""
    number = None if workers is None else _validate.whole_number("workers", workers)
    if executor == "serial":
        return 1
    return number or getattr(executor, "_max_workers", None) or available_workers()


def check_name(executor: str) -> None:
    """Raise :class:`InputError` unless ``executor`` is a known name."""
    _validate.one_of("executor", executor, NAMES)


def open_pool(executor: str | Executor, plan: Plan, *, workers: int | None = None) -> WorkerPool:
    """Open a pool by name, or around an executor, which the caller remains responsible for.

    Names are ``serial``, ``threads`` and ``processes``.  ``workers`` is the number of threads or
    processes; default: the number of processors.
    """
    slots = planned_slots(executor, workers)
    if isinstance(executor, Executor):
        return WorkerPool(executor, plan, slots=slots, name=type(executor).__name__, own=False)
    check_name(executor)
    if executor == "processes":
        return ProcessesPool(plan, slots)
    own = SerialExecutor() if executor == "serial" else ThreadPoolExecutor(slots, "train")
    return WorkerPool(own, plan, slots=slots, name=executor, own=True)
