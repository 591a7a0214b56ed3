"""Simulated audits against audits of the same data, a slow simulation, and asymptotic theory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import epsilometer as em
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from epsilometer.planning.designs import Size
from epsilometer.planning.goals import Answer, CountTruth
from epsilometer.planning.search import Setting, SimulationJob, simulator

DELTA = 1e-5
GAUSSIAN = em.CurveModel(
    delta=DELTA,
    families=(em.families.Gaussian(),),
    mixing=em.families.NoMixing(),
    strength=em.families.FixedStrength(),
)
COUNTS = em.CountModel(delta=1e-3)
CURVE = em.goals.AssumedCurve(epsilon=float(epsilon_of_gaussian(1.0, DELTA)))
WIDTH = em.goals.IntervalWidth(at_most=1.0)


def setting(**changes: Any) -> Setting:
    known: dict[str, Any] = {
        "model": GAUSSIAN,
        "design": em.goals.ManyModels(),
        "goals": [WIDTH],
        "level": 0.9,
        "error": 0.05,
        "seed": 1,
    }
    return Setting(**known | changes)


def job(now: Setting, bases: int, each: int, scenario: Any = CURVE, number: int = 0) -> Any:
    truth = scenario.truths(1, now.model, rng=np.random.default_rng(1))[0]
    return SimulationJob(Size(bases, each), number, truth)


# --- the answers are those of audits -----------------------------------------------------------

MECHANISMS = {
    "many": (setting(), Size(4, 60), CURVE),
    "one-run": (setting(design=em.goals.OneRunCanaries(runs=2)), Size(2, 200), CURVE),
    "pool": (setting(design=em.goals.PoolModels()), Size(5, 80), CURVE),
    "counts": (
        setting(model=COUNTS),
        Size(5, 100),
        em.goals.AssumedScenario(epsilon=2.0, strength=0.5),
    ),
}


@pytest.mark.parametrize("design", MECHANISMS)
def test_an_answer_is_that_of_an_audit_of_the_same_data(design: str) -> None:
    now, size, scenario = MECHANISMS[design]
    now = replace(now, goals=[WIDTH, em.goals.DecidedClaim(claim=0.2)])
    one = job(now, *size, scenario)
    found, data = now.simulate(one), now.draw(one)
    posterior = em.estimate(data, now.model)
    low, high = posterior.credible_interval("epsilon", 0.9)
    # The first pass of an engine against its last one.
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.02)
    assert found.above == pytest.approx(posterior.probability_above("epsilon", 0.2), abs=0.01)
    proof = em.prove(data, delta=now.model.delta)
    assert (found.proven, found.most_provable) == (proof.at_least, proof.most_provable)
    assert found.outcome is em.judge(posterior, 0.2).outcome
    # Negative control: the audit of other data differs by more than that.
    other = now.simulate(one._replace(number=7))
    assert abs(other.low - low) + abs(other.high - high) > 0.04
    # Without a goal about the posterior, there is only the proof.
    alone = replace(now, goals=[em.goals.ProvenEpsilon(at_least=1.0)]).simulate(one)
    assert math.isnan(alone.width)
    assert alone.proven == proof.at_least


def slow_widths(mu: float, *, bases: int, models: int, audits: int) -> list[float]:
    """The obvious twin: normal scores, `em.estimate`, the width."""
    rng, widths = np.random.default_rng(5), []
    for _ in range(audits):
        sides = [[*rng.normal(mean, size=(bases, models))] for mean in (0.0, mu)]
        scores = em.Scores(without=sides[0], with_point=sides[1])
        low, high = em.estimate(scores, GAUSSIAN).credible_interval("epsilon", 0.9)
        widths.append(high - low)
    return widths


def test_widths_are_those_of_a_slow_simulation() -> None:
    now = setting()
    widths = [now.simulate(job(now, 3, 80, number=k)).width for k in range(12)]

    def z(others: list[float]) -> float:
        error = math.sqrt((np.var(widths, ddof=1) + np.var(others, ddof=1)) / 12)
        return float(abs(np.mean(widths) - np.mean(others)) / error)

    # 4 standard errors: a false alarm in 10,000 runs.
    assert z(slow_widths(1.0, bases=3, models=80, audits=12)) < 4
    # Negative controls: models that are missing, and an attack that is twice as strong.
    assert z(slow_widths(1.0, bases=3, models=40, audits=12)) > 4
    assert z(slow_widths(2.0, bases=3, models=80, audits=12)) > 4


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


def asymptotic_width(mu: float, canaries: int) -> float:
    """Of the central 90 % interval of epsilon: 2 x 1.645 standard errors, through epsilon(mu)."""
    error = 1 / math.sqrt(canaries * rank_information(mu))
    ends = epsilon_of_gaussian([mu - 1.6449 * error, mu + 1.6449 * error], DELTA)
    return float(ends[1] - ends[0])


def test_widths_of_canaries_are_those_of_asymptotic_theory() -> None:
    # Near 0 ranks lose nothing to a known scale: 1/4 a canary, as for a mean with both sides known.
    assert rank_information(0.01) == pytest.approx(0.25, rel=0.02)
    assert rank_information(2.0) < rank_information(1.0) < 0.25
    now = setting(design=em.goals.OneRunCanaries())
    widths = [now.simulate(job(now, 1, 2000, number=k)).width for k in range(3)]
    # The prior narrows intervals of few canaries by some per cent; widths differ by 2 %.
    assert np.mean(widths) == pytest.approx(asymptotic_width(1.0, 2000), rel=0.1)
    # Negative control: a simulator that drops every other canary.
    assert abs(np.mean(widths) / asymptotic_width(1.0, 4000) - 1) > 0.25


# --- what is drawn ----------------------------------------------------------------------------


@pytest.mark.parametrize("design", ["many", "one-run"])
def test_larger_audits_are_seen_in_the_same_world(design: str) -> None:
    now, *_ = MECHANISMS[design]
    few, many = now.draw(job(now, 2, 40)), now.draw(job(now, 3, 100))
    for side in (0, 1):
        first = few.bases[1].in_training_order[side]  # type: ignore[union-attr]
        same = many.bases[1].in_training_order[side]  # type: ignore[union-attr]
        assert np.array_equal(first, same[: len(first)])
    assert now.draw(job(now, 2, 40, number=1)) != few


def test_strengths_of_bases_differ_around_their_mean() -> None:
    weak = em.goals.AssumedCurve(epsilon=4.0, strength=0.4)
    truth = weak.truths(1, GAUSSIAN, rng=np.random.default_rng(1))[0]
    drawn = truth.strengths(4000, rng=np.random.default_rng(1))
    # Beta with concentration 8: variance m (1 - m) / 9, standard error of the mean 0.0026.
    assert drawn.mean() == pytest.approx(0.4, abs=0.01)
    assert drawn.var() == pytest.approx(0.4 * 0.6 / 9, rel=0.1)
    equal = truth._replace(concentration=math.inf).strengths(3, rng=np.random.default_rng(1))
    assert equal.tolist() == [0.4] * 3


def test_correlated_counts_are_as_wide_and_as_correlated_as_told() -> None:
    model = em.CountModel(delta=1e-3, likelihood=em.likelihoods.CorrelatedCells())
    size, truth = Size(4000, 5000), CountTruth(1.0, 0.5, 2.0, 0.6)
    counts: Any = setting(model=model).draw(SimulationJob(size, 0, truth))
    plain: Any = setting(model=COUNTS).draw(SimulationJob(size._replace(each=10**8), 0, truth))
    alpha, beta = plain.false_positives / 10**8, plain.false_negatives / 10**8  # the same rates
    z = (counts.false_positives - 5000 * alpha) / np.sqrt(5000 * alpha * (1 - alpha))
    w = (counts.false_negatives - 5000 * beta) / np.sqrt(5000 * beta * (1 - beta))
    inside = (alpha > 0.02) & (alpha < 0.98) & (beta > 0.02) & (beta < 0.98)  # nothing is cut there
    # Standard error of a variance of 2 from 3,500 normals: 0.05; of a correlation of 0.6: 0.011.
    assert z[inside].var() == pytest.approx(2.0, abs=0.2)
    assert np.corrcoef(z[inside], w[inside])[0, 1] == pytest.approx(0.6, abs=0.05)


def test_models_of_the_first_stage_are_not_judged() -> None:
    for share, judged in ((0.5, 20), (0.0, 40)):
        now = setting(design=em.goals.PoolModels(first_stage=share))
        scores: Any = now.draw(job(now, 5, 40))
        assert (len(scores), scores.shared_models, scores.fair_coins) == (5, judged, True)


# --- pilots -----------------------------------------------------------------------------------


def test_truths_of_a_pilot_are_draws_of_its_posterior() -> None:
    now = setting(model=replace(GAUSSIAN, strength=em.families.FreeStrengths(), no_leak=0.3))
    drawn_bases: Any = now.draw(job(now, 3, 60))
    pilot = em.Scores.of_bases(drawn_bases.bases, ["a", "b", "c"])
    posterior = em.estimate(pilot, now.model)
    scenario = em.goals.PilotScenario(posterior=posterior, extend=True)
    truths: Any = scenario.truths(2000, now.model, rng=np.random.default_rng(1))
    drawn = np.array([truth.epsilon for truth in truths])
    for probability in (0.25, 0.5, 0.75):
        # Standard error of a share of 2,000: 0.011.
        wanted = float(posterior.quantile("epsilon", [probability])[0])
        assert np.mean(drawn <= wanted) == pytest.approx(probability, abs=0.05)
    grown = replace(now, pilot=scenario.pilot)
    data: Any = grown.draw(SimulationJob(Size(8, 60), 0, truths[0]))
    assert len(data) == 8
    assert data.take(range(3)) == pilot
    with pytest.raises(em.InputError, match="model of the pilot"):
        scenario.truths(1, GAUSSIAN, rng=np.random.default_rng(1))


def test_a_pilot_of_counts_comes_first() -> None:
    pilot = em.AttackCounts(
        false_positives=[1, 2, 3], trials_h0=40, false_negatives=[4, 5, 6], trials_h1=50
    )
    now = setting(model=COUNTS, pilot=pilot)
    counts: Any = now.draw(SimulationJob(Size(8, 60), 0, CountTruth(2.0, 0.5)))
    assert counts.false_negatives[:3].tolist() == [4, 5, 6]
    assert counts.trials_h1.tolist() == [50] * 3 + [60] * 5


@pytest.mark.slow
def test_processes_find_the_same() -> None:
    now = setting(goals=[em.goals.DecidedClaim(claim=1.0)])
    jobs = [job(now, bases, 30, number=number) for number in range(3) for bases in (2, 3)]
    told: list[int] = []
    with simulator(now, 1) as run:
        here = run(jobs)
    with simulator(now, 2, told.append) as run:
        assert run(jobs) == here
    assert told == list(range(1, 7))


# --- goals ------------------------------------------------------------------------------------


def test_only_the_right_verdict_reaches_a_claim() -> None:
    goal = em.goals.DecidedClaim(claim=1.0)
    outcome = em.judgement.Outcome
    right = Answer(2.0, 1.5, 2.5, 0.99, outcome.FAIL)
    assert goal.margin(right) > 0
    assert goal.margin(right._replace(truth=0.5)) < 0  # a wrong FAIL
    assert goal.margin(right._replace(outcome=outcome.INCONCLUSIVE)) < 0  # a check objected
    assert goal.margin(right._replace(above=0.5)) > 0  # proven, whatever the posterior says
    assert goal.margin(Answer(0.5, 0.0, 0.9, 0.01, outcome.PASS)) > 0


def test_margins_of_widths_and_proofs_change_sign_at_the_goal() -> None:
    answer = Answer(2.0, 1.0, 2.0, proven=0.7)
    assert WIDTH.margin(answer) == 0
    assert WIDTH.margin(answer._replace(high=2.1)) < 0
    assert em.goals.ProvenEpsilon(at_least=0.7).margin(answer) == 0
    assert em.goals.ProvenEpsilon(at_least=0.8).margin(answer) < 0
