"""Speed and memory of the engines, as plain tables and on request as JSON.

    python benchmarks/inference.py --json inference.json

1. The exact engine against the published sampler at the paper's two sizes.  The sampler runs a part
   of its iterations, timed without compilation, and the time is scaled to all of them.
2. Effective draws a second of the default and of the published MCMC settings, on one thread each,
   warm-up counted.
3. How the exact engine's time grows with distinct bases, with trials and with repeated bases.
4. Time and peak memory of 10,000 binomial bases, and of fewer correlated ones, which cost far more,
   each in its own process.

Exact times are the best of three after a warm call; a case slower than ``PATIENCE`` is timed once,
since a warm-up would be lost in it.  The fourth table is measured first: Linux carries the peak
memory of a parent over to its children, so the parent must still be small.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import epsilometer as em
from benchmark_report import Report, Row

STRONG = Path(__file__).parent.parent / "examples" / "counts.csv"
A1_FALSE_POSITIVES = [10, 11, 8, 7, 12, 9, 9, 9, 10, 10, 11, 9, 11, 9, 10, 12, 12, 11, 8, 5]
A1_FALSE_NEGATIVES = [3, 0, 0, 0, 47, 0, 1, 0, 0, 0, 0, 33, 15, 0, 0, 0, 0, 0, 52, 0]

REPEATS = 3
#: Seconds; an exact case slower than this is not repeated.
PATIENCE = 6.0

#: Where the error rates of made-up counts come from.
TRUE_EPSILON, TRUE_STRENGTH, DELTA = 3.0, 0.3, 0.01


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Counts and a model from the paper, and how long the paper sampled."""

    name: str
    counts: em.AttackCounts
    model: em.CountModel
    iterations: int


def paper_problems() -> list[Problem]:
    a1 = em.AttackCounts(
        false_positives=A1_FALSE_POSITIVES,
        trials_h0=100,
        false_negatives=A1_FALSE_NEGATIVES,
        trials_h1=100,
    )
    return [
        Problem(
            name="ten strong attacks",
            counts=em.AttackCounts.read(STRONG),
            model=em.CountModel(delta=0.01),
            iterations=1_000_000,
        ),
        Problem(
            name="A1, correlated",
            counts=a1,
            model=em.CountModel(delta=0.001, likelihood=em.likelihoods.CorrelatedNormal()),
            iterations=100_000,
        ),
    ]


def made_up_counts(bases: int, trials: int, *, distinct: bool) -> em.AttackCounts:
    """Counts of attacks on an algorithm with known epsilon and strength."""
    from epsilometer.model.region import sample_rings

    rng = np.random.default_rng(bases + trials)
    size = 4 * bases if distinct else bases
    alpha, beta = sample_rings(TRUE_EPSILON, DELTA, TRUE_STRENGTH, size=(size,), rng=rng)
    pairs = np.stack([rng.binomial(trials, alpha), rng.binomial(trials, beta)], axis=1)
    if distinct:
        _, first = np.unique(pairs, axis=0, return_index=True)
        pairs = pairs[np.sort(first)[:bases]]
        assert len(pairs) == bases
    return em.AttackCounts(
        false_positives=pairs[:, 0],
        trials_h0=trials,
        false_negatives=pairs[:, 1],
        trials_h1=trials,
    )


def repeated(counts: em.AttackCounts, times: int) -> em.AttackCounts:
    return em.AttackCounts(
        false_positives=np.tile(counts.false_positives, times),
        trials_h0=np.tile(counts.trials_h0, times),
        false_negatives=np.tile(counts.false_negatives, times),
        trials_h1=np.tile(counts.trials_h1, times),
    )


def num_distinct(counts: em.AttackCounts) -> int:
    columns = (counts.false_positives, counts.trials_h0, counts.false_negatives, counts.trials_h1)
    return len(np.unique(np.stack(columns), axis=1).T)


# --- 1: the exact engine against the published sampler -------------------------------------------


def time_exact(
    counts: em.AttackCounts, model: em.CountModel
) -> tuple[float, em.engines.CountPosterior]:
    """Seconds of the best call after a warm one, and the posterior."""
    started = time.perf_counter()
    posterior = em.estimate(counts, model)
    first = time.perf_counter() - started
    if first > PATIENCE:
        return first, posterior
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        em.estimate(counts, model)
        times.append(time.perf_counter() - started)
    return min(times), posterior


def time_published(problem: Problem, part: float) -> tuple[float, int]:
    """Seconds that the published sampler needs for all its iterations, and how many were run."""

    def best(iterations: int) -> float:
        settings = em.engines.McmcSettings.published(num_iterations=iterations, num_warmup=0)
        return min(
            settings.estimate(problem.counts, problem.model, num_threads=1).provenance.seconds
            for _ in range(REPEATS)
        )

    made = max(round(part * problem.iterations), 100)
    start = best(1)
    return start + (best(made) - start) * problem.iterations / made, made


def against_published(problems: Sequence[Problem], part: float) -> list[Row]:
    rows: list[Row] = []
    for problem in problems:
        exact, posterior = time_exact(problem.counts, problem.model)
        published, made = time_published(problem, part)
        low, high = posterior.credible_interval("epsilon", 0.9)
        rows.append(
            {
                "problem": problem.name,
                "epsilon 90 %": f"{low:.3f} {high:.3f}",
                "exact s": exact,
                "iterations": problem.iterations,
                "timed": made,
                "sampler s": published,
                "ratio": published / exact,
            }
        )
    return rows


