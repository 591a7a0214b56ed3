"""The coordinator: hands out models to train, takes in losses, commits them, gives up on failures.

Only this process writes to the store.  Results do not depend on who trains a model or in which order,
because each model has a stream of its own; so chunks are taken in random order, and two processes on
one store rarely train the same model twice (and if they do, its loss is kept once).
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

from epsilometer import _validate
from epsilometer.errors import EpsilometerError, ExecutorError
from epsilometer.measurement.algorithm import batch_size_of
from epsilometer.measurement.executors import (
    ResultLostError,
    WorkerDiedError,
    WorkerPool,
    open_pool,
)
from epsilometer.measurement.failures import Alike, Streaks, message_of, side_of, training_error
from epsilometer.measurement.first_models import FirstModels
from epsilometer.measurement.plan import Plan, Task
from epsilometer.measurement.repeats import repeats
from epsilometer.measurement.rows import PoolRow, Row
from epsilometer.measurement.sqlite_store import SqliteStore
from epsilometer.measurement.store import Failure, MemoryStore, Store
from epsilometer.measurement.tasks import Answer, Chunk, TaskFailure

RETRIES = 2
"""Enough for what fails by chance; what fails three times is likely to fail again."""

CHUNK_SECONDS = 0.3
"""Training time a chunk aims at: long enough to hide the cost of handing it out."""

COMMIT_SECONDS = 0.2
"""Losses wait no longer than this before they are committed."""

LARGEST_CHUNK = 1000
"""Models whose losses are lost together, at most, when a worker dies."""

LARGEST_ANSWER = 4_000_000
"""Losses that a worker sends back at once, at most: 32 MB."""

MOST_DEATHS = 10
"""So many deaths in a row, with nothing trained in between, are not the fault of single models."""

MOST_LOST = 10
"""How often the answer of a model may be lost before that counts as its failure."""


class Progress(NamedTuple):
    """How far a run has come, in models."""

    done: int
    total: int
    trained: int
    failed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """Losses of a plan, and what it took to get them.

    Attributes
    ----------
    losses
        For each variant by name `Losses`, or `PoolLosses` of a pool; most algorithms have one variant,
        named "" (see `only`).
    trained
        Models trained by this run.
    reused
        Models whose losses were there already, or came from another process meanwhile.
    failures
        Models without a loss, and why.
    shares_models
        Whether the losses of several variants come from the same trained models, so that estimates
        from them are not independent.
    """

    plan: Plan
    losses: Mapping[str, Any]
    trained: int
    reused: int
    failures: list[Failure]

    @property
    def only(self) -> Any:
        """The losses, for an algorithm that releases one variant."""
        (losses,) = self.losses.values()
        return losses

    @property
    def shares_models(self) -> bool:
        return len(self.losses) > 1

    @property
    def warnings(self) -> list[str]:
        """What looks wrong with the losses, in sentences: such as models that are all the same."""
        return list(dict.fromkeys(text for each in self.losses.values() for text in repeats(each)))


def measure(
    plan: Plan,
    store: Store | str | PathLike[str] | None = None,
    *,
    executor: str | Executor = "serial",
    workers: int | None = None,
    retries: int = RETRIES,
    accept_changed_code: bool = False,
    progress: Callable[[Progress], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Measurement:
    """Train every model of a plan that the store does not hold yet, and return all losses.

    Stop it in any way and call it again: it goes on where it was.  Ask for more bases, replicates or
    variants, and only those are added.

    A model of each hypothesis is trained first, so that training code that fails is known at once: see
    `check_training` for that alone.

    Parameters
    ----------
    plan
        What to train.
    store
        A file name, a store, or None to keep losses in memory.
    executor
        See `epsilometer.measurement.executors.open_pool`.
    workers
        Threads or processes; as many as processors unless given.
    retries
        How often a model that failed is tried again before it is given up; >= 0.
    accept_changed_code
        Go on although the code of the algorithm differs from what the store was made with.
    progress
        Called now and then from the calling thread.
    say
        Is told in a sentence how long the rest will take, if that is long, and what looks wrong.

    Raises
    ------
    StoreError
        If the store is of another plan, damaged, or full.  What was committed stays.
    ExecutorError
        If the workers are out of reach.
    TrainingError
        If models fail with one error and none is trained in between: the first ones, or many in a row.
        It has the traceback.
    """
    _validate.whole_number("retries", retries, least=0)
    with opened_store(store) as opened:
        opened.prepare(plan, accept_changed_code=accept_changed_code)
        run = Run(plan, opened, retries, progress, say)
        if not run.reused:
            run.first_models.begin()
        if run.groups or run.first_models.waiting:
            run.train_on(open_pool(executor, plan, workers=workers))
        return run.result()


@contextmanager
def opened_store(store: Store | str | PathLike[str] | None) -> Iterator[Store]:
    """A store as it is, one in memory, or a file for as long as it is needed."""
    if store is None:
        yield MemoryStore()
    elif isinstance(store, Store):
        yield store
    else:
        with SqliteStore(store) as opened:
            yield opened


class Run:
    """The state of one call of `measure`."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        retries: int,
        progress: Callable[[Progress], None] | None,
        say: Callable[[str], None] | None,
    ) -> None:
        self.plan, self.store, self.retries = plan, store, retries
        self.progress = progress or (lambda _: None)
        self.sizes = plan.sizes
        self.groups: list[Chunk] = []
        """Models of each base and hypothesis that are still to be handed out."""
        self.batch_size = batch_size_of(plan.algorithm)
        self.first_models = FirstModels(
            plan=plan, groups=self.groups, batch_size=self.batch_size, say=say or (lambda _: None)
        )
        self.reused = 0
        before = {side_of(self.sizes, hypothesis): False for _, hypothesis, _ in plan.groups()}
        for base, hypothesis, replicates in plan.groups():
            every = Chunk(base, hypothesis, tuple(replicates))
            if (missing := self._missing(every)).replicates:
                self.groups.append(missing)
            before[side_of(self.sizes, hypothesis)] |= len(missing.replicates) < len(replicates)
        self.streaks = Streaks(
            models=self.sizes.models,
            bases=self.sizes.challenge_bases,
            trained=before,
            known={failure.task: failure.message for failure in store.failures()},
        )
        self.problems: dict[Task, TaskFailure] = {}
        """What models said that are to be tried again."""
        self.stopping = False
        self.slots = 1
        self.trained = 0
        self.failed: list[Failure] = []
        self.attempts: Counter[Task] = Counter()
        self.again: deque[Task] = deque()
        """Models of chunks that failed: handed out one by one, so that the guilty one is found."""
        self.suspects: deque[Task] = deque()
        """Models under way when a worker died: trained with nothing else under way."""
        self.under_way: dict[Future[Answer], Chunk] = {}
        self.alone: Future[Answer] | None = None
        """A suspect under way with nothing else."""
        self.lost: Counter[Task] = Counter()
        self.deaths = 0
        """Workers that died with a single model under way since one was last trained."""
        self.waiting: list[Row] = []
        self.last_commit = time.monotonic()
        self.chunk_size = 1.0
        self.order = random.Random()

    # --- the loop -----------------------------------------------------------------------------

    def train_on(self, pool: WorkerPool) -> None:
        """Train with a pool, and close it."""
        try:
            self.train(pool)
        except BaseException:
            pool.close(wait=False)  # not even for models that are under way
            raise
        pool.close()

    def train(self, pool: WorkerPool) -> None:
        run = self.store.begin_run(pool.name)
        try:
            while self._hand_out(pool):
                self.progress(self._progress())
                ready, _ = wait(self.under_way, timeout=COMMIT_SECONDS, return_when=FIRST_COMPLETED)
                self._take_in(ready, pool)
                if time.monotonic() - self.last_commit >= COMMIT_SECONDS:
                    self._commit()
        finally:
            # Also when interrupted: what has come in is not lost.
            self.stopping = True
            self._salvage()
            self._commit()
            self.progress(self._progress())
            self.store.end_run(run, self.trained)

    def _progress(self) -> Progress:
        return Progress(
            self.reused + self.trained, self.sizes.models, self.trained, len(self.failed)
        )

    def _hand_out(self, pool: WorkerPool) -> bool:
        """Keep the workers busy; False when nothing is under way or left to do."""
        if self.alone in self.under_way:
            return True
        if self.suspects:
            if not self.under_way:
                self.alone = self._submit(pool, Chunk.of(self.suspects.popleft()))
            return True
        self.slots = pool.slots
        # One chunk beyond the workers waits ready, so that none is ever idle; in this thread a
        # chunk has ended before the next can be handed out.
        most = self.slots + 1 if self.slots > 1 else 1
        while len(self.under_way) < most:
            chunk = self._next_chunk()
            if chunk is None:
                break
            self._submit(pool, chunk)
        return bool(self.under_way or self.suspects or self.again or self.first_models.waiting)

    def _submit(self, pool: WorkerPool, chunk: Chunk) -> Future[Answer] | None:
        try:
            future = pool.submit(chunk)
        except BrokenExecutor:
            self._recover([chunk], pool)
            return None
        except RuntimeError as error:
            raise ExecutorError(
                f"{pool.name}: takes no more work ({error}). Losses that came in are kept."
            ) from None
        self.under_way[future] = chunk
        return future

    def _next_chunk(self) -> Chunk | None:
        if self.first_models.waiting:
            return self.first_models.waiting.popleft()
        if self.again:
            return Chunk.of(self.again.popleft())
        while self.groups and not self.first_models.alone:
            place = self.order.randrange(len(self.groups))
            base, hypothesis, left = self.groups.pop(place)
            size = max(self.batch_size, int(self.chunk_size))
            if left[size:]:
                self.groups.append(Chunk(base, hypothesis, left[size:]))
            # Another process may have been here since.
            if (fresh := self._missing(Chunk(base, hypothesis, left[:size]))).replicates:
                return fresh
        return None

    def _missing(self, chunk: Chunk) -> Chunk:
        """What the store does not hold of a chunk; what it holds need not be trained."""
        done = self.store.done(chunk, self.sizes.variants)
        self.reused += len(done)
        return chunk._replace(replicates=tuple(n for n in chunk.replicates if n not in done))

    # --- what comes back ----------------------------------------------------------------------

    def _take_in(self, ready: Iterable[Future[Answer]], pool: WorkerPool) -> None:
        broken: list[Chunk] = []
        for future in ready:
            chunk = self.under_way.pop(future)
            error = CancelledError() if future.cancelled() else future.exception()
            if error is None:
                self._accept(chunk, future.result())
            elif isinstance(error, BrokenExecutor | CancelledError):
                broken.append(chunk)
            elif isinstance(error, WorkerDiedError):
                self._suspect(chunk.tasks(), alone=future is self.alone)
            elif isinstance(error, ResultLostError):
                self._lost(chunk)
            elif isinstance(error, KeyboardInterrupt):
                raise error
            else:
                self._failed(chunk, TaskFailure(message_of(error)))
        if broken:
            self._recover(broken, pool)

    def _suspect(self, tasks: list[Task], *, alone: bool) -> None:
        """A worker died: whoever was alone did it, otherwise each is to be tried alone."""
        if not alone:
            self.suspects += tasks
            return
        self.deaths += 1
        if self.deaths > MOST_DEATHS:
            last = self.sizes.named(tasks[0])
            raise ExecutorError(
                f"{self.deaths} workers in a row died while they trained, whatever the model "
                f"(last: {last}): does it train with the executor serial? Losses that came in are kept."
            )
        self._give_up_or(tasks[0], TaskFailure("the worker that trained it died"), self.suspects)

    def _lost(self, chunk: Chunk) -> None:
        """Nobody is to blame for an answer that was lost, unless it happens over and over."""
        for task in chunk.tasks():
            self.lost[task] += 1
            if self.lost[task] <= MOST_LOST:
                self.again.append(task)
            else:
                self._give_up_or(
                    task, TaskFailure("its result was lost again and again"), self.again
                )

    def _accept(self, chunk: Chunk, trained: Answer) -> None:
        if isinstance(trained, TaskFailure):
            self._failed(chunk, trained)
            return
        self.deaths = 0
        self.first_models.pace.add(len(chunk.replicates), trained.seconds)
        wanted = CHUNK_SECONDS * len(chunk.replicates) / max(trained.seconds, 1e-9)
        # Grows step by step: the first chunks may not tell.
        most = max(1, min(LARGEST_CHUNK, LARGEST_ANSWER // max(1, self.sizes.points)))
        self.chunk_size = max(1.0, min(wanted, 2 * self.chunk_size, most))
        bad: dict[Task, str] = {}
        for row in trained.rows:
            if row.problem is not None:
                canary = f"canary {row.replicate}: " if self.sizes.canaries else ""
                bad.setdefault(self._task_of(row, chunk), f"{canary}{row.problem}")
        good = [row for row in trained.rows if self._task_of(row, chunk) not in bad]
        self.waiting += good
        done = [task for task in chunk.tasks() if task not in bad]
        if done:
            self.streaks.trained(side_of(self.sizes, chunk.hypothesis), done)
        self.first_models.look_at(good)
        self.first_models.tell_time(self.reused + self.trained + len(self.failed), self.slots)
        for task, message in bad.items():
            self._count_failure(task, TaskFailure(message))

    def _task_of(self, row: Row, chunk: Chunk) -> Task:
        """The model whose loss it is: of canaries all of a chunk, which is one run."""
        return chunk.tasks()[0] if self.sizes.canaries else Task(*row[:3])

    def _failed(self, chunk: Chunk, problem: TaskFailure) -> None:
        if len(chunk.replicates) > 1:
            self.again += chunk.tasks()
        else:
            self._count_failure(chunk.tasks()[0], problem)

    def _count_failure(self, task: Task, problem: TaskFailure) -> None:
        """The user's code failed: so may all of it."""
        side = side_of(self.sizes, task.hypothesis)
        self.problems[task] = problem
        alike = self.streaks.failed(side, task, problem.message)
        if alike is not None and not self.stopping:
            self._stop(alike)
        if not self.streaks.ever_trained(side):
            self.first_models.one_more(side)  # another one, before this one again
        hopeless = self.streaks.hopeless(problem.message)
        self._give_up_or(task, problem, self.again, hopeless=hopeless)

    def _give_up_or(
        self, task: Task, problem: TaskFailure, retry: deque[Task], *, hopeless: bool = False
    ) -> None:
        """Try a model again, or give it up."""
        self.attempts[task] += 1
        if self.attempts[task] <= self.retries and not hopeless:
            if self.streaks.ever_trained(side_of(self.sizes, task.hypothesis)):
                retry.appendleft(task)  # so it is soon known whether trying again helps
            else:
                retry.append(task)  # perhaps none can be trained: others first
            return
        self.problems.pop(task, None)
        self.streaks.given_up(task)
        self._keep_failure(task, problem)

    def _keep_failure(self, task: Task, problem: TaskFailure) -> None:
        failure = Failure(task, self.attempts[task], *problem)
        self.failed.append(failure)
        self.store.add_failure(failure)

    def _stop(self, alike: Alike) -> None:
        """End the run: whatever is trained fails with one error."""
        self.attempts[alike.tasks[-1]] += 1
        for task in alike.tasks:
            if task in self.problems:  # not given up yet
                self._keep_failure(task, self.problems[task])
        raise training_error(alike, self.sizes, self.problems[alike.tasks[-1]], self.store)

    def _recover(self, broken: list[Chunk], pool: WorkerPool) -> None:
        """Workers died: start anew, then train what was under way one by one to find the culprit."""
        self._salvage()
        tasks = [task for chunk in (*broken, *self.under_way.values()) for task in chunk.tasks()]
        self.under_way.clear()
        self._commit()
        pool.restart()
        self._suspect(tasks, alone=len(tasks) == 1)

    def _salvage(self) -> None:
        """Take in what has ended well, whatever happens to the rest."""
        for future, chunk in list(self.under_way.items()):
            if future.done() and not future.cancelled() and future.exception() is None:
                del self.under_way[future]
                self._accept(chunk, future.result())

    def _commit(self) -> None:
        rows, self.waiting = self.waiting, []
        self.last_commit = time.monotonic()
        if not rows:
            return
        pool = [row for row in rows if isinstance(row, PoolRow)]
        new = self.store.add_pool(pool) + self.store.add(
            row for row in rows if not isinstance(row, PoolRow)
        )
        models = len({row.base if self.sizes.canaries else row[:3] for row in rows})
        # A row that was there already came from another process.
        ours = models if len(self.sizes.variants) > 1 else new // max(1, self.sizes.canaries)
        self.trained += ours
        self.reused += models - ours

    def result(self) -> Measurement:
        if not self.trained + self.reused:
            reason = self.failed[0] if self.failed else None
            detail = f" ({self.sizes.named(reason.task)}: {reason.message})" if reason else ""
            raise EpsilometerError(f"no model could be trained{detail}.")
        accounted = self.trained + self.reused + len(self.failed)
        if accounted != self.sizes.models:
            raise EpsilometerError(
                f"{accounted} models are accounted for, but {self.sizes.models} were planned; "
                "losses that came in are kept, run again."
            )
        return Measurement(
            plan=self.plan,
            losses={name: self.store.measured(self.sizes, name) for name in self.sizes.variants},
            trained=self.trained,
            reused=self.reused,
            failures=sorted(self.failed),
        )
