"""The worker's side: train the models of a chunk and return their losses.

Runs in any thread, process or machine that an executor chooses, without access to the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

import numpy as np

from epsilometer import _files, _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.bases import Base, Row
from epsilometer.measurement.failures import message_of, traceback_of
from epsilometer.measurement.one_run import CanaryRun, OneRun
from epsilometer.measurement.plan import (
    Plan,
    Task,
    reference_stream,
    release_stream,
    training_stream,
)
from epsilometer.measurement.population import Array, Dataset, Point, points_of


class SerialExecutor(Executor):
    """Runs each call at once in the calling thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            # Anything a call raises is stored in its future; an interrupt is also raised here.
            future.set_exception(error)
            if isinstance(error, KeyboardInterrupt):
                raise
        return future


class Chunk(NamedTuple):
    """Some models of one base and hypothesis, handed to a worker together."""

    base: int
    hypothesis: int
    replicates: tuple[int, ...]

    @staticmethod
    def of(task: Task) -> Chunk:
        return Chunk(task.base, task.hypothesis, (task.replicate,))

    def tasks(self) -> list[Task]:
        return [Task(self.base, self.hypothesis, replicate) for replicate in self.replicates]


def cut(groups: list[Chunk], place: int, size: int) -> Chunk:
    """The first models of a group, which keeps the others, and its place if it has any."""
    base, hypothesis, left = groups[place]
    groups[place : place + 1] = [Chunk(base, hypothesis, left[size:])] if left[size:] else []
    return Chunk(base, hypothesis, left[:size])


class Trained(NamedTuple):
    """A worker's result: losses, finite or not, and the training time in seconds."""

    rows: list[Row]
    seconds: float


class TaskFailure(NamedTuple):
    """A worker's result if the user's code raised an error, as text.

    The exception itself might not survive the transfer between processes.
    """

    message: str
    traceback: str = ""
    #: Index in its chunk of the model that failed; None if unknown, as with ``train_many``.
    place: int | None = None


Answer = Trained | TaskFailure


def train_chunk(plan: Plan, chunk: Chunk) -> Answer:
    """Train every model of a chunk and compute its losses."""
    begun: list[int] = []
    future: Future[Trained] = SerialExecutor().submit(_train, plan, chunk, begun)
    error = future.exception()
    if error is None:
        return future.result()
    return TaskFailure(message_of(error), traceback_of(error), len(begun) - 1 if begun else None)


def _train(plan: Plan, chunk: Chunk, begun: list[int]) -> Trained:
    start = time.perf_counter()
    rows: list[Row] = []
    for task, variant, losses in _measured(plan, chunk, begun):
        rows += plan.bases[chunk.base].rows(task, variant, losses)
    return Trained(rows, time.perf_counter() - start)


def _measured(plan: Plan, chunk: Chunk, begun: list[int]) -> Iterator[tuple[Task, str, FloatArray]]:
    """The losses of every variant of every model; ``begun`` receives the models, one after the other."""
    design, base = plan.design, plan.bases[chunk.base]
    if design.in_gradients:
        for task in chunk.tasks():
            yield task, "", -_gradient_scores(plan, base, task)
        return
    for task, model in zip(chunk.tasks(), _models(plan, chunk, begun), strict=True):
        compared = None
        if isinstance(design, OneRun) and design.compares:
            theirs = _losses(plan, base, _compared(plan, base, task))
            compared = design.statistic(theirs[None, :])[0]
        for variant in plan.variants:
            made = model
            if isinstance(plan.algorithm, algorithms.Releases):
                stream = release_stream(plan.seed, task, variant)
                made = plan.algorithm.release(model, variant, stream)
            losses = _losses(plan, base, made)
            if isinstance(design, OneRun) and compared is not None:
                # The other model's scores minus this one's: low for members, like losses.
                losses = np.asarray(compared - design.statistic(losses[None, :])[0])
            yield task, variant, losses


def _losses(plan: Plan, base: Base, model: Any) -> FloatArray:
    """Losses of the points of a base; the points are copies, which the algorithm may change in place."""
    ask = with_queries if plan.design.uses_queries else _losses_of
    future: Future[list[FloatArray]] = SerialExecutor().submit(
        lambda: [ask(plan.algorithm, model, part) for part in base.points(plan.all_records)]
    )
    error = future.exception()
    if error is None:
        return np.concatenate(future.result())
    if model is None:
        # Code that has no model to return may return None; it is wrong only if the loss needs one.
        raise InputError(
            f"train(dataset, rng) returned None; expected a model ({message_of(error)})"
        ).with_traceback(error.__traceback__) from None
    raise error