# --- 2: effective draws a second ------------------------------------------------------------------


def effective_draws(problems: Sequence[Problem], iterations: int) -> list[Row]:

    tenth = iterations // 10
    published = em.engines.McmcSettings.published(
        num_iterations=iterations - tenth, num_warmup=tenth
    )
    rows: list[Row] = []
    for problem in problems:
        rates: dict[str, dict[str, float]] = {}
        for name, settings in (("default", em.engines.McmcSettings()), ("published", published)):
            posterior = settings.estimate(problem.counts, problem.model, num_threads=1)
            figures = posterior.diagnostics.parameters
            seconds = posterior.provenance.seconds
            sizes = {key: figures[key].bulk_effective_size for key in ("epsilon", "strength")}
            rates[name] = {key: size / seconds for key, size in sizes.items()}
            rows.append(
                {
                    "problem": problem.name,
                    "settings": name,
                    "seconds": seconds,
                    "ESS eps": sizes["epsilon"],
                    "ESS s": sizes["strength"],
                    "eps/s": rates[name]["epsilon"],
                    "s/s": rates[name]["strength"],
                    "R-hat": f"{max(f.r_hat for f in figures.values()):.3f}",
                }
            )
        rows.append(
            {
                "problem": problem.name,
                "settings": "ratio",
                "eps/s": rates["default"]["epsilon"] / rates["published"]["epsilon"],
                "s/s": rates["default"]["strength"] / rates["published"]["strength"],
            }
        )
    return rows


# --- 3: growth ------------------------------------------------------------------------------------


def growth() -> list[Row]:
    model = em.CountModel(delta=DELTA)
    cases = [
        ("distinct bases", made_up_counts(n, 1000, distinct=True)) for n in (10, 30, 100, 300, 1000)
    ]
    cases += [("trials", made_up_counts(10, N, distinct=True)) for N in (100, 10**4, 10**6)]
    cases.append(("repeated bases", repeated(made_up_counts(10, 1000, distinct=True), 1000)))
    rows: list[Row] = []
    for name, counts in cases:
        seconds, posterior = time_exact(counts, model)
        distinct = num_distinct(counts)
        rows.append(
            {
                "growing": name,
                "bases": len(counts),
                "distinct": distinct,
                "trials": int(counts.trials_h0[0]),
                "seconds": seconds,
                "ms a distinct": 1e3 * seconds / distinct,
                "trusted": "yes" if posterior.trustworthy else "no",
            }
        )
    return rows


# --- 4: many bases --------------------------------------------------------------------------------


def in_this_process(bases: int, correlated: bool) -> Row:
    """One estimate from a cold start, and the peak memory of the process that made it."""
    counts = made_up_counts(bases, 100, distinct=False)
    likelihood = (
        em.likelihoods.CorrelatedNormal() if correlated else em.likelihoods.IndependentBinomial()
    )
    started = time.perf_counter()
    posterior = em.estimate(counts, em.CountModel(delta=DELTA, likelihood=likelihood))
    seconds = time.perf_counter() - started
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "likelihood": "correlated" if correlated else "binomial",
        "bases": bases,
        "distinct": num_distinct(counts),
        "seconds": seconds,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6,
        "epsilon median": f"{posterior.median('epsilon'):.4f}",
        "trusted": "yes" if posterior.trustworthy else "no",
    }


def many_bases(most_correlated: int) -> list[Row]:
    rows = []
    cases = [(10, False), (10_000, False), (10, True)]
    if most_correlated > 10:
        cases.append((most_correlated, True))
    for bases, correlated in cases:
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=1, mp_context=fresh) as pool:
            rows.append(pool.submit(in_this_process, bases, correlated).result())
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and memory of the engines.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables here")
    parser.add_argument(
        "--part",
        type=float,
        default=0.005,
        help="share of the published iterations that is timed (default %(default)s)",
    )
    parser.add_argument(
        "--ess-iterations",
        type=int,
        default=30_000,
        help="iterations of the published sampler for its ESS (default %(default)s)",
    )
    parser.add_argument(
        "--correlated-bases",
        type=int,
        default=20,
        help="bases of the largest correlated case in table 4 (default %(default)s)",
    )
    arguments = parser.parse_args()
    if not 0 < arguments.part <= 1:
        parser.error("--part must be above 0 and at most 1")
    if arguments.ess_iterations < 100:
        parser.error("--ess-iterations must be at least 100")

    report = Report()
    many = many_bases(arguments.correlated_bases)
    problems = paper_problems()
    report.table(
        "exact_against_published",
        "1. Exact engine against the published sampler, scaled to all its iterations",
        against_published(problems, arguments.part),
    )
    report.table(
        "effective_draws",
        "2. Effective draws a second (bulk ESS), one thread, warm-up counted",
        effective_draws(problems, arguments.ess_iterations),
    )
    report.table("growth", "3. Growth of the exact engine's time, binomial counts", growth())
    report.table("many_bases", "4. Many bases, 100 trials each, in its own process", many)
    report.finish(arguments.json, part=arguments.part, ess_iterations=arguments.ess_iterations)


if __name__ == "__main__":
    main()
