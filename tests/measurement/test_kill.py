"""After being ended at any moment, a run continues and produces the same losses, byte for byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from epsilometer.errors import StoreError
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.store import SqliteStore
from tests.measurement import runner
from tests.measurement.algorithms import NoisyMean, noted, plan
from tests.measurement.clusters import Cluster, cluster, stop

BASES, REPLICATES, SECONDS = 4, 250, 0.004
MODELS = 2 * BASES * REPLICATES
OPTIONS = ("--bases", str(BASES), "--replicates", str(REPLICATES), "--seconds", str(SECONDS))
#: Seconds; far more than any of this takes.
PATIENCE = 60.0


def whole(seconds: float = 0.0) -> Plan:
    return plan(NoisyMean(seconds=seconds), bases=BASES, replicates=REPLICATES)


@pytest.fixture(scope="module")
def uninterrupted() -> str:
    return str(measure(whole()).only.to_csv())


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with cluster(folder, nanny=False) as made:
        yield made


def exported(path: Path) -> str:
    with SqliteStore(path, read_only=True) as store:
        return store.losses(store.sizes(), "").to_csv()


def stored(path: Path) -> int:
    """Number of losses in a store that a run may be writing to."""
    if not path.exists():
        return 0
    with SqliteStore(path) as store:
        try:
            return len(store.rows(store.sizes()))
        except StoreError:
            return 0  # no plan yet


def descendants(run: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return list(psutil.Process(run.pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def left_behind(processes: set[psutil.Process]) -> list[psutil.Process]:
    """The processes that still exist after a while; they are then ended."""
    _, alive = psutil.wait_procs(processes, timeout=20)
    names = [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    stop(names)
    return names


def until_stored(run: subprocess.Popen[str], path: Path, models: int) -> set[psutil.Process]:
    """Wait until a run has stored so many losses; returns the processes it had started."""
    started: set[psutil.Process] = set()
    end = time.monotonic() + PATIENCE
    while run.poll() is None and stored(path) < models and time.monotonic() < end:
        started.update(descendants(run))
        time.sleep(0.02)
    return started


def ended(run: subprocess.Popen[str], status: int = 0) -> tuple[list[str], str]:
    """The numbers that a run printed, and its errors."""
    out, error = run.communicate(timeout=PATIENCE)
    assert run.returncode == status, error
    return out.split()[1:], error


def kill_after(run: subprocess.Popen[str], seconds: float) -> tuple[bool, set[psutil.Process]]:
    """Kill -9 unless it has ended by itself; returns the processes it had started."""
    started: set[psutil.Process] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end and run.poll() is None:
        started.update(descendants(run))
        time.sleep(0.02)
    alive = run.poll() is None
    started.update(descendants(run))
    run.kill()
    run.communicate(timeout=PATIENCE)
    return alive, started


def kill_again_and_again(path: Path, executor: str, seed: int, until: float, kills: int) -> None:
    """Kill a run at any moment, from its first on; some only after it has stored a loss."""
    delays = random.Random(seed)
    interrupted, progress, started = 0, [0], set()
    for number in range(kills):
        run = runner.start(path, executor, *OPTIONS)
        runner.wait_until_ready(run)
        if number % 3 == 1:
            until_stored(run, path, progress[-1] + 1)
            delay = delays.uniform(0.0, 0.1)
        else:
            delay = delays.uniform(0.0, until)
        alive, processes = kill_after(run, delay)
        interrupted += alive
        started |= processes
        progress.append(stored(path))
    assert left_behind(started) == []
    assert progress == sorted(progress)
    # Kills hit runs in progress, and several of these had got further than the previous one.
    assert interrupted >= kills // 2
    assert len(set(progress)) >= min(4, kills // 2), progress
    numbers, _ = ended(runner.start(path, executor, *OPTIONS))
    assert numbers == [str(MODELS - progress[-1]), str(progress[-1])]


TWENTY = pytest.param(20, marks=pytest.mark.slow)


@pytest.mark.parametrize("kills", [4, TWENTY])
@pytest.mark.parametrize(
    ("executor", "until"),
    [
        ("serial", 0.5),
        pytest.param("threads", 0.6, marks=pytest.mark.slow),
        pytest.param("processes", 1.8, marks=pytest.mark.slow),
    ],
)
def test_killed_again_and_again(
    executor: str, until: float, kills: int, tmp_path: Path, uninterrupted: str
) -> None:
    path = tmp_path / "store.db"
    kill_again_and_again(path, executor, seed=len(executor), until=until, kills=kills)
    assert exported(path) == uninterrupted


@pytest.mark.parametrize("kills", [TWENTY])
def test_killed_repeatedly_on_dask(
    kills: int, running: Cluster, tmp_path: Path, uninterrupted: str
) -> None:
    path = tmp_path / "store.db"
    kill_again_and_again(path, running.executor, seed=1, until=1.5, kills=kills)
    assert exported(path) == uninterrupted
    assert all(worker.poll() is None for worker in running.workers)


@pytest.mark.slow
def test_a_local_dask_cluster_ends_with_its_run(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run = runner.start(path, "dask", "--replicates", "1000", "--seconds", "0.02")
    runner.wait_until_ready(run)
    started = until_stored(run, path, 1)
    assert len(started) >= 2
    alive, processes = kill_after(run, 0.0)
    assert alive
    assert left_behind(started | processes) == []


@pytest.mark.slow
def test_one_of_two_dask_workers_is_killed(
    running: Cluster, tmp_path: Path, uninterrupted: str
) -> None:
    path, log = tmp_path / "store.db", tmp_path / "log"
    struck: list[int] = []

    def strike(progress: Any) -> None:
        if progress.trained >= MODELS // 4 and not struck:
            struck.append(progress.trained)
            running.workers[0].kill()

    wanted = plan(NoisyMean(seconds=SECONDS, log=str(log)), bases=BASES, replicates=REPLICATES)
    measured = measure(wanted, path, executor=running.executor, on_progress=strike)
    assert struck
    assert struck[0] < MODELS
    assert (measured.trained, measured.failures) == (MODELS, [])
    assert exported(path) == uninterrupted
    assert set(noted(log)) == set(wanted.tasks())


@pytest.mark.slow
def test_a_dask_worker_dies_with_the_losses_just_computed(tmp_path: Path) -> None:
    # The scheduler knows that the losses exist, but the only worker that has them was lost.
    folder = tmp_path / "cluster"
    folder.mkdir()
    reference = measure(plan(bases=1, replicates=3)).only.to_csv()
    with cluster(folder, workers=1) as running:
        for number, delay in enumerate((0.001, 0.003)):
            path = tmp_path / f"{number}.db"
            options = ["--mark", str(tmp_path / str(number)), "--delay", str(delay)]
            options += ["--bases", "1", "--replicates", "3"]
            run = runner.start(path, running.executor, *options)
            try:
                out, error = run.communicate(timeout=PATIENCE / 2)
            finally:
                run.kill()
                run.communicate()
            assert run.returncode == 0, error
            assert out.split()[1:] == ["6", "0"]
            assert exported(path) == reference


# --- no room --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "executor",
    ["serial", *(pytest.param(name, marks=pytest.mark.slow) for name in ("threads", "processes"))],
)
def test_a_file_that_may_not_grow(executor: str, tmp_path: Path, uninterrupted: str) -> None:
    path = tmp_path / "store.db"
    options = [*OPTIONS[:4], "--seconds", "0.0005"]
    _, error = ended(runner.start(path, executor, *options, "--largest-file", "60000"), status=1)
    assert error.startswith("StoreError: "), error
    assert "is the disk full? No committed loss is affected" in error
    assert error.count("\n") == 1
    before = stored(path)
    numbers, _ = ended(runner.start(path, executor, *options))
    assert numbers == [str(MODELS - before), str(before)]
    assert exported(path) == uninterrupted


@pytest.mark.slow
@pytest.mark.parametrize("size", [4096, 20_000, 40_000])
def test_a_full_disk_from_the_start(size: int, tmp_path: Path, uninterrupted: str) -> None:
    path = tmp_path / "store.db"
    _, error = ended(runner.start(path, "serial", *OPTIONS[:4], "--largest-file", str(size)), 1)
    assert error.startswith("StoreError: "), error
    assert error.count("\n") == 1
    measure(whole(), path)
    assert exported(path) == uninterrupted


# --- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "executor",
    [
        "serial",
        pytest.param("threads", marks=pytest.mark.slow),
        "processes",
        pytest.param("dask", marks=pytest.mark.slow),
    ],
)
def test_interrupted(executor: str, tmp_path: Path, uninterrupted: str) -> None:
    path = tmp_path / "store.db"
    options = [*OPTIONS[:4], "--seconds", "0.02"]
    run = runner.start(path, executor, *options, new_session=True)
    runner.wait_until_ready(run)
    started = until_stored(run, path, 20)
    before = stored(path)
    assert run.poll() is None
    os.killpg(run.pid, signal.SIGINT)  # a terminal signals every process of the run
    _, error = run.communicate(timeout=10)
    assert run.returncode in (130, -signal.SIGINT), error
    assert error.count("KeyboardInterrupt") >= 1
    assert left_behind(started) == []
    after = stored(path)
    assert before <= after < MODELS
    with SqliteStore(path, read_only=True) as store:
        (last,) = store.status().runs
    # The run ended normally and kept what it had.
    assert last["ended"] is not None
    assert last["trained"] == after
    measure(whole(), path)
    assert exported(path) == uninterrupted
