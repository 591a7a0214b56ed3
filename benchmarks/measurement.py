"""Cost of measurement compared with training: time per model and memory, as a table or as JSON.

    python benchmarks/measurement.py --json measurement.json

The algorithm trains nothing, so all time is that of handing out models, drawing their data sets and
streams, taking in losses and committing them to an SQLite store.  Each case runs once in a process
of its own, two workers, and is timed with the start of its workers and without: the latter from the
difference to a run of a few models.  Peak memory is that of the coordinating process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmark_report import Report, Row
from epsilometer.measurement.designs import CrossFed
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Dataset, Point, Population

BASES, WORKERS = 10, 2
#: Of 64 numbers each, as in the digits example.
RECORDS, DATASET = 2000, 1000

FEW = 100
#: Milliseconds a model, for the executors of this machine.
AIM = 1.0


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """An algorithm that trains nothing."""

    def train(self, dataset: Dataset, rng: np.random.Generator) -> None:
        del dataset, rng

    def loss(self, model: None, point: Point) -> float:
        del model, point
        return 0.0


def plan(models: int, dataset_size: int) -> Plan:
    rows = np.random.default_rng(1).standard_normal((RECORDS, 64))
    return Plan(
        population=Population(features=rows),
        algorithm=Nothing(),
        design=CrossFed(replicates=models // (2 * BASES)),
        challenge_bases=BASES,
        dataset_size=dataset_size,
        seed=1,
    )


def in_this_process(executor: str, models: int, dataset_size: int) -> Row:
    """One run with a new store, and a short one before it for what starting costs."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for wanted in (FEW, models):
            store = Path(folder) / f"{wanted}.db"
            began = time.perf_counter()
            measured = measure(
                plan(wanted, dataset_size), store, executor=executor, workers=WORKERS
            )
            seconds.append(time.perf_counter() - began)
            assert measured.trained == wanted
        size = store.stat().st_size
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "executor": executor,
        "models": models,
        "records": dataset_size,
        "seconds": seconds[1],
        "start s": seconds[0],
        "ms a model": 1e3 * (seconds[1] - seconds[0]) / (models - FEW),
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6,
        "store bytes a model": size / models,
    }


def overhead(sizes: Sequence[int]) -> list[Row]:
    cases = [
        (executor, models, DATASET)
        for executor in ("serial", "threads", "processes", "dask")
        for models in sizes
        if executor != "dask" or models == min(sizes)
    ]
    cases.append(("serial", min(sizes), 10))
    rows = []
    for case in cases:
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=1, mp_context=fresh) as pool:
            rows.append(pool.submit(in_this_process, *case).result())
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of measurement compared with training.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table here")
    parser.add_argument(
        "--models",
        type=int,
        nargs="+",
        default=[20_000, 100_000],
        help="how many models (default %(default)s); Dask trains the fewest of these",
    )
    arguments = parser.parse_args()
    if min(arguments.models) <= FEW:
        parser.error(f"--models must be above {FEW}")

    report = Report()
    rows = overhead(arguments.models)
    report.table("overhead", f"Overhead a model, {WORKERS} workers; aim: below {AIM:g} ms", rows)
    report.finish(arguments.json, aim_ms=AIM)


if __name__ == "__main__":
    main()
