"""Speed of the curve model, and its estimates from one training run, compared with its peers.

    python benchmarks/curve_model.py --json curve_model.json

1. Twenty bases of 2 x 100 models, all families and mixtures, against the published sampler on the
   counts of the same audit at a rate of 0.1.  The sampler runs a part of its iterations, timed without
   compilation, and the time is scaled to all of them; ``--part 1`` runs all.
2. One base of many canaries: seconds and peak memory, each in its own process.
3. The first call of a process, with an empty and with a filled cache of compiled code.
4. One training run: ideal canaries, half of them in.  The 5 % point and the median of the posterior
   and lower bounds with 5 % error, averaged over some draws.

Tables 2 and 3 are measured first: Linux carries the peak memory of a parent over to its children, so the
parent must still be small.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import epsilometer as em
from benchmark_report import Report, Row
from epsilometer._arrays import FloatArray

DELTA, TARGET_RATE, REPEATS = 1e-5, 0.1, 3
#: Of the paper for correlated counts, its warm-up among them.
PUBLISHED_ITERATIONS = 100_000

BASES, MODELS = 20, 100
MEGABYTE = 1e6

Pair = tuple[FloatArray, FloatArray]


# --- audits ---------------------------------------------------------------------------------------


def gaussian_scores(shift: float, size: int, rng: np.random.Generator, rate: float = 1.0) -> Pair:
    """Scores without the point and with it, which then matters with probability ``rate``."""
    seen = rng.random(size) < rate
    return rng.standard_normal(size), rng.standard_normal(size) + shift * seen


def response_scores(epsilon: float, size: int, rng: np.random.Generator) -> Pair:
    """Answers of randomised response: 0 or 1, so nearly all scores tie."""
    truth = 1 / (1 + np.exp(-epsilon))
    without, with_point = rng.random(size) > truth, rng.random(size) < truth
    return without.astype(float), with_point.astype(float)


def audit_of(draw: Callable[[np.random.Generator], Pair], bases: int = BASES) -> em.Scores:
    """Some bases whose attacks are alike."""
    rng = np.random.default_rng(11)
    pairs = [draw(rng) for _ in range(bases)]
    return em.Scores(without=[a for a, _ in pairs], with_point=[b for _, b in pairs])


AUDITS: dict[str, Callable[[np.random.Generator], Pair]] = {
    "Gaussian, shift 1": lambda rng: gaussian_scores(1.0, MODELS, rng),
    "no leak": lambda rng: gaussian_scores(0.0, MODELS, rng),
    "randomised response 1": lambda rng: response_scores(1.0, MODELS, rng),
}


def counts_of(scores: em.Scores) -> em.AttackCounts:
    """Errors at the threshold that realises the target rate in each base."""
    false_positives, false_negatives = [], []
    for base in scores.bases:
        without, with_point = base.by_hypothesis  # highest first
        threshold = without[round(TARGET_RATE * len(without))]
        false_positives.append(int(np.sum(without > threshold)))
        false_negatives.append(int(np.sum(with_point <= threshold)))
    return em.AttackCounts(
        false_positives=false_positives,
        trials_h0=scores.trials_h0,
        false_negatives=false_negatives,
        trials_h1=scores.trials_h1,
    )


# --- 1: against the published sampler ---------------------------------------------------------------


def time_curve_model(scores: em.Scores) -> tuple[float, em.engines.CurvePosterior]:
    """Seconds of the best call after a warm one, and the posterior."""
    model = em.CurveModel(delta=DELTA)
    posterior = em.estimate(scores, model)
    times = [em.estimate(scores, model).provenance.seconds for _ in range(REPEATS)]
    return min(times), posterior


def time_published(counts: em.AttackCounts, part: float) -> float:
    """Seconds that the published sampler needs for all its iterations."""
    model = em.CountModel(delta=DELTA, likelihood=em.likelihoods.CorrelatedNormal())

    def seconds(iterations: int) -> float:
        settings = em.engines.McmcSettings.published(num_iterations=iterations, num_warmup=0)
        return settings.estimate(counts, model, num_threads=1).provenance.seconds

    made = max(round(part * PUBLISHED_ITERATIONS), 100)
    start = min(seconds(1) for _ in range(REPEATS))
    whole = min(seconds(made) for _ in range(1 if part > 0.1 else REPEATS))
    return start + (whole - start) * PUBLISHED_ITERATIONS / made


def against_published(part: float) -> list[Row]:
    audits = {name: audit_of(draw) for name, draw in AUDITS.items()}
    published = time_published(counts_of(audits["Gaussian, shift 1"]), part)
    rows: list[Row] = []
    for name, scores in audits.items():
        seconds, posterior = time_curve_model(scores)
        low, high = posterior.credible_interval("epsilon", 0.9)
        rows.append(
            {
                "20 bases of 2 x 100": name,
                "epsilon 90 %": f"{low:.2f} {high:.2f}",
                "levels": posterior.accuracy.levels,
                "trusted": "yes" if posterior.trustworthy else "no",
                "seconds": seconds,
                "sampler s": published,
                "ratio": published / seconds,
            }
        )
    return rows


# --- 2 and 3: in processes of their own -------------------------------------------------------------


def in_this_process(canaries: int, shift: float) -> Row:
    """One estimate from a cold start, and the peak memory of the process that made it."""
    without, with_point = gaussian_scores(shift, canaries // 2, np.random.default_rng(3))
    scores = em.Scores.of_canaries(with_point, without)
    started = time.perf_counter()
    posterior = em.estimate(scores, em.CurveModel(delta=DELTA))
    seconds = time.perf_counter() - started
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    low, high = posterior.credible_interval("epsilon", 0.9)
    return {
        "canaries": canaries,
        "shift": f"{shift:g}",
        "seconds": seconds,
        "peak MB": peak / MEGABYTE,
        "epsilon 90 %": f"{low:.2f} {high:.2f}",
        "levels": posterior.accuracy.levels,
        "trusted": "yes" if posterior.trustworthy else "no",
    }


def in_a_process(canaries: int, shift: float, cache: str | None = None) -> Row:
    environment = dict(os.environ) | ({} if cache is None else {"NUMBA_CACHE_DIR": cache})
    command = [sys.executable, __file__, "--one", str(canaries), "--shift", str(shift)]
    done = subprocess.run(
        command, env=environment, check=True, text=True, stdout=subprocess.PIPE, timeout=1800
    )
    return dict(json.loads(done.stdout))


def many_canaries(sizes: list[int]) -> list[Row]:
    in_a_process(100, 1.0)  # fills the cache
    return [in_a_process(size, shift) for size in sizes for shift in (1.0, 0.0)]


def first_calls() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as cache:
        for name in ("empty", "filled"):
            started = time.perf_counter()
            found = in_a_process(200, 1.0, cache)
            whole = time.perf_counter() - started
            rows.append(
                {
                    "cache of compiled code": name,
                    "first call s": found["seconds"],
                    "whole process s": whole,
                }
            )
    return rows


# --- 4: one training run ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """Ideal canaries of one training run: half in, half out, of a Gaussian mechanism."""

    shift: float
    rate: float = 1.0

    @property
    def name(self) -> str:
        return f"{self.shift:g}" if self.rate == 1 else f"{self.shift:g}/{self.rate:g}"

    @property
    def truth(self) -> float:
        curves = em.families.Curves(family=em.families.Gaussian(), rate=self.rate)
        return float(curves.epsilon(self.shift, DELTA))

    def models(self) -> dict[str, em.CurveModel]:
        """The family and rate told; the rate alone; everything free."""
        mixing = (
            em.families.NoMixing() if self.rate == 1 else em.families.KnownMixing(rate=self.rate)
        )
        told = em.CurveModel(
            delta=DELTA,
            families=(em.families.Gaussian(),),
            mixing=mixing,
            strength=em.families.FixedStrength(),
        )
        free = em.CurveModel(delta=DELTA)
        return {
            "told": told,
            "families": replace(free, mixing=mixing, strength=em.families.FixedStrength()),
            "free": free,
        }


RUNS = (OneRun(shift=1.0), OneRun(shift=2.0), OneRun(shift=2.0, rate=0.2))
#: Steinke's bound guesses from both ends, which is its best here.
PEERS: dict[str, Callable[[em.baselines.CanaryScoreAuditor], float]] = {
    "Steinke": lambda scores: scores.epsilon_one_run(0.05, DELTA, one_sided=False),
    "f-DP": lambda scores: scores.epsilon_one_run_fdp(0.05, DELTA),
    "f-DP G.": lambda scores: scores.epsilon_one_run_fdp(
        0.05, DELTA, family=em.baselines.GaussianDP()
    ),
    "GDP": lambda scores: scores.epsilon_lower(em.baselines.GaussianRates(), 0.05, DELTA),
}


def even_scores(run: OneRun, size: int) -> Pair:
    """Scores at even quantiles of both laws: what draws scatter around, and no seed is needed."""
    from scipy.special import ndtr, ndtri

    share = (np.arange(size) + 0.5) / size
    axis = np.linspace(-8.0, 8.0 + run.shift, 200_001)
    below = (1 - run.rate) * ndtr(axis) + run.rate * ndtr(axis - run.shift)
    return ndtri(share), np.interp(share, below, axis)


def one_run(run: OneRun, canaries: int, draws: int) -> Row:
    """Means over this many draws; if 0, from scores at even quantiles."""
    found: dict[str, list[float]] = {}
    pairs = [
        gaussian_scores(run.shift, canaries // 2, np.random.default_rng((canaries, seed)), run.rate)
        for seed in range(draws)
    ] or [even_scores(run, canaries // 2)]
    for without, with_point in pairs:
        scores = em.Scores.of_canaries(with_point, without)
        for name, model in run.models().items():
            low, middle = em.estimate(scores, model).quantile("epsilon", [0.05, 0.5])
            found.setdefault(f"{name} 5 %", []).append(float(low))
            found.setdefault(f"{name} 50 %", []).append(float(middle))
        auditor = em.baselines.CanaryScoreAuditor(with_point, without)
        for name, bound in PEERS.items():
            found.setdefault(name, []).append(bound(auditor))
    return {
        "canaries": canaries,
        "Gaussian": run.name,
        "draws": draws or "even",
        "truth": run.truth,
        **{name: float(np.mean(values)) for name, values in found.items()},
        "above": int(sum(value > run.truth for value in found["families 5 %"])),
    }


def narrow(rows: list[Row]) -> list[Row]:
    """The same with both points of a posterior in one cell, to fit a terminal."""
    return [
        {
            "shift": row["Gaussian"],
            "draws": row["draws"],
            "truth": f"{row['truth']:.2f}",
            **{
                name: f"{row[f'{name} 5 %']:.2f} {row[f'{name} 50 %']:.2f}"
                for name in ("told", "families", "free")
            },
            **{name: f"{row[name]:.2f}" for name in PEERS},
        }
        for row in rows
    ]


# --- all --------------------------------------------------------------------------------------------


def speed(report: Report, part: float) -> None:
    report.table(
        "many_canaries",
        "2. One base of many canaries, everything free, in its own process",
        many_canaries([1_000, 10_000, 100_000]),
    )
    report.table("first_calls", "3. First call of a process, 200 scores", first_calls())
    report.table(
        "against_published",
        "1. Curve model against the published sampler, scaled to all its iterations",
        against_published(part),
    )


def training_runs(report: Report, draws: int, large_draws: int) -> None:
    for size, count in ((1_000, draws), (10_000, large_draws)):
        rows = [one_run(run, size, each) for each in (0, count) for run in RUNS]
        report.table(
            f"one_run_{size}",
            f"4. One training run, {size:,} canaries: 5 and 50 % points of epsilon, and lower\n"
            "   bounds that err in 5 %",
            rows,
            printed=narrow(rows),
        )
    print(
        "\nshift 2/0.2: the point is used with probability 0.2. told: family, strength 1 and\n"
        "rate told; families: strength 1 and rate told; free: nothing told. Means over the\n"
        "draws, or from scores at even quantiles. f-DP G. and GDP take every mechanism for a\n"
        "Gaussian one."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="The curve model: speed, and one run.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables here")
    parser.add_argument(
        "--part",
        type=float,
        default=0.01,
        help="share of the published iterations that is timed (default %(default)s)",
    )
    parser.add_argument("--draws", type=int, default=10, help="runs of 1,000 canaries")
    parser.add_argument("--large-draws", type=int, default=3, help="runs of 10,000 canaries")
    parser.add_argument("--only", choices=("speed", "runs"), help="tables 1 to 3, or 4 alone")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--shift", type=float, default=1.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(in_this_process(arguments.one, arguments.shift)))
        return
    if not 0 < arguments.part <= 1:
        parser.error("--part must be above 0 and at most 1")

    report = Report()
    if arguments.only != "runs":
        speed(report, arguments.part)
    if arguments.only != "speed":
        training_runs(report, arguments.draws, arguments.large_draws)
    report.finish(arguments.json, part=arguments.part, delta=DELTA, iterations=PUBLISHED_ITERATIONS)


if __name__ == "__main__":
    main()
