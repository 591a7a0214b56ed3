"""After being killed half-way, the models of a pool produce the same losses, byte for byte."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.errors import StoreError
from epsilometer.measurement.engine import measure
from epsilometer.measurement.store import SqliteStore
from tests.measurement import runner
from tests.measurement.algorithms import Logistic, pool_plan

MODELS = 60
PATIENCE = 60.0
"""Seconds; far more than any of this takes."""


def models_stored(path: Path) -> int:
    if not path.exists():
        return 0
    with SqliteStore(path) as store:
        try:
            return sum(1 for _ in store.pool_rows(store.sizes()))
        except StoreError:
            return 0  # no plan yet


def stored(path: Path) -> PoolLosses:
    with SqliteStore(path, read_only=True) as store:
        return store.pool_losses(store.sizes(), "")


@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_killed_half_way(executor: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run = runner.start(path, executor, "--pool", str(MODELS), "--seconds", "0.05")
    runner.wait_until_ready(run)
    end = time.monotonic() + PATIENCE
    while run.poll() is None and models_stored(path) < 4 and time.monotonic() < end:
        time.sleep(0.02)
    assert run.poll() is None
    run.kill()
    run.communicate(timeout=PATIENCE)
    before = models_stored(path)
    assert 4 <= before < MODELS
    with SqliteStore(path) as store:
        half = {row.replicate: row.losses.tobytes() for row in store.pool_rows(store.sizes())}
    again = measure(pool_plan(Logistic(), models=MODELS), path)
    assert (again.trained, again.reused) == (MODELS - before, before)
    whole = measure(pool_plan(Logistic(), models=MODELS)).only
    assert stored(path) == whole
    assert all(whole.loss[number].tobytes() == losses for number, losses in half.items())
