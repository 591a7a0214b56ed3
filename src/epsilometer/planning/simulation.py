"""Simulated audits: data of a known truth, and what an audit of them reports.

The posterior, the verdict and the proof come from the functions that audits call.  Only the engine stops
at its first pass, whose error is far smaller than the variation between audits; a test compares.

Each simulation has its own random stream, derived from the seed and its number, and its first bases and
models do not depend on the size.  So sizes are compared on the same random numbers, and results do not
depend on the number of processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from epsilometer._workers import process_pool
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.engines.exact.engine import estimate_quickly
from epsilometer.errors import InputError
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import OtherModels, Question
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.scores import Scores
from epsilometer.planning.designs import Design, Size
from epsilometer.planning.goals import Answer, DecidedClaim, Goal, ProvenEpsilon
from epsilometer.planning.scenarios import CountTruth, CurveTruth
from epsilometer.proofs.proof import prove

TRUTHS = 2**32
"""Number of the stream of the truths, which all simulations share."""


class SimulationJob(NamedTuple):
    """Simulation ``number`` of a size."""

    size: Size
    number: int
    truth: CountTruth | CurveTruth


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """The settings of all simulations of a plan."""

    model: CountModel | CurveModel
    design: Design
    goals: Sequence[Goal]
    level: float
    error: float
    seed: int
    pilot: AttackCounts | Scores | None = None  # data that every audit starts from

    @property
    def old(self) -> int:
        """Bases of the pilot among those of every size."""
        return 0 if self.pilot is None else len(self.pilot)

    @property
    def posterior_needed(self) -> bool:
        """Whether a goal is about the posterior: proofs alone are far quicker."""
        return not all(isinstance(goal, ProvenEpsilon) for goal in self.goals)

    @property
    def question(self) -> Question:
        """What is asked of every audit."""
        known = [goal for goal in self.goals if isinstance(goal, DecidedClaim)]
        judged = {"claim": known[0].claim, "thresholds": known[0].thresholds} if known else {}
        # The first pass of an engine has no error estimate, and alternative models never decide.
        return Question(
            level=self.level,
            error=self.error,
            accept_untrusted=True,
            other_models=OtherModels.NONE,
            **judged,  # type: ignore[arg-type]
        )

    def seconds(self, size: Size) -> float:
        """About how long one simulation takes on one core."""
        scores = 2 * size.bases * size.each
        if isinstance(self.model, CountModel):
            return 0.01 + (0.02 if self.model.likelihood.parameters else 0.004) * size.bases
        if not self.posterior_needed:
            return 0.01 + 2e-6 * scores
        return 0.1 + 0.01 * size.bases + 4e-5 * scores

    def stream(self, number: int, part: int) -> np.random.Generator:
        """The random stream of one part of one simulation."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(number, part)))

    def draw(self, job: SimulationJob) -> AttackCounts | Scores:
        """The data of a simulated audit, the pilot's first."""
        new = job.size._replace(bases=job.size.bases - self.old)
        truth: Any = job.truth
        drawn = self.design.draw(truth, new, self.model, lambda k: self.stream(job.number, k))
        pilot: Any = self.pilot
        return drawn if pilot is None else pilot.joined(drawn)

    def simulate(self, job: SimulationJob) -> Answer:
        """One simulated audit."""
        data, truth = self.draw(job), job.truth.epsilon
        if not self.posterior_needed:
            try:
                proof = prove(data, delta=self.model.delta, error=self.error)
            except InputError:
                return Answer(truth)
            return Answer(truth, proven=proof.at_least, most_provable=proof.most_provable)
        quickly: Any = CurveSettings().estimate_quickly
        if isinstance(self.model, CountModel):
            quickly = estimate_quickly
        posterior, question = quickly(data, self.model), self.question
        result = result_of(posterior, question)
        low, high = posterior.credible_interval("epsilon", self.level)
        known = result.proof
        proven = (0.0, math.inf) if known is None else (known.at_least, known.most_provable)
        if question.claim is None:
            return Answer(truth, low, high, math.nan, None, *proven)
        verdict = result.verdict
        assert verdict is not None
        return Answer(truth, low, high, verdict.probability_above, verdict.outcome, *proven)


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

        def run(jobs: Sequence[SimulationJob]) -> list[Answer]:
            answers = []
            mapped = map if pool is None else pool.map
            for answer in mapped(setting.simulate, jobs):
                answers.append(answer)
                if on_progress is not None:
                    on_progress(next(done))
            return answers

        yield run
