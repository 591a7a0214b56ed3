"""Time and memory of attacks on a large pool, each in its own process.

    python benchmarks/pool_attacks.py --json pool_attacks.json

Losses of 256 models x 60,000 points and 2,000 references are drawn, half of the models teach and half
are judged.  The peak is that of the whole process, the losses themselves included (0.12 GiB); what a
process uses before an attack is listed next to it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmark_report import Report, Row
from epsilometer.attacks.pool_attacks import POOL_ATTACKS, cross_fitted_scores, held_out_scores
from epsilometer.attacks.pool_losses import PoolLosses

MODELS, POINTS, REFERENCES, QUERIES, SEED = 256, 60_000, 2_000, 1, 11
FEATURES, LABELS = 32, 10


def made_up_losses(models: int, points: int, references: int, queries: int) -> PoolLosses:
    """Log odds are normal; points differ by their means, and members are a little above."""
    rng = np.random.default_rng(SEED)
    whole = points + references
    member = np.zeros((models, whole), dtype=bool)
    member[:, :points] = rng.random((models, points)) < 0.5
    level, leak = rng.normal(2.0, 2.0, whole), rng.exponential(0.5, whole)
    loss = np.empty((models, whole, queries))
    for model in range(models):
        odds = level + leak * member[model] + rng.standard_normal(whole)
        loss[model] = np.logaddexp(0, -(odds[:, None] + rng.normal(0, 0.3, (whole, queries))))
    return PoolLosses(
        loss=loss,
        member=member,
        references=references,
        features=rng.standard_normal((whole, FEATURES)).astype(np.float32),
        labels=rng.integers(0, LABELS, whole),
    )


def peak() -> float:
    """GiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def one(name: str, cross: bool, sizes: list[int]) -> Row:
    """One attack, in this process."""
    losses = made_up_losses(*sizes)
    attack, before, started = POOL_ATTACKS[name], peak(), time.perf_counter()
    if cross:
        scores = cross_fitted_scores(losses, attack)
    else:
        scores = held_out_scores(losses, attack, teachers=losses.models // 2)
    seconds = time.perf_counter() - started
    assert scores.value.shape[1] == losses.challenges
    return {
        "attack": name,
        "judged": scores.models,
        "seconds": seconds,
        "GiB before": before,
        "GiB at most": peak(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of attacks on a large pool.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables here")
    parser.add_argument("--attack", choices=POOL_ATTACKS, action="append", help="only this one")
    parser.add_argument("--cross", action="store_true", help="cross-fitted in place of fresh")
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--references", type=int, default=REFERENCES)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = [arguments.models, arguments.points, arguments.references, arguments.queries]
    names = arguments.attack or list(POOL_ATTACKS)
    if arguments.here:
        print(json.dumps(one(names[0], arguments.cross, sizes)))
        return
    report = Report()
    rows: list[Row] = []
    options = ["--cross"] * arguments.cross
    for option, size in zip(("models", "points", "references", "queries"), sizes, strict=True):
        options += [f"--{option}", str(size)]
    for name in names:
        command = [sys.executable, __file__, "--here", "--attack", name, *options]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout))
    way = "cross-fitted" if arguments.cross else "fresh, half of the models teach"
    title = "{} models x {:,} points, {:,} references, {} queries".format(*sizes)
    report.table("pool_attacks", f"{title}; {way}", rows)
    report.finish(arguments.json, cross=int(arguments.cross))


if __name__ == "__main__":
    main()
