"""Planning an audit: how many bases and challenges reach a goal, their cost, and what would help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer._display import Plotted
from epsilometer._progress import OnProgress, progress_of
from epsilometer.errors import InputError
from epsilometer.judgement.verdict import Outcome
from epsilometer.model.count_model import CountModel
from epsilometer.planning.floor import check_free
from epsilometer.planning.goals import (
    Answer,
    Cost,
    CrossFedModels,
    Goal,
    WithGoals,
    check_goals,
    claim_of,
    worst_margin,
)
from epsilometer.planning.scenarios import (
    AssumedScenario,
    PilotScenario,
    Scenario,
    Truth,
    largest_challenges,
)
from epsilometer.planning.search import (
    DESCENTS,
    EXPLORING,
    Curve,
    Floor,
    Search,
    StrongerAttack,
)
from epsilometer.planning.simulation import (
    TRUTH_STREAM,
    CandidateDesign,
    Setting,
    simulator,
    stream,
)

DIGITS_OF_SIZES = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
"""Sizes are these times a power of ten."""

FEWEST_BASES, FEWEST_CHALLENGES = 5, 20
"""Smaller audits tell hardly more than the prior."""

QUICK_SIMULATIONS, QUICK_EXPLORING = 20, 2
"""Simulations of the recommended design, and of designs that are explored, in a quick search."""

QUICK_DRAWS, GOLDEN = 25, (math.sqrt(5) - 1) / 2
"""Draws of the truth per simulation of a quick search, and the step between their quantiles."""

QUICK_WORK, QUICK_FACTOR = 2000, 6
"""Bases of all simulations in a quick search, and their multiple for likelihoods without nuisance
parameters.  A base takes about 20 ms and 3 ms of one core, so the whole search about 40 s of it."""


@dataclass(frozen=True, kw_only=True)
class PlannedDesign:
    """The simulated properties of an audit of one size.

    Attributes
    ----------
    bases, challenges
        Number of challenge bases, and challenges per base under each hypothesis.
    median_width, low_width, high_width
        50 %, 10 % and 90 % quantiles of the widths of the interval of epsilon.
    floor_width
        The median width if every error rate were known: a limit that more challenges cannot pass.
    probability, standard_error
        Share of simulations that reached every goal, and its Monte Carlo standard error.
    pass_share, fail_share
        Verdicts on the claim; None without one.
    models
        Models to train, without those of a pilot that is extended.
    hours
        Training time at the given speed; None if no speed was given.
    simulations
        Number of simulated audits.
    """

    bases: int
    challenges: int
    median_width: float
    low_width: float
    high_width: float
    floor_width: float
    probability: float
    standard_error: float
    pass_share: float | None
    fail_share: float | None
    models: int
    hours: float | None
    simulations: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AuditPlan(WithGoals, Plotted, view="plans.AUDIT"):
    """A recommendation, the designs it was chosen from, and the limits that challenges cannot pass.

    Attributes
    ----------
    recommended
        The cheapest design found that reaches the goals with the required probability; None if none was
        found within the limits, or nothing is needed.
    designs
        Every design with enough simulations to report, cheapest first.
    floors
        For several numbers of bases, the width that would remain if their error rates were known.
    prior_width
        Width of the interval before any data.
    stronger
        The effect of stronger attacks at the recommended design, or at the largest one.
    most
        The largest design that was allowed.
    quick, complete
        Whether the search was limited to a coarse answer, and whether it ended by itself: one that
        reached its limit may have missed a cheaper design, or any design at all.
    """

    model: CountModel
    scenario: Scenario
    goals: tuple[Goal, ...]
    level: float
    wanted_probability: float
    prior_width: float
    most: CandidateDesign
    seed: int
    recommended: PlannedDesign | None = None
    designs: tuple[PlannedDesign, ...] = ()
    floors: tuple[Floor, ...] = ()
    curves: tuple[Curve, ...] = ()
    stronger: StrongerAttack | None = None
    quick: bool = False
    complete: bool = True

    @property
    def nothing_needed(self) -> bool:
        """Whether the prior alone reaches the goals."""
        goal = self.claim_goal
        above = math.nan if goal is None else self.model.epsilon.probability_above(goal.claim)
        return worst_margin(self.goals, Answer(0.0, self.prior_width, above)) >= 0


def plan_audit(
    model: CountModel,
    scenario: Scenario,
    *goals: Goal,
    probability: float = 0.8,
    level: float = 0.9,
    cost: Cost | None = None,
    models_per_second: float | None = None,
    most_bases: int = 150,
    most_challenges: int = 2000,
    simulations: int = 100,
    seed: int = 1,
    workers: int = 1,
    alternatives: bool = True,
    quick: bool = False,
    on_progress: OnProgress = None,
    on_message: OnMessage | None = None,
) -> AuditPlan:
    """Find the cheapest audit that reaches every goal with a given probability, by simulation.

    Parameters
    ----------
    model
        The assumptions of the planned audit: delta, priors, likelihood.  For a pilot, its own model.
    scenario
        ``AssumedScenario(epsilon=..., strength=...)`` or ``PilotScenario(posterior=...)``.  A pilot
        that is extended fixes the number of challenges, so only the number of bases is planned.
    goals
        ``IntervalWidth(at_most=...)``, ``DecidedClaim(claim=...)``, or both.
    probability
        Required share of simulated audits that reach all goals, in (0, 1).
    level
        Probability of the credible interval.
    cost
        Number of models per challenge; default: that of cross-feeding.
    models_per_second
        Speed of training, to compute hours.
    most_bases, most_challenges
        The largest audit that is considered.
    simulations
        Simulated audits of a recommended design; at least 20.
    seed, workers
        The same seed gives the same plan for any number of processes.
    alternatives
        Whether to simulate slightly cheaper designs, designs of about half and twice the size, and
        stronger attacks too: it takes about twice as long.
    quick
        Whether to limit the search to about half a minute on two cores: a coarse answer, from at most
        20 simulations of the recommended design and without alternatives.  Its standard error is part of
        the answer, and a cheaper design may exist.
    on_progress
        None shows a bar in a notebook only, ``"bar"`` everywhere, ``"none"`` nowhere.  A function is
        called after each simulation with their number.
    on_message
        Called with a first answer after few simulations, and with better ones, in words.

    Examples
    --------
    >>> from epsilometer.planning.goals import IntervalWidth
    >>> plan = plan_audit(
    ...     CountModel(delta=0.01),
    ...     AssumedScenario(epsilon=1.0, strength=0.5),
    ...     IntervalWidth(at_most=3.0),
    ...     most_bases=10, most_challenges=100, simulations=20, alternatives=False,
    ... )
    >>> plan.recommended.probability >= 0.8
    True
    """
    _check(model, scenario, goals)
    probability = _validate.open_unit_interval("probability", probability)
    level = _validate.level(level)
    _validate.whole_number("simulations", simulations, least=20, most=100_000)
    _validate.whole_number("seed", seed, least=0)
    _validate.whole_number("workers", workers)
    most_bases = _validate.whole_number("most_bases", most_bases, least=FEWEST_BASES, most=5000)
    most_challenges = _validate.whole_number(
        "most_challenges", most_challenges, least=FEWEST_CHALLENGES, most=10**6
    )
    if models_per_second is not None:
        models_per_second = _validate.positive("models_per_second", models_per_second)
    candidates, old = _candidates(scenario, most_bases, most_challenges)
    low, high = model.epsilon.quantile([0.5 - level / 2, 0.5 + level / 2])
    plan = AuditPlan(
        model=model,
        scenario=scenario,
        goals=tuple(goals),
        level=level,
        wanted_probability=probability,
        prior_width=float(high - low),
        most=max(candidates),
        seed=seed,
    )
    if plan.nothing_needed:
        return plan
    per_challenge = (cost or CrossFedModels()).models_per_challenge
    setting = Setting(
        model=model,
        level=level,
        claim=None if plan.claim_goal is None else plan.claim_goal.claim,
        pilot=scenario.pilot,
        most_bases=plan.most.bases,
        seed=seed,
    )
    with (
        progress_of(on_progress, on_message, state=simulations_done) as (progress, message),
        simulator(setting, workers, progress) as run,
    ):
        search = Search(
            run=run,
            truths=_truths(scenario, simulations, stream(seed, 0, TRUTH_STREAM), quick=quick),
            goals=goals,
            probability=probability,
            candidates=candidates,
            cost=lambda design: (design.bases - old) * design.challenges * per_challenge,
            on_message=message or (lambda _: None),
            work_limit=_quick_work(model) if quick else math.inf,
            exploring=QUICK_EXPLORING if quick else EXPLORING,
        )
        findings = _searched(search, models_per_second, alternatives=alternatives and not quick)
        return replace(plan, **findings, quick=quick)


def simulations_done(done: int) -> tuple[str, None, None]:
    """Progress for a bar: the number of simulations that are needed is unknown."""
    return f"{done:,} simulations", None, None


def _truths(
    scenario: Scenario, simulations: int, rng: np.random.Generator, *, quick: bool
) -> list[Truth]:
    """The truth of each simulation.

    Those of a quick search are evenly spaced quantiles of epsilon among many draws, in an order in which
    the first few are spread over all: 8 random draws of a wide posterior would represent it badly.
    """
    if not quick:
        return scenario.truths(simulations, rng=rng)
    many = scenario.truths(QUICK_DRAWS * QUICK_SIMULATIONS, rng=rng)
    ordered = sorted(many, key=lambda truth: truth.epsilon)[QUICK_DRAWS // 2 :: QUICK_DRAWS]
    places = sorted(range(QUICK_SIMULATIONS), key=lambda k: (k * GOLDEN) % 1)
    return [ordered[places.index(k)] for k in range(QUICK_SIMULATIONS)]


def _quick_work(model: CountModel) -> int:
    """The work limit of a quick search: more simulations where one takes less time."""
    return QUICK_WORK if model.likelihood.parameters else QUICK_FACTOR * QUICK_WORK


def _searched(search: Search, speed: float | None, *, alternatives: bool) -> dict[str, Any]:
    """The findings of the simulations, as attributes of a plan."""
    cheapest = search.cheapest(descents=DESCENTS if alternatives else 0)
    centre, stronger = cheapest or max(search.candidates), None
    if alternatives:
        search.simulate_alternatives(centre)
        stronger = search.stronger_attack(centre)
    shown = sorted(filter(search.closely, search.answers), key=search.rank)
    sizes = search.curve_bases(centre)
    floors = {
        bases: search.floor_of(bases)
        for bases in sorted({design.bases for design in shown} | set(sizes))
    }
    designs = {d: _planned(search, d, speed, floors[d.bases].median_width) for d in shown}
    return {
        "recommended": None if cheapest is None else designs[cheapest],
        "designs": tuple(designs.values()),
        "floors": tuple(floors[bases] for bases in sizes),
        "curves": search.curves(sizes),
        "stronger": stronger,
        "complete": not search.out_of_work,
    }


def _check(model: CountModel, scenario: Scenario, goals: Sequence[Goal]) -> None:
    check_free(model)
    if not isinstance(scenario, AssumedScenario | PilotScenario):
        raise InputError(
            f"expected AssumedScenario(...) or PilotScenario(...), got scenario={scenario!r}."
        )
    check_goals(goals)
    if isinstance(scenario, PilotScenario) and scenario.posterior.model != model:
        raise InputError("expected the model of the pilot, got another one.")


def sizes_between(least: int, most: int) -> list[int]:
    """Round numbers from ``least`` to ``most``, both included.

    Examples
    --------
    >>> sizes_between(5, 40)
    [5, 7, 10, 15, 20, 30, 40]
    """
    round_numbers = {
        round(step * 10**power) for power in range(len(str(most))) for step in DIGITS_OF_SIZES
    }
    return sorted({size for size in round_numbers if least < size < most} | {least, most})


def _candidates(
    scenario: Scenario, most_bases: int, most_challenges: int
) -> tuple[list[CandidateDesign], int]:
    """The designs to choose from, and the number of bases that exist already."""
    pilot = scenario.pilot
    if pilot is None:
        bases, old = sizes_between(FEWEST_BASES, most_bases), 0
        challenges = sizes_between(FEWEST_CHALLENGES, most_challenges)
    else:
        old = len(pilot)
        if old >= most_bases:
            raise InputError(
                f"expected most_bases above the {old} bases of the pilot, "
                f"got most_bases={most_bases}."
            )
        bases = [old + new for new in sizes_between(1, most_bases - old)]
        challenges = [largest_challenges(pilot)]
    return [CandidateDesign(n, many) for n in bases for many in challenges], old


def _planned(
    search: Search, design: CandidateDesign, speed: float | None, floor_width: float
) -> PlannedDesign:
    models, answers = search.cost(design), search.answers[design]
    low, median, high = np.quantile([answer.width for answer in answers], [0.1, 0.5, 0.9])
    share, size = search.reached(design), len(answers)
    claim = claim_of(search.goals)
    verdicts = [] if claim is None else [claim.outcome(answer) for answer in answers]
    # A share of 0 or 1 has a standard error too: that with one more simulation on either side.
    near = (share * size + 1) / (size + 2)
    return PlannedDesign(
        bases=design.bases,
        challenges=design.challenges,
        median_width=float(median),
        low_width=float(low),
        high_width=float(high),
        floor_width=floor_width,
        probability=share,
        standard_error=math.sqrt(near * (1 - near) / size),
        pass_share=verdicts.count(Outcome.PASS) / size if claim else None,
        fail_share=verdicts.count(Outcome.FAIL) / size if claim else None,
        models=models,
        hours=None if speed is None else models / speed / 3600,
        simulations=size,
    )
