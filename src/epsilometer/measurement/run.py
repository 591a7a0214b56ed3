"""The coordinator: hands out models to train, collects and commits losses, gives up on failures.

Only this process writes to the store.  Results do not depend on which worker trains a model or in which
order, because each model has its own random stream.  Models are trained in the planned order of pairs,
so that an unfinished audit has few models without a partner.  If another process trains for the same
store, chunks are taken in random order, so that the two rarely train the same model (and if they do, one
loss is kept).
"""

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from typing import NamedTuple

from epsilometer._arrays import OnMessage
from epsilometer.errors import ExecutorError
from epsilometer.measurement import failures
from epsilometer.measurement.algorithm import batch_size_of
from epsilometer.measurement.bases import Row
from epsilometer.measurement.executors import ResultLostError, WorkerDiedError, WorkerPool
from epsilometer.measurement.failures import Failure
from epsilometer.measurement.first_models import FirstModels
from epsilometer.measurement.plan import Plan, Task
from epsilometer.measurement.store import SqliteStore
from epsilometer.measurement.tasks import Answer, Chunk, TaskFailure, cut

#: Target training time per chunk: long enough to make the cost of handing it out negligible.
CHUNK_SECONDS = 0.3

#: Losses are committed after at most this time.
COMMIT_SECONDS = 0.2

#: Most models whose losses can be lost when a worker dies.
LARGEST_CHUNK = 1000

#: Most losses that a worker sends back at once: 32 MB.
LARGEST_ANSWER = 4_000_000

#: If more workers in a row die, with nothing trained in between, no single model is to blame.
MOST_DEATHS = 10

#: How often a model's result may be lost before this counts as a failure.
MOST_LOST = 10


class Progress(NamedTuple):
    """Progress of a run, in models."""

    done: int
    total: int
    trained: int
    failed: int


def models_done(state: Progress) -> tuple[str, int, int]:
    """Progress for a bar: text, models done, and the total."""
    failed = f", {state.failed:,} failed" if state.failed else ""
    return f"{state.done:,} of {state.total:,} models{failed}", state.done, state.total


