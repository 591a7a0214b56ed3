"""128 models spent as a pool, against 128 models spent on a few challenge bases: a table, and JSON.

    python benchmarks/pool_versus_many.py --json benchmarks/pool_versus_many.json
    python benchmarks/pool_versus_many.py --page

The second trains nothing: it puts the table of the JSON file into the page of the documentation.
The shipped network on digits, about 300 records a model in both designs, delta = 1e-5.  In a pool of 600
records half of the models choose points or teach the attack (LiRA), the other half judge 40 points.
Many models have bases x 2 x replicates; a pilot of 32 models is paid for from the 128.  A run that was
stopped goes on where its JSON ends.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import benchmark_report
import epsilometer as em
from benchmark_report import Report, Row, kept_rows, middle_and_range, rounded_down
from epsilometer.attacks.pool_attacks import most_leaking
from epsilometer.measurement.pool import Pool
from epsilometer.training.network import network

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "pool_versus_many.json"
PAGE = HERE.parent / "docs" / "how-to" / "pool.md"

MODELS, RECORDS, POINTS, PILOT, DELTA, SEEDS = 128, 300, 40, 32, 1e-5, 5
KINDS = ("random", "mislabelled", "outliers")
SHAPES = ((4, 16), (2, 32), (1, 64))
PILOT_SHAPES = ((3, 16), (1, 48))
TIMES = "\u00d7"
SHOWN = ("shown low", "shown high")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One way to spend the models on one kind of points."""

    way: str
    points: str
    scores: Callable[[int], Any]


def trained(design: Any, *, seed: int, size: int, bases: int = 1, challenge: Any = "random") -> Any:
    """Losses of a plan."""
    plan = em.Plan(
        population=em.datasets.load_population("digits"),
        algorithm=network(hidden=64, epochs=60, learning_rate=0.05),
        design=design,
        challenge_bases=bases,
        dataset_size=size,
        challenge=challenge,
        seed=seed,
    )
    return em.measure(plan, executor="threads").only


@lru_cache(maxsize=len(KINDS))
def pool_losses(kind: str, seed: int) -> Any:
    """Losses of a pool; random points and those that a pilot chooses are of the same models."""
    design = Pool(models=MODELS, judged=POINTS)
    return trained(design, seed=seed, size=2 * RECORDS, challenge=kind)


def pool(kind: str, seed: int) -> Any:
    """Scores of a pool: fresh ones of the points that are judged."""
    pilot = kind == "pilot"
    design = Pool(models=MODELS, pilot=pilot, judged=POINTS)
    return design.pool_scores(pool_losses("random" if pilot else kind, seed))


def many(bases: int, replicates: int, kind: str, seed: int) -> Any:
    """Scores of models with and without the point of each base."""
    challenge: Any = kind
    if kind == "pilot":
        first = trained(Pool(models=PILOT, attack="logit"), seed=10_000 + seed, size=2 * RECORDS)
        ranked = most_leaking(first, models=np.arange(PILOT), count=bases)
        challenge = [int(first.names[number]) for number in ranked]
    design = em.CrossFed(replicates=replicates)
    losses = trained(design, seed=seed, size=RECORDS, bases=bases, challenge=challenge)
    return design.scores(losses, em.attacks.Logit())


def cells() -> Iterator[Cell]:
    """Every way, pools first."""
    for kind in (*KINDS, "pilot"):
        yield Cell(way="pool", points=kind, scores=partial(pool, kind))
    shapes = [(shape, kind) for shape in SHAPES for kind in KINDS]
    for (bases, replicates), kind in shapes + [(shape, "pilot") for shape in PILOT_SHAPES]:
        spent = "" if kind != "pilot" else f"{PILOT} + "
        yield Cell(
            way=f"{spent}{bases} x 2 x {replicates}",
            points=kind,
            scores=partial(many, bases, replicates, kind),
        )


def judged(cell: Cell, seed: int) -> Row:
    """One audit."""
    began = time.perf_counter()
    scores = cell.scores(seed)
    proof = em.prove(scores, delta=DELTA)
    by_point = scores.by_point() if hasattr(scores, "by_point") else scores
    posterior = em.estimate(by_point, em.CurveModel(delta=DELTA))
    low, high = posterior.credible_interval("shown", 0.9)
    return {
        "way": cell.way,
        "points": cell.points,
        "seed": seed,
        "proven": proof.at_least,
        "shown low": float(low),
        "shown median": posterior.median("shown"),
        "shown high": float(high),
        "seconds": time.perf_counter() - began,
    }


def summary(rows: list[Row]) -> list[Row]:
    """Each way over its seeds: medians and ranges."""
    found: list[Row] = []
    for cell in cells():
        own = [row for row in rows if (row["way"], row["points"]) == (cell.way, cell.points)]
        line: Row = {"models": cell.way, "points": cell.points, "audits": len(own)}
        for name in ("proven", "shown low", "shown median", "shown high"):
            line[name] = middle_and_range([float(row[name]) for row in own])
        found.append(line)
    return found


def with_table(page: str) -> str:
    """The page with the table of the committed results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    lines = ["| models | points | proven | shown |", "| --- " * 4 + "|"]
    for cell in cells():
        own = [
            row
            for row in found["tables"]["audits"]
            if (row["way"], row["points"]) == (cell.way, cell.points)
        ]
        proven = [rounded_down(value) for value in ends([row["proven"] for row in own])]
        low, high = (float(np.median([row[key] for row in own])) for key in SHOWN)
        lines.append(
            f"| {cell.way.replace('x', TIMES)} | {cell.points} | "
            f"{proven[1]} ({proven[0]} to {proven[2]}) | {low:.1f} to {high:.1f} |"
        )
    return benchmark_report.with_table(page, "pool_versus_many", lines)


def ends(values: list[float]) -> tuple[float, float, float]:
    """The least, the median and the largest."""
    return min(values), float(np.median(values)), max(values)


def main() -> None:
    parser = argparse.ArgumentParser(description="A pool against many models.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables here")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="audits of each way")
    parser.add_argument("--page", action="store_true", help="only write the table of the page")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    rows = kept_rows(arguments.json, "audits")
    report = Report()
    done = {(row["way"], row["points"], row["seed"]) for row in rows}
    for seed in range(1, arguments.seeds + 1):
        for cell in cells():
            if (cell.way, cell.points, seed) not in done:
                rows.append(judged(cell, seed))
                report.keep(arguments.json, "audits", rows)
    report.table("audits", "Each audit", rows)
    report.table("summary", f"{MODELS} models, delta = {DELTA:g}: median (range)", summary(rows))
    report.finish(arguments.json, models=MODELS, records=RECORDS, points=POINTS, delta=DELTA)


if __name__ == "__main__":
    main()
