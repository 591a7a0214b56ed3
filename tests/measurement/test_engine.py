"""The coordinator: what it hands out, how much at once, what it counts, how much memory it uses."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from epsilometer.errors import ExecutorError, InputError, StoreError
from epsilometer.measurement import executors, run
from epsilometer.measurement.bases import LossRow
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Sizes
from epsilometer.measurement.run import Progress
from epsilometer.measurement.store import MemoryStore, SqliteStore
from epsilometer.measurement.tasks import Answer, Chunk, Trained, train_chunk
from tests.measurement.algorithms import Faulty, ManyAtOnce, NoisyMean, plan

ALL = Sizes(2, 5, 5, ("",))


class Recorder(Executor):
    """Trains at once, in the caller's thread, and records the chunks that it receives.

    Parameters
    ----------
    seconds
        The reported training time per model.
    """

    def __init__(self, *, slots: int, seconds: float = 1e-4) -> None:
        self._max_workers = slots
        self.seconds = seconds
        self.chunks: list[Chunk] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        assert fn is train_chunk
        work, chunk = args
        self.chunks.append(chunk)
        answer = train_chunk(work, chunk)
        if isinstance(answer, Trained):
            answer = Trained(answer.rows, self.seconds * len(chunk.replicates))
        return self.finished(answer)

    def finished(self, answer: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(answer)
        return future

    @property
    def sizes(self) -> list[int]:
        return [len(chunk.replicates) for chunk in self.chunks]


# --- chunks ---------------------------------------------------------------------------------------


def most_half_pairs(store: SqliteStore) -> tuple[int, bool]:
    """Over all moments: the most pairs with one model, and whether bases were trained in their order."""
    recorder = Recorder(slots=2, seconds=10.0)
    measure(plan(bases=4, replicates=30), store, executor=recorder)
    begun: set[tuple[int, int]] = set()
    most = 0
    for chunk in recorder.chunks:
        begun ^= {(chunk.base, replicate) for replicate in chunk.replicates}
        most = max(most, len(begun))
    bases = [chunk.base for chunk in recorder.chunks]
    return most, bases == sorted(bases)


def test_an_unfinished_audit_has_few_models_without_a_partner(tmp_path: Path) -> None:
    # Three models are trained before all others.
    assert most_half_pairs(MemoryStore()) <= (3, True)
    with SqliteStore(tmp_path / "shared.db") as store:
        store.prepare(plan(bases=4, replicates=30))
        store.begin_run("another process")
        most, ordered = most_half_pairs(store)
    # Two processes that trained in the same order would train the same models.
    assert most > 3
    assert not ordered


class Holding(Recorder):
    """Gives the oldest answer only when the coordinator has handed out all that it wants to."""

    def __init__(self, *, slots: int) -> None:
        super().__init__(slots=slots)
        self.held: deque[tuple[Future[Any], Any]] = deque()
        self.most = 0

    def finished(self, answer: Any) -> Future[Any]:
        self.held.append((Future(), answer))
        self.most = max(self.most, len(self.held))
        return self.held[-1][0]

    def release(self, progress: Progress) -> None:
        """Progress is reported when all chunks are handed out, before the coordinator waits."""
        if self.held:
            future, answer = self.held.popleft()
            future.set_result(answer)


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_no_more_chunks_under_way_than_can_be_trained_and_one(slots: int) -> None:
    holding = Holding(slots=slots)
    measure(plan(replicates=60), executor=holding, on_progress=holding.release)
    assert holding.most == (slots + 1 if slots > 1 else 1)
    assert not holding.held


def test_chunks_grow_step_by_step_to_the_time_aimed_at() -> None:
    recorder = Recorder(slots=1, seconds=run.CHUNK_SECONDS / 10)
    measure(plan(bases=1, replicates=100), executor=recorder)
    # Three models are trained before all others, one by one.
    assert recorder.sizes[:5] == [1, 1, 1, 8, 10]
    assert max(recorder.sizes) == 10


def test_chunks_of_slow_models_hold_one() -> None:
    recorder = Recorder(slots=1, seconds=10 * run.CHUNK_SECONDS)
    measure(plan(), executor=recorder)
    assert set(recorder.sizes) == {1}


def test_chunks_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LARGEST_CHUNK", 7)
    recorder = Recorder(slots=1, seconds=1e-9)
    measure(plan(replicates=100), executor=recorder)
    assert max(recorder.sizes) == 7


def test_chunks_hold_a_batch_at_least(tmp_path: Path) -> None:
    recorder = Recorder(slots=1, seconds=10.0)
    algorithm = ManyAtOnce(log=str(tmp_path / "log"), batch_size=6)
    measure(plan(algorithm, replicates=20), executor=recorder)
    assert sorted(set(recorder.sizes)) == [2, 6]


# --- what is counted ------------------------------------------------------------------------------


def test_progress_counts_reused_and_failed_models(tmp_path: Path) -> None:
    store = MemoryStore()
    algorithm = Faulty(faults=((0, 1, 4, "ValueError"),), log=str(tmp_path / "log"))
    measure(plan(algorithm, replicates=3), store)
    seen: list[Progress] = []
    measured = measure(plan(algorithm), store, on_progress=seen.append)
    assert seen[0].done == 12
    assert seen[-1] == Progress(19, 20, 7, 1)
    assert (measured.trained, measured.reused, len(measured.failures)) == (7, 12, 1)


def test_a_complete_store_opens_no_executor() -> None:
    store = MemoryStore()
    first = measure(plan(), store)
    again = measure(plan(), store, executor="dask://127.0.0.1:1")
    assert (again.trained, again.reused, again.only) == (0, 20, first.only)


def test_losses_that_another_process_brings_meanwhile() -> None:
    # Half of the models appear in the store while the first chunk is being trained.
    reference = measure(plan(bases=1, replicates=50)).only
    store = MemoryStore()
    recorder = Recorder(slots=1)

    def meanwhile(progress: Progress) -> None:
        if len(recorder.chunks) == 1:
            store.add(
                LossRow(0, 1, replicate, "", float(loss))
                for replicate, loss in enumerate(reference.padded(1)[0])
            )

    measured = measure(
        plan(bases=1, replicates=50), store, executor=recorder, on_progress=meanwhile
    )
    assert measured.only == reference
    assert measured.trained + measured.reused == 100
    assert 49 <= measured.reused <= 50
    assert sum(recorder.sizes) <= 51


@pytest.mark.parametrize("retries", [-1, 1.5, None, True])
def test_retries_out_of_range(retries: Any) -> None:
    with pytest.raises(InputError, match="retries"):
        measure(plan(), retries=retries)


# --- interruptions --------------------------------------------------------------------------------


def test_received_losses_are_kept_on_interruption(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    stopped: list[int] = []

    def stop(progress: Progress) -> None:
        if progress.trained >= 10 and not stopped:
            stopped.append(progress.trained)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(plan(NoisyMean(seconds=0.01), replicates=50), path, on_progress=stop)
    with SqliteStore(path) as store:
        assert 10 <= len(store.rows(store.sizes())) < 200
        assert store.status().runs[0]["ended"]
    assert measure(plan(replicates=50), path).only == measure(plan(replicates=50)).only


class Failing(MemoryStore):
    """A store that accepts nothing any more."""

    def add(self, rows: Any) -> int:
        raise StoreError("no room")


def test_a_store_that_fails_ends_the_run() -> None:
    with pytest.raises(StoreError, match="no room"):
        measure(plan(), Failing(), executor="threads", workers=2)
    for thread in threading.enumerate():
        if thread.name.startswith("train"):
            thread.join(10)
            assert not thread.is_alive()


class Refusing(Executor):
    """Accepts some chunks, then no more."""

    def __init__(self, error: Exception, *, after: int) -> None:
        self.error, self.left = error, after

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.left == 0:
            raise self.error
        self.left -= 1
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize(
    "error",
    [BrokenProcessPool("a worker died"), RuntimeError("cannot schedule new futures")],
    ids=["broken", "shut down"],
)
def test_an_executor_that_takes_no_more(error: Exception, after: int, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with pytest.raises(ExecutorError):
        measure(plan(), path, executor=Refusing(error, after=after), workers=2)
    with SqliteStore(path) as store:
        kept = len(store.rows(ALL))
    assert kept > 0 if after else kept == 0


def test_a_pool_that_breaks_while_a_chunk_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker may die at any moment, including between a check of the pool and its next chunk.
    submit = executors.ProcessesPool.submit
    calls: list[Chunk] = []

    def sometimes(pool: executors.ProcessesPool, chunk: Chunk) -> Future[Answer]:
        calls.append(chunk)
        if len(calls) == 3:
            raise BrokenProcessPool("a worker died")
        return submit(pool, chunk)

    monkeypatch.setattr(executors.ProcessesPool, "submit", sometimes)
    measured = measure(plan(), executor="processes", workers=2)
    assert measured.only == measure(plan()).only
    assert measured.failures == []
