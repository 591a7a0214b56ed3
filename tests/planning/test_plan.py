"""Plans: the search, what is reported of designs, pilots, limits, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer._text import table_lines
from epsilometer.engines.estimate import estimate
from epsilometer.model.dependence import IndependentRows
from epsilometer.planning.goals import Answer
from epsilometer.planning.plan import plan_audit, sizes_between
from epsilometer.planning.scenarios import Truth
from epsilometer.planning.search import DESCENTS, Search
from epsilometer.planning.simulation import (
    TRUTH_STREAM,
    CandidateDesign,
    Setting,
    SimulationJob,
    simulate,
    stream,
)
from epsilometer.planning.wording import (
    SIMULATED_WITH,
    described,
    designs_csv,
    help_sentences,
    recommendation,
    table_rows,
)
from epsilometer.report.figures.plan import draw_plan

MODEL = em.CountModel(delta=1e-3)
ASSUMED = em.goals.AssumedScenario(epsilon=2.0, strength=0.5)
LIMITS: dict[str, Any] = {"most_bases": 10, "most_challenges": 70, "simulations": 20}
TRUTH = Truth(2.0, 0.5)


@pytest.fixture(scope="module")
def plan() -> em.goals.AuditPlan:
    return plan_audit(
        MODEL, ASSUMED, em.goals.IntervalWidth(at_most=2.8), models_per_second=2.0, **LIMITS
    )


@pytest.fixture(scope="module")
def pilot() -> em.engines.CountPosterior:
    rng = np.random.default_rng(2)
    from epsilometer.model.region import sample_rings

    alpha, beta = sample_rings(2.0, 1e-3, 0.5, size=(6,), rng=rng)
    counts = em.likelihoods.IndependentBinomial().sample(
        alpha, beta, trials_h0=60, trials_h1=60, rng=rng
    )
    posterior: em.engines.CountPosterior = estimate(counts, MODEL)
    return posterior


# --- the search -------------------------------------------------------------------------------


def law(design: CandidateDesign, number: int) -> float:
    """A width that is known for every design, with the chance of one simulation."""
    chance = float(np.random.default_rng(number).normal(0, 0.15))
    floor = 8.0 / design.bases
    noise = 12.0 / math.sqrt(design.bases * design.challenges) if design.challenges else 0.0
    return math.hypot(floor, noise) * math.exp(chance)


def by_law(jobs: Sequence[SimulationJob]) -> list[Answer]:
    return [Answer(0.0, law(job.design, job.number)) for job in jobs]


@pytest.mark.parametrize("wanted", [0.25, 0.5, 1.0, 2.0])
def test_the_search_finds_a_design_as_cheap_as_any(wanted: float) -> None:
    candidates = [
        CandidateDesign(n, many) for n in sizes_between(5, 150) for many in sizes_between(20, 2000)
    ]
    goals, said = [em.goals.IntervalWidth(at_most=wanted)], list[str]()
    search = Search(
        run=by_law,
        truths=[Truth(1.0, 0.5)] * 60,
        goals=goals,
        probability=0.8,
        candidates=candidates,
        cost=lambda design: design.bases * design.challenges,
        on_message=said.append,
    )
    found = search.cheapest(descents=DESCENTS)
    assert found is not None
    assert said[0].startswith("first answer: ")
    assert any(f"{found.bases} bases with {found.challenges:,} challenges" in text for text in said)
    good = [d for d in candidates if np.mean([law(d, k) <= wanted for k in range(60)]) >= 0.8]
    least = min(d.bases * d.challenges for d in good)
    assert found in good
    assert found.bases * found.challenges <= 1.5 * least  # one step of both sizes
    tried = sum(len(answers) for answers in search.answers.values())
    assert tried < 0.15 * 60 * len(candidates)


def test_the_search_says_when_nothing_is_large_enough() -> None:
    candidates = [CandidateDesign(n, many) for n in (5, 10) for many in (20, 50, 100)]
    search = Search(
        run=by_law,
        truths=[Truth(1.0, 0.5)] * 20,
        goals=[em.goals.IntervalWidth(at_most=0.5)],
        probability=0.8,
        candidates=candidates,
        cost=lambda design: design.bases * design.challenges,
    )
    assert search.cheapest() is None
    assert search.closely(CandidateDesign(10, 100))


# --- what is reported -------------------------------------------------------------------------


def widths(design: CandidateDesign, runs: int) -> np.ndarray:
    now = Setting(model=MODEL, level=0.9, claim=None, pilot=None, most_bases=10, seed=1)
    return np.array(
        [simulate(now, SimulationJob(design, number, TRUTH)).width for number in range(runs)]
    )


def test_reported_numbers_are_of_the_design_itself(plan: em.goals.AuditPlan) -> None:
    found = plan.recommended
    assert found is not None
    again = widths(CandidateDesign(found.bases, found.challenges), found.simulations)
    assert found.median_width == pytest.approx(np.median(again))
    assert (found.low_width, found.high_width) == pytest.approx(
        tuple(np.quantile(again, [0.1, 0.9]))
    )
    assert found.probability == pytest.approx(np.mean(again <= 2.8))
    assert found.probability >= 0.8
    assert found.simulations == 20
    assert found.models == 2 * found.bases * found.challenges
    assert found.hours == pytest.approx(found.models / 2 / 3600)
    assert found.models <= min(d.models for d in plan.designs if d.probability >= 0.8)


def test_more_bases_and_more_challenges_narrow_the_interval() -> None:
    middles = [float(np.median(widths(CandidateDesign(n, 60), 8))) for n in (3, 6, 10)]
    assert middles == sorted(middles, reverse=True)
    middles = [float(np.median(widths(CandidateDesign(5, many), 8))) for many in (20, 100, 1000)]
    assert middles == sorted(middles, reverse=True)


def test_the_floor_is_where_many_challenges_lead() -> None:
    design, runs = CandidateDesign(5, 100_000), 4
    floor = widths(CandidateDesign(5, 0), runs)
    # 1e5 challenges leave rates with errors of 1e-3: a few per cent of such widths.
    assert widths(design, runs) == pytest.approx(floor, rel=0.1)
    assert np.all(widths(CandidateDesign(5, 60), runs) > 0.95 * floor)


def test_the_plan_in_words_and_pictures(plan: em.goals.AuditPlan, tmp_path: Any) -> None:
    assert plan.recommended is not None
    said = recommendation(plan)
    assert said.startswith(f"Take {plan.recommended.bases} challenge bases with")
    assert any("floor" in sentence or "error rate" in sentence for sentence in help_sentences(plan))
    lines = table_lines(table_rows(plan))
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("*") for line in lines) == 1
    assert json.loads(json.dumps(described(plan), allow_nan=False))["seed"] == 1
    assert len(designs_csv(plan.designs).splitlines()) == len(plan.designs) + 1
    figure = draw_plan(plan)
    assert len(figure.axes) == 2
    (star,) = (line for line in figure.axes[0].lines if line.get_marker() == "*")
    assert np.asarray(star.get_ydata()).tolist() == [plan.recommended.median_width]


# --- limits -----------------------------------------------------------------------------------


def test_a_width_below_the_floor_is_said_to_need_more_bases() -> None:
    plan = plan_audit(
        MODEL,
        ASSUMED,
        em.goals.IntervalWidth(at_most=0.2),
        most_bases=7,
        most_challenges=50,
        simulations=20,
    )
    assert plan.recommended is None
    assert "No audit within the limits" in recommendation(plan)
    assert any("no number of challenges reaches a width of 0.2" in s for s in help_sentences(plan))
    assert max(map(len, table_lines(table_rows(plan)))) <= 80


def test_nothing_is_needed_where_the_prior_is_narrow_enough() -> None:
    plan = plan_audit(MODEL, ASSUMED, em.goals.IntervalWidth(at_most=6.5))
    assert plan.nothing_needed
    assert (plan.recommended, plan.designs) == (None, ())
    assert recommendation(plan).startswith("Nothing needs to be measured")


def test_a_claim_far_below_the_truth_is_refuted() -> None:
    plan = plan_audit(
        MODEL,
        em.goals.AssumedScenario(epsilon=4.0, strength=0.6),
        em.goals.DecidedClaim(claim=0.5),
        most_bases=7,
        most_challenges=100,
        simulations=20,
        cost=em.goals.SeparateShadows(shadows_h0=3, shadows_h1=4),
    )
    found = plan.recommended
    assert found is not None
    assert found.fail_share is not None
    assert found.fail_share == found.probability >= 0.8
    assert found.pass_share == 0
    assert found.models == 2 * 8 * found.bases * found.challenges
    assert max(map(len, table_lines(table_rows(plan)))) <= 80


def test_costs_are_those_of_the_measuring_designs() -> None:
    fast = em.CrossFed(replicates=50)
    assert fast.models(0) + fast.models(1) == 50 * em.goals.CrossFedModels().models_per_challenge
    slow = em.ShadowModels(replicates=50, shadows_h0=3, shadows_h1=4)
    ours = em.goals.SeparateShadows(shadows_h0=3, shadows_h1=4).models_per_challenge
    assert slow.models(0) + slow.models(1) == 50 * ours


# --- pilots -----------------------------------------------------------------------------------


def test_truths_of_a_pilot_follow_its_posterior(pilot: em.engines.CountPosterior) -> None:
    truths = em.goals.PilotScenario(posterior=pilot).truths(4000, rng=stream(1, 0, TRUTH_STREAM))
    drawn = np.array([truth.epsilon for truth in truths])
    for probability in (0.1, 0.5, 0.9):
        share = np.mean(drawn <= pilot.quantile("epsilon", probability))
        # 4.5 standard errors of a share of 4,000.
        assert share == pytest.approx(probability, abs=4.5 * 0.5 / math.sqrt(4000))
    assert {truth.variance_ratio for truth in truths} == {1.0}


def test_a_pilot_is_extended_at_its_own_number_of_challenges(
    pilot: em.engines.CountPosterior,
) -> None:
    plan = plan_audit(
        MODEL,
        em.goals.PilotScenario(posterior=pilot, extend=True),
        em.goals.IntervalWidth(at_most=3.0),
        most_bases=30,
        simulations=20,
        alternatives=False,
    )
    found = plan.recommended
    assert found is not None
    assert found.bases > 6
    assert found.challenges == 60
    assert found.models == 2 * (found.bases - 6) * 60
    assert "in addition to those of the pilot" in recommendation(plan)
    assert draw_plan(plan).axes[0].get_xlabel() == "challenge bases"


def test_correlations_of_a_pilot_are_kept_as_they_show_in_counts() -> None:
    counts = em.AttackCounts(
        false_positives=[10, 20, 15, 5],
        trials_h0=50,
        false_negatives=[20, 10, 18, 30],
        trials_h1=50,
    )
    model = em.CountModel(delta=1e-3, likelihood=em.likelihoods.CorrelatedNormal())
    posterior = estimate(counts, model)
    truths = em.goals.PilotScenario(posterior=posterior).truths(500, rng=np.random.default_rng(1))
    drawn = posterior.draws(500, rng=np.random.default_rng(1))
    ratio = 1 + 49 * drawn["within_correlation"]
    assert [truth.variance_ratio for truth in truths] == pytest.approx(ratio)
    assert [truth.count_correlation for truth in truths] == pytest.approx(
        50 * drawn["cross_correlation"] / ratio, abs=1e-6
    )


def test_dependent_attacks_are_refused() -> None:
    counts = em.AttackCounts(
        false_positives=[10, 20],
        trials_h0=50,
        false_negatives=[20, 10],
        trials_h1=50,
        groups=["a", "a"],
    )
    # Any posterior of such counts will do; this dependence is the quickest to estimate.
    posterior = estimate(counts, em.CountModel(delta=1e-3, dependence=IndependentRows()))
    with pytest.raises(em.InputError, match="one attack per base"):
        em.goals.PilotScenario(posterior=posterior)


# --- the same for anybody ---------------------------------------------------------------------


@pytest.mark.slow
def test_same_seed_same_plan_for_any_number_of_workers() -> None:
    def planned(workers: int, seed: int) -> dict[str, Any]:
        found = plan_audit(
            MODEL,
            ASSUMED,
            em.goals.IntervalWidth(at_most=4.0),
            most_bases=6,
            most_challenges=40,
            simulations=20,
            workers=workers,
            seed=seed,
            alternatives=False,
        )
        return described(found)

    assert planned(1, 4) == planned(2, 4)
    assert planned(1, 4)["designs"] != planned(1, 5)["designs"]


# --- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probability": 1.0}, "expected 0 < probability < 1"),
        ({"level": 0.0}, "expected 0 < level < 1"),
        ({"simulations": 5}, "expected simulations >= 20"),
        ({"most_bases": 3}, "expected most_bases >= 5"),
        ({"most_challenges": 3}, "expected most_challenges >= 20"),
        ({"models_per_second": 0.0}, "expected models_per_second > 0"),
        ({"workers": 0}, "expected workers >= 1"),
        ({"seed": -1}, "expected seed >= 0"),
    ],
)
def test_bad_numbers_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(em.InputError, match=message):
        plan_audit(MODEL, ASSUMED, em.goals.IntervalWidth(at_most=1.0), **change)


def test_goals_and_scenarios_are_checked(pilot: em.engines.CountPosterior) -> None:
    with pytest.raises(em.InputError, match="expected a goal"):
        plan_audit(MODEL, ASSUMED)
    with pytest.raises(em.InputError, match="expected a goal"):
        plan_audit(
            MODEL, ASSUMED, em.goals.IntervalWidth(at_most=1.0), em.goals.IntervalWidth(at_most=2.0)
        )
    with pytest.raises(em.InputError, match="model of the pilot"):
        plan_audit(
            em.CountModel(delta=0.5),
            em.goals.PilotScenario(posterior=pilot),
            em.goals.IntervalWidth(at_most=1.0),
        )
    extended = em.goals.PilotScenario(posterior=pilot, extend=True)
    with pytest.raises(em.InputError, match="above the 6 bases of the pilot"):
        plan_audit(MODEL, extended, em.goals.IntervalWidth(at_most=1.0), most_bases=6)
    fixed = em.CountModel(delta=0.1, epsilon=em.priors.Fixed(value=1.0))
    with pytest.raises(em.InputError, match="nothing to plan"):
        plan_audit(fixed, ASSUMED, em.goals.IntervalWidth(at_most=1.0))
    for make in (
        lambda: em.goals.AssumedScenario(epsilon=0.0, strength=0.5),
        lambda: em.goals.AssumedScenario(epsilon=1.0, strength=1.5),
        lambda: em.goals.AssumedScenario(epsilon=1.0, strength=0.5, count_correlation=1.0),
        lambda: em.goals.IntervalWidth(at_most=0.0),
        lambda: em.goals.DecidedClaim(claim=-1.0),
        lambda: em.goals.SeparateShadows(shadows_h0=0, shadows_h1=1),
    ):
        with pytest.raises(em.InputError, match="expected"):
            make()


# --- the quick search -------------------------------------------------------------------------


def quick_search(wanted: float, *, work: float) -> Search:
    return Search(
        run=by_law,
        truths=[Truth(1.0, 0.5)] * 20,
        goals=[em.goals.IntervalWidth(at_most=wanted)],
        probability=0.8,
        candidates=[
            CandidateDesign(n, many)
            for n in sizes_between(5, 150)
            for many in sizes_between(20, 2000)
        ],
        cost=lambda design: design.bases * design.challenges,
        work_limit=work,
        exploring=2,
    )


@pytest.mark.parametrize("wanted", [0.25, 0.5, 1.0, 2.0])
def test_a_quick_search_finds_a_design_within_its_work(wanted: float) -> None:
    search = quick_search(wanted, work=2000)
    found = search.cheapest()
    assert found is not None
    assert search.reached(found) >= 0.8
    # The first design is examined in any case: eight simulations of the largest one.
    assert search.work <= 2000 + 8 * 150
    good = [
        d for d in search.candidates if np.mean([law(d, k) <= wanted for k in range(200)]) >= 0.6
    ]
    assert found in good
    least = min(search.cost(d) for d in good)
    assert search.cost(found) <= 12 * least


def test_a_quick_search_bisects_where_the_surface_finds_nothing_likely() -> None:
    """One audit in six is three times as wide: no normal surface reaches 0.8 before the corner."""

    def wide(jobs: Sequence[SimulationJob]) -> list[Answer]:
        return [
            Answer(0.0, law(job.design, job.number) * (3.0 if job.number % 6 == 1 else 1.0))
            for job in jobs
        ]

    search = replace(quick_search(1.0, work=2000), run=wide)
    found = search.cheapest()
    assert found is not None
    assert not search.out_of_work
    assert search.reached(found) >= 0.8
    assert search.work <= 2000
    assert search.cost(found) <= 0.1 * search.cost(max(search.candidates))
    short = [d for d in search.examined if search.reached(d) < 0.8]
    assert any(search.cost(found) / 2 <= search.cost(d) < search.cost(found) for d in short)


def test_a_quick_plan_of_a_pilot_is_no_extreme(pilot: em.engines.CountPosterior) -> None:
    plan = plan_audit(
        MODEL,
        em.goals.PilotScenario(posterior=pilot),
        em.goals.IntervalWidth(at_most=3.5),
        most_bases=50,
        most_challenges=1000,
        quick=True,
    )
    assert plan.recommended is not None
    assert plan.complete
    assert plan.recommended.models < 0.2 * 2 * 50 * 1000
    assert any(
        d.probability < 0.8 and d.models >= plan.recommended.models / 2 for d in plan.designs
    )
    assert SIMULATED_WITH in help_sentences(plan)
    # The same design, had the work ended before a cheaper one was examined.
    said = recommendation(replace(plan, complete=False))
    assert said.startswith(f"At most {plan.recommended.models:,} models are needed")
    assert "--thorough" in said
    sure = replace(plan.recommended, probability=1.0, simulations=8)
    said = help_sentences(replace(plan, recommended=sure))[0]
    assert "at least 0.69 with 95 % confidence" in said
    assert table_rows(replace(plan, designs=(sure,)))[1][6] == "8 of 8"


def test_a_quick_search_that_ends_early_says_so() -> None:
    """It does not say that no design is large enough."""
    search = quick_search(0.05, work=100)
    assert search.cheapest() is None
    assert search.out_of_work
    search = quick_search(0.02, work=10_000)
    assert search.cheapest() is None
    assert not search.out_of_work  # the largest design was examined, and falls far short
    truth = em.goals.AssumedScenario(epsilon=2.0, strength=0.5)
    plan = plan_audit(MODEL, truth, em.goals.IntervalWidth(at_most=9.0))
    narrow = (em.goals.IntervalWidth(at_most=1.0),)
    said = recommendation(replace(plan, goals=narrow, quick=True, complete=False))
    assert "quick search" in said
    assert "--thorough" in said
    assert "No audit within the limits" not in said


def test_a_quick_plan_is_the_same_for_any_number_of_processes() -> None:
    plans = [
        plan_audit(
            MODEL,
            em.goals.AssumedScenario(epsilon=2.0, strength=0.5),
            em.goals.IntervalWidth(at_most=3.0),
            most_bases=10,
            most_challenges=100,
            quick=True,
            workers=workers,
        )
        for workers in (1, 2)
    ]
    assert plans[0].recommended is not None
    assert plans[0].designs == plans[1].designs
    assert plans[0].stronger is None
