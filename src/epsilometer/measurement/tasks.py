"""The worker's side: train the models of a chunk and give back their losses.

Runs in whatever thread, process or machine an executor chooses, with no access to the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

from epsilometer.measurement.algorithm import Releases, TrainsMany
from epsilometer.measurement.plan import Plan, Task, release_stream, training_stream


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


class LossRow(NamedTuple):
    """The loss of one variant of one model."""

    base: int
    hypothesis: int
    replicate: int
    variant: str
    loss: float


class Chunk(NamedTuple):
    """Some models of one base and hypothesis, handed to a worker at once."""

    base: int
    hypothesis: int
    replicates: tuple[int, ...]

    @staticmethod
    def of(task: Task) -> Chunk:
        return Chunk(task.base, task.hypothesis, (task.replicate,))

    def tasks(self) -> list[Task]:
        return [Task(self.base, self.hypothesis, replicate) for replicate in self.replicates]


class Trained(NamedTuple):
    """What a worker answers: losses, finite or not, and the seconds it took."""

    rows: list[LossRow]
    seconds: float


class Problem(NamedTuple):
    """What a worker answers instead when the user's code raised something: the error in words.

    Errors themselves may not survive the way back from another process.
    """

    message: str


Answer = Trained | Problem


LONGEST_MESSAGE = 500
"""Of a failure, as it is kept: enough to know it by."""


def train_chunk(plan: Plan, chunk: Chunk) -> Answer:
    """Train every model of a chunk and compute its losses."""
    future: Future[Trained] = SerialExecutor().submit(_train, plan, chunk)
    error = future.exception()
    if error is None:
        return future.result()
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return Problem(text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 3] + "...")


def _train(plan: Plan, chunk: Chunk) -> Trained:
    start = time.perf_counter()
    algorithm, variants = plan.algorithm, plan.variants
    rows: list[LossRow] = []
    for task, model in zip(chunk.tasks(), _models(plan, chunk), strict=True):
        for variant in variants:
            released = model
            if isinstance(algorithm, Releases):
                stream = release_stream(plan.seed, task, variant)
                released = algorithm.release(model, variant, stream)
            # A point of its own for each loss: the user's code may change it in place.
            point = plan.population.point(plan.bases[chunk.base].challenge)
            rows.append(LossRow(*task, variant, float(algorithm.loss(released, point))))
    return Trained(rows, time.perf_counter() - start)


def _models(plan: Plan, chunk: Chunk) -> Iterator[Any]:
    """Models one after the other, or all at once if the algorithm can."""
    streams = [training_stream(plan.seed, task) for task in chunk.tasks()]
    # A data set of its own for each model: training code may change it in place.
    base = plan.bases[chunk.base]
    datasets = (base.train_on(plan.population, chunk.hypothesis) for _ in streams)
    if len(streams) > 1 and isinstance(plan.algorithm, TrainsMany):
        yield from plan.algorithm.train_many(list(datasets), streams)
        return
    for dataset, stream in zip(datasets, streams, strict=True):
        yield plan.algorithm.train(dataset, stream)
