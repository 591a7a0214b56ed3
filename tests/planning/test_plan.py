"""The search, the plan that it makes, its words, and what is refused."""

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
from epsilometer.planning import wording
from epsilometer.planning.designs import Size
from epsilometer.planning.goals import Answer
from epsilometer.planning.plan import QUICK, THOROUGH, plan_audit
from epsilometer.planning.search import Search, SimulationJob
from epsilometer.proofs.proof import rounded_down
from tests.planning.test_simulation import COUNTS, CURVE, GAUSSIAN, WIDTH, setting

PROOF = em.goals.ProvenEpsilon(at_least=1.0)


# --- the search, on widths that are given -------------------------------------------------------


def given_width(size: Size) -> float:
    """Falls with both sizes, to a floor that only bases lower."""
    return 10 / math.sqrt(size.bases) * (0.1 + 10 / math.sqrt(size.bases * size.each))


def searched(wanted: float, **changes: Any) -> Search:
    """A search with 4 % of noise, which every size of a simulation shares."""
    noise = np.random.default_rng(3).normal(scale=0.04, size=200)

    def run(jobs: Sequence[SimulationJob]) -> list[Answer]:
        widths = (given_width(one.size) * math.exp(noise[one.number]) for one in jobs)
        return [Answer(1.0, 0.0, width) for width in widths]

    settings: dict[str, Any] = {
        "setting": setting(goals=[em.goals.IntervalWidth(at_most=wanted)]),
        "run": run,
        "truths": [None] * 40,
        "probability": 0.8,
        "effort": THOROUGH,
        "on_message": lambda _: None,
    }
    return Search(**settings | changes)


@pytest.mark.parametrize("wanted", [0.25, 0.5, 1.0, 2.0, 5.0])
def test_the_search_finds_the_cheapest_size(wanted: float) -> None:
    search = searched(wanted)
    found, complete = search.cheapest()
    # A quantile of the noise decides: every size is enough whose width is 3.4 % below the goal.
    enough = [size for size in search.sizes if given_width(size) * math.exp(0.034) <= wanted]
    best = min(enough, key=search.cost)
    assert complete
    assert found is not None
    assert search.reached(found) >= 0.8
    # Not every number of bases is tried.
    assert search.cost(found)[0] <= 1.5 * search.cost(best)[0]


def test_few_sizes_are_simulated_and_fewest_in_full() -> None:
    search = searched(1.0, effort=QUICK, truths=[None] * 20)
    search.cheapest()
    often = [len(answers) for answers in search.answers.values()]
    assert len(often) < 25
    assert often.count(20) <= 4


def test_what_no_size_reaches_is_found_out_with_small_ones() -> None:
    search = searched(0.01)
    assert search.cheapest() == (None, True)
    # Every number of bases has a floor, seen from two sizes that are not the largest.
    assert max(size.each for size in search.answers) < 2000


def test_a_search_without_work_left_recommends_nothing() -> None:
    limited = QUICK._replace(work_limit=8.0)
    search = searched(0.5, effort=limited, truths=[None] * 20)
    found, complete = search.cheapest()
    assert not complete
    assert search.work <= 8.0
    assert found is None or search.confirmed(found)


def test_a_pilot_is_extended_by_bases_only() -> None:
    pilot = em.AttackCounts(
        false_positives=[1] * 6, trials_h0=400, false_negatives=[4] * 6, trials_h1=400
    )
    search = searched(0.6, setting=setting(model=COUNTS, pilot=pilot, goals=[WIDTH]))
    found, complete = search.cheapest()
    assert complete
    assert found is not None
    assert found.each == 400
    assert found == min(s for s in search.sizes if given_width(s) * math.exp(0.034) <= 1.0)
    assert search.cost(found)[0] == (found.bases - 6) * 800


# --- plans ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan() -> em.goals.AuditPlan:
    said: list[str] = []
    design = em.goals.OneRunCanaries(runs=2, dataset_size=20_000, most=4_000)
    goals = em.goals.IntervalWidth(at_most=1.8), em.goals.DecidedClaim(claim=2.0)
    found = plan_audit(
        GAUSSIAN, CURVE, *goals, design=design, simulations=6, on_message=said.append
    )
    assert said[0].startswith("so far: ")
    return found


