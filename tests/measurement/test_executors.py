"""Executors by name: what is refused, and processes that cannot start."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epsilometer._workers import process_pool
from epsilometer.errors import InputError
from epsilometer.measurement.engine import measure
from tests.measurement.algorithms import plan


@pytest.mark.parametrize("executor", ["Serial", "", "dask"])
def test_unknown_executors(executor: str) -> None:
    with pytest.raises(InputError, match="expected executor to be one of serial, threads"):
        measure(plan(), executor=executor)


@pytest.mark.parametrize("workers", [0, -1, 2.5, True])
def test_numbers_of_workers(workers: Any) -> None:
    with pytest.raises(InputError, match="workers"):
        measure(plan(), executor="threads", workers=workers)


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
