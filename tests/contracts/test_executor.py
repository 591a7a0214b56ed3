"""The contract of executors: the losses equal those of the serial executor, bit for bit."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
import pytest

from epsilometer.errors import EpsilometerError, ExecutorError
from epsilometer.measurement import executors, run
from epsilometer.measurement.bases import LossRow
from epsilometer.measurement.engine import Measurement, measure
from epsilometer.measurement.plan import Plan, Task
from epsilometer.measurement.store import MemoryStore, SqliteStore
from epsilometer.training.output_perturbation import NoiseLevels
from tests.measurement.algorithms import (
    RAISED,
    Faulty,
    FaultyMany,
    ManyAtOnce,
    NoisyMean,
    Spoils,
    Unloadable,
    noted,
    plan,
)
from tests.measurement.clusters import PATIENCE, cluster

NAMES = ("serial", "threads", "processes", "dask", "thread pool", "process pool", "dask address")
#: Executors that can lose a worker and continue.
DYING = ("processes", "dask", "dask address")


@dataclass(frozen=True, kw_only=True)
class Choice:
    name: str
    executor: str | Executor

    def measure(self, wanted: Plan, store: Any = None, **settings: Any) -> Measurement:
        settings = {"workers": 2} | settings
        return measure(wanted, store, executor=self.executor, **settings)


@pytest.fixture(scope="module")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    # A worker that dies takes seconds to restart: the scheduler gives up on a task at once.
    with cluster(folder, allowed_failures=0) as running:
        yield running.executor


def new_process_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def process_pool() -> Iterator[ProcessPoolExecutor]:
    """One for all tests that do not break it, since starting one takes a second."""
    with new_process_pool() as pool:
        yield pool


@pytest.fixture
def choice(request: pytest.FixtureRequest) -> Iterator[Choice]:
    name = request.param
    if name == "thread pool":
        with ThreadPoolExecutor(2) as threads:
            yield Choice(name=name, executor=threads)
    elif name == "process pool":
        yield Choice(name=name, executor=request.getfixturevalue("process_pool"))
    elif name == "dask address":
        yield Choice(name=name, executor=request.getfixturevalue("dask_address"))
    else:
        # Importing distributed loads the settings that are changed here.
        assert distributed.LocalCluster is not None
        with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
            yield Choice(name=name, executor=name)


#: Executors of the quick run: starting processes or a cluster for every test takes seconds.
QUICK = ("serial", "threads", "process pool", "dask address")


def slow_unless(quick: Sequence[str], names: Sequence[str] = NAMES) -> pytest.MarkDecorator:
    marked = [
        name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names
    ]
    return pytest.mark.parametrize("choice", marked, indirect=True)


on_every = slow_unless(QUICK)


# --- losses ---------------------------------------------------------------------------------------


@slow_unless((*QUICK, "processes"))
def test_losses_are_those_of_the_serial_executor(choice: Choice, tmp_path: Path) -> None:
    log = tmp_path / "log"
    wanted = plan(NoisyMean(log=str(log)), bases=3, replicates=20)
    seen: list[int] = []
    measured = choice.measure(wanted, on_progress=lambda now: seen.append(now.done))
    assert measured.only == measure(plan(bases=3, replicates=20)).only
    assert (measured.trained, measured.reused, measured.failures) == (120, 0, [])
    assert sorted(noted(log)) == list(wanted.tasks())
    assert seen == sorted(seen)
    assert seen[-1] == 120


@pytest.mark.parametrize("workers", [1, 3, 5])
@pytest.mark.parametrize("executor", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_losses_do_not_depend_on_the_number_of_workers(executor: str, workers: int) -> None:
    assert measure(plan(), executor=executor, workers=workers).only == measure(plan()).only


@pytest.mark.slow
def test_one_dask_worker_while_its_usual_port_is_taken() -> None:
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # already in use, which is fine
            stack.enter_context(socket.create_server(("", 8787)))
        assert measure(plan(), executor="dask", workers=1).only == measure(plan()).only


@pytest.mark.parametrize("what", ["dataset", "point"])
@pytest.mark.parametrize("choice", ["serial", "threads", "process pool"], indirect=True)
def test_data_changed_in_place_changes_no_other_model(choice: Choice, what: str) -> None:
    spoiled = choice.measure(plan(Spoils(what=what), replicates=20)).only
    assert spoiled.loss.tobytes() == measure(plan(replicates=20)).only.loss.tobytes()


@on_every
def test_batches_are_trained_at_once(choice: Choice, tmp_path: Path) -> None:
    log = tmp_path / "log"
    wanted = plan(ManyAtOnce(log=str(log)), replicates=16)
    measured = choice.measure(wanted)
    assert measured.only == measure(plan(replicates=16)).only
    # A chunk that ends a base may hold a single model, which is trained alone.
    assert len(noted(log)) >= 64 - 4
    assert len(set(noted(log))) == len(noted(log))


@on_every
def test_variants_share_models(choice: Choice, tmp_path: Path) -> None:
    def levels(*scales: float, log: str | None = None) -> Plan:
        return plan(NoiseLevels(algorithm=NoisyMean(log=log), scales=scales))

    log = tmp_path / "log"
    measured = choice.measure(levels(0.1, 0.2, log=str(log)))
    reference = measure(levels(0.1, 0.2))
    assert measured.losses == reference.losses
    assert measured.shares_models
    assert measured.losses["0.1"] != measured.losses["0.2"]
    assert sorted(noted(log)) == list(plan().tasks())


def test_a_variant_added_later_leaves_the_others(tmp_path: Path) -> None:
    def levels(*scales: float) -> Plan:
        return plan(NoiseLevels(algorithm=NoisyMean(), scales=scales))

    path = tmp_path / "store.db"
    first = measure(levels(0.1, 0.2), path)
    second = measure(levels(0.1, 0.2, 0.3), path)
    assert second.losses["0.1"] == first.losses["0.1"]
    assert second.losses["0.2"] == first.losses["0.2"]
    assert second.losses == measure(levels(0.1, 0.2, 0.3)).losses
    assert measure(levels(0.2), path).losses == {"0.2": first.losses["0.2"]}


@on_every
def test_growing_trains_only_what_is_new(choice: Choice, tmp_path: Path) -> None:
    store, log = MemoryStore(), tmp_path / "log"
    first = choice.measure(plan(bases=2, replicates=4), store)
    grown = plan(NoisyMean(log=str(log)), bases=3, replicates=6)
    second = choice.measure(grown, store)
    assert second.only == measure(plan(bases=3, replicates=6)).only
    assert (second.trained, second.reused) == (36 - 16, 16)
    old = set(plan(bases=2, replicates=4).tasks())
    assert sorted(noted(log)) == [task for task in grown.tasks() if task not in old]
    again = choice.measure(plan(bases=2, replicates=4), store)
    assert (again.only, again.trained, again.reused) == (first.only, 0, 16)


# --- failures -------------------------------------------------------------------------------------


def check_failures(
    measured: Measurement, faults: dict[Task, str], log: Path, *, retries: int
) -> None:
    """Faulty models are reported by name; all others are present and correct."""
    assert {failure.task: failure.attempts for failure in measured.failures} == dict.fromkeys(
        faults, retries + 1
    )
    for failure in measured.failures:
        assert faults[failure.task] in failure.message, failure
        assert "\n" not in failure.message
        assert len(failure.message) <= 500
    good = plan(replicates=20)
    kept = {(int(base), *place): loss for base, *place, loss in measured.only.rows()}
    assert {place for place, loss in kept.items() if math.isnan(loss)} == set(faults)
    reference = measure(good).only.loss.tolist()
    expected = {
        task: loss for task, loss in zip(good.tasks(), reference, strict=True) if task not in faults
    }
    assert {place: kept[place] for place in kept if place not in faults} == expected
    for task in faults:
        # Once more if it was first trained with others, which does not show which one failed.
        assert noted(log).count(task) in (retries + 1, retries + 2), task


def failing(names: list[str]) -> dict[Task, str]:
    """One model for each fault, scattered over a plan of 20 replicates."""
    return {Task(n % 2, (n // 2) % 2, 3 * n % 20): name for n, name in enumerate(names)}


def expected_message(fault: str) -> str:
    return {"nan": "loss=nan", "inf": "loss=inf"}.get(fault, fault)


@on_every
@pytest.mark.parametrize("retries", [0, 2])
def test_failures_are_retried_then_reported(choice: Choice, retries: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    faults = failing(["nan", "inf", "ValueError", "MemoryError"])
    algorithm = Faulty(faults=tuple((*task, name) for task, name in faults.items()), log=str(log))
    measured = choice.measure(plan(algorithm, replicates=20), retries=retries)
    words = {task: expected_message(name) for task, name in faults.items()}
    check_failures(measured, words, log, retries=retries)


@on_every
@pytest.mark.parametrize("many", [False, True])
def test_exceptions_of_every_kind(choice: Choice, many: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    faults = failing(list(RAISED))
    kind = FaultyMany if many else Faulty
    algorithm = kind(faults=tuple((*task, name) for task, name in faults.items()), log=str(log))
    measured = choice.measure(plan(algorithm, replicates=20), retries=0)
    check_failures(measured, faults, log, retries=0)


@slow_unless(QUICK, ("serial", "threads", "processes", "thread pool", "process pool"))
def test_user_code_that_exits_is_a_failure(choice: Choice, tmp_path: Path) -> None:
    log = tmp_path / "log"
    algorithm = Faulty(faults=((1, 0, 4, "exit"),), log=str(log))
    measured = choice.measure(plan(algorithm, replicates=20), retries=1)
    check_failures(measured, {Task(1, 0, 4): "SystemExit"}, log, retries=1)


@on_every
def test_a_model_that_succeeds_when_tried_again(choice: Choice, tmp_path: Path) -> None:
    log = tmp_path / "log"
    algorithm = Faulty(faults=((0, 1, 2, "ValueError"),), log=str(log), only_first=2)
    store = MemoryStore()
    measured = choice.measure(plan(algorithm), store, retries=2)
    assert store.failures() == []
    # Retrying until it succeeds would be a selection: in proofs the model has failed.
    assert [failure.task for failure in measured.failures] == [Task(0, 1, 2)]
    assert np.isnan(measured.only.loss).sum() == 1
    assert [row.loss for row in store.rows(plan().sizes)] == measure(plan()).only.loss.tolist()
    assert noted(log).count(Task(0, 1, 2)) in (3, 4)


@on_every
def test_what_failed_is_tried_by_the_next_run(choice: Choice, tmp_path: Path) -> None:
    store, log = MemoryStore(), tmp_path / "log"
    faulty = Faulty(faults=((0, 1, 2, "ValueError"),), log=str(log), only_first=2)
    measured = choice.measure(plan(faulty), store, retries=0)
    (failure,) = measured.failures
    assert store.failures() == [failure]
    assert failure.message == "ValueError: out of luck on two lines"
    again = choice.measure(plan(faulty), store, retries=1)
    assert (again.trained, again.reused, again.failures) == (1, 19, [failure])
    assert store.failures() == []
    assert again.only == measured.only
    assert [row.loss for row in store.rows(plan().sizes)] == measure(plan()).only.loss.tolist()


@on_every
def test_no_model_can_be_trained(choice: Choice, tmp_path: Path) -> None:
    wanted = plan(replicates=3, bases=1)
    faults = tuple((*task, "ValueError") for task in wanted.tasks())
    algorithm = Faulty(faults=faults, log=str(tmp_path / "log"))
    with pytest.raises(
        EpsilometerError, match=r"no model could be trained \(base 0.*ValueError: out of luck"
    ):
        choice.measure(replace(wanted, algorithm=algorithm), retries=0)


# --- workers that die -----------------------------------------------------------------------------


@slow_unless(("processes",), DYING)
def test_a_model_that_kills_its_worker(choice: Choice, tmp_path: Path) -> None:
    log = tmp_path / "log"
    algorithm = Faulty(faults=((0, 1, 7, "kill"),), log=str(log))
    store = SqliteStore(tmp_path / "store.db")
    with store:
        measured = choice.measure(plan(algorithm, replicates=20), store, retries=1)
        assert store.failures() == measured.failures
    (failure,) = measured.failures
    assert failure.task == Task(0, 1, 7)
    whole = measure(plan(replicates=20)).only.loss
    whole = np.where(
        np.arange(80) == list(plan(replicates=20).tasks()).index(failure.task), np.nan, whole
    )
    np.testing.assert_array_equal(measured.only.loss, whole)
    # A later loss counts: the machine failed, not the code.
    with SqliteStore(tmp_path / "store.db") as again:
        again.add([LossRow(0, 1, 7, "", 0.5)])
        assert again.failures(plan(replicates=20).sizes) == []
        assert np.isfinite(again.losses(plan(replicates=20).sizes, "").loss).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_models_all_over_that_kill_their_workers(tmp_path: Path, seed: int) -> None:
    """Every model is accounted for, even if the last ones running are among the faulty ones."""
    chosen = np.random.default_rng(seed).random(20) < 0.15
    faults = tuple(
        (*task, "kill")
        for task, kill in zip(plan(replicates=5).tasks(), chosen, strict=True)
        if kill
    )
    algorithm = Faulty(faults=faults, log=str(tmp_path / "log"))
    measured = measure(plan(algorithm, replicates=5), executor="processes", workers=2, retries=0)
    assert [(*failure.task, "kill") for failure in measured.failures] == list(faults)
    assert measured.trained == 20 - len(faults)


@pytest.mark.slow
def test_workers_that_die_whatever_they_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MOST_DEATHS", 3)
    faults = tuple((*task, "kill") for task in plan(replicates=5).tasks())
    algorithm = Faulty(faults=faults, log=str(tmp_path / "log"))
    with pytest.raises(ExecutorError, match="4 workers in a row died"):
        measure(plan(algorithm, replicates=5), executor="processes", workers=2)


@pytest.mark.slow
def test_an_executor_of_the_caller_that_breaks(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    algorithm = Faulty(faults=((1, 1, 15, "kill"),), log=str(tmp_path / "log"))
    with (
        new_process_pool() as executor,
        pytest.raises(ExecutorError, match="the executor broke; restart it yourself"),
    ):
        measure(plan(algorithm, replicates=20), path, executor=executor)
    measured = measure(plan(replace(algorithm, faults=()), replicates=20), MemoryStore())
    with SqliteStore(path) as store:
        kept = {row[:3]: row.loss for row in store.rows(store.sizes())}
    reference = dict(zip(plan(replicates=20).tasks(), measured.only.loss.tolist(), strict=True))
    assert kept.items() <= reference.items()


def test_an_executor_of_the_caller_stays_open() -> None:
    with ThreadPoolExecutor(2) as threads:
        measure(plan(), executor=threads)
        assert threads.submit(lambda: 7).result() == 7


def test_processes_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    restarts = []
    restart = executors.ProcessesPool.restart

    def counted(pool: executors.ProcessesPool) -> None:
        restarts.append(1)
        restart(pool)

    monkeypatch.setattr(executors.ProcessesPool, "restart", counted)
    with pytest.raises(EpsilometerError):
        measure(plan(Unloadable()), executor="processes", workers=2)
    # It is not the fault of each of 20 models in turn.
    assert len(restarts) <= 5


class Local:
    """An algorithm that cannot be sent to another process."""

    def __init__(self) -> None:
        self.function = lambda: 7

    train = NoisyMean.train
    loss = NoisyMean.loss
    log, seconds, fingerprint = None, 0.0, "local"


@pytest.mark.parametrize("choice", ["processes", "process pool"], indirect=True)
def test_an_algorithm_that_cannot_be_sent(choice: Choice) -> None:
    algorithm: Any = Local()
    with pytest.raises(EpsilometerError, match=r"(?i)pickle"):
        choice.measure(plan(algorithm), retries=0)


# --- algorithms typed in ---------------------------------------------------------------------------

SCRIPT = """
import sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from epsilometer.measurement.designs import CrossFed
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Population