def test_reported_numbers_are_of_the_size_itself(plan: em.goals.AuditPlan) -> None:
    found = plan.recommended
    assert found is not None
    now = setting(design=plan.design, goals=plan.goals)
    truth = CURVE.truths(1, GAUSSIAN, rng=np.random.default_rng(1))[0]
    size = Size(2, found.sizes["canaries"] // 2)
    again = [now.simulate(SimulationJob(size, number, truth)) for number in range(6)]
    assert found.simulations == 6
    assert found.width == pytest.approx(np.median([answer.width for answer in again]))
    assert found.proven == pytest.approx(np.median([answer.proven for answer in again]))
    reached = [a.width <= 1.8 and a.outcome is em.judgement.Outcome.FAIL for a in again]
    assert found.probability == np.mean(reached) >= 0.8
    assert found.fail_share is not None
    assert 0 < found.standard_error < 0.2


def test_audits_without_an_upper_limit_say_what_more_models_could_show() -> None:
    """Scores are separated, so no interval has an end."""
    design = em.goals.ManyModels(most_bases=5, most_challenges=20)
    found = plan_audit(
        em.CurveModel(delta=1e-5),
        em.goals.AssumedCurve(epsilon=300.0, concentration=math.inf),
        em.goals.IntervalWidth(at_most=2.0),
        design=design,
        simulations=4,
    )
    assert found.recommended is None
    size = found.designs[-1]
    assert (size.no_limit, size.width) == (1.0, None)
    assert size.most_shown == pytest.approx(math.log(20))
    said = " ".join(wording.help_sentences(found))
    assert "4 of 4 of them the data set no upper limit" in said
    assert "show at most 3.00. 4 times as many challenges" in said
    assert "shown to 4.38" in said
    json.dumps(wording.described(found), allow_nan=False)
    # An interval that ends, and counts, have nothing to say of it.
    assert "no upper limit" not in " ".join(
        wording.help_sentences(replace(found, designs=(replace(size, no_limit=0.0),)))
    )


def test_the_plan_in_words(plan: em.goals.AuditPlan) -> None:
    assert plan.recommended is not None
    said = " ".join([wording.recommendation(plan), *wording.help_sentences(plan)])
    assert said.startswith(f"Take {plan.recommended.sizes['canaries']:,} canaries")
    assert "interfere" in said
    assert "of 20,000 records" in said
    assert "standard error" in said or "95 % confidence" in said
    lines = table_lines(wording.table_rows(plan))
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("*") for line in lines) == 1
    values = json.loads(json.dumps(wording.described(plan), allow_nan=False))
    assert values["recommended"]["sizes"] == plan.recommended.sizes
    assert wording.designs_csv(plan).count("\n") == len(plan.designs) + 1
    assert wording.designs_csv(plan).startswith("runs,canaries,words,models,")
    assert "canaries" in repr(plan)
    assert plan.summary()["canaries"] == [d.sizes["canaries"] for d in plan.designs]


def test_a_search_that_was_ended_is_no_recommendation(plan: em.goals.AuditPlan) -> None:
    ended = replace(plan, complete=False)
    assert wording.recommendation(ended).startswith("At most ")
    assert "not a recommendation" in wording.recommendation(ended)
    nothing = replace(ended, recommended=None)
    assert "work limit" in wording.recommendation(nothing)
    assert "even 4,000 canaries" in wording.recommendation(replace(nothing, complete=True))


