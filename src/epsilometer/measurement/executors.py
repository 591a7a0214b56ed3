"""Executors: this thread, threads, processes, Dask, or any `concurrent.futures.Executor`.

A pool wraps an executor with what the engine needs besides submitting work: how many chunks can run at
once, how the population reaches each worker only once, and how to recover when a worker dies.
"""

import contextlib
import hashlib
import os
import pickle
import re
import sys
import tempfile
import threading
import time
from concurrent import futures
from concurrent.futures import Executor, Future
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from epsilometer import _extras, _validate
from epsilometer._workers import close_pool, new_pool
from epsilometer.errors import ExecutorError, InputError
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.tasks import Answer, Chunk, SerialExecutor, train_chunk

NAMES = ("serial", "threads", "processes", "dask")
_ADDRESS = re.compile(r"dask://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
#: A running scheduler answers at once; the workers of a cluster may have to start first.
CONNECT_SECONDS, WORKERS_SECONDS = 15, 60


#: Prefix of files that pass plans to workers; followed by the id of the process that wrote them.
PLAN_FILE = "epsilometer-plan-"


class WorkerDiedError(Exception):
    """The worker that was running a chunk died, perhaps because of it."""


class ResultLostError(Exception):
    """A chunk's result was lost in transit; the chunk is not to blame."""


class WorkerPool:
    """Any executor; the plan is passed with each chunk, which is free between threads."""

    name: str
    #: How many chunks can be trained at the same time.
    slots: int

    def __init__(self, executor: Executor, plan: Plan, *, slots: int, own: str = "") -> None:
        self.name, self.slots = own or type(executor).__name__, slots
        self._executor, self._plan, self._own = executor, plan, bool(own)

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

    name = "processes"

    def __init__(self, plan: Plan, workers: int) -> None:
        self.slots = workers
        self._file = _write_plan(plan)
        try:
            self._executor: futures.ProcessPoolExecutor = self._start()
        except BaseException:
            self._file.unlink(missing_ok=True)
            raise

    def _start(self) -> futures.ProcessPoolExecutor:
        executor = new_pool(self.slots, _install, self._file)
        try:
            executor.submit(os.getpid).result()  # returns as soon as a worker has started
        except futures.BrokenExecutor:
            raise ExecutorError(
                "processes: workers cannot start; the algorithm must be importable in a new "
                'process, and a script needs `if __name__ == "__main__":`.'
            ) from None
        return executor

    def submit(self, chunk: Chunk) -> Future[Answer]:
        return self._executor.submit(_train_installed, chunk)

    def restart(self) -> None:
        # Do not wait for a broken pool: a process started while it broke would never end.
        close_pool(self._executor, wait=False)
        self._executor = self._start()

    def close(self, *, wait: bool = True) -> None:
        close_pool(self._executor, wait=wait)
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
            if owner.isdigit() and path.stat().st_uid == os.getuid():
                try:
                    os.kill(int(owner), 0)
                except ProcessLookupError:
                    path.unlink()


_installed: list[Plan] = []


def _install(path: Path) -> None:
    with path.open("rb") as file:
        _installed[:] = [pickle.load(file)]  # written by `_write_plan` in the parent process


def _train_installed(chunk: Chunk) -> Answer:
    return train_chunk(_installed[0], chunk)


class DaskPool(WorkerPool):
    """Workers of a Dask cluster, given by its scheduler's address, or of a local cluster started here.

    The plan is sent to each worker once, as bytes.  The user's own modules are sent too
    (`send_code_of`), so workers need not have them; they must have Epsilometer and other installed
    packages.
    """

    _REFRESH = 2.0
    _NO_SCHEDULER = "lost the scheduler"
    _NO_WORKER = "no worker answers; start some with `dask worker`"

    def __init__(self, plan: Plan, *, address: str | None, workers: int) -> None:
        distributed = _extras.load("distributed", "the executor dask needs Dask", "dask")
        self.name = "dask" if address is None else f"dask://{address}"
        self._cluster: Any = None
        if address is None:
            local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
            self._cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, silence_logs="ERROR", **local
            )
        target = self._cluster if address is None else f"tcp://{address}"
        try:
            self._client: Any = distributed.Client(target, timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError):
            if self._cluster is not None:
                self._cluster.close(timeout=5)
            raise ExecutorError(
                f"no Dask scheduler answers at {address} within {CONNECT_SECONDS} s; "
                "start one with `dask scheduler`, and workers with `dask worker`."
            ) from None
        try:
            self._payload = _packed(plan)
            self._share()
        except BaseException:
            self.close(wait=False)
            raise
        self._digest = hashlib.sha256(self._payload).hexdigest()
        self._counted, self._number = -self._REFRESH, 1
        self._last_worker = time.monotonic()

    def _share(self) -> None:
        """Send the plan to the workers, once there are some."""
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_SECONDS)
            self._shared = self._client.scatter(self._payload, broadcast=True, hash=False)
        except TimeoutError:
            raise self._gone(self._NO_WORKER) from None
        except OSError:
            raise self._gone(self._NO_SCHEDULER) from None

    def _gone(self, what: str) -> ExecutorError:
        return ExecutorError(f"{self.name}: {what}; run again. Losses received so far are kept.")

    @property
    def slots(self) -> int:  # type: ignore[override]
        """Number of worker threads; raises if all workers or the scheduler have been lost."""
        now = time.monotonic()
        if now - self._counted <= self._REFRESH:
            return self._number
        try:
            threads = sum(self._client.nthreads().values())
        except (OSError, TimeoutError):
            raise self._gone(self._NO_SCHEDULER) from None
        if self._client.status != "running":
            raise self._gone(self._NO_SCHEDULER)
        self._counted, self._number = now, max(1, threads)
        if threads:
            self._last_worker = now
        elif now - self._last_worker > WORKERS_SECONDS:
            raise self._gone(self._NO_WORKER)
        return self._number

    def submit(self, chunk: Chunk) -> Future[Answer]:
        if self._shared.status != "finished":  # every worker that had the plan was lost
            self._share()
        inner = self._client.submit(_train_packed, self._shared, self._digest, chunk, pure=False)
        outer: Future[Answer] = Future()
        inner.add_done_callback(partial(_copy_outcome, outer))
        return outer

    def restart(self) -> None:
        """Nothing to do: the cluster manages its workers."""

    def close(self, *, wait: bool = True) -> None:
        # The client disconnects at once; its futures are cancelled.
        self._client.close(timeout=5)
        if self._cluster is not None:
            self._cluster.close(timeout=5)


