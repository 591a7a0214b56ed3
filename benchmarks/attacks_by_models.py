"""Every attack on the same pool, with 8, 32 and 128 models: a table, and JSON.

    python benchmarks/attacks_by_models.py --json benchmarks/attacks_by_models.json
    python benchmarks/attacks_by_models.py --page

The second trains nothing: it puts the table of the JSON file into the page of the documentation.
The shipped network on digits: a pool of 1,200 records, halves of it, and 500 references.  The models
go through a store, once for each seed; 8 and 32 are the first of them.  Half of the models teach and
choose the 40 points that leak most, the other half judge; AUC and rates are of all points.  A run
that was stopped goes on where its JSON ends.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import benchmark_report
import epsilometer as em
from benchmark_report import Report, Row, kept_rows, middle_and_range, rounded_down
from epsilometer.attacks.pool_attacks import POOL_ATTACKS, most_leaking
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.comparison.attacks import Judge, compare_pool_attacks
from epsilometer.measurement.pool import Pool
from epsilometer.training.network import network

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "attacks_by_models.json"
PAGE = HERE.parent / "docs" / "how-to" / "pool.md"

SIZES, POOL, REFERENCES, POINTS, DELTA, SEEDS = (8, 32, 128), 1200, 500, 40, 1e-5, 3
COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "AUC": ("auc", lambda value: f"{value:.3f}"),
    "TPR at 0.1 %": ("tpr at 0.001", lambda value: f"{100 * value:.2f} %"),
    "proven": ("proven", rounded_down),
}
#: Where a rate is below one over the number of scores.
TOO_FEW = -1.0


def measured(seed: int) -> PoolLosses:
    """The losses of a pool, through a store."""
    plan = em.Plan(
        population=em.datasets.load_population("digits"),
        algorithm=network(hidden=64, epochs=60, learning_rate=0.05),
        design=Pool(models=max(SIZES), references=REFERENCES),
        challenge_bases=1,
        dataset_size=POOL,
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        losses: PoolLosses = em.measure(plan, Path(folder) / "pool.db", executor="threads").only
    records = plan.all_records.take(np.array([int(name) for name in losses.names]))
    return losses.with_records(records.features, records.labels)


def compared(losses: PoolLosses, models: int, seed: int) -> list[Row]:
    """All attacks on the first models of a pool."""
    few, teachers = losses.take(models=np.arange(models)), models // 2
    points = most_leaking(few, models=np.arange(teachers), count=POINTS)
    found = compare_pool_attacks(
        few,
        POOL_ATTACKS,
        teachers=np.arange(teachers),
        points={"leakiest": points},
        judge=Judge(delta=DELTA),
    )
    return [
        {
            "models": models,
            "seed": seed,
            "attack": row.attack,
            "auc": row.roc.auc,
            "tpr at 0.001": float(np.nan_to_num(row.roc.at(0.001), nan=TOO_FEW)),
            "tpr at 0.01": float(np.nan_to_num(row.roc.at(0.01), nan=TOO_FEW)),
            "proven": row.proven,
            "shown low": row.shown[0],
            "shown median": row.shown[1],
            "shown high": row.shown[2],
        }
        for row in found.rows
    ]


def summary(rows: list[Row]) -> list[Row]:
    """Each attack and number of models over seeds: medians and ranges; rates in percent."""
    found: list[Row] = []
    for models in SIZES:
        for attack in POOL_ATTACKS:
            own = [row for row in rows if (row["models"], row["attack"]) == (models, attack)]
            line: Row = {"models": models, "attack": attack}
            for name, factor in (
                ("auc", 1),
                ("tpr at 0.001", 100),
                ("tpr at 0.01", 100),
                ("proven", 1),
                ("shown median", 1),
            ):
                line[name] = middle_and_range([factor * float(row[name]) for row in own])
            found.append(line)
    return found


def with_table(page: str) -> str:
    """The page with the table of the committed results: medians over pools."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    heads = [f"{what}, {models} models" for what in COLUMNS for models in SIZES]
    lines = ["| attack | " + " | ".join(heads) + " |", "| --- " * (1 + len(heads)) + "|"]
    for attack in POOL_ATTACKS:
        own = [row for row in found["tables"]["attacks"] if row["attack"] == attack]
        values = [
            shown(float(np.median([row[key] for row in own if row["models"] == models])))
            for key, shown in COLUMNS.values()
            for models in SIZES
        ]
        lines.append(f"| `{attack}` | " + " | ".join(values) + " |")
    return benchmark_report.with_table(page, "attacks_by_models", lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Attacks on a pool by number of models.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables here")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="pools")
    parser.add_argument("--page", action="store_true", help="only write the table of the page")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    rows = kept_rows(arguments.json, "attacks")
    report = Report()
    done = {(row["models"], row["seed"]) for row in rows}
    for seed in range(1, arguments.seeds + 1):
        missing = [models for models in SIZES if (models, seed) not in done]
        losses = measured(seed) if missing else None
        for models in missing:
            assert losses is not None
            rows += compared(losses, models, seed)
            report.keep(arguments.json, "attacks", rows)
    report.table("attacks", "Each pool", rows)
    title = f"{POOL} points, {REFERENCES} references, delta = {DELTA:g}: median (range)"
    report.table("summary", title, summary(rows))
    report.finish(arguments.json, pool=POOL, references=REFERENCES, points=POINTS, delta=DELTA)


if __name__ == "__main__":
    main()
