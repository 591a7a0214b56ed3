"""Simulated audits: error rates on the ring, counts from the likelihood, and the resulting interval.

Each simulation has its own random stream, derived from the seed and its number, and the random numbers
of its first bases do not depend on the numbers of bases and challenges.  So designs are compared on the
same random numbers, and results do not depend on the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatPair
from epsilometer._workers import process_pool
from epsilometer.engines.exact.engine import estimate_quickly
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import normal_counts
from epsilometer.model.region import sample_rings
from epsilometer.planning.floor import known_rates_interval
from epsilometer.planning.goals import Answer
from epsilometer.planning.scenarios import Truth

RATE_STREAM, COUNT_STREAM, TRUTH_STREAM = 0, 1, 2
"""The streams of a simulation; truths are shared by all simulations."""


class CandidateDesign(NamedTuple):
    """The numbers of bases, and of challenges per base under each hypothesis."""

    bases: int
    challenges: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """The settings of all simulations of a plan."""

    model: CountModel
    level: float
    claim: float | None
    pilot: AttackCounts | None  # counts that every audit starts from, among the design's bases
    most_bases: int  # rates are drawn for this many; a design uses the first of them
    seed: int


class SimulationJob(NamedTuple):
    """Simulation ``number`` of a design; 0 challenges mean known error rates."""

    design: CandidateDesign
    number: int
    truth: Truth


def stream(seed: int, number: int, part: int) -> np.random.Generator:
    """The random stream of one part of one simulation."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, part)))


def draw_rates(setting: Setting, job: SimulationJob) -> FloatPair:
    """Error rates of the bases that are new, uniform on the ring."""
    truth, old = job.truth, 0 if setting.pilot is None else len(setting.pilot)
    alpha, beta = sample_rings(
        truth.epsilon,
        setting.model.delta,
        truth.strength,
        size=(setting.most_bases,),
        rng=stream(setting.seed, job.number, RATE_STREAM),
    )
    # With known rates the pilot's counts add no information, so its bases are drawn as well.
    new = job.design.bases - (old if job.design.challenges else 0)
    return alpha[:new], beta[:new]


def draw_counts(setting: Setting, job: SimulationJob) -> AttackCounts:
    """The counts of a simulated audit, the pilot's first."""
    alpha, beta = draw_rates(setting, job)
    rng = stream(setting.seed, job.number, COUNT_STREAM)
    trials, truth = job.design.challenges, job.truth
    if setting.model.likelihood.parameters:
        z, w = rng.standard_normal((setting.most_bases, 2))[: len(alpha)].T
        ratio, correlation = truth.variance_ratio, truth.count_correlation
        w = correlation * z + np.sqrt(1 - correlation**2) * w
        x, y = normal_counts(trials, alpha, ratio, z), normal_counts(trials, beta, ratio, w)
    else:
        from scipy.stats import binom

        # By inversion, so that other numbers of challenges or bases use the same random numbers.
        uniform = rng.random((setting.most_bases, 2))[: len(alpha)]
        x = np.asarray(binom.ppf(uniform[:, 0], trials, alpha), dtype=np.int64)
        y = np.asarray(binom.ppf(uniform[:, 1], trials, beta), dtype=np.int64)
    new = AttackCounts(false_positives=x, trials_h0=trials, false_negatives=y, trials_h1=trials)
    return new if setting.pilot is None else setting.pilot.joined(new)


def simulate(setting: Setting, job: SimulationJob) -> Answer:
    """One simulated audit."""
    if not job.design.challenges:
        alpha, beta = draw_rates(setting, job)
        return Answer(*known_rates_interval(alpha, beta, setting.model, level=setting.level))
    # The lowest resolution: its error is far smaller than the variation between audits.
    posterior = estimate_quickly(draw_counts(setting, job), setting.model)
    low, high = posterior.credible_interval("epsilon", setting.level)
    if setting.claim is None:
        return Answer(low, high)
    return Answer(low, high, posterior.probability_above("epsilon", setting.claim))


Run = Callable[[Sequence[SimulationJob]], list[Answer]]


@contextmanager
def simulator(
    setting: Setting, workers: int, on_progress: Callable[[int], None] | None = None
) -> Iterator[Run]:
    """A function that simulates jobs, here or in worker processes.

    ``on_progress`` is called after each simulation with their number.
    """
    done = count(1)
    with process_pool(workers) if workers > 1 else nullcontext() as pool:

        def answers(jobs: Sequence[SimulationJob]) -> Iterable[Answer]:
            if pool is None:
                return (simulate(setting, job) for job in jobs)
            # Large designs take longest, so they come first.
            order = sorted(range(len(jobs)), key=lambda i: -jobs[i].design.bases)
            futures = {i: pool.submit(simulate, setting, jobs[i]) for i in order}
            return (futures[i].result() for i in range(len(jobs)))

        def run(jobs: Sequence[SimulationJob]) -> list[Answer]:
            all_answers = []
            for answer in answers(jobs):
                all_answers.append(answer)
                if on_progress is not None:
                    on_progress(next(done))
            return all_answers

        yield run
