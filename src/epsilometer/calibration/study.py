"""Running a study: in parallel, resumable, with progress, and reproducible for any number of workers.

A job is a chunk of a cell's runs.  Its random numbers depend on the plan's seed, the cell and the chunk,
not on the worker.  Finished jobs are lines of a JSON-lines file; an interrupted study continues with the
missing ones.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from epsilometer import _files, _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer._workers import process_pool
from epsilometer.baselines.catalogue import FROM_COUNTS, FROM_SCORES, ScoreEstimator, one_run_scan
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.baselines.thresholds import Bonferroni
from epsilometer.calibration.attacks import draw_counts, draw_scores
from epsilometer.calibration.controls import CONTROLS
from epsilometer.calibration.curve import WHOLE_CURVE, judge_curves
from epsilometer.calibration.own_model import ranks
from epsilometer.calibration.plan import (
    CountsCell,
    CurveCell,
    Judging,
    ModelCell,
    ScoresCell,
    StudyPlan,
    describe,
)
from epsilometer.calibration.tally import Sums
from epsilometer.errors import ContradictionError, InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

POSTERIOR = "Epsilometer, binomial"
PEERS_RULE = one_run_scan(Bonferroni())
"""jax_privacy's correction, for comparison."""
SCORE_ESTIMATORS: tuple[ScoreEstimator, ...] = (*FROM_SCORES, PEERS_RULE, *CONTROLS)


THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Environment variables that set the number of threads of libraries."""

ABOVE_THE_TRUTH = 1e-9
"""A bound at most this far above the truth does not count as above it."""


@dataclass(frozen=True)
class Tally(Sums):
    """Number of runs, how often the lower end was above and the upper end below the truth, and sums.

    For one estimator in one cell; tallies can be added in any order.
    """

    above: int = 0
    below: int = 0
    sum_low: float = 0.0
    bounded: int = 0
    sum_width: float = 0.0

    @classmethod
    def of(cls, low: FloatArray, high: FloatArray, *, truth: float) -> Tally:
        """The tally of some runs; ``high`` is infinite if there is no upper end."""
        finite = np.isfinite(high)
        return cls(
            runs=len(low),
            above=int(np.sum(low > truth + ABOVE_THE_TRUTH)),
            below=int(np.sum(high < truth - ABOVE_THE_TRUTH)),
            sum_low=float(np.sum(low)),
            bounded=int(finite.sum()),
            sum_width=float(np.sum(high[finite] - low[finite])),
        )


@dataclass(frozen=True)
class StudyJob:
    """Runs ``first`` to ``first + size`` of a cell; ``part`` selects the estimators."""

    cell: int
    part: str
    first: int
    size: int

    @property
    def key(self) -> str:
        """Its name in the file."""
        return f"{self.cell}/{self.part}/{self.first}+{self.size}"


def jobs_of(plan: StudyPlan) -> list[StudyJob]:
    """All jobs, long ones first so that no worker is left with one at the end."""
    jobs: list[StudyJob] = []
    for number, cell in enumerate(plan.cells):
        parts = [("runs", cell.runs, cell.chunk)]
        if isinstance(cell, CountsCell) and cell.posterior_runs:
            parts.append(("posterior", cell.posterior_runs, cell.posterior_chunk))
        for part, runs, chunk in parts:
            jobs += [
                StudyJob(number, part, first, min(chunk, runs - first))
                for first in range(0, runs, chunk)
            ]

    def weight(job: StudyJob) -> int:
        cell = plan.cells[job.cell]
        if isinstance(cell, Judging):
            return -cell.weight
        if isinstance(cell, CurveCell):
            return -(10_000 + cell.bases * cell.models)
        slow = isinstance(cell, ModelCell) or job.part == "posterior"
        size = cell.canaries if isinstance(cell, ScoresCell) else cell.bases
        return -(10_000 * slow + size)

    return sorted(jobs, key=weight)


def run_study(
    plan: StudyPlan,
    store: Path,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Results of all jobs by key; finished jobs in ``store``, a file of the same plan, are reused.

    ``on_progress`` is called with the number of finished jobs and the total.
    """
    workers = _validate.whole_number("workers", workers)
    jobs, known = jobs_of(plan), read_store(store, plan)
    results = {job.key: known[job.key] for job in jobs if job.key in known}
    todo = [job for job in jobs if job.key not in results]
    with _opened(store, plan) as file:
        for job, result in _each(plan, todo, workers):
            results[job.key] = result
            file.write(json.dumps({"job": job.key, "result": result}) + "\n")
            file.flush()
            os.fsync(file.fileno())
            if on_progress is not None:
                on_progress(len(results), len(jobs))
    return results


