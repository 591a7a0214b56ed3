"""What the choice of challenge points shows, at the same number of models: as a table, and as JSON.

    python benchmarks/challenge_points.py --json benchmarks/challenge_points.json
    python benchmarks/challenge_points.py --page

The second trains nothing: it puts the table of the JSON file into the page of the documentation.
The same audit of the shipped network on digits, once for each kind of challenge points and seed: ten
bases, thirty models with the point and thirty without.  Nothing but the points differs.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import epsilometer as em
from benchmark_report import Report, Row
from epsilometer.measurement.challenges import CHALLENGE_KINDS
from epsilometer.training.network import network

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "challenge_points.json"
PAGE = HERE.parent / "docs" / "how-to" / "challenge-points.md"
START, END = "<!-- table of benchmarks/challenge_points.json -->\n", "<!-- end of the table -->"

BASES, REPLICATES, DATASET, DELTA = 10, 30, 300, 1e-3


def audited(kind: str, seed: int) -> Row:
    """One audit."""
    began = time.perf_counter()
    plan = em.Plan(
        population=em.datasets.load_population("digits"),
        algorithm=network(hidden=64, epochs=100, batch_size=20, learning_rate=0.05),
        design=em.CrossFed(replicates=REPLICATES),
        challenge_bases=BASES,
        dataset_size=DATASET,
        challenge=kind,
        seed=seed,
    )
    chosen = time.perf_counter() - began
    measured = em.measure(plan, executor="threads")
    scores = plan.design.scores(measured.only, em.attacks.Logit())
    posterior = em.estimate(scores, em.CurveModel(delta=DELTA))
    low, high = posterior.credible_interval("epsilon", 0.9)
    return {
        "challenge": kind,
        "seed": seed,
        "proven": em.prove(scores, delta=DELTA).at_least,
        "shown": posterior.median("shown"),
        "median base": float(np.median([leak.quantile(0.5) for leak in posterior.leaks])),
        "epsilon": posterior.median("epsilon"),
        "low": low,
        "high": high,
        "models": measured.trained,
        "seconds to choose": chosen,
    }


def means(rows: list[Row]) -> list[Row]:
    """Each kind over its seeds."""
    found: list[Row] = []
    for kind in CHALLENGE_KINDS:
        own = [row for row in rows if row["challenge"] == kind]
        line: Row = {"challenge": kind, "audits": len(own)}
        for name in ("proven", "shown", "median base", "epsilon", "low", "high"):
            line[name] = float(np.mean([float(row[name]) for row in own]))
        found.append(line)
    return found


def with_table(page: str) -> str:
    """The page with the table of the committed results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    lines = ["| challenge points | proven | worst base | median base | ε |", "| --- " * 5 + "|"]
    for row in found["tables"]["means"]:
        proven = math.floor(100 * row["proven"]) / 100  # a bound is never rounded up
        lines.append(
            f"| `{row['challenge']}` | {proven:.2f} | {row['shown']:.1f} | {row['median base']:.1f} | "
            f"{row['epsilon']:.1f} ({row['low']:.1f} to {row['high']:.1f}) |"
        )
    before, rest = page.split(START)
    return before + START + "\n" + "\n".join(lines) + "\n\n" + END + rest.split(END)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="What the choice of challenge points shows.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables here")
    parser.add_argument("--seeds", type=int, default=5, help="audits of each kind")
    parser.add_argument("--page", action="store_true", help="only write the table of the page")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    report = Report()
    seeds = range(1, arguments.seeds + 1)
    rows = [audited(kind, seed) for kind in CHALLENGE_KINDS for seed in seeds]
    report.table("audits", "Each audit", rows)
    report.table("means", "Means over seeds", means(rows))
    report.finish(
        arguments.json, bases=BASES, replicates=REPLICATES, dataset_size=DATASET, delta=DELTA
    )


if __name__ == "__main__":
    main()
