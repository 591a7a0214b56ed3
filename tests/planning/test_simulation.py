"""Simulated audits against a direct simulation, and the worlds they share."""

from __future__ import annotations

import numpy as np
import pytest

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact.engine import estimate_quickly
from epsilometer.model.region import sample_ring
from epsilometer.planning.scenarios import Truth
from epsilometer.planning.simulation import (
    CandidateDesign,
    Setting,
    SimulationJob,
    draw_counts,
    draw_rates,
    simulate,
    simulator,
)

DELTA = 1e-3
SMALL = CandidateDesign(8, 60)
RUNS = 30
APART = 4.4
"""Standard errors; 1e-5 of sound twins are further apart."""


def setting(
    *, correlated: bool = False, pilot: em.AttackCounts | None = None, most_bases: int = 40
) -> Setting:
    likelihood = (
        em.likelihoods.CorrelatedNormal() if correlated else em.likelihoods.IndependentBinomial()
    )
    return Setting(
        model=em.CountModel(delta=DELTA, likelihood=likelihood),
        level=0.9,
        claim=1.0,
        pilot=pilot,
        most_bases=most_bases,
        seed=3,
    )


@pytest.fixture(scope="module")
def direct() -> np.ndarray:
    """log widths of audits simulated in the plainest way, by the full engine."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(RUNS):
        alpha, beta = sample_ring(SMALL.bases, 2.0, DELTA, 0.5, rng=rng)
        counts = em.AttackCounts(
            false_positives=rng.binomial(SMALL.challenges, alpha),
            trials_h0=SMALL.challenges,
            false_negatives=rng.binomial(SMALL.challenges, beta),
            trials_h1=SMALL.challenges,
        )
        posterior = estimate(
            counts, em.CountModel(delta=DELTA), em.engines.ExactSettings(tolerance=0.02)
        )
        low, high = posterior.credible_interval("epsilon")
        found.append(np.log(high - low))
    return np.array(found)


def distance(direct: np.ndarray, truth: Truth) -> float:
    """Standard errors between the mean log widths."""
    found = [
        simulate(setting(), SimulationJob(SMALL, number, truth)).width for number in range(RUNS)
    ]
    logs = np.log(found)
    error = np.sqrt((logs.var(ddof=1) + direct.var(ddof=1)) / RUNS)
    return float(abs(logs.mean() - direct.mean()) / error)


@pytest.mark.slow
def test_widths_equal_those_of_a_direct_simulation(direct: np.ndarray) -> None:
    assert distance(direct, Truth(2.0, 0.5)) < APART


@pytest.mark.slow
def test_counts_at_another_epsilon_are_caught(direct: np.ndarray) -> None:
    assert distance(direct, Truth(0.7, 0.5)) > APART


@pytest.mark.parametrize("correlated", [False, True])
def test_one_resolution_is_enough(correlated: bool) -> None:
    now = setting(correlated=correlated)
    for number, truth in enumerate((Truth(2.0, 0.5), Truth(0.8, 0.9), Truth(4.0, 0.1))):
        counts = draw_counts(now, SimulationJob(CandidateDesign(6, 100), number, truth))
        low, high = estimate_quickly(counts, now.model).credible_interval("epsilon")
        start, end = estimate(counts, now.model).credible_interval("epsilon")
        assert high - low == pytest.approx(end - start, rel=0.05 if correlated else 1e-3)


@pytest.mark.parametrize("correlated", [False, True])
def test_larger_designs_see_the_same_world(correlated: bool) -> None:
    now = setting(correlated=correlated)
    small = SimulationJob(CandidateDesign(5, 100), 7, Truth(2.0, 0.5, 1.5, 0.3))
    more_bases = small._replace(design=CandidateDesign(20, 100))
    more_challenges = small._replace(design=CandidateDesign(5, 10_000))
    assert np.array_equal(draw_rates(now, small)[0], draw_rates(now, more_bases)[0][:5])
    assert np.array_equal(draw_rates(now, small)[1], draw_rates(now, more_challenges)[1])
    few, many = draw_counts(now, small), draw_counts(now, more_bases)
    assert np.array_equal(few.false_positives, many.false_positives[:5])
    other = draw_counts(now, small._replace(number=8))
    assert not np.array_equal(few.false_positives, other.false_positives)


def test_correlated_counts_are_as_wide_and_as_correlated_as_told() -> None:
    now = setting(correlated=True, most_bases=4000)
    job = SimulationJob(CandidateDesign(4000, 5000), 0, Truth(1.0, 0.5, 2.0, 0.6))
    alpha, beta = draw_rates(now, job)
    counts = draw_counts(now, job)
    z = (counts.false_positives - 5000 * alpha) / np.sqrt(5000 * alpha * (1 - alpha))
    w = (counts.false_negatives - 5000 * beta) / np.sqrt(5000 * beta * (1 - beta))
    inside = (alpha > 0.02) & (alpha < 0.98) & (beta > 0.02) & (beta < 0.98)  # nothing is cut there
    z, w = z[inside], w[inside]
    # Standard error of a variance of 2 from 3,500 normals: 0.05; of a correlation of 0.6: 0.011.
    assert z.var() == pytest.approx(2.0, abs=0.2)
    assert np.corrcoef(z, w)[0, 1] == pytest.approx(0.6, abs=0.05)


def test_a_pilot_comes_first_and_counts_as_bases() -> None:
    pilot = em.AttackCounts(
        false_positives=[1, 2, 3], trials_h0=40, false_negatives=[4, 5, 6], trials_h1=50
    )
    now = setting(pilot=pilot)
    counts = draw_counts(now, SimulationJob(CandidateDesign(8, 60), 0, Truth(2.0, 0.5)))
    assert len(counts) == 8
    assert counts.false_negatives[:3].tolist() == [4, 5, 6]
    assert counts.trials_h1.tolist() == [50] * 3 + [60] * 5


def test_processes_find_the_same() -> None:
    now = setting()
    jobs = [
        SimulationJob(CandidateDesign(bases, 40), number, Truth(2.0, 0.5))
        for number in range(3)
        for bases in (4, 6)
    ]
    told: list[int] = []
    with simulator(now, 1) as run:
        here = run(jobs)
    with simulator(now, 2, told.append) as run:
        assert run(jobs) == here
    assert told == list(range(1, 7))
    assert 0 <= here[0].above <= 1
