"""Proofs from points that share models, against the average of the points' own proofs.

    python benchmarks/pool_proofs.py --json pool_proofs.json

Both read the same made-up pool and must come to the same e-values by point.  The whole proof (both
parts, the largest refuted epsilon and the largest that could be) is timed on pools of growing size, with
the memory touched so far.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np

from benchmark_report import Report, Row
from epsilometer.model.pool_scores import PoolScores
from epsilometer.proofs.outcomes import outcomes_of
from epsilometer.proofs.pairs import PairTest
from epsilometer.proofs.proof import prove
from epsilometer.proofs.shared_models import SharedModels

DELTA, CLAIM, SEED = 1e-5, 1.0, 7
SIZES = ((64, 200), (128, 2000), (256, 60_000))


def made_up(models: int, points: int) -> PoolScores:
    """Normal scores, 1.5 higher with the point."""
    rng = np.random.default_rng(SEED)
    member = rng.random((models, points)) < 0.5
    return PoolScores(
        value=rng.standard_normal(member.shape) + 1.5 * member, member=member, fair_coins=True
    )


def side_by_side(points: int = 200) -> list[Row]:
    """One e-value by point, of all points together and of one after the other."""
    pool = made_up(128, points)
    prove(pool, delta=DELTA)  # compiled before it is timed
    began = time.perf_counter()
    fast = SharedModels.of_pool(pool).by_point.log_e_value(CLAIM, DELTA, 0.05)
    ours = time.perf_counter() - began
    began = time.perf_counter()
    pairs = [(pool.value[~m, n], pool.value[m, n]) for n, m in enumerate(pool.member.T)]
    alone = [
        PairTest(outcomes=outcomes_of([(zeros[: len(ones)], ones[: len(zeros)])]))
        for zeros, ones in pairs
    ]
    logs = [test.log_e_value(CLAIM, DELTA, 0.05) for test in alone]
    slow = np.logaddexp.reduce(logs) - np.log(len(logs))
    theirs = time.perf_counter() - began
    assert abs(fast - slow) < 1e-9, (fast, slow)
    return [
        {"way": "together", "seconds": ours, "ratio": 1.0},
        {"way": "one by one", "seconds": theirs, "ratio": theirs / ours},
    ]


def whole_proofs() -> list[Row]:
    """Time and memory of whole proofs."""
    rows: list[Row] = []
    for models, points in SIZES:
        pool = made_up(models, points)
        began = time.perf_counter()
        proof = prove(pool, delta=DELTA, claim=CLAIM)
        rows.append(
            {
                "models": models,
                "points": points,
                "seconds": time.perf_counter() - began,
                "GiB touched": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
                "proven": proof.at_least,
                "most provable": proof.most_provable,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of proofs from points that share models.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables here")
    arguments = parser.parse_args()
    report = Report()
    report.table("by_point", "One e-value by point, 128 models x 200 points", side_by_side())
    report.table("whole", "Whole proofs", whole_proofs())
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
