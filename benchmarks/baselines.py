"""Time of the estimators that other tools ship: one base, and a thousand different ones.

    python benchmarks/baselines.py --json baselines.json

In one process and on one thread, the best of ``REPEATS`` calls after a warm one.  The public
implementation of the joint-beta interval takes 20 to 180 s for one base and is good to about 0.02; that
figure is from its own documentation and users, not measured here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmark_report import Report, Row
from epsilometer.baselines.catalogue import FROM_COUNTS
from epsilometer.baselines.joint_beta import JointBeta
from epsilometer.model.counts import AttackCounts

BASES, SEED, REPEATS = 1000, 3, 5
DELTA, SIGNIFICANCE = 1e-5, 0.1
#: The least that the public implementation of joint-beta takes.
PUBLIC_SECONDS = 20.0

ONE = {
    "487 of 487, 1 of 513": AttackCounts(
        false_positives=[512], trials_h0=513, false_negatives=[0], trials_h1=487
    ),
    "300 of 500 each": AttackCounts(
        false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    ),
    "90 of 100 each": AttackCounts(
        false_positives=[10], trials_h0=100, false_negatives=[10], trials_h1=100
    ),
    "500 of 500 each": AttackCounts(
        false_positives=[0], trials_h0=500, false_negatives=[0], trials_h1=500
    ),
}


def different_bases() -> AttackCounts:
    """A thousand bases of 20 to 2,000 trials, from no attack at all to strong ones."""
    rng = np.random.default_rng(SEED)
    trials_h0 = trials_h1 = rng.integers(20, 2000, BASES)
    alpha = rng.random(BASES)
    beta = (1 - alpha) * rng.random(BASES)
    return AttackCounts(
        false_positives=rng.binomial(trials_h0, alpha),
        trials_h0=trials_h0,
        false_negatives=rng.binomial(trials_h1, beta),
        trials_h1=trials_h1,
    )


def best_of(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    arguments = parser.parse_args()
    report = Report()
    rows: list[Row] = []
    for name, counts in ONE.items():
        seconds = best_of(lambda counts=counts: JointBeta().interval(counts, DELTA, SIGNIFICANCE))  # type: ignore[misc]
        rows.append(
            {
                "right decisions": name,
                "ms": 1000 * seconds,
                "times faster than 20 s": PUBLIC_SECONDS / seconds,
            }
        )
    report.table("joint beta", "Joint-beta interval of one base", rows)
    many = different_bases()
    rows = []
    total = 0.0
    for estimator in FROM_COUNTS:
        seconds = best_of(lambda e=estimator: e.interval(many, DELTA, SIGNIFICANCE))  # type: ignore[misc]
        total += seconds
        rows.append({"estimator": estimator.label, "ms": 1000 * seconds})
    rows.append({"estimator": "all", "ms": 1000 * total})
    report.table("thousand bases", f"Intervals of {BASES:,} different bases", rows)
    report.finish(arguments.json, bases=BASES, delta=DELTA, significance=SIGNIFICANCE)


if __name__ == "__main__":
    main()
