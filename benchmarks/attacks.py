"""Cross-feeding and a 99-level sweep against the loop that the paper's algorithm spells out.

    python benchmarks/attacks.py --json attacks.json

Both attack the same made-up losses of 20 bases x 2 hypotheses x 100 models, in one process and on
one thread, and must come to the same decisions.

The loop: for each base, hypothesis and model, take the model out with ``numpy.delete``, fit both
normals, and compare the statistic with ``scipy.stats.ncx2.ppf`` at each of 99 target rates.  It is
timed twice: a call of ``ppf`` for each rate, as the algorithm reads, and one call for all 99 rates.
R has the appendix's sign, not the algorithm's, which is a slip.

Ours is the best of ``REPEATS`` calls after a warm one, reading of the losses into arrays included;
the loops run once.  Where only a part of the bases is asked of a loop, its time is scaled to all of
them, and the table says so.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ncx2

from benchmark_report import Report, Row
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.result import SWEEP, ErrorCurves
from epsilometer.measurement.designs import cross_feed

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

BASES, MODELS, SEED = 20, 100, 7
REPEATS = 50
LEVELS = np.array(SWEEP)


def made_up_losses() -> Losses:
    """Normal losses; means and spreads under H1 differ from base to base, to either side."""
    rng = np.random.default_rng(SEED)
    shift = rng.normal(-1.5, 1.0, BASES)
    ratio = np.exp(rng.uniform(-1.0, 1.0, BASES))
    table = rng.standard_normal((2, BASES, MODELS))
    table[1] = shift[:, None] + ratio[:, None] * table[1]
    hypothesis, base, replicate = np.indices(table.shape).reshape(3, -1)
    return Losses(
        challenge_base=base,
        hypothesis=hypothesis,
        replicate=replicate,
        loss=5.0 + table.reshape(-1),
    )


# --- the loop -------------------------------------------------------------------------------------


def learn_and_decide(
    loss: float, shadows_h0: FloatArray, shadows_h1: FloatArray, *, one_by_one: bool
) -> BoolArray:
    """Decisions on one model at every level."""
    mean_h0, mean_h1 = np.mean(shadows_h0), np.mean(shadows_h1)
    variance_h0, variance_h1 = np.var(shadows_h0, ddof=1), np.var(shadows_h1, ddof=1)
    centre = (mean_h0 / variance_h0 - mean_h1 / variance_h1) / (1 / variance_h1 - 1 / variance_h0)
    shift = (mean_h0 + centre) ** 2 / variance_h0
    statistic = (loss + centre) ** 2
    inside = variance_h0 > variance_h1
    asked = LEVELS if inside else 1 - LEVELS
    if one_by_one:
        critical = np.array([variance_h0 * ncx2.ppf(level, 1, shift) for level in asked])
    else:
        critical = variance_h0 * ncx2.ppf(asked, 1, shift)
    return np.asarray(statistic <= critical if inside else statistic >= critical)


def loop(
    h0: FloatArray, h1: FloatArray, bases: int, *, one_by_one: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """False positives and false negatives, (levels, bases)."""
    false_positives = np.zeros((len(LEVELS), bases), dtype=np.int64)
    false_negatives = np.zeros((len(LEVELS), bases), dtype=np.int64)
    for base in range(bases):
        for model, loss in enumerate(h0[base].tolist()):
            others = np.delete(h0[base], model)
            member = learn_and_decide(loss, others, h1[base], one_by_one=one_by_one)
            false_positives[:, base] += member
        for model, loss in enumerate(h1[base].tolist()):
            others = np.delete(h1[base], model)
            member = learn_and_decide(loss, h0[base], others, one_by_one=one_by_one)
            false_negatives[:, base] += ~member
    return false_positives, false_negatives


# --- side by side ---------------------------------------------------------------------------------


def time_ours(losses: Losses) -> tuple[float, ErrorCurves]:
    """Seconds of the best call after a warm one, and the curves."""
    curves = cross_feed(losses).sweep(SWEEP)
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        cross_feed(losses).sweep(SWEEP)
        times.append(time.perf_counter() - started)
    return min(times), curves


def side_by_side(losses: Losses, loop_bases: int) -> list[Row]:
    ours, curves = time_ours(losses)
    decisions = len(losses) * len(LEVELS)
    rows: list[Row] = [
        {
            "way": "cross_feed and sweep",
            "bases timed": BASES,
            "seconds": ours,
            "scaled to 20": ours,
            "us a decision": 1e6 * ours / decisions,
            "other counts": 0,
            "ratio": 1.0,
        }
    ]
    h0, h1 = losses.by_hypothesis()
    for name, one_by_one in (("loop, a rate a call", True), ("loop, all rates a call", False)):
        started = time.perf_counter()
        counts = loop(h0, h1, loop_bases, one_by_one=one_by_one)
        seconds = time.perf_counter() - started
        differ = sum(
            int(np.abs(found - theirs[:, :loop_bases]).sum())
            for found, theirs in zip(
                counts, (curves.false_positives, curves.false_negatives), strict=True
            )
        )
        assert differ == 0, f"{name}: {differ} decisions differ"
        scaled = seconds * BASES / loop_bases
        rows.append(
            {
                "way": name,
                "bases timed": loop_bases,
                "seconds": seconds,
                "scaled to 20": scaled,
                "us a decision": 1e6 * scaled / decisions,
                "other counts": differ,
                "ratio": scaled / ours,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of cross-feeding against the plain loop.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table here")
    parser.add_argument(
        "--loop-bases",
        type=int,
        default=BASES,
        help="bases that the loops attack; fewer are scaled to all (default %(default)s)",
    )
    arguments = parser.parse_args()
    if not 1 <= arguments.loop_bases <= BASES:
        parser.error(f"--loop-bases must be from 1 to {BASES}")

    report = Report()
    rows = side_by_side(made_up_losses(), arguments.loop_bases)
    part = "" if arguments.loop_bases == BASES else f"; loops on {arguments.loop_bases} bases only"
    title = f"{BASES} bases x 2 x {MODELS} models at {len(LEVELS)} target rates{part}"
    report.table("cross_feeding", title, rows)
    report.finish(
        arguments.json,
        bases=BASES,
        models=MODELS,
        levels=len(LEVELS),
        loop_bases=arguments.loop_bases,
    )


if __name__ == "__main__":
    main()
