"""Time of a curve over delta against that of separate runs, and how far the two are apart.

    python benchmarks/delta_curve.py --json delta_curve.json

Fifty deltas from 1e-8 to 0.1, evenly spaced in the logarithm.  A single run is the mean over
``SINGLE`` of them, since runs at larger deltas take longer.  Times are of the processor, all threads
added up, so that other work on the machine hardly matters; curve and runs alternate in one process.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import epsilometer as em
from benchmark_report import Report, Row
from epsilometer.engines.exact.engine import PROBED

DELTAS = np.geomspace(1e-8, 0.1, 50)
SINGLE = (0, 12, 24, 36, 43, 49)
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "counts.csv"


def cases() -> dict[str, tuple[em.AttackCounts, em.CountModel]]:
    example = em.AttackCounts.read(EXAMPLE)
    paper = em.AttackCounts(
        false_positives=[10, 11, 8, 7, 12, 9, 9, 9, 10, 10, 11, 9, 11, 9, 10, 12, 12, 11, 8, 5],
        trials_h0=100,
        false_negatives=[3, 0, 0, 0, 47, 0, 1, 0, 0, 0, 0, 33, 15, 0, 0, 0, 0, 0, 52, 0],
        trials_h1=100,
    )
    sharp = em.AttackCounts(
        false_positives=[2000, 2500, 3000],
        trials_h0=20_000,
        false_negatives=[8000, 4000, 9000],
        trials_h1=20_000,
    )
    weak = em.AttackCounts(
        false_positives=[10] * 20, trials_h0=100, false_negatives=[90] * 20, trials_h1=100
    )
    binomial = em.CountModel(delta=0.0)
    correlated = replace(binomial, likelihood=em.likelihoods.CorrelatedNormal())
    fixed = replace(binomial, strength=em.priors.Fixed(value=0.5))
    return {
        "example, 10 bases, binomial": (example, binomial),
        "paper's A1, 20 bases, binomial": (paper, binomial),
        "paper's A1, 20 bases, correlated": (paper, correlated),
        "example, 10 bases, strength 0.5": (example, fixed),
        "20,000 trials, sharper than delta": (sharp, binomial),
        "20 attacks that tell nothing, one rate": (weak, binomial),
    }


def measured(name: str, counts: em.AttackCounts, model: em.CountModel) -> Row:
    start = time.process_time()
    curve = em.engines.estimate_curve(counts, model, DELTAS)
    seconds = time.process_time() - start
    singles, apart = [], 0.0
    for index in SINGLE:
        delta = float(DELTAS[index])
        start = time.process_time()
        alone = em.estimate(counts, replace(model, delta=delta))
        singles.append(time.process_time() - start)
        wanted = alone.quantile("epsilon", PROBED)
        change = np.abs(curve.at(delta).quantile(PROBED) - wanted) / np.maximum(1.0, wanted)
        apart = max(apart, float(change.max()))
    single = float(np.mean(singles))
    return {
        "counts and model": name,
        "curve, s": seconds,
        "single run, s": single,
        "curve in single runs": seconds / single,
        "deltas solved": int(curve.solved.sum()),
        "estimated error": float(curve.errors.max()),
        "largest difference": apart,
        "tolerance": curve.tolerance,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    arguments = parser.parse_args()
    report = Report()
    made = cases()
    # Nothing is timed before all that is loaded on first use has been.
    for model in (
        em.CountModel(delta=0.01),
        em.CountModel(delta=0.01, likelihood=em.likelihoods.CorrelatedNormal()),
    ):
        em.estimate(next(iter(made.values()))[0], model)
    rows = [measured(name, counts, model) for name, (counts, model) in made.items()]
    report.table("curves", f"{len(DELTAS)} deltas at once against single runs", rows)
    report.finish(arguments.json, deltas=len(DELTAS), smallest=1e-8, largest=0.1)


if __name__ == "__main__":
    main()