def _copy_outcome(outer: Future[Answer], inner: Any) -> None:
    """Copy the outcome of a Dask future to ``outer``, whatever it is."""
    # Fetching the result can itself fail if its worker is lost by now.
    fetched: Future[Any] = SerialExecutor().submit(inner.result, timeout=CONNECT_SECONDS)
    error = fetched.exception()
    if error is None:
        outer.set_result(fetched.result())
    elif type(error).__name__ == "KilledWorker":
        outer.set_exception(WorkerDiedError(str(error)))
    elif isinstance(error, futures.CancelledError | TimeoutError) or inner.status != "error":
        outer.set_exception(ResultLostError(str(error)))
    else:
        outer.set_exception(error)


def _packed(plan: Plan) -> bytes:
    """The plan as bytes, with the code of modules that are not installed packages."""
    import cloudpickle

    # By each module's own name: some are registered under several.
    chosen = {
        module.__name__: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in _sent and module.__name__ in sys.modules
    }
    for module in chosen.values():
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(plan))
    finally:
        for module in chosen.values():
            cloudpickle.unregister_pickle_by_value(module)


_sent: set[str] = set()


def send_code_of(module: str) -> None:
    """Mark a module as the user's own file, to be sent to Dask workers rather than imported there."""
    _sent.add(module.partition(".")[0])


_unpacked: dict[str, Plan] = {}
_unpacking = threading.Lock()


def _train_packed(payload: bytes, digest: str, chunk: Chunk) -> Answer:
    """Runs on a Dask worker; the bytes come from our own client over the cluster's pickle protocol."""
    with _unpacking:
        if digest not in _unpacked:
            import cloudpickle

            _unpacked.clear()
            _unpacked[digest] = cloudpickle.loads(payload)
        plan = _unpacked[digest]
    with redirect_stdout(sys.stderr):
        return train_chunk(plan, chunk)


def available_workers() -> int:
    """Number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def planned_slots(executor: str | Executor, workers: int | None) -> int:
    """How many models will be trained at the same time, as far as this is known in advance."""
    if executor == "serial":
        return 1
    return workers or getattr(executor, "_max_workers", None) or available_workers()


def check_name(executor: str) -> None:
    """Raise :class:`InputError` unless ``executor`` is a known name."""
    if executor not in NAMES and not _ADDRESS.fullmatch(executor):
        raise InputError(
            f"expected executor to be one of {', '.join(NAMES)} or dask://host:port, "
            f"got executor={executor!r}."
        )


def open_pool(executor: str | Executor, plan: Plan, *, workers: int | None = None) -> WorkerPool:
    """Open a pool by name, or around an executor, which the caller remains responsible for.

    Names are ``serial``, ``threads``, ``processes``, ``dask`` (a cluster on this machine) and
    ``dask://host:port`` (a scheduler's address).  ``workers`` is the number of threads or processes;
    default: the number of processors.
    """
    workers = None if workers is None else _validate.whole_number("workers", workers)
    number = planned_slots(executor, workers)
    if isinstance(executor, Executor):
        return WorkerPool(executor, plan, slots=number)
    check_name(executor)
    if executor == "serial":
        return WorkerPool(SerialExecutor(), plan, slots=number, own="serial")
    if executor == "threads":
        threads = futures.ThreadPoolExecutor(number, thread_name_prefix="train")
        return WorkerPool(threads, plan, slots=number, own="threads")
    if executor == "processes":
        return ProcessesPool(plan, number)
    match = _ADDRESS.fullmatch(executor)
    return DaskPool(plan, address=f"{match[1]}:{match[2]}" if match else None, workers=number)