class Mine:
    def train(self, dataset, rng):
        return rng.standard_normal()
    def loss(self, model, point):
        return model

if __name__ == "__main__":
    plan = Plan(
        population=Population(features=np.eye(9)), algorithm=Mine(), dataset_size=4,
        design=CrossFed(replicates=3), challenge_bases=1, seed=1,
    )
    print(measure(plan, executor=sys.argv[1], workers=2).only.loss.tolist())
"""


@pytest.mark.parametrize(
    ("way", "executor"),
    [
        pytest.param(
            way, name, marks=() if (way, name) == ("file", "processes") else pytest.mark.slow
        )
        for way in ("file", "text")
        for name in ("serial", "processes", "dask", "dask address")
    ],
)
def test_an_algorithm_in_the_main_script(
    executor: str, way: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if executor == "dask address":
        executor = request.getfixturevalue("dask_address")
    (tmp_path / "mine.py").write_text(SCRIPT)
    command = [str(tmp_path / "mine.py")] if way == "file" else ["-c", SCRIPT]
    done = subprocess.run(
        [sys.executable, *command, executor],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        cwd=tmp_path,
        check=False,
    )
    if way == "text" and executor == "processes":
        # A process cannot import what is in no file; the error explains this.
        assert done.returncode == 1
        assert "ExecutorError: processes: workers cannot start" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split(",")) == 6
