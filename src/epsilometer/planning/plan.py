"""Planning an audit: the cheapest size that reaches its goals, and what an audit of it would report."""

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
from epsilometer.model.models import CountModel, CurveModel
from epsilometer.planning.designs import Design, ManyModels, PoolModels, Size
from epsilometer.planning.goals import (
    Answer,
    DecidedClaim,
    Goal,
    IntervalWidth,
    ProvenEpsilon,
    Scenario,
    check_goals,
)
from epsilometer.planning.search import TRUTHS, Effort, Search, Setting, simulator
from epsilometer.proofs.proof import ERROR

QUICK, THOROUGH = Effort(20, 4, 4, 60.0), Effort(100, 10, 7, math.inf)

#: Draws of the truth per simulation of a quick search, and the step between their quantiles.
DRAWS, GOLDEN = 25, (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, kw_only=True)
class PlannedDesign:
    """What simulated audits of one size report.

    Attributes
    ----------
    sizes, words
        By name: ``bases`` and ``challenges`` (per base and hypothesis), ``canaries`` and ``runs``, or
        ``models`` and ``points``; and in words.
    models
        Models to train, without those of a pilot that is extended.
    hours
        Training time at the given speed; None if no speed was given.
    probability, standard_error, simulations
        Share of simulated audits that reached every goal, its Monte Carlo standard error, and their
        number.
    width, low_width, high_width
        50 %, 10 % and 90 % quantiles of the widths of the interval of epsilon; None if no goal needs it.
    proven, low_proven, high_proven
        The same quantiles of the epsilon that is proven.
    most_provable
        The most that perfect attacks would prove with this size; None if nothing is proven.
    pass_share, fail_share
        Verdicts on the claim; None without one.
    no_limit, most_shown
        Share of simulated audits whose data set no upper limit, and the most that audits of this size
        can show; None where no interval is needed, or of counts.
    """

    sizes: dict[str, int]
    words: str
    models: int
    hours: float | None
    probability: float
    standard_error: float
    simulations: int
    width: float | None
    low_width: float | None
    high_width: float | None
    proven: float
    low_proven: float
    high_proven: float
    most_provable: float | None
    pass_share: float | None
    fail_share: float | None
    no_limit: float | None = None
    most_shown: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AuditPlan(Plotted, view="measured.PLANNED"):
    """A recommendation, and what audits of other sizes would report.

    Attributes
    ----------
    recommended
        The cheapest size found that reaches the goals with the required probability; None if none was
        found, or nothing is needed.
    designs
        Every simulated size, cheapest first.
    floor
        The largest number of models or canaries with the recommended number of bases, or the largest
        one: what no smaller audit of so many bases does better.  None if it was not simulated.
    prior_width
        Width of the interval before any data.
    quick, complete
        Whether the search was quick, and whether it ended by itself: one that reached its limit may have
        missed a cheaper size, or any size at all, so that nothing is recommended.
    """

    model: CountModel | CurveModel
    scenario: Scenario
    design: Design
    goals: tuple[Goal, ...]
    level: float
    error: float
    wanted_probability: float
    prior_width: float
    seed: int
    quick: bool
    recommended: PlannedDesign | None = None
    designs: tuple[PlannedDesign, ...] = ()
    floor: PlannedDesign | None = None
    complete: bool = True

    def goal(self, kind: type[Any]) -> Any:
        """The goal of one kind; None if there is none."""
        return next((goal for goal in self.goals if isinstance(goal, kind)), None)

    @property
    def nothing_needed(self) -> bool:
        """Whether the prior alone is narrow enough."""
        return all(
            isinstance(goal, IntervalWidth) and self.prior_width <= goal.at_most
            for goal in self.goals
        )

    @property
    def largest(self) -> str:
        """The largest size that was allowed, in words."""
        return self.design.words(max(self.design.sizes(self.scenario.pilot)))

    @property
    def impossible(self) -> str | None:
        """Why no audit of any size reaches the goals under the scenario; None if one may."""
        proof, claim = self.goal(ProvenEpsilon), self.goal(DecidedClaim)
        truth = math.inf if self.scenario.epsilon is None else self.scenario.epsilon
        if proof is not None and proof.at_least >= truth:
            return f"nothing above the true epsilon, here assumed to be {truth:g}, can be proven"
        likelihood = getattr(self.model, "likelihood", None)
        if proof is not None and likelihood is not None and not likelihood.independent:
            return "nothing is proven from counts that depend on each other; plan with scores"
        if claim is not None and isinstance(self.design, PoolModels) and claim.claim >= truth:
            return (
                "nothing is judged from points that share models, and no proof refutes a true claim"
            )
        return None


