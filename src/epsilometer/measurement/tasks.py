"""The worker's side: train the models of a chunk and give back their losses.

Runs in whatever thread, process or machine an executor chooses, with no access to the store.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from epsilometer.measurement.algorithm import Algorithm, Releases, TrainsMany
from epsilometer.measurement.bases import ChallengeBase
from epsilometer.measurement.plan import Plan, Task, release_stream, training_stream
from epsilometer.measurement.population import Population
from epsilometer.measurement.serial_executor import SerialExecutor


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """What a worker needs to know of a plan."""

    population: Population
    algorithm: Algorithm
    bases: tuple[ChallengeBase, ...]
    variants: tuple[str, ...]
    seed: int

    @staticmethod
    def of(plan: Plan) -> Work:
        return Work(
            population=plan.population,
            algorithm=plan.algorithm,
            bases=plan.bases,
            variants=plan.variants,
            seed=plan.seed,
        )


LONGEST_MESSAGE = 500
"""Of a failure, as it is kept: enough to know it by."""


def train_chunk(work: Work, chunk: Chunk) -> Trained | Problem:
    """Train every model of a chunk and compute its losses."""
    future: Future[Trained] = SerialExecutor().submit(_train, work, chunk)
    error = future.exception()
    if error is None:
        return future.result()
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return Problem(text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 3] + "...")


def _train(work: Work, chunk: Chunk) -> Trained:
    start = time.perf_counter()
    base, tasks = work.bases[chunk.base], chunk.tasks()
    rows: list[LossRow] = []
    for task, model in zip(tasks, _models(work, base, tasks), strict=True):
        for variant in work.variants:
            released = model
            if isinstance(work.algorithm, Releases):
                stream = release_stream(work.seed, task, variant)
                released = work.algorithm.release(model, variant, stream)
            # A point of its own for each loss: the user's code may change it in place.
            point = work.population.point(base.challenge)
            rows.append(LossRow(*task, variant, float(work.algorithm.loss(released, point))))
    return Trained(rows, time.perf_counter() - start)


def _models(work: Work, base: ChallengeBase, tasks: list[Task]) -> Any:
    """Models one after the other, or all at once if the algorithm can."""
    streams = [training_stream(work.seed, task) for task in tasks]
    if len(tasks) > 1 and isinstance(work.algorithm, TrainsMany):
        datasets = [base.train_on(work.population, task.hypothesis) for task in tasks]
        yield from work.algorithm.train_many(datasets, streams)
        return
    for task, stream in zip(tasks, streams, strict=True):
        # A data set of its own for each model: training code may change it in place.
        yield work.algorithm.train(base.train_on(work.population, task.hypothesis), stream)