def _losses_of(algorithm: algorithms.Algorithm, model: Any, points: Dataset) -> FloatArray:
    """Losses of points, computed together if the algorithm can."""
    if len(points) > 1 and isinstance(algorithm, algorithms.ScoresMany):
        losses = np.asarray(algorithm.losses(model, points), dtype=float)
        _validate.shape("losses(model, points)", losses, (len(points),))
        return losses
    each = (algorithm.loss(model, point) for point in points_of(points))
    return np.array([algorithms.loss_as_number(loss) for loss in each])


def with_queries(algorithm: algorithms.Algorithm, model: Any, points: Dataset) -> FloatArray:
    """Losses of points and their augmentations, (points, queries); query 0 is the point itself."""
    if not isinstance(algorithm, algorithms.HasQueries):
        return _losses_of(algorithm, model, points)[:, None]
    expected = points.features.shape[1:]
    # Query first, while the points are unchanged: code that computes losses may change them in place.
    queried = [_queries(algorithm, point, expected) for point in points_of(points)]
    numbers = sorted({len(queries) for queries in queried})
    if len(numbers) > 1:
        raise InputError(
            "expected queries(point) to return the same number of arrays for every point, got "
            f"{numbers[0]} and {numbers[-1]}."
        )

    def ask(features: Array) -> FloatArray:
        labels = None if points.labels is None else points.labels.copy()
        return _losses_of(algorithm, model, Dataset(features=features.copy(), labels=labels))

    return np.stack([ask(part) for part in (points.features, *np.stack(queried, axis=1))], axis=1)


def _queries(algorithm: algorithms.HasQueries, point: Point, expected: tuple[int, ...]) -> Array:
    """The augmentations of a point: one or more arrays of its shape."""
    answer = algorithm.queries(point)
    try:
        queries = np.asarray(answer)
    except ValueError:  # arrays of different shapes
        queries = np.empty(0)
    if queries.ndim != len(expected) + 1 or queries.shape[1:] != expected or not len(queries):
        raise InputError(
            f"expected queries(point) to return one or more arrays of shape {expected}, got "
            f"{_files.shown(getattr(answer, 'shape', answer))}."
        )
    return queries


def _compared(plan: Plan, base: Base, task: Task) -> Any:
    """The model that the scores of a run are compared with."""
    assert isinstance(plan.design, OneRun)
    assert isinstance(base, CanaryRun)
    # Not even the initial model may see canaries: the comparison model is not part of the release.
    dataset = base.without_canaries(plan.population)
    if plan.design.compare_with == "initial":
        assert isinstance(plan.algorithm, algorithms.HasInitialModel)
        return plan.algorithm.initial_model(dataset, training_stream(plan.seed, task))
    return plan.algorithm.train(dataset, reference_stream(plan.seed, task))


def _gradient_scores(plan: Plan, base: Base, task: Task) -> FloatArray:
    """Scores of the canaries that an algorithm inserts itself."""
    assert isinstance(base, CanaryRun)
    assert isinstance(plan.algorithm, algorithms.PlantsCanaries)
    dataset = base.without_canaries(plan.population)
    stream = training_stream(plan.seed, task)
    scores = np.asarray(plan.algorithm.gradient_scores(dataset, base.coins, stream), dtype=float)
    _validate.shape("scores of canaries", scores, base.coins.shape)
    return scores


def _models(plan: Plan, chunk: Chunk, begun: list[int]) -> Iterator[Any]:
    """Models one after the other, or all at once if the algorithm can."""
    streams = [training_stream(plan.seed, task) for task in chunk.tasks()]
    # A separate dataset for each model: training code may change it in place.
    base = plan.bases[chunk.base]
    datasets = (
        base.train_on(plan.all_records, chunk.hypothesis, replicate)
        for replicate in chunk.replicates
    )
    if len(streams) > 1 and isinstance(plan.algorithm, algorithms.TrainsMany):
        yield from plan.algorithm.train_many(list(datasets), streams)
        return
    for number, dataset, stream in zip(chunk.replicates, datasets, streams, strict=True):
        begun.append(number)
        yield plan.algorithm.train(dataset, stream)
