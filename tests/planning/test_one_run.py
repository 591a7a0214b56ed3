"""Plans of canaries: widths against asymptotic theory, sizes, proofs, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import norm

import epsilometer as em
from epsilometer._text import table_lines
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from epsilometer.planning.canary_simulation import MOST_EXACT, Canaries, counted, left_of
from epsilometer.planning.one_run import plan_one_run
from epsilometer.planning.one_run_wording import (
    described,
    designs_csv,
    help_sentences,
    recommendation,
    table_rows,
)
from epsilometer.proofs.proof import prove

DELTA = 1e-5
GAUSSIAN = em.CurveModel(
    delta=DELTA,
    families=(em.families.Gaussian(),),
    mixing=em.families.NoMixing(),
    strength=em.families.FixedStrength(),
)
TRUTH = em.goals.AssumedCurve(epsilon=4.377178)  # mu = 1


def world(model: em.CurveModel = GAUSSIAN, **changes: Any) -> Canaries:
    settings: dict[str, Any] = {
        "model": model,
        "truth": TRUTH,
        "runs": 1,
        "level": 0.9,
        "claim": None,
        "error": 0.05,
        "seed": 1,
    }
    return Canaries(**settings | changes)


# --- the oracle: Fisher information of ranks --------------------------------------------------


def rank_information(mu: float, points: int = 800) -> float:
    """Information about mu in the order of a canary's label, for each canary in all, half of them in.

    Ranks know mu up to any monotone change of the score.  So the score function of mu is freed from
    every direction in which the score's scale could move instead: with both densities p0 and
    p1(x) = p0(x - mu), a change of scale a(x) moves log p by a' + a (log p)'.  The efficient score is
    what is left of mu's own after a projection on all a, worked out on a basis of Hermite functions.
    """
    x = np.linspace(-9, mu + 9, points)
    step = x[1] - x[0]
    p0, p1 = norm.pdf(x), norm.pdf(x - mu)
    root = np.concatenate([np.sqrt(p0 * step / 2), np.sqrt(p1 * step / 2)])
    own = np.concatenate([np.zeros(points), x - mu])
    columns = []
    centre = (x - mu / 2) / 2
    for degree in range(40):
        a = np.polynomial.hermite_e.HermiteE.basis(degree)(centre) * np.exp(-(centre**2) / 4)
        a /= np.abs(a).max()
        slope = np.gradient(a, x, edge_order=2)
        columns.append(np.concatenate([slope - a * x, slope - a * (x - mu)]))
    # A shift and a scale of both laws are among these changes too.
    columns += [np.concatenate([-x, mu - x]), np.concatenate([1 - x * x, 1 - x * (x - mu)])]
    basis = np.stack(columns, axis=1) * root[:, None]
    target = own * root
    left = target - basis @ np.linalg.lstsq(basis, target, rcond=1e-10)[0]
    return float(left @ left)


def asymptotic_width(mu: float, canaries: int, information: float) -> float:
    """Of the central 90 % interval of epsilon: 2 x 1.645 standard errors, through epsilon(mu)."""
    error = 1 / math.sqrt(canaries * information)
    ends = epsilon_of_gaussian([mu - 1.6449 * error, mu + 1.6449 * error], DELTA)
    return float(ends[1] - ends[0])


def test_the_oracle_knows_the_information_of_a_normal_shift_without_nuisance() -> None:
    """Near 0 ranks lose nothing to a known scale: 1/4 a canary, as for a mean with both sides known."""
    assert rank_information(0.01) == pytest.approx(0.25, rel=0.02)
    # Ranks never know more than the scores themselves, with variance known and mean not: 1/4.
    assert rank_information(1.0) < 0.25
    assert rank_information(2.0) < rank_information(1.0)


@pytest.mark.parametrize(("mu", "canaries"), [(1.0, 1000), (1.0, 4000), (2.0, 2000)])
def test_widths_are_those_of_asymptotic_theory(mu: float, canaries: int) -> None:
    truth = em.goals.AssumedCurve(epsilon=float(epsilon_of_gaussian(mu, DELTA)))
    own = world(truth=truth)
    widths = [own.simulate(canaries, number).answer.width for number in range(3)]
    theory = asymptotic_width(mu, canaries, rank_information(mu))
    # The prior narrows intervals of few canaries by some per cent; widths differ by 2 %.
    assert np.mean(widths) == pytest.approx(theory, rel=0.1)


def test_half_the_canaries_are_seen_by_that_check() -> None:
    """Negative control: a simulator that drops every other canary."""
    widths = [world().simulate(1000, number).answer.width for number in range(3)]
    theory = asymptotic_width(1.0, 2000, rank_information(1.0))
    assert abs(np.mean(widths) / theory - 1) > 0.25


# --- what is simulated ------------------------------------------------------------------------


def test_more_canaries_are_seen_in_the_same_world() -> None:
    few, many = world().draw(100, 3), world().draw(1000, 3)
    for side in (0, 1):
        assert np.array_equal(few[0][side], many[0][side][:50])
    other = world(seed=2).draw(100, 3)
    assert not np.array_equal(few[0][0], other[0][0])


@pytest.mark.parametrize("runs", [1, 3])
def test_the_proof_is_that_of_prove(runs: int) -> None:
    own = world(runs=runs)
    drawn = own.draw(1200, 0)
    scores = em.Scores(
        without=[a for a, _ in drawn], with_point=[b for _, b in drawn], one_run=True
    )
    shown = prove(scores, delta=DELTA).at_least
    assert own.proven(1200, 0) == pytest.approx(shown, abs=2e-4)
    assert own.simulate(1200, 0).proven == own.proven(1200, 0)


def test_counts_between_ranks_lose_next_to_nothing() -> None:
    (without, with_point), *_ = world().draw(4000, 1)
    whole = em.Scores.of_canaries(with_point, without)
    few = whole.with_bases(counted(base) for base in whole.bases)
    assert few.trials_h0.tolist() == whole.trials_h0.tolist()
    ends = [
        CurveSettings().estimate_quickly(scores, GAUSSIAN).credible_interval("epsilon", 0.9)
        for scores in (whole, few)
    ]
    widths = [high - low for low, high in ends]
    assert widths[1] == pytest.approx(widths[0], rel=0.01)
    # Negative control: two counts lose most of what the scores say.
    two = whole.with_bases(counted(base, 2) for base in whole.bases)
    low, high = CurveSettings().estimate_quickly(two, GAUSSIAN).credible_interval("epsilon", 0.9)
    assert high - low > 1.1 * widths[0]


def test_curves_that_are_left_out_did_not_matter() -> None:
    model = em.CurveModel(delta=DELTA)
    (without, with_point), *_ = world(model).draw(MOST_EXACT, 0)
    scores = em.Scores.of_canaries(with_point, without)
    left = left_of(scores, model)
    assert len(left.components) < len(model.components)
    assert left.no_leak == model.no_leak
    probed = [0.05, 0.5, 0.95]
    both = [CurveSettings().estimate_quickly(scores, each) for each in (model, left)]
    assert both[1].quantile("epsilon", probed) == pytest.approx(
        both[0].quantile("epsilon", probed), rel=1e-3
    )


# --- plans ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan() -> em.goals.OneRunPlan:
    said: list[str] = []
    found = plan_one_run(
        GAUSSIAN,
        TRUTH,
        em.goals.IntervalWidth(at_most=1.0),
        em.goals.DecidedClaim(claim=3.0),
        design=em.goals.OneRunCanaries(runs=2, dataset_size=20_000, most=30_000),
        simulations=6,
        on_message=said.append,
    )
    assert said[0].startswith("first answer: about ")
    return found


def test_the_size_is_that_of_asymptotic_theory(plan: em.goals.OneRunPlan) -> None:
    information = rank_information(1.0)
    assert plan.recommended is not None
    sizes = plan.design.sizes
    # The first size whose width is small enough, give or take one step.
    exact = next(i for i, n in enumerate(sizes) if asymptotic_width(1.0, n, information) <= 1.0)
    assert abs(sizes.index(plan.recommended.canaries) - exact) <= 1


def test_reported_numbers_are_of_the_size_itself(plan: em.goals.OneRunPlan) -> None:
    found = plan.recommended
    assert found is not None
    own = world(runs=2, claim=3.0)
    again = [own.simulate(found.canaries, number) for number in range(found.simulations)]
    widths = [each.answer.width for each in again]
    assert found.median_width == pytest.approx(np.median(widths))
    assert found.proven == pytest.approx(np.median([each.proven for each in again]))
    reached = [
        w <= 1.0 and not 0.05 < each.answer.above < 0.95
        for w, each in zip(widths, again, strict=True)
    ]
    assert found.probability == np.mean(reached) >= 0.8
    assert found.fail_share == 1.0
    assert found.canaries_per_run * 2 == found.canaries
    assert found.share_of_data == found.canaries_per_run / 20_000


def test_the_plan_in_words(plan: em.goals.OneRunPlan) -> None:
    assert plan.recommended is not None
    said = " ".join([recommendation(plan), *help_sentences(plan)])
    assert said.startswith(f"Take {plan.recommended.canaries:,} canaries in 2 training runs")
    assert "Canaries of one run interfere" in said
    assert "of 20,000 records" in said
    assert "refutes the claim of 3" in said
    lines = table_lines(table_rows(plan))
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("*") for line in lines) == 1
    values = json.loads(json.dumps(described(plan), allow_nan=False))
    assert values["proof"]["refutes_from"] is None
    assert values["recommended"]["canaries"] == plan.recommended.canaries
    header = designs_csv(plan.designs).splitlines()[0]
    assert header == ",".join(field.name for field in fields(em.goals.PlannedCanaries))


def test_no_proof_refutes_a_true_claim(plan: em.goals.OneRunPlan) -> None:
    true = replace(plan, goals=(em.goals.DecidedClaim(claim=5.0),))
    assert any("no proof will refute it" in sentence for sentence in help_sentences(true))


def test_proofs_refute_what_is_far_below_the_truth() -> None:
    found = plan_one_run(
        GAUSSIAN,
        em.goals.AssumedCurve(epsilon=8.0),
        em.goals.DecidedClaim(claim=1.0),
        design=em.goals.OneRunCanaries(most=3000),
        simulations=4,
    )
    assert found.proof_size is not None
    assert found.proof_size <= 1000
    assert f"with about {found.proof_size:,} canaries or more" in " ".join(help_sentences(found))


def test_a_strength_that_is_not_told_leaves_a_floor() -> None:
    """One base says nothing of its strength: the interval stays wide, and the plan says why."""
    found = plan_one_run(
        replace(GAUSSIAN, strength=em.families.FreeStrengths()),
        em.goals.AssumedCurve(epsilon=1.0),
        em.goals.IntervalWidth(at_most=0.5),
        design=em.goals.OneRunCanaries(most=40_000),
    )
    assert found.recommended is None
    assert recommendation(found).startswith("No number of canaries up to 40,000 reaches")
    assert found.known_strength_width is not None
    assert found.known_strength_width < 0.5 * found.designs[-1].median_width
    assert any("With a known strength" in sentence for sentence in help_sentences(found))


def test_nothing_is_needed_where_the_prior_is_narrow_enough() -> None:
    found = plan_one_run(GAUSSIAN, TRUTH, em.goals.IntervalWidth(at_most=6.5))
    assert found.nothing_needed
    assert (found.recommended, found.designs) == (None, ())
    assert recommendation(found).startswith("Nothing needs to be measured")
    assert help_sentences(found) == []


def test_the_prior_width_counts_no_leak() -> None:
    from epsilometer.planning.one_run import _prior_width

    # A half-normal of scale sqrt(10), and 10 % at 0: the 5 % quantile is 0.
    model = em.CurveModel(delta=DELTA)
    high = math.sqrt(10) * ndtri((1 + (0.95 - 0.1) / 0.9) / 2)
    assert _prior_width(model, 0.9) == pytest.approx(high)
    plain = math.sqrt(10) * (ndtri(0.975) - ndtri(0.525))
    assert _prior_width(GAUSSIAN, 0.9) == pytest.approx(plain)
    assert ndtr(0.0) == 0.5


@pytest.mark.slow
def test_same_seed_same_plan_and_every_size_up_to_a_million() -> None:
    def planned(seed: int) -> dict[str, Any]:
        return described(
            plan_one_run(GAUSSIAN, TRUTH, em.goals.IntervalWidth(at_most=0.05), seed=seed)
        )

    found = planned(1)
    assert found["recommended"]["canaries"] >= 300_000
    assert found == planned(1)
    assert found["designs"] != planned(2)["designs"]


# --- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probability": 1.0}, "expected 0 < probability < 1"),
        ({"level": 0.0}, "expected 0 < level < 1"),
        ({"error": 0.0}, "expected 0 < error < 1"),
        ({"simulations": 1}, "expected simulations >= 4"),
        ({"seed": -1}, "expected seed >= 0"),
    ],
)
def test_bad_numbers_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(em.InputError, match=message):
        plan_one_run(GAUSSIAN, TRUTH, em.goals.IntervalWidth(at_most=1.0), **change)


def test_what_does_not_fit_canaries_is_refused() -> None:
    with pytest.raises(em.InputError, match="expected a goal"):
        plan_one_run(GAUSSIAN, TRUTH)
    other: Any = em.CountModel(delta=DELTA)
    with pytest.raises(em.InputError, match="got CountModel and AssumedCurve"):
        plan_one_run(other, TRUTH, em.goals.IntervalWidth(at_most=1.0))
    pure = em.CurveModel(delta=0.0)
    with pytest.raises(em.InputError, match="no epsilon at 0"):
        plan_one_run(pure, TRUTH, em.goals.IntervalWidth(at_most=1.0))
    for make in (
        lambda: em.goals.AssumedCurve(epsilon=0.0),
        lambda: em.goals.AssumedCurve(epsilon=1.0, strength=0.0),
        lambda: em.goals.AssumedCurve(epsilon=1.0, family=em.families.RandomizedResponse()),
        lambda: em.goals.OneRunCanaries(runs=0),
        lambda: em.goals.OneRunCanaries(dataset_size=0),
        lambda: em.goals.OneRunCanaries(most=10**7),
    ):
        with pytest.raises(em.InputError, match="expected"):
            make()
