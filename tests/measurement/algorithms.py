"""Algorithms for tests, in a separate module so that other processes can import them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.measurement.algorithm import Algorithm
from epsilometer.measurement.bases import Adjacency, Include
from epsilometer.measurement.designs import CrossFed
from epsilometer.measurement.one_run import OneRun
from epsilometer.measurement.plan import Plan, Task
from epsilometer.measurement.pool import Pool
from epsilometer.measurement.population import Dataset, Point, Population


def task_of(rng: np.random.Generator) -> Task:
    """The model a training stream belongs to."""
    _, *key = rng.bit_generator.seed_seq.spawn_key  # type: ignore[attr-defined]
    return Task(*key)


def population(seed: int = 7, records: int = 40) -> Population:
    rows = np.random.default_rng(seed).standard_normal((records, 4))
    return Population(features=rows, name="normal")


def plan(
    algorithm: Algorithm | None = None,
    *,
    bases: int = 2,
    replicates: int = 5,
    dataset_size: int = 10,
    adjacency: Adjacency | None = None,
    seed: int = 1,
) -> Plan:
    """A plan of ``2 * bases * replicates`` models."""
    return Plan(
        population=population(),
        algorithm=NoisyMean() if algorithm is None else algorithm,
        design=CrossFed(replicates=replicates),
        challenge_bases=bases,
        dataset_size=dataset_size,
        adjacency=adjacency or Include(),
        seed=seed,
    )


def one_run_plan(
    algorithm: Algorithm | None = None,
    *,
    runs: int = 1,
    canaries: int = 20,
    kind: str = "population",
) -> Plan:
    """A plan of training runs with canaries."""
    return replace(
        plan(algorithm), design=OneRun(canaries=canaries, kind=kind), challenge_bases=runs
    )


def pool_plan(
    algorithm: Algorithm | None = None,
    *,
    models: int = 8,
    records: int = 20,
    adjacency: Adjacency | None = None,
    challenge: Any = "random",
    seed: int = 1,
    population: Population | None = None,
    **design: Any,
) -> Plan:
    """A plan of models on random parts of a pool."""
    return Plan(
        population=population or labelled(),
        algorithm=Logistic() if algorithm is None else algorithm,
        design=Pool(models=models, **design),
        challenge_bases=1,
        dataset_size=records,
        adjacency=adjacency or Include(),
        challenge=challenge,
        seed=seed,
    )


def labelled(seed: int = 7, records: int = 40) -> Population:
    """The records of `population` with labels."""
    labels = np.arange(records) % 3
    return Population(features=population(seed, records).features, labels=labels)


@dataclass(frozen=True, kw_only=True)
class NoisyMean:
    """The mean with noise; each training takes some time and can be logged to a file."""

    seconds: float = 0.0
    log: str | None = None

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        if self.log is not None:
            note(self.log, task_of(rng))
        if self.seconds > 0:
            time.sleep(self.seconds)
        mean: FloatArray = dataset.features.mean(axis=0)
        return mean + 0.1 * rng.standard_normal(mean.shape)

    def loss(self, model: FloatArray, point: Point) -> float:
        return -float(point.features @ model)

    def parameters(self, model: FloatArray) -> FloatArray:
        return model

    def with_parameters(self, model: FloatArray, parameters: FloatArray) -> FloatArray:
        del model
        return parameters

    @property
    def fingerprint(self) -> str:
        return "mean with noise 0.1"  # neither time nor log file affects the models


def note(log: str, task: Task) -> None:
    """Append a line in one write, so that processes do not interfere."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{task.base} {task.hypothesis} {task.replicate}\n".encode())
    finally:
        os.close(file)


def noted(log: str | Path) -> list[Task]:
    """What was trained, in order."""
    path = Path(log)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Task(*map(int, line.split())) for line in lines]


class UnpicklableError(Exception):
    """Cannot be sent to another process."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.inside = lambda: message


class UnloadableError(Exception):
    """Can be pickled, but not unpickled in another process."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


class OddError(BaseException):
    """Not an Exception."""


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """The mean with noise, except that some models fail in a given way.

    Parameters
    ----------
    faults
        Base, hypothesis, replicate, and the kind of failure.
    log
        Where trainings are logged.
    only_first
        Fail only this many times, counted by the log.
    """

    faults: tuple[tuple[int, int, int, str], ...]
    log: str
    only_first: int | None = None

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        task = task_of(rng)
        note(self.log, task)
        fault = {Task(*place): fault for *place, fault in self.faults}.get(task)
        if self.only_first is not None and noted(self.log).count(task) > self.only_first:
            fault = None
        if fault in ("nan", "inf"):
            return np.full(4, float(fault))
        if fault is not None:
            go_wrong(fault)
        return NoisyMean().train(dataset, rng)

    def loss(self, model: FloatArray, point: Point) -> float:
        if not np.isfinite(model).all():
            return float(model[0])
        return NoisyMean().loss(model, point)