def plan_audit(
    model: CountModel | CurveModel,
    scenario: Scenario,
    *goals: Goal,
    design: Design | None = None,
    probability: float = 0.8,
    level: float = 0.9,
    error: float = ERROR,
    models_per_second: float | None = None,
    thorough: bool = False,
    simulations: int | None = None,
    seed: int = 1,
    workers: int = 1,
    on_progress: OnProgress = None,
    on_message: OnMessage | None = None,
) -> AuditPlan:
    """Find the cheapest audit that reaches every goal with a given probability, by simulation.

    Simulated audits report what audits report: the posterior of the model, the verdict with its checks,
    and the proof.

    Parameters
    ----------
    model
        The assumptions of the planned audit: a :class:`CurveModel` of scores, or a :class:`CountModel`
        if only counts will be known.  For a pilot, its own model.
    scenario
        The assumed truth: ``AssumedCurve(epsilon=..., strength=...)`` for a curve model,
        ``AssumedScenario(epsilon=..., strength=...)`` for a count model, or
        ``PilotScenario(posterior=...)``.
    goals
        ``IntervalWidth(at_most=...)``, ``DecidedClaim(claim=...)``, ``ProvenEpsilon(at_least=...)``, or
        several of them.
    design
        ``ManyModels(...)`` (default), ``OneRunCanaries(...)`` or ``PoolModels(...)``, with the largest
        sizes to consider.  A pilot that is extended fixes the number of challenges per base.
    probability
        Required share of simulated audits that reach all goals, in (0, 1).
    level, error
        Probability of the credible interval, and error probability of the proof.
    models_per_second
        Speed of training, to compute hours.
    thorough
        Simulate 100 audits of a recommended size, try more numbers of bases, and search to the end.
        Otherwise the search takes about half a minute; its precision is part of the answer.
    simulations
        Simulated audits of a recommended size, at least 4; default: 20, thorough 100.
    seed, workers
        The same seed gives the same plan for any number of processes.
    on_progress
        None shows a bar in a notebook only, ``"bar"`` everywhere, ``"none"`` nowhere.  A function is
        called after each simulation with their number.
    on_message
        Called with sizes that look sufficient so far, in words.

    Examples
    --------
    >>> from epsilometer.planning.designs import OneRunCanaries
    >>> from epsilometer.planning.goals import AssumedCurve
    >>> plan = plan_audit(
    ...     CurveModel(delta=1e-5),
    ...     AssumedCurve(epsilon=8.0),
    ...     ProvenEpsilon(at_least=1.0),
    ...     design=OneRunCanaries(most=2000),
    ... )
    >>> plan.recommended.sizes["canaries"] < 2000, plan.recommended.probability >= 0.8
    (True, True)
    """
    effort, design = THOROUGH if thorough else QUICK, design or ManyModels()
    _check(model, scenario, goals, design)
    if simulations is not None:
        _validate.whole_number("simulations", simulations, least=effort.few, most=100_000)
        effort = effort._replace(simulations=simulations)
    if models_per_second is not None:
        models_per_second = _validate.positive("models_per_second", models_per_second)
    plan = AuditPlan(
        model=model,
        scenario=scenario,
        design=design,
        goals=tuple(goals),
        level=_validate.level(level),
        error=_validate.open_unit_interval("error", error),
        wanted_probability=_validate.open_unit_interval("probability", probability),
        prior_width=_prior_width(model, level),
        seed=_validate.whole_number("seed", seed, least=0),
        quick=not thorough,
    )
    asked = {name: getattr(plan, name) for name in ("model", "design", "goals", "level", "error")}
    setting = Setting(**asked, seed=seed, pilot=scenario.pilot)
    truths = _truths(scenario, effort.simulations, setting, quick=plan.quick)
    workers = _validate.whole_number("workers", workers)
    if plan.nothing_needed or plan.impossible:
        return plan

    def state(done: int) -> tuple[str, None, None]:  # how many are needed is not known
        return f"{done:,} simulations", None, None

    with (
        progress_of(on_progress, on_message, state=state) as (progress, message),
        simulator(setting, workers, progress) as run,
    ):
        search = Search(
            setting=setting,
            run=run,
            truths=truths,
            probability=probability,
            effort=effort,
            on_message=message or (lambda _: None),
        )
        best, complete = search.cheapest()
        floor = search.floor(best or max(search.answers))
    designs = {
        size: _planned(search, size, models_per_second)
        for size in sorted(search.answers, key=search.cost)
    }
    return replace(
        plan,
        recommended=None if best is None else designs[best],
        designs=tuple(designs.values()),
        floor=None if floor is None else designs[floor],
        complete=complete,
    )


