"""Simulated audits, and the search for the cheapest size that reaches the goals often enough.

Data of a known truth are simulated, and posterior, verdict and proof come from the functions that audits
call.  Only the engine stops at its first pass, whose error is far smaller than the variation between
audits; a test compares.  Each simulation has its own random stream, derived from the seed and its
number, and its first bases and models do not depend on the size.  So sizes are compared on the same
random numbers, and results do not depend on the number of processes.

Margins (see `goals.py`) grow with both sizes.  So for several numbers of bases (or points), a bisection
with few simulations finds how many models each (or canaries) are needed; the cheapest of these sizes is
then simulated in full, and enlarged if it falls short.  Reported numbers of a size come from its own
simulations.

A search has a limit on its work, in estimated seconds of one core, so that it takes about the same time
for every question and gives the same answer on every machine.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from epsilometer._arrays import FloatArray, OnMessage
from epsilometer._workers import process_pool
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.engines.exact.engine import estimate_quickly
from epsilometer.errors import InputError
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import OtherModels, Question
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel, CurveModel
from epsilometer.model.scores import Scores
from epsilometer.planning.designs import Design, Size
from epsilometer.planning.goals import (
    Answer,
    CountTruth,
    CurveTruth,
    DecidedClaim,
    Goal,
    IntervalWidth,
    ProvenEpsilon,
)
from epsilometer.proofs.proof import prove

#: Number of the stream of the truths, which all simulations share.
TRUTHS = 2**32


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
        posterior = quickly(data, self.model)
        result = result_of(posterior, self.question)
        low, high = posterior.credible_interval("epsilon", self.level)
        known, verdict = result.proof, result.verdict
        proven = (0.0, math.inf) if known is None else (known.at_least, known.most_provable)
        above, outcome = math.nan, None
        if verdict is not None:
            above, outcome = verdict.probability_above, verdict.outcome
        most_shown = getattr(posterior, "most_shown", math.nan)
        return Answer(truth, low, high, above, outcome, *proven, most_shown)


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


# --- the search ----------------------------------------------------------------------------------

#: Smallest standard deviation of margins, so that a few equal ones are not taken for certainty.
LEAST_SPREAD = 0.02

#: The number of bases that is tried first: audits are rarely much larger or smaller.
FIRST_BASES = 20

#: Where a bisection starts: small audits are simulated more quickly.
FIRST_PLACE = 0.4


#: Large audits vary little.
FLOOR_SIMULATIONS = 2

#: Share of the work limit that may be used before a size is simulated in full.
EXPLORING = 0.6

#: A width is hopeless if it is expected to miss the goal by this much, as a logarithm.
HOPELESS = 0.3


class OutOfWorkError(Exception):
    """The limit on the work ended the search."""


class Effort(NamedTuple):
    """How much a search simulates.

    Simulations of a recommended size and of one that is only tried, numbers of bases that are tried, and
    the limit on the work in seconds of one core.
    """

    simulations: int
    few: int
    bases_tried: int
    work_limit: float


@dataclass(kw_only=True, eq=False)
class Search:
    """The simulations so far, and the choice of the next size.

    A few simulations decide about a size in a bisection; a recommended one has as many as ``truths``.
    """

    setting: Setting
    run: Run
    truths: Sequence[CountTruth | CurveTruth]
    probability: float
    effort: Effort
    on_message: OnMessage
    work: float = 0.0
    share: float = EXPLORING  # of the work limit that may be used so far
    answers: dict[Size, list[Answer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = self.setting.design.sizes(self.setting.pilot)

    def cost(self, size: Size) -> tuple[int, int]:
        """Models to train, then whatever else is counted."""
        models = self.setting.design.models(size, self.setting.old)
        return models, size.bases * size.each

    def simulate(self, size: Size, often: int) -> None:
        """Simulate a size until it has ``often`` simulations, unless that takes too much work."""
        known = self.answers.get(size, [])
        needed = max(often - len(known), 0) * self.setting.seconds(size)
        if self.work + needed > self.share * self.effort.work_limit and self.answers:
            raise OutOfWorkError
        self.work += needed
        numbers = range(len(known), often)
        jobs = [SimulationJob(size, number, self.truths[number]) for number in numbers]
        self.answers[size] = known + self.run(jobs)

    def margins(self, size: Size) -> FloatArray:
        """The worst margin of each simulation; at least 0 if every goal is reached."""
        goals, answers = self.setting.goals, self.answers[size]
        return np.array([min(goal.margin(answer) for goal in goals) for answer in answers])

    def reached(self, size: Size) -> float:
        """The share of simulations in which every goal was reached."""
        return float(np.mean(self.margins(size) >= 0))

    def confirmed(self, size: Size) -> bool:
        """Whether a size was simulated in full and reaches the goals often enough."""
        often = len(self.answers.get(size, ()))
        return often >= len(self.truths) and self.reached(size) >= self.probability

    def promising(self, size: Size) -> bool:
        """Whether a few simulations, taken as normal, reach the goals often enough."""
        self.simulate(size, self.effort.few)
        margins = self.margins(size)
        spread = max(float(np.std(margins, ddof=1)), LEAST_SPREAD)
        return float(ndtr(float(np.mean(margins)) / spread)) >= self.probability

    def columns(self) -> list[list[Size]]:
        """For several numbers of bases, usual ones first, their sizes from the smallest.

        If the sizes differ in bases only, as when a pilot is extended, they are one column.
        """
        if len({size.each for size in self.sizes}) == 1:
            return [sorted(self.sizes)]
        bases = sorted({size.bases for size in self.sizes})
        places = np.linspace(0, len(bases) - 1, self.effort.bases_tried).round().astype(int)
        chosen = {bases[place] for place in places}
        usual = sorted(chosen, key=lambda number: (abs(math.log(number / FIRST_BASES)), number))
        return [[size for size in self.sizes if size.bases == number] for number in usual]

    def cheapest(self) -> tuple[Size | None, bool]:
        """The cheapest size found that reaches the goals, and whether the search ended by itself."""
        found: list[Size] = []
        complete = True
        try:
            self._explore(found)
        except OutOfWorkError:
            complete = False
        self.share = 1.0
        try:
            while found:
                best = min(found, key=self.cost)
                self.simulate(best, len(self.truths))
                if self.confirmed(best):
                    return self._descended(best), complete
                found.remove(best)
                found += [size for size in self._column(best) if size > best][:1]
        except OutOfWorkError:
            complete = False
        return min(filter(self.confirmed, self.answers), key=self.cost, default=None), complete

    def _explore(self, found: list[Size]) -> None:
        """Add the smallest promising size of each column, as far as it is cheaper than the others."""
        short_of = 0
        for column in self.columns():
            limit = min(map(self.cost, found), default=(math.inf, 0))
            open_ = [size for size in column if self.cost(size) < limit]
            if not open_ or column[0].bases < short_of:
                continue
            place = self._bisected(open_)
            if place < len(open_):
                found.append(open_[place])
                self.on_message(f"so far: {self.setting.design.words(open_[place])}")
            elif len(open_) == len(column):
                short_of = max(short_of, column[0].bases)  # fewer bases would not do either

    def _bisected(self, sizes: Sequence[Size]) -> int:
        """Index of the first promising size, or their number: in doubled steps, then by halving."""
        low, high, step = -1, len(sizes), 1
        place = int(FIRST_PLACE * (len(sizes) - 1))
        while high - low > 1:
            if self.promising(sizes[place]):
                high, place = place, place - step
            elif (
                low >= 0 and high == len(sizes) and self.hopeless(sizes[low : place + 1], sizes[-1])
            ):
                return high
            else:
                low, place = place, place + step
            step *= 2
            if not low < place < high:
                place = (low + high) // 2
        return high

    def hopeless(self, tried: Sequence[Size], largest: Size) -> bool:
        """Whether widths of the first and last size, extrapolated to the largest, are still too wide.

        The logarithm of a width falls linearly with that of the size, and more slowly near a floor.
        """
        goals = [goal for goal in self.setting.goals if isinstance(goal, IntervalWidth)]
        if not goals:
            return False
        ends = tried[0], tried[-1]
        small, large = (
            float(np.mean([goals[0].margin(a) for a in self.answers[size]])) for size in ends
        )
        start, now, end = (math.log(math.prod(size)) for size in (*ends, largest))
        return large + max(large - small, 0.0) * (end - now) / (now - start) < -HOPELESS

    def _column(self, size: Size) -> list[Size]:
        return next(column for column in self.columns() if size in column)

    def _descended(self, best: Size) -> Size:
        """The smallest confirmed size below ``best`` in its column: few simulations can mislead."""
        for size in reversed([size for size in self._column(best) if size < best]):
            if size in self.answers and self.reached(size) <= self.probability / 2:
                break
            self.simulate(size, len(self.truths))
            if not self.confirmed(size):
                break
            best = size
        return best

    def floor(self, size: Size) -> Size | None:
        """The largest number of models or canaries for these bases, simulated; None if too large."""
        largest = max(self._column(size))
        try:
            self.simulate(largest, FLOOR_SIMULATIONS)
        except OutOfWorkError:
            return None
        return largest