RAISED: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("out of luck\non two lines"),
    "UnpicklableError": lambda: UnpicklableError("holds a function"),
    "UnloadableError": lambda: UnloadableError(7, "needs two arguments"),
    "OddError": lambda: OddError("not an Exception"),
    "MemoryError": lambda: MemoryError("no room"),
    "StopIteration": lambda: StopIteration("the end"),
    "TimeoutError": lambda: TimeoutError("too slow"),
    "CancelledError": lambda: CancelledError("by user code"),
    "RuntimeError": lambda: RuntimeError("x" * 100_000),
}


def go_wrong(fault: str) -> None:
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        raise SystemExit(3)
    raise RAISED[fault]()


@dataclass(frozen=True, kw_only=True)
class FaultyMany(Faulty):
    """Like `Faulty`, with several models trained at once."""

    batch_size: int = 5

    def train_many(
        self, datasets: Sequence[Dataset], rngs: Sequence[np.random.Generator]
    ) -> list[Any]:
        return [self.train(dataset, rng) for dataset, rng in zip(datasets, rngs, strict=True)]


@dataclass(frozen=True, kw_only=True)
class ManyAtOnce:
    """Logs only what is trained by `train_many`."""

    log: str
    batch_size: int = 4

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        return NoisyMean().train(dataset, rng)

    def train_many(
        self, datasets: Sequence[Dataset], rngs: Sequence[np.random.Generator]
    ) -> list[FloatArray]:
        for rng in rngs:
            note(self.log, task_of(rng))
        return [self.train(dataset, rng) for dataset, rng in zip(datasets, rngs, strict=True)]

    def loss(self, model: FloatArray, point: Point) -> float:
        return NoisyMean().loss(model, point)


def _refuse_here() -> None:
    raise RuntimeError("cannot be loaded")


class Unloadable(NoisyMean):
    """Can be pickled, but not unpickled in another process."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _refuse_here, ()


@dataclass(frozen=True, kw_only=True)
class Spoils:
    """Changes the dataset or the point that it receives."""

    what: str

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        model = NoisyMean().train(dataset, rng)
        if self.what == "dataset":
            dataset.features[:] = 1e9
        return model

    def loss(self, model: FloatArray, point: Point) -> float:
        value = NoisyMean().loss(model, point)
        if self.what == "point":
            point.features[:] = 1e9
        return value


@dataclass(frozen=True, kw_only=True)
class DiesLate(NoisyMean):
    """Once, the process that trained a model dies shortly after it has returned the loss."""

    mark: str
    delay: float

    def loss(self, model: FloatArray, point: Point) -> float:
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().loss(model, point)
        threading.Timer(self.delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return super().loss(model, point)


@dataclass(frozen=True, kw_only=True)
class Logistic(NoisyMean):
    """The mean with noise, with losses -log p whose log odds are along the point."""

    def loss(self, model: FloatArray, point: Point) -> float:
        return float(np.logaddexp(0.0, -4 * point.features @ model))


@dataclass(frozen=True, kw_only=True)
class Remembers:
    """The model is its dataset; the loss of a record is 0 if it is in there, else 1."""

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        del rng
        return dataset.features

    def loss(self, model: FloatArray, point: Point) -> float:
        return float(not (model == point.features).all(axis=1).any())


@dataclass(frozen=True, kw_only=True)
class IgnoresData:
    """Noise that does not depend on the data."""

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        return np.asarray(rng.standard_normal(dataset.features.shape[1]))

    def loss(self, model: FloatArray, point: Point) -> float:
        return Logistic().loss(model, point)


@dataclass(frozen=True, kw_only=True)
class Asked(Logistic):
    """Queries multiples of a point, or returns something wrong; changes every array it receives."""

    answers: str = "right"

    def queries(self, point: Point) -> Any:
        one = point.features.copy()
        many = 3 if point.features[0] > 0 else 2
        answer = {
            "right": np.stack([2 * one, 3 * one]),
            "list": [2 * one, 3 * one],
            "flat": one,
            "none": one[None][:0],
            "wide": np.zeros((2, 5)),
            "number": 1.0,
            "ragged": [one, one[:2]],
            "unequal": np.zeros((many, 4)),
        }[self.answers]
        point.features[:] = 1e9
        return answer

    def losses(self, model: FloatArray, points: Dataset) -> FloatArray:
        found = np.logaddexp(0.0, -4 * points.features @ model)
        points.features[:] = 1e9
        return np.asarray(found)


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """Trains nothing, so that only the overhead around training takes time."""

    def train(self, dataset: Dataset, rng: np.random.Generator) -> None:
        del dataset, rng

    def loss(self, model: None, point: Point) -> float:
        del model, point
        return 0.0
