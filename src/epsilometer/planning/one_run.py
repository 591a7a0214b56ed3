"""Planning an audit with canaries of one training run, or a few: how many of them reach a goal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr

from epsilometer import _validate
from epsilometer._arrays import Say
from epsilometer._deprecated import renamed_parameters
from epsilometer._display import Plotted
from epsilometer._progress import OnProgress, progress_of
from epsilometer.errors import InputError
from epsilometer.inference.verdict import Outcome
from epsilometer.model.profile import ProfileModel
from epsilometer.model.strengths import FixedStrength
from epsilometer.planning.canary_simulation import AssumedCurve, Canaries, CanaryAnswer
from epsilometer.planning.goals import (
    Answer,
    DecidedClaim,
    Goal,
    IntervalWidth,
    check_goals,
    claim_of,
    width_of,
    worst_margin,
)
from epsilometer.planning.plan import simulations_done, sizes_between
from epsilometer.planning.search import LEAST_SPREAD

FEWEST = 40
"""Canaries of a run: fewer say hardly more than the prior."""

FIRST = 1000
"""Canaries of the first simulations; sizes are guessed from them."""

LOOK = 4
"""Simulations of a size that is only looked at."""

SIMULATIONS = ((2_000, 16), (10_000, 10), (10**7, 6))
"""Simulations of a size that is recommended, by the largest size: larger audits differ less."""

FAR, LARGE = -0.35, 10_000
"""Mean margin of a large audit below which the largest of all is asked whether it reaches the goal."""

MOST_TRIES = 3
"""Sizes that are simulated in full before the last of them is taken for what it is."""

PROOF_STEPS = (1.0, 3.0)
"""Sizes that the proof is tried at are these times a power of ten, from 100."""

PROOFS = ((10_000, 8), (10**7, 4))
"""Simulations of each, by the largest size."""

TAIL = 1.6449
"""Of a normal law, 5 %: where a verdict is usually reached."""


@dataclass(frozen=True, kw_only=True)
class OneRunCanaries:
    """Canaries that share training runs, each in by a fair coin of its own.

    Parameters
    ----------
    runs
        Training runs; canaries are split evenly among them.
    dataset_size
        Records of a training run, canaries included, to tell what share of them canaries are.
    most
        Canaries at most, in all runs together.

    Examples
    --------
    >>> OneRunCanaries(runs=3).fitting(1000)
    1002
    """

    runs: int = 1
    dataset_size: int | None = None
    most: int = 10**6

    def __post_init__(self) -> None:
        _validate.whole_number("runs", self.runs, most=100)
        if self.dataset_size is not None:
            _validate.whole_number("dataset_size", self.dataset_size)
        _validate.whole_number("most", self.most, least=FEWEST * self.runs, most=10**6)

    def fitting(self, canaries: int) -> int:
        """The least number from ``canaries`` on of which every run has as many in as out."""
        share = 2 * self.runs
        return share * -(-canaries // share)

    @property
    def sizes(self) -> list[int]:
        """Numbers of canaries to choose from."""
        return sorted({self.fitting(n) for n in sizes_between(FEWEST * self.runs, self.most)})

    def share(self, canaries: int) -> float | None:
        """Canaries of a run, in and out, over its records; None if these are not known."""
        return None if self.dataset_size is None else canaries / self.runs / self.dataset_size


@dataclass(frozen=True, kw_only=True)
class PlannedCanaries:
    """What simulations say of so many canaries.

    Attributes
    ----------
    canaries, canaries_per_run
        In all, and in each run; half of them are in.
    share_of_data
        Canaries of a run, in and out, over its records; None if these are not known.
    median_width, low_width, high_width
        50 %, 10 % and 90 % quantiles of the widths of the interval of epsilon.
    probability, standard_error
        Share of simulations that reached every goal, and its Monte Carlo standard error.
    pass_share, fail_share
        What the posterior says of the claim; None without one.
    proven, low_proven, high_proven
        50 %, 10 % and 90 % quantiles of what the one-run proof shows epsilon to be at least.
    refuted_share
        How often that proof refutes the claim; None without one.
    simulations
        How many audits were simulated.
    """

    canaries: int
    canaries_per_run: int
    share_of_data: float | None
    median_width: float
    low_width: float
    high_width: float
    probability: float
    standard_error: float
    pass_share: float | None
    fail_share: float | None
    proven: float
    low_proven: float
    high_proven: float
    refuted_share: float | None
    simulations: int


@dataclass(frozen=True, kw_only=True)
class ProofSize:
    """What the one-run proof shows with so many canaries: a median, and how often a claim falls."""

    canaries: int
    proven: float
    refuted_share: float | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OneRunPlan(Plotted, view="plans.ONE_RUN"):
    """A recommendation, the sizes it was chosen from, and what the proof would show.

    Attributes
    ----------
    recommended
        The smallest number of canaries found that reaches the goals with the probability asked for;
        None if none up to the most does, or nothing is needed.
    designs
        Every size that was simulated, smallest first.
    proofs
        What the one-run proof shows at sizes up to the most that is allowed.
    told_width
        Median width at the recommended size, or the largest tried, if the strength were told; None if it
        is told already.
    prior_width
        Width of the interval before any data.
    error
        Probability that the proof errs.
    """

    model: ProfileModel
    scenario: AssumedCurve
    design: OneRunCanaries
    goals: tuple[Goal, ...]
    level: float
    wanted_probability: float
    error: float
    prior_width: float
    simulations: int | None
    seed: int
    recommended: PlannedCanaries | None = None
    designs: tuple[PlannedCanaries, ...] = ()
    proofs: tuple[ProofSize, ...] = ()
    told_width: float | None = None

    @property
    def width_goal(self) -> IntervalWidth | None:
        """The width asked for, if one was."""
        return width_of(self.goals)

    @property
    def claim_goal(self) -> DecidedClaim | None:
        """The claim to be settled, if there is one."""
        return claim_of(self.goals)

    @property
    def nothing_needed(self) -> bool:
        """Whether the prior alone is as narrow, or as sure of the claim, as is wanted."""
        goal = self.claim_goal
        above = math.nan if goal is None else self.model.prior_probability_above(goal.claim)
        return worst_margin(self.goals, Answer(0.0, self.prior_width, above)) >= 0

    @property
    def proof_size(self) -> int | None:
        """The smallest size tried whose proof refutes the claim often enough; None if there is none."""
        wanted = self.wanted_probability
        enough = (p.canaries for p in self.proofs if (p.refuted_share or 0.0) >= wanted)
        return min(enough, default=None)


@renamed_parameters(progress="on_progress", report="on_message")
def plan_one_run(
    model: ProfileModel,
    scenario: AssumedCurve,
    *goals: Goal,
    design: OneRunCanaries | None = None,
    probability: float = 0.8,
    level: float = 0.9,
    error: float = 0.05,
    simulations: int | None = None,
    seed: int = 1,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> OneRunPlan:
    """Find how many canaries reach every goal with a given probability, by simulation.

    Canaries are ideal: independent, and each as telling as the scenario says.  Real ones interfere.

    Parameters
    ----------
    model
        What the audit will assume of the whole curve.
    scenario
        The curve that is taken to be true.
    goals
        ``IntervalWidth(at_most=...)``, ``DecidedClaim(claim=...)``, or both.
    design
        How many runs share the canaries, and the most there may be.
    probability
        How often a simulated audit must reach all of them, in (0, 1).
    level
        Of the credible interval.
    error
        Probability that the one-run proof errs.
    simulations
        Simulated audits of a recommended size, at least 4; unless given 16, or fewer where it is large.
    seed
        The same seed gives the same plan.
    on_progress
        None shows a bar in a notebook only, ``"bar"`` everywhere, ``"none"`` nowhere.  A function is
        called after each simulation with their number.
    on_message
        Called with a first answer after few simulations, and with better ones, in words.

    Examples
    --------
    >>> model = ProfileModel(delta=1e-5, strength=FixedStrength())
    >>> few = OneRunCanaries(most=1000)
    >>> plan = plan_one_run(
    ...     model, AssumedCurve(epsilon=8.0), DecidedClaim(claim=1.0), design=few, simulations=4
    ... )
    >>> plan.recommended.fail_share >= 0.8, plan.recommended.canaries < 1000
    (True, True)
    """
    check_goals(goals)
    if not isinstance(model, ProfileModel) or not isinstance(scenario, AssumedCurve):
        raise InputError(
            "expected a ProfileModel and AssumedCurve(...) for canaries, got "
            f"{type(model).__name__} and {type(scenario).__name__}."
        )
    probability = _validate.open_unit_interval("probability", probability)
    level = _validate.level(level)
    _validate.whole_number("seed", seed, least=0)
    if simulations is not None:
        _validate.whole_number("simulations", simulations, least=LOOK, most=10_000)
    chosen = design or OneRunCanaries()
    plan = OneRunPlan(
        model=model,
        scenario=scenario,
        design=chosen,
        goals=tuple(goals),
        level=level,
        wanted_probability=probability,
        error=_validate.open_unit_interval("error", error),
        prior_width=_prior_width(model, level),
        simulations=simulations,
        seed=seed,
    )
    scenario.leak(model.delta)
    if plan.nothing_needed:
        return plan
    with progress_of(on_progress, on_message, state=simulations_done) as (progress, report):
        search = CanarySearch(plan=plan, progress=progress, report=report or (lambda _: None))
        found = search.smallest()
        centre = found or max(search.answers)
        return replace(
            plan,
            recommended=None if found is None else search.planned(found),
            designs=tuple(search.planned(size) for size in sorted(search.answers)),
            proofs=search.proofs(),
            told_width=search.told_width(centre),
        )


def _prior_width(model: ProfileModel, level: float) -> float:
    """Width of the central interval before any data; no leak has its share at 0."""
    none = float(model.no_leak or 0.0)
    ends = [(0.5 + side * level / 2 - none) / (1 - none) for side in (-1, 1)]
    low, high = (float(model.epsilon.quantile([max(end, 0.0)])[0]) for end in ends)
    return high - (low if ends[0] > 0 else 0.0)


@dataclass(kw_only=True, eq=False)
class CanarySearch:
    """Simulations made so far, and what they say."""

    plan: OneRunPlan
    progress: Callable[[int], None] | None
    report: Say
    answers: dict[int, list[CanaryAnswer]] = field(default_factory=dict)
    done: int = 0

    def __post_init__(self) -> None:
        self.world = self._world(self.plan.model)

    def _world(self, model: ProfileModel) -> Canaries:
        plan, claim = self.plan, self.plan.claim_goal
        return Canaries(
            model=model,
            truth=plan.scenario,
            runs=plan.design.runs,
            level=plan.level,
            claim=None if claim is None else claim.claim,
            error=plan.error,
            seed=plan.seed,
        )

    def _count(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done)

    def simulate(self, size: int, often: int) -> None:
        """See to it that a size has been simulated so often."""
        known = self.answers.setdefault(size, [])
        for number in range(len(known), often):
            known.append(self.world.simulate(size, number))
            self._count()

    def margins(self, size: int) -> list[float]:
        """The worst margin of each simulation."""
        return [worst_margin(self.plan.goals, found.answer) for found in self.answers[size]]

    def expected(self, size: int) -> float:
        """Probability of reaching the goals, from the mean and spread of a few margins."""
        self.simulate(size, LOOK)
        margins = self.margins(size)
        spread = max(float(np.std(margins, ddof=1)), LEAST_SPREAD)
        return float(ndtr(float(np.mean(margins)) / spread))

    def reached(self, size: int) -> float:
        """The share of simulations in which every goal was reached."""
        return float(np.mean(np.array(self.margins(size)) >= 0))

    def guess(self, first: int) -> float:
        """The size that is needed if widths fall as the root of the number of canaries."""
        goals, wanted = self.plan.goals, math.inf
        width = float(np.median([found.answer.width for found in self.answers[first]]))
        for goal in goals:
            if isinstance(goal, IntervalWidth):
                wanted = min(wanted, goal.at_most)
            else:
                apart = abs(self.plan.scenario.epsilon - goal.claim)
                # A verdict needs a tail beyond the claim, and a chance of one in five is against it.
                wanted = min(wanted, 2 * TAIL * apart / (TAIL + 0.84))
        return first * (width / max(wanted, 1e-3)) ** 2

    def smallest(self) -> int | None:
        """The smallest size found that reaches the goals often enough, simulated in full; or None."""
        sizes, wanted = self.plan.design.sizes, self.plan.wanted_probability
        first = min(sizes, key=lambda size: abs(math.log(size / FIRST)))
        self.simulate(first, LOOK)
        needed = self.guess(first)
        place = int(np.argmin([abs(math.log(size / needed)) for size in sizes]))
        self.report(f"first answer: about {sizes[place]:,} canaries")
        place = self._bisected(place)
        for _ in range(MOST_TRIES):
            if place == len(sizes):
                return None
            size = sizes[place]
            self.simulate(size, self.plan.simulations or _often(size, SIMULATIONS))
            if self.reached(size) >= wanted:
                self.report(f"better: {size:,} canaries reach it in {self.reached(size):.0%}")
                return size
            place += 1
        return None

    def _bisected(self, place: int) -> int:
        """Number of the first size whose few simulations promise enough; as many as there are if none.

        Steps away from the first guess are doubled until its other side is reached, then halved.  Where
        a large audit falls far short, the largest is asked at once: there may be a floor.
        """
        sizes, wanted = self.plan.design.sizes, self.plan.wanted_probability
        low, high, step = -1, len(sizes), 1
        while high - low > 1:
            size = sizes[place]
            if self.expected(size) >= wanted:
                high, away = place, -step
            else:
                low, away = place, step
                short = size >= LARGE and float(np.mean(self.margins(size))) < FAR
                if short and high == len(sizes):
                    away = high - 1 - place
            step *= 2
            place += away
            if not low < place < high:
                place = (low + high) // 2
        return high

    def proofs(self) -> tuple[ProofSize, ...]:
        """What the proof shows at sizes up to the most; it is quick, so all of them are tried."""
        design, claim = self.plan.design, self.plan.claim_goal
        powers = [step * 10**power for power in range(2, 7) for step in PROOF_STEPS]
        least = FEWEST * design.runs
        sizes = {design.fitting(round(n)) for n in powers if least <= n <= design.most}
        found = []
        for size in sorted(sizes | {design.sizes[-1]}):
            values = []
            for number in range(_often(size, PROOFS)):
                values.append(self.world.proven(size, number))
                self._count()
            share = None if claim is None else float(np.mean([v > claim.claim for v in values]))
            proven = float(np.median(values))
            found.append(ProofSize(canaries=size, proven=proven, refuted_share=share))
        return tuple(found)

    def told_width(self, size: int) -> float | None:
        """The median width if the audit were told the strength; None if it is already."""
        model = self.plan.model
        if model.strength.fixed_value is not None:
            return None
        told = replace(model, strength=FixedStrength(value=self.plan.scenario.strength))
        world, widths = self._world(told), []
        for number in range(LOOK):
            widths.append(world.simulate(size, number).answer.width)
            self._count()
        return float(np.median(widths))

    def planned(self, size: int) -> PlannedCanaries:
        """What the simulations of a size come to."""
        found, claim = self.answers[size], self.plan.claim_goal
        widths = _quantiles([each.answer.width for each in found])
        proven = _quantiles([each.proven for each in found])
        share, often = self.reached(size), len(found)
        verdicts = [] if claim is None else [claim.outcome(each.answer) for each in found]
        refuted = None
        if claim is not None:
            refuted = float(np.mean([each.proven > claim.claim for each in found]))
        # A share of 0 or 1 has an error too: that of one simulation more on the other side.
        near = (share * often + 1) / (often + 2)
        return PlannedCanaries(
            canaries=size,
            canaries_per_run=size // self.plan.design.runs,
            share_of_data=self.plan.design.share(size),
            low_width=widths[0],
            median_width=widths[1],
            high_width=widths[2],
            probability=share,
            standard_error=math.sqrt(near * (1 - near) / often),
            pass_share=verdicts.count(Outcome.PASS) / often if claim else None,
            fail_share=verdicts.count(Outcome.FAIL) / often if claim else None,
            low_proven=proven[0],
            proven=proven[1],
            high_proven=proven[2],
            refuted_share=refuted,
            simulations=often,
        )


def _often(size: int, table: Sequence[tuple[int, int]]) -> int:
    return next(often for most, often in table if size <= most)


def _quantiles(values: Sequence[float]) -> list[float]:
    return [float(value) for value in np.quantile(values, [0.1, 0.5, 0.9])]
