"""Planning an audit with canaries of one training run, or a few: how many of them reach a goal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer._display import Plotted
from epsilometer._progress import OnProgress, progress_of
from epsilometer.errors import InputError
from epsilometer.judgement.verdict import Outcome
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.strengths import FixedStrength
from epsilometer.planning.canary_simulation import AssumedCurve, Canaries, CanaryAnswer
from epsilometer.planning.goals import (
    Answer,
    Goal,
    IntervalWidth,
    WithGoals,
    check_goals,
    worst_margin,
)
from epsilometer.planning.plan import simulations_done, sizes_between
from epsilometer.planning.search import LEAST_SPREAD

FEWEST_CANARIES = 40
"""Fewest canaries per run; fewer tell hardly more than the prior."""

FIRST_CANARIES = 1000
"""Canaries of the first simulations, from which sizes are guessed."""

FEW_SIMULATIONS = 4
"""Simulations of a size that is only tried."""

SIMULATIONS = ((2_000, 16), (10_000, 10), (10**7, 6))
"""Simulations of a recommended size, by the largest size: larger audits vary less."""

HOPELESS_MARGIN, LARGE = -0.35, 10_000
"""If the mean margin of a large audit is below this, the largest size is tried next."""

MOST_TRIES = 3
"""Sizes that are simulated in full before the search gives up."""

PROOF_STEPS = (1.0, 3.0)
"""Sizes of simulated proofs: these times a power of ten, from 100."""

PROOFS = ((10_000, 8), (10**7, 4))
"""Simulated proofs per size, by the largest size."""

VERDICT_POINT = 1.6449
"""The 5 % point of a normal distribution: where a verdict is usually reached."""


@dataclass(frozen=True, kw_only=True)
class OneRunCanaries:
    """Canaries that share training runs, each included by an independent fair coin.

    Parameters
    ----------
    runs
        Training runs; canaries are split evenly among them.
    dataset_size
        Records per training run, including canaries, to compute the share of canaries.
    most
        Most canaries, in all runs together.

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
        _validate.whole_number("most", self.most, least=FEWEST_CANARIES * self.runs, most=10**6)

    def fitting(self, canaries: int) -> int:
        """The smallest number from ``canaries`` on with as many canaries in as out in every run."""
        share = 2 * self.runs
        return share * -(-canaries // share)

    @property
    def sizes(self) -> list[int]:
        """Numbers of canaries to choose from."""
        return sorted(
            {self.fitting(n) for n in sizes_between(FEWEST_CANARIES * self.runs, self.most)}
        )

    def share(self, canaries: int) -> float | None:
        """Canaries per run, in and out, divided by its records; None if these are unknown."""
        return None if self.dataset_size is None else canaries / self.runs / self.dataset_size


@dataclass(frozen=True, kw_only=True)
class PlannedCanaries:
    """The simulated properties of a number of canaries.

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
    """The one-run proof with a number of canaries: its median, and how often it refutes the claim."""

    canaries: int
    proven: float
    refuted_share: float | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OneRunPlan(WithGoals, Plotted, view="plans.ONE_RUN"):
    """A recommendation, the sizes it was chosen from, and the expected proof.

    Attributes
    ----------
    recommended
        The smallest number of canaries found that reaches the goals with the required probability;
        None if no allowed number does, or nothing is needed.
    designs
        Every size that was simulated, smallest first.
    proofs
        The expected one-run proof at sizes up to the largest allowed one.
    known_strength_width
        Median width at the recommended size, or the largest tried, if the strength were known; None if
        the model has a fixed strength.
    prior_width
        Width of the interval before any data.
    error
        Error probability of the proof.
    """

    model: CurveModel
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
    known_strength_width: float | None = None

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


def plan_one_run(
    model: CurveModel,
    scenario: AssumedCurve,
    *goals: Goal,
    design: OneRunCanaries | None = None,
    probability: float = 0.8,
    level: float = 0.9,
    error: float = 0.05,
    simulations: int | None = None,
    seed: int = 1,
    on_progress: OnProgress = None,
    on_message: OnMessage | None = None,
) -> OneRunPlan:
    """Find how many canaries reach every goal with a given probability, by simulation.

    Simulated canaries are ideal: independent, and as strong as the scenario says.  Real ones interfere.

    Parameters
    ----------
    model
        The curve model of the planned audit.
    scenario
        The assumed true curve.
    goals
        ``IntervalWidth(at_most=...)``, ``DecidedClaim(claim=...)``, or both.
    design
        The number of runs that share the canaries, and the largest number of canaries.
    probability
        Required share of simulated audits that reach all goals, in (0, 1).
    level
        Probability of the credible interval.
    error
        Error probability of the one-run proof.
    simulations
        Simulated audits of a recommended size, at least 4; default: 16, or fewer for large sizes.
    seed
        The same seed gives the same plan.
    on_progress
        None shows a bar in a notebook only, ``"bar"`` everywhere, ``"none"`` nowhere.  A function is
        called after each simulation with their number.
    on_message
        Called with a first answer after few simulations, and with better ones, in words.

    Examples
    --------
    >>> from epsilometer.planning.goals import DecidedClaim
    >>> model = CurveModel(delta=1e-5, strength=FixedStrength())
    >>> few = OneRunCanaries(most=1000)
    >>> plan = plan_one_run(
    ...     model, AssumedCurve(epsilon=8.0), DecidedClaim(claim=1.0), design=few, simulations=4
    ... )
    >>> plan.recommended.fail_share >= 0.8, plan.recommended.canaries < 1000
    (True, True)
    """
    check_goals(goals)
    if not isinstance(model, CurveModel) or not isinstance(scenario, AssumedCurve):
        raise InputError(
            "expected a CurveModel and AssumedCurve(...) for canaries, got "
            f"{type(model).__name__} and {type(scenario).__name__}."
        )
    probability = _validate.open_unit_interval("probability", probability)
    level = _validate.level(level)
    _validate.whole_number("seed", seed, least=0)
    if simulations is not None:
        _validate.whole_number("simulations", simulations, least=FEW_SIMULATIONS, most=10_000)
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
    with progress_of(on_progress, on_message, state=simulations_done) as (progress, message):
        search = CanarySearch(
            plan=plan, on_progress=progress, on_message=message or (lambda _: None)
        )
        canaries = search.smallest()
        centre = canaries or max(search.answers)
        return replace(
            plan,
            recommended=None if canaries is None else search.planned(canaries),
            designs=tuple(search.planned(size) for size in sorted(search.answers)),
            proofs=search.proofs(),
            known_strength_width=search.known_strength_width(centre),
        )


def _prior_width(model: CurveModel, level: float) -> float:
    """Width of the central interval of the prior, including its probability of no leak at 0."""
    none = float(model.no_leak or 0.0)
    ends = [(0.5 + side * level / 2 - none) / (1 - none) for side in (-1, 1)]
    low, high = (float(model.epsilon.quantile([max(end, 0.0)])[0]) for end in ends)
    return high - (low if ends[0] > 0 else 0.0)


@dataclass(kw_only=True, eq=False)
class CanarySearch:
    """The simulations so far, and the choice of the next size."""

    plan: OneRunPlan
    on_progress: Callable[[int], None] | None
    on_message: OnMessage
    answers: dict[int, list[CanaryAnswer]] = field(default_factory=dict)
    done: int = 0

    def __post_init__(self) -> None:
        self.world = self._world(self.plan.model)

    def _world(self, model: CurveModel) -> Canaries:
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
        if self.on_progress is not None:
            self.on_progress(self.done)

    def simulate(self, size: int, often: int) -> None:
        """Simulate a size until it has ``often`` simulations."""
        known = self.answers.setdefault(size, [])
        for number in range(len(known), often):
            known.append(self.world.simulate(size, number))
            self._count()

    def margins(self, size: int) -> list[float]:
        """The worst margin of each simulation."""
        return [worst_margin(self.plan.goals, audit.answer) for audit in self.answers[size]]

    def expected(self, size: int) -> float:
        """Probability of reaching the goals, from the mean and spread of a few margins."""
        self.simulate(size, FEW_SIMULATIONS)
        margins = self.margins(size)
        spread = max(float(np.std(margins, ddof=1)), LEAST_SPREAD)
        return float(ndtr(float(np.mean(margins)) / spread))

    def reached(self, size: int) -> float:
        """The share of simulations in which every goal was reached."""
        return float(np.mean(np.array(self.margins(size)) >= 0))

    def guess(self, first: int) -> float:
        """The required size if widths are proportional to 1 / sqrt(canaries)."""
        goals, wanted = self.plan.goals, math.inf
        width = float(np.median([audit.answer.width for audit in self.answers[first]]))
        for goal in goals:
            if isinstance(goal, IntervalWidth):
                wanted = min(wanted, goal.at_most)
            else:
                apart = abs(self.plan.scenario.epsilon - goal.claim)
                # A verdict needs a 5 % tail beyond the claim, in four of five audits.
                wanted = min(wanted, 2 * VERDICT_POINT * apart / (VERDICT_POINT + 0.84))
        return first * (width / max(wanted, 1e-3)) ** 2

    def smallest(self) -> int | None:
        """The smallest size found that reaches the goals often enough; None if none was found."""
        sizes, wanted = self.plan.design.sizes, self.plan.wanted_probability
        first = min(sizes, key=lambda size: abs(math.log(size / FIRST_CANARIES)))
        self.simulate(first, FEW_SIMULATIONS)
        needed = self.guess(first)
        place = int(np.argmin([abs(math.log(size / needed)) for size in sizes]))
        self.on_message(f"first answer: about {sizes[place]:,} canaries")
        place = self._bisected(place)
        for _ in range(MOST_TRIES):
            if place == len(sizes):
                return None
            size = sizes[place]
            self.simulate(size, self.plan.simulations or _often(size, SIMULATIONS))
            if self.reached(size) >= wanted:
                every = self.margins(size)
                many = f"{sum(margin >= 0 for margin in every)} of {len(every)} simulated audits"
                self.on_message(f"better: {size:,} canaries reach it in {many}")
                return size
            place += 1
        return None

    def _bisected(self, place: int) -> int:
        """Index of the first size with a sufficient expected probability; the number of sizes if none.

        Steps from the first guess are doubled until the goal is bracketed, then halved.  If a large
        audit falls far short, the largest is tried next: there may be a floor.
        """
        sizes, wanted = self.plan.design.sizes, self.plan.wanted_probability
        low, high, step = -1, len(sizes), 1
        while high - low > 1:
            size = sizes[place]
            if self.expected(size) >= wanted:
                high, away = place, -step
            else:
                low, away = place, step
                short = size >= LARGE and float(np.mean(self.margins(size))) < HOPELESS_MARGIN
                if short and high == len(sizes):
                    away = high - 1 - place
            step *= 2
            place += away
            if not low < place < high:
                place = (low + high) // 2
        return high

    def proofs(self) -> tuple[ProofSize, ...]:
        """The proof at all sizes up to the largest; it is quick to simulate."""
        design, claim = self.plan.design, self.plan.claim_goal
        powers = [step * 10**power for power in range(2, 7) for step in PROOF_STEPS]
        least = FEWEST_CANARIES * design.runs
        sizes = {design.fitting(round(n)) for n in powers if least <= n <= design.most}
        proofs = []
        for size in sorted(sizes | {design.sizes[-1]}):
            values = []
            for number in range(_often(size, PROOFS)):
                values.append(self.world.proven(size, number))
                self._count()
            share = None if claim is None else float(np.mean([v > claim.claim for v in values]))
            proven = float(np.median(values))
            proofs.append(ProofSize(canaries=size, proven=proven, refuted_share=share))
        return tuple(proofs)

    def known_strength_width(self, size: int) -> float | None:
        """The median width with a known strength; None if the model has a fixed one."""
        model = self.plan.model
        if model.strength.fixed_value is not None:
            return None
        known = replace(model, strength=FixedStrength(value=self.plan.scenario.strength))
        world, widths = self._world(known), []
        for number in range(FEW_SIMULATIONS):
            widths.append(world.simulate(size, number).answer.width)
            self._count()
        return float(np.median(widths))

    def planned(self, size: int) -> PlannedCanaries:
        """The simulated properties of a size."""
        audits, claim = self.answers[size], self.plan.claim_goal
        widths = _quantiles([audit.answer.width for audit in audits])
        proven = _quantiles([audit.proven for audit in audits])
        share, often = self.reached(size), len(audits)
        verdicts = [] if claim is None else [claim.outcome(audit.answer) for audit in audits]
        refuted = None
        if claim is not None:
            refuted = float(np.mean([audit.proven > claim.claim for audit in audits]))
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