def read_store(store: Path, plan: StudyPlan) -> dict[str, Any]:
    """Finished jobs; an incomplete last line is ignored."""
    if not store.exists():
        return {}
    lines = _files.load(store).split("\n")
    if len(lines) == 1:  # interrupted before the header was written
        return {}
    head = _parsed(lines[0], store, 1)
    if head.get("plan") != plan.digest():
        raise InputError(
            f"{store}: holds a study with another plan or seed; use another folder or delete it."
        )
    if head.get("code") != code_digest():
        raise InputError(
            f"{store}: was created by another version of the estimators, whose numbers must not be "
            "mixed with these; use another folder or delete it."
        )
    results: dict[str, Any] = {}
    for number, line in enumerate(lines[1:-1], start=2):
        entry = _parsed(line, store, number)
        if not isinstance(entry.get("job"), str) or not isinstance(entry.get("result"), dict):
            raise InputError(f"{store} line {number}: expected a job and its result.")
        results[entry["job"]] = entry["result"]
    return results


def _parsed(line: str, store: Path, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        raise InputError(f"{store} line {number}: not valid JSON.") from None
    if not isinstance(entry, dict):
        raise InputError(f"{store} line {number}: expected an object.")
    return entry


def code_digest() -> str:
    """A short hash of all source code that a study's numbers depend on."""
    package = Path(__file__).resolve().parent.parent
    digest = sha256()
    for folder in (
        "baselines",
        "calibration",
        "checks",
        "engines",
        "model",
        "posteriors",
        "proofs",
    ):
        for path in sorted((package / folder).rglob("*.py"), key=Path.as_posix):
            name = path.relative_to(package).as_posix()
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _opened(store: Path, plan: StudyPlan) -> TextIO:
    """The file to append to, after removing an incomplete last line and writing the header."""
    opened = store.open("a+", encoding="utf-8")
    whole = store.read_bytes().rfind(b"\n") + 1
    opened.truncate(whole)
    if whole == 0:
        opened.write(json.dumps({"plan": plan.digest(), "code": code_digest()}) + "\n")
    return opened


def _each(
    plan: StudyPlan, jobs: list[StudyJob], workers: int
) -> Iterator[tuple[StudyJob, dict[str, Any]]]:
    if workers == 1 or len(jobs) <= 1:
        for job in jobs:
            yield job, run_job(plan, job)
        return
    crowded = any(isinstance(cell, CurveCell | Judging) for cell in plan.cells)
    with _one_thread_each() if crowded else contextlib.nullcontext(), process_pool(workers) as pool:
        running = {pool.submit(run_job, plan, job): job for job in jobs}
        for future in as_completed(running):
            yield running[future], future.result()


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit linear algebra to one thread in processes started meanwhile, to avoid contention.

    Libraries read these variables when they are loaded, so they must be set before a process starts.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run_job(plan: StudyPlan, job: StudyJob) -> dict[str, Any]:
    """One job's tallies by estimator, or its ranks."""
    cell = plan.cells[job.cell]
    name = json.dumps([describe(cell) | {"runs": 0, "posterior_runs": 0}, job.part], sort_keys=True)
    entropy = int.from_bytes(sha256(name.encode()).digest()[:8], "big")
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, entropy, job.first]))
    if isinstance(cell, Judging):
        return cell.judge(plan.significance, job.size, rng)
    if isinstance(cell, ModelCell):
        return {"ranks": ranks(cell, job.size, rng)}
    if isinstance(cell, CurveCell):
        return {WHOLE_CURVE: judge_curves(cell, plan.significance, job.size, rng).as_dict()}
    if isinstance(cell, ScoresCell):
        tallies = _scores_job(plan, cell, job.size, rng)
    else:
        drawn = draw_counts(
            cell.mechanism,
            cell.rate,
            power=cell.power,
            trials=cell.trials,
            shape=(job.size, cell.bases),
            rng=rng,
        )
        judge = _judge_posterior if job.part == "posterior" else _judge_counts
        tallies = judge(plan, cell, *drawn)
    return {label: tally.as_dict() for label, tally in tallies.items()}