def _check(model: object, scenario: object, goals: Sequence[Goal], design: Design) -> None:
    check_goals(goals)
    if not isinstance(scenario, Scenario):
        raise InputError(f"expected a scenario of em.goals, got scenario={scenario!r}.")
    if not isinstance(model, scenario.model_kind):
        wanted, got = scenario.model_kind.__name__, type(model).__name__
        raise InputError(f"expected a {wanted} for this scenario, got {got}.")
    if isinstance(model, CountModel):
        if not isinstance(design, ManyModels):
            raise InputError(f"expected a CurveModel for the design {design.name}, got CountModel.")
        if model.epsilon.fixed_value is not None:
            raise InputError("expected a prior of epsilon, got a fixed value: nothing to plan.")
    if scenario.pilot is not None and not isinstance(design, ManyModels):
        raise InputError(f"expected the design many to extend a pilot, got {design.name}.")


def _truths(scenario: Scenario, simulations: int, setting: Setting, *, quick: bool) -> list[Any]:
    """The truth of each simulation.

    Those of a quick search are evenly spaced quantiles of epsilon among many draws, in an order in which
    the first few are spread over all: a few random draws of a wide posterior would represent it badly.
    """
    rng, model = setting.stream(TRUTHS, 0), setting.model
    if not quick:
        return list(scenario.truths(simulations, model, rng=rng))
    many = scenario.truths(DRAWS * simulations, model, rng=rng)
    ordered = sorted(many, key=lambda truth: truth.epsilon)[DRAWS // 2 :: DRAWS]
    places = sorted(range(simulations), key=lambda k: (k * GOLDEN) % 1)
    return [ordered[places.index(k)] for k in range(simulations)]


def _prior_width(model: CountModel | CurveModel, level: float) -> float:
    """Width of the central interval of the prior, including its probability of no leak at 0."""
    none = float(getattr(model, "no_leak", None) or 0.0)
    ends = [max((0.5 + side * level / 2 - none) / (1 - none), 0.0) for side in (-1, 1)]
    low, high = model.epsilon.quantile(ends)
    return float(high - (low if ends[0] > 0 else 0.0))


def _planned(search: Search, size: Size, speed: float | None) -> PlannedDesign:
    answers, models = search.answers[size], search.cost(size)[0]
    share, often = search.reached(size), len(answers)
    # A share of 0 or 1 has a standard error too: that with one more simulation on either side.
    near = (share * often + 1) / (often + 2)
    most = max(answer.most_provable for answer in answers)
    most_shown = _known(max(answer.most_shown for answer in answers))
    quantiles: dict[str, Any] = {}
    for name in ("width", "proven"):
        values = [getattr(answer, name) for answer in answers]
        with np.errstate(invalid="ignore"):  # between two infinite widths
            values = np.quantile(values, [0.1, 0.5, 0.9])
        keys = (f"low_{name}", name, f"high_{name}")
        quantiles |= {key: _known(value) for key, value in zip(keys, values, strict=True)}
    return PlannedDesign(
        sizes=search.setting.design.named(size),
        words=search.setting.design.words(size),
        models=models,
        hours=None if speed is None else models / speed / 3600,
        probability=share,
        standard_error=math.sqrt(near * (1 - near) / often),
        simulations=often,
        most_provable=_known(most),
        pass_share=_share(answers, Outcome.PASS),
        fail_share=_share(answers, Outcome.FAIL),
        no_limit=None
        if most_shown is None
        else float(np.mean([np.isinf(a.high) for a in answers])),
        most_shown=most_shown,
        **quantiles,
    )


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _share(answers: Sequence[Answer], outcome: Outcome) -> float | None:
    if answers[0].outcome is None:
        return None
    return float(np.mean([answer.outcome is outcome for answer in answers]))