@pytest.mark.parametrize(
    ("model", "scenario", "design"),
    [
        (GAUSSIAN, CURVE, em.goals.ManyModels(most_bases=15)),
        (GAUSSIAN, replace(CURVE, epsilon=8.0), em.goals.PoolModels()),
        (
            COUNTS,
            em.goals.AssumedScenario(epsilon=6.0, strength=0.8),
            em.goals.ManyModels(most_bases=5, most_challenges=100),
        ),
    ],
)
def test_proofs_are_planned_for_every_design(model: Any, scenario: Any, design: Any) -> None:
    found = plan_audit(model, scenario, PROOF, design=design)
    assert found.complete
    best = found.recommended
    assert best is not None
    assert best.width is None
    assert best.proven >= 1.0
    smaller = [d for d in found.designs if d.models < best.models and d.simulations == 20]
    assert all(d.probability < 0.8 for d in smaller)
    assert "proof that epsilon is at least 1 in" in wording.recommendation(found)
    assert best.most_provable is not None
    assert best.proven < best.most_provable
    said = f"Perfect attacks on as many would prove at most {rounded_down(best.most_provable)}"
    assert f"{said}." in wording.help_sentences(found)
    # If no size had been found, what could reach the goal depends on what so many could prove.
    most = found.designs[-1].most_provable
    assert most is not None
    for goal, what in ((0.9, "a stronger attack"), (1.1, "only a larger audit")):
        wanted = em.goals.ProvenEpsilon(at_least=goal * most)
        missed = replace(found, recommended=None, goals=(wanted,))
        said = f"would prove at most {rounded_down(most)}: {what} could reach the goal."
        assert said in " ".join(wording.help_sentences(missed))
    assert len(found.plot().axes) == 2


def test_what_cannot_be_reached_is_said_without_simulations() -> None:
    cases: list[tuple[Any, Any, Any, Any, str]] = [
        (GAUSSIAN, CURVE, em.goals.ProvenEpsilon(at_least=5.0), em.goals.ManyModels(), "above"),
        (GAUSSIAN, CURVE, em.goals.DecidedClaim(claim=5.0), em.goals.PoolModels(), "share models"),
    ]
    for model, scenario, goal, design, words in cases:
        found = plan_audit(model, scenario, goal, design=design)
        assert found.recommended is None
        assert not found.designs
        assert wording.recommendation(found).startswith("No audit reaches")
        assert words in wording.recommendation(found)
    easy = plan_audit(GAUSSIAN, CURVE, em.goals.IntervalWidth(at_most=50.0))
    assert wording.recommendation(easy).startswith("Nothing needs to be measured")
    assert wording.help_sentences(easy) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"goals": ()}, "IntervalWidth"),
        ({"goals": (WIDTH, WIDTH)}, "one of each"),
        ({"scenario": 2.0}, "got scenario=2.0"),
        ({"model": COUNTS}, "expected a CurveModel"),
        ({"probability": 1.0}, "probability"),
        ({"simulations": 1}, "simulations"),
        ({"workers": 0}, "workers"),
        ({"models_per_second": 0.0}, "models_per_second"),
        ({"model": em.CurveModel(delta=0.0)}, "no epsilon"),
    ],
)
def test_bad_requests_are_refused(changes: dict[str, Any], message: str) -> None:
    known: dict[str, Any] = {"model": GAUSSIAN, "scenario": CURVE, "goals": (WIDTH,)} | changes
    model, scenario, goals = (known.pop(name) for name in ("model", "scenario", "goals"))
    with pytest.raises(em.InputError, match=message):
        plan_audit(model, scenario, *goals, **known)


def test_bad_assumptions_are_refused() -> None:
    goals, response = em.goals, em.families.RandomizedResponse()
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (goals.AssumedCurve, {"epsilon": 1.0, "strength": 0.0}, "strength"),
        (goals.AssumedCurve, {"epsilon": 1.0, "concentration": 0.0}, "concentration"),
        (goals.AssumedCurve, {"epsilon": 1.0, "family": response}, "continuous"),
        (goals.AssumedScenario, {"epsilon": 0.0, "strength": 0.5}, "epsilon"),
        (
            goals.AssumedScenario,
            {"epsilon": 1.0, "strength": 1.0, "count_correlation": 1.0},
            "correlation",
        ),
        (goals.ManyModels, {"most_bases": 2}, "most_bases"),
        (goals.OneRunCanaries, {"runs": 0}, "runs"),
        (goals.PoolModels, {"first_stage": 1.0}, "first_stage"),
        (goals.ProvenEpsilon, {"at_least": 0.0}, "at_least"),
    ]
    for kind, values, message in wrong:
        with pytest.raises(em.InputError, match=message):
            kind(**values)
