"""Executors by name and by address: what is refused, and clusters without workers or scheduler."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epsilometer._workers import process_pool
from epsilometer.errors import EpsilometerError, ExecutorError, InputError
from epsilometer.measurement import executors
from epsilometer.measurement.engine import measure
from tests.measurement.algorithms import NoisyMean, plan
from tests.measurement.clusters import cluster


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_no_scheduler_at_the_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 1)
    port = free_port()
    with pytest.raises(ExecutorError, match=f"no Dask scheduler answers at .*:{port} "):
        measure(plan(), tmp_path / "store.db", executor=f"dask://127.0.0.1:{port}")


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(executors, "WORKERS_SECONDS", 1)
    with (
        cluster(tmp_path, workers=0) as running,
        pytest.raises(ExecutorError, match="no worker answers"),
    ):
        measure(plan(), executor=running.executor)


@pytest.mark.slow
@pytest.mark.parametrize("victims", ["workers", "everyone"])
def test_all_workers_are_gone(
    victims: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    folder = tmp_path / "cluster"
    folder.mkdir()
    with cluster(folder, nanny=False) as running:

        def strike(progress: Any) -> None:
            if progress.trained >= 10:
                monkeypatch.setattr(executors, "WORKERS_SECONDS", 2)
                for worker in running.workers:
                    worker.kill()
                if victims == "everyone":
                    running.scheduler.kill()

        wanted = plan(NoisyMean(seconds=0.02), replicates=40)
        with pytest.raises(ExecutorError) as gone:
            measure(wanted, path, executor=running.executor, on_progress=strike)
    assert "\n" not in str(gone.value)
    finished = measure(wanted, path)
    assert finished.only == measure(plan(replicates=40)).only
    assert finished.reused >= 10


@pytest.mark.parametrize(
    "executor", ["Serial", "", "dask:127.0.0.1:1", "dask://host", "dask://a b:1", "dask://h:123456"]
)
def test_unknown_executors(executor: str) -> None:
    with pytest.raises(InputError, match="expected executor to be one of serial, threads"):
        measure(plan(), executor=executor)


@pytest.mark.parametrize("workers", [0, -1, 2.5, True])
def test_numbers_of_workers(workers: Any) -> None:
    with pytest.raises(InputError, match="workers"):
        measure(plan(), executor="threads", workers=workers)


def test_user_code_is_sent_to_workers_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(executors, "_sent", set())
    with cluster(tmp_path, importable=False) as running:
        with pytest.raises(EpsilometerError, match=r"no model could be trained .*No module named"):
            measure(plan(replicates=3, bases=1), executor=running.executor, retries=0)
        executors.send_code_of("tests.measurement.algorithms")
        assert measure(plan(), executor=running.executor).only == measure(plan()).only


def test_workers_start_processes_as_their_parent_does() -> None:
    """A spawned process would spawn its children, which load every library again."""
    with process_pool(1) as pool:
        assert pool.submit(multiprocessing.get_start_method).result() == (
            multiprocessing.get_start_method()
        )


SCRIPT = """
import numpy as np
import epsilometer as em

plan = em.Plan(
    population=em.Population(features=np.zeros((40_000, 4))),  # more than fits into a pipe
    algorithm=em.training.ClippedMean(noise=1.0, records=10),
    design=em.CrossFed(replicates=3),
    challenge_bases=1,
    dataset_size=10,
    seed=1,
)
em.measure(plan, executor="processes", workers=1)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_ends_with_advice(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, script],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert done.returncode != 0
    assert 'a script needs `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]
    assert list(tmp_path.glob("epsilometer-plan-*")) == []