def truth_of(cell: CountsCell | ScoresCell, gaussian: bool) -> float:
    """The quantity that an estimator estimates."""
    if gaussian:
        return float(epsilon_of_gaussian(cell.mechanism.separation(), cell.delta))
    return cell.mechanism.epsilon(cell.delta)


def _counts(x: IntArray, y: IntArray, trials: int) -> AttackCounts:
    return AttackCounts(false_positives=x, trials_h0=trials, false_negatives=y, trials_h1=trials)


def _judge_counts(plan: StudyPlan, cell: CountsCell, x: IntArray, y: IntArray) -> dict[str, Tally]:
    drawn = np.stack([x.ravel(), y.ravel()], axis=1)
    # Few distinct pairs of counts occur; each is evaluated once.
    pairs, where = np.unique(drawn, axis=0, return_inverse=True)
    counts = _counts(pairs[:, 0], pairs[:, 1], cell.trials)
    tallies = {}
    for estimator in FROM_COUNTS:
        # The largest over all bases has error probability ``significance`` at each end; see
        # `best_interval`.
        low, _ = estimator.interval(counts, cell.delta, 2 * plan.significance / cell.bases)
        _, high = estimator.interval(counts, cell.delta, 2 * plan.significance)
        tallies[estimator.label] = Tally.of(
            low[where].reshape(x.shape).max(axis=1),
            high[where].reshape(x.shape).max(axis=1),
            truth=truth_of(cell, estimator.gaussian),
        )
    return tallies


def _judge_posterior(
    plan: StudyPlan, cell: CountsCell, x: IntArray, y: IntArray
) -> dict[str, Tally]:
    from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
    from epsilometer.model.count_model import CountModel

    model, tails = CountModel(delta=cell.delta), [plan.significance, 1 - plan.significance]
    ends = []
    for own_x, own_y in zip(x, y, strict=True):
        # Counts that contradict the model have no posterior and are skipped.
        with contextlib.suppress(ContradictionError):
            counts = _counts(own_x, own_y, cell.trials)
            posterior = estimate_exact(counts, model, ExactSettings(tolerance=0.02))
            ends.append(posterior.quantile("epsilon", tails))
    low, high = np.reshape(ends, (-1, 2)).T
    return {POSTERIOR: Tally.of(low, high, truth=truth_of(cell, gaussian=False))}


def _scores_job(
    plan: StudyPlan, cell: ScoresCell, runs: int, rng: np.random.Generator
) -> dict[str, Tally]:
    low = np.zeros((len(SCORE_ESTIMATORS), runs))
    for run in range(runs):
        members, others = draw_scores(
            cell.mechanism, power=cell.power, canaries=cell.canaries, rng=rng
        )
        auditor = CanaryScoreAuditor(members, others)
        for number, estimator in enumerate(SCORE_ESTIMATORS):
            # Coins that look unfair are refused: no bound.
            with contextlib.suppress(InputError):
                low[number, run] = estimator.lower(auditor, cell.delta, plan.significance)
    no_end = np.full(runs, np.inf)
    return {
        estimator.label: Tally.of(row, no_end, truth=truth_of(cell, estimator.gaussian))
        for estimator, row in zip(SCORE_ESTIMATORS, low, strict=True)
    }