class Run:
    """The state of one call of `measure` or `check_training`."""

    def __init__(
        self,
        plan: Plan,
        store: SqliteStore,
        retries: int,
        on_progress: Callable[[Progress], None] | None,
        on_message: OnMessage | None,
    ) -> None:
        self.plan, self.store, self.retries = plan, store, retries
        self.on_progress = on_progress or (lambda _: None)
        self.sizes = plan.sizes
        #: Models per base and hypothesis that are still to be handed out.
        self.groups: list[Chunk] = []
        self.batch_size = batch_size_of(plan.algorithm)
        self.first_models = FirstModels(
            plan=plan,
            groups=self.groups,
            batch_size=self.batch_size,
            on_message=on_message or (lambda _: None),
        )
        self.reused = 0
        before = {self.sizes.side(hypothesis): False for _, hypothesis, _ in plan.groups()}
        for base, hypothesis, replicates in plan.groups():
            missing = self._missing(Chunk(base, hypothesis, tuple(replicates)))
            if missing.replicates:
                self.groups.append(missing)
            before[self.sizes.side(hypothesis)] |= len(missing.replicates) < len(replicates)
        self.streaks = failures.Streaks(
            models=self.sizes.models,
            bases=self.sizes.challenge_bases,
            trained=before,
            known={failure.task: failure.message for failure in store.failures()},
        )
        #: Last failure of each model that will be retried.
        self.problems: dict[Task, TaskFailure] = {}
        self.stopping = False
        self.slots = 1
        self.trained = 0
        self.failed: list[Failure] = []
        self.attempts: Counter[Task] = Counter()
        #: Models of failed chunks: handed out one at a time, to find the one that fails.
        self.to_retry: deque[Task] = deque()
        #: Models in progress when a worker died: retrained with nothing else running.
        self.suspects: deque[Task] = deque()
        self.running: dict[Future[Answer], Chunk] = {}
        #: A suspect that is running alone.
        self.alone: Future[Answer] | None = None
        self.lost: Counter[Task] = Counter()
        #: Workers that died while running a single model, since one was last trained.
        self.deaths = 0
        self.waiting: list[Row] = []
        self.last_commit = time.monotonic()
        self.chunk_size = 1.0
        self.order = random.Random()
        #: Whether another process may be training for the same store.
        self.shared = False

    # --- the loop -----------------------------------------------------------------------------

    def train_on(self, pool: WorkerPool) -> None:
        """Train with a pool, then close it."""
        try:
            self.train(pool)
        except BaseException:
            pool.close(wait=False)  # do not wait for running models
            raise
        pool.close()

    def train(self, pool: WorkerPool) -> None:
        self.shared = self.store.in_use()
        run = self.store.begin_run(pool.name)
        try:
            while self._hand_out(pool):
                self.on_progress(self._progress())
                ready, _ = wait(self.running, timeout=COMMIT_SECONDS, return_when=FIRST_COMPLETED)
                self._collect(ready, pool)
                if time.monotonic() - self.last_commit >= COMMIT_SECONDS:
                    self._commit()
        finally:
            # Also when interrupted, so that no received loss is discarded.
            self.stopping = True
            self._salvage()
            self._commit()
            self.on_progress(self._progress())
            self.store.end_run(run, self.trained)

    def _progress(self) -> Progress:
        return Progress(
            self.reused + self.trained, self.sizes.models, self.trained, len(self.failed)
        )

    def _hand_out(self, pool: WorkerPool) -> bool:
        """Keep the workers busy; returns False when nothing is running or left to do."""
        if self.alone in self.running:
            return True
        if self.suspects:
            if not self.running:
                self.alone = self._submit(pool, Chunk.of(self.suspects.popleft()))
            return True
        self.slots = pool.slots
        # One extra chunk is queued so that no worker is ever idle; with a single slot, chunks run in
        # this thread and have finished before the next is handed out.
        most = self.slots + 1 if self.slots > 1 else 1
        while len(self.running) < most and (chunk := self._next_chunk()) is not None:
            self._submit(pool, chunk)
        return bool(self.running or self.suspects or self.to_retry or self.first_models.waiting)

    def _submit(self, pool: WorkerPool, chunk: Chunk) -> Future[Answer] | None:
        try:
            future = pool.submit(chunk)
        except BrokenExecutor:
            self._recover([chunk], pool)
            return None
        except RuntimeError as error:
            raise ExecutorError(
                f"{pool.name}: accepts no more work ({error}). Losses received so far are kept."
            ) from None
        self.running[future] = chunk
        return future

    def _next_chunk(self) -> Chunk | None:
        if self.first_models.waiting:
            return self.first_models.waiting.popleft()
        if self.to_retry:
            return Chunk.of(self.to_retry.popleft())
        while self.groups and not self.first_models.alone:
            size = max(self.batch_size, int(self.chunk_size))
            # Another process may have trained some of these meanwhile.
            fresh = self._missing(cut(self.groups, self._next_group(), size))
            if fresh.replicates:
                return fresh
        return None

    def _next_group(self) -> int:
        """The place of the group to train next: in the first base, that with more models left."""
        if self.shared:
            return self.order.randrange(len(self.groups))
        both = len(self.groups) > 1 and self.groups[0].base == self.groups[1].base
        return int(both and len(self.groups[1].replicates) > len(self.groups[0].replicates))

    def _missing(self, chunk: Chunk) -> Chunk:
        """The part of a chunk that the store does not hold yet."""
        done = self.store.done(chunk, self.sizes.variants)
        self.reused += len(done)
        return chunk._replace(replicates=tuple(n for n in chunk.replicates if n not in done))

    # --- results ------------------------------------------------------------------------------

    def _collect(self, ready: Iterable[Future[Answer]], pool: WorkerPool) -> None:
        broken: list[Chunk] = []
        for future in ready:
            chunk = self.running.pop(future)
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
                self._failed(chunk, TaskFailure(failures.message_of(error)))
        if broken:
            self._recover(broken, pool)

    def _suspect(self, tasks: list[Task], *, alone: bool) -> None:
        """A worker died: a model that ran alone is to blame; otherwise rerun each model alone."""
        if not alone:
            self.suspects += tasks
            return
        self.deaths += 1
        if self.deaths > MOST_DEATHS:
            last = self.sizes.named(tasks[0])
            raise ExecutorError(
                f"{self.deaths} workers in a row died while training, with different models (last: "
                f"{last}): does training work with the executor serial? Losses received so far are kept."
            )
        self._retry(tasks[0], TaskFailure(failures.WORKER_DIED), self.suspects)

    def _lost(self, chunk: Chunk) -> None:
        """Retry models whose result was lost; they fail only if it happens repeatedly."""
        for task in chunk.tasks():
            self.lost[task] += 1
            if self.lost[task] <= MOST_LOST:
                self.to_retry.append(task)
            else:
                self._retry(task, TaskFailure(failures.RESULT_LOST), self.to_retry)

    def _accept(self, chunk: Chunk, trained: Answer) -> None:
        if isinstance(trained, TaskFailure):
            self._failed(chunk, trained)
            return
        self.deaths = 0
        self.first_models.pace.add(len(chunk.replicates), trained.seconds)
        wanted = CHUNK_SECONDS * len(chunk.replicates) / max(trained.seconds, 1e-9)
        # Grow gradually: the first chunks may not be representative.
        most = max(1, min(LARGEST_CHUNK, LARGEST_ANSWER // max(1, self.sizes.points)))
        self.chunk_size = max(1.0, min(wanted, 2 * self.chunk_size, most))
        bad: dict[Task, str] = {}
        for row in trained.rows:
            if row.problem is not None:
                canary = f"canary {row.replicate}: " if self.sizes.canaries else ""
                bad.setdefault(self._task_of(row, chunk), f"{canary}{row.problem}")
        good = [row for row in trained.rows if self._task_of(row, chunk) not in bad]
        self.waiting += good
        if len(bad) < len(chunk.replicates):
            self.streaks.trained(self.sizes.side(chunk.hypothesis))
        self.first_models.check_repeats(good)
        self.first_models.report_time(self.reused + self.trained + len(self.failed), self.slots)
        for task, message in bad.items():
            self._count_failure(task, TaskFailure(message))

    def _task_of(self, row: Row, chunk: Chunk) -> Task:
        """The model that a loss belongs to; a chunk of canaries is a single run."""
        return chunk.tasks()[0] if self.sizes.canaries else Task(*row[:3])

    def _failed(self, chunk: Chunk, problem: TaskFailure) -> None:
        if len(chunk.replicates) > 1:
            self.to_retry += chunk.tasks()
            if problem.place is not None:
                self._keep(chunk.tasks()[problem.place], problem)
        else:
            self._count_failure(chunk.tasks()[0], problem)

    def _count_failure(self, task: Task, problem: TaskFailure) -> None:
        """Record a failure of the user's code, and end the run if everything fails."""
        side = self.sizes.side(task.hypothesis)
        self.problems[task] = problem
        self._keep(task, problem)
        streak = self.streaks.failed(side, task, problem.message)
        if streak is not None and not self.stopping:
            self._stop(streak)
        if not self.streaks.ever_trained(side):
            self.first_models.add(side)  # try another model before retrying this one
        self._retry(task, problem, self.to_retry)

    def _retry(self, task: Task, problem: TaskFailure, retry: deque[Task]) -> None:
        """Retry a model, or give it up."""
        self.attempts[task] += 1
        if self.attempts[task] <= self.retries:
            if self.streaks.ever_trained(self.sizes.side(task.hypothesis)):
                retry.appendleft(task)  # find out soon whether retrying helps
            else:
                retry.append(task)  # perhaps none can be trained: try others first
            return
        # Rather what its code raised than what became of the machine.
        self.failed.append(self._keep(task, self.problems.pop(task, problem)))

    def _keep(self, task: Task, problem: TaskFailure) -> Failure:
        """Store a failure at once: a model that succeeds only when retried has failed in proofs."""
        failure = Failure(task, max(1, self.attempts[task]), *problem[:2])
        self.store.add_failure(failure, self.plan.bases[task.base].coins_of(task.replicate))
        return failure

    def _stop(self, streak: failures.Streak) -> None:
        """End the run: every model fails with the same error."""
        self.attempts[streak.tasks[-1]] += 1
        for task in streak.tasks:
            if task in self.problems:  # not given up yet
                self.failed.append(self._keep(task, self.problems[task]))
        last = self.problems[streak.tasks[-1]]
        raise failures.training_error(streak, self.sizes, last, self.store)

    def _recover(self, broken: list[Chunk], pool: WorkerPool) -> None:
        """Restart after workers died, then retrain the running models one by one to find the culprit."""
        self._salvage()
        tasks = [task for chunk in (*broken, *self.running.values()) for task in chunk.tasks()]
        self.running.clear()
        self._commit()
        pool.restart()
        self._suspect(tasks, alone=len(tasks) == 1)

    def _salvage(self) -> None:
        """Collect the results of all chunks that have finished successfully."""
        for future, chunk in list(self.running.items()):
            if future.done() and not future.cancelled() and future.exception() is None:
                del self.running[future]
                self._accept(chunk, future.result())

    def _commit(self) -> None:
        rows, self.waiting = self.waiting, []
        self.last_commit = time.monotonic()
        if not rows:
            return
        new = self.store.add(rows)
        models = len({row.base if self.sizes.canaries else row[:3] for row in rows})
        # A row that already existed came from another process.
        ours = models if len(self.sizes.variants) > 1 else new // max(1, self.sizes.canaries)
        self.trained += ours
        self.reused += models - ours
