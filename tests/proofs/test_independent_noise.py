"""Proofs if the noise of canaries is independent: means of e-values, bounds, the search for luck."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom, norm

import epsilometer as em
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.gaussian_mechanism import gaussian_epsilon
from epsilometer.proofs import independent_noise
from epsilometer.proofs.independent_noise import (
    CELLS,
    CONDITION,
    FALSE_ALARM,
    IndependentNoiseTest,
    cell_counts,
    log_bets,
    separation,
    shared_luck,
)
from epsilometer.proofs.refuting import largest_refuted

#: Of binomial tests here: the suite's false alarms stay below 1e-3.
RARE = 1e-5
DELTA, ERROR = 1e-5, 0.05

PAIRS = [(1e-9, 0.1), (0.3, 0.4), (1.4, 1.48), (1.4, 2.4), (3.0, 3.1), (3.0, 5.0), (6.0, 6.7)]

#: For integrals over w: from where nothing is left, in steps that matter less than 1e-7.
GRID = np.linspace(-12.0, 25.0, 40_001)


def worst_mean(log_f: FloatArray, mu: float) -> float:
    """Largest mean of f over all pairs of the separation mu: an integral, cell by cell."""
    best = np.full_like(GRID, -np.inf)
    for without, with_point in np.exp(log_f).T:
        values = without * norm.pdf(GRID) + with_point * norm.pdf(GRID - mu)
        best = np.maximum(best, values)
    return float(np.trapezoid(best, GRID) / 2)


@pytest.mark.parametrize(("mu", "alternative"), PAIRS)
def test_no_allowed_pair_has_a_mean_above_one(mu: float, alternative: float) -> None:
    """And the worst one reaches it: nothing is given away."""
    assert worst_mean(log_bets(mu, alternative), mu) == pytest.approx(1.0, abs=1e-6)
    # Control: bets against a smaller separation.
    assert worst_mean(log_bets(0.9 * mu, alternative), mu) > 1 or mu < 0.1


@pytest.mark.parametrize(("mu", "alternative"), PAIRS[1:5])
def test_no_post_processing_of_the_pair_has_a_mean_above_one(mu: float, alternative: float) -> None:
    """Randomly drawn channels from 60 intervals of w to the cells, with exact probabilities."""
    rng, ends = np.random.default_rng(1), np.linspace(-5, mu + 5, 59)
    edges = np.concatenate([[-np.inf], ends, [np.inf]])
    f0, f1 = np.exp(log_bets(mu, alternative))
    for spread in (0.03, 0.3, 3.0):
        for _ in range(50):
            channel = rng.dirichlet(np.full(CELLS, spread), size=60)
            without, with_point = (np.diff(norm.cdf(edges - s)) @ channel for s in (0.0, mu))
            assert (without @ f0 + with_point @ f1) / 2 < 1 + 1e-12


def test_the_bets_grow_as_fast_as_any_could() -> None:
    """Their growth on the alternative is the least divergence from an allowed pair of cells."""
    mu, alternative = 1.4, 1.9
    own = np.interp(
        np.arange(1, CELLS) / CELLS, (norm.cdf(GRID) + norm.cdf(GRID - alternative)) / 2, GRID
    )
    edges = np.concatenate([[-np.inf], own, [np.inf]])
    wanted = [np.diff(norm.cdf(edges - shift)) for shift in (0.0, alternative)]
    growth = sum(q @ f for q, f in zip(wanted, log_bets(mu, alternative), strict=True)) / 2

    def divergence(cut: FloatArray) -> float:
        ends = np.concatenate([[-np.inf], cut, [np.inf]])
        allowed = [np.diff(norm.cdf(ends - shift)) for shift in (0.0, mu)]
        return float(sum(q @ np.log(q / p) for q, p in zip(wanted, allowed, strict=True)) / 2)

    least = minimize(divergence, own - (alternative - mu) / 2, method="BFGS").fun
    # A general optimiser, with differences for derivatives, finds it to about 1e-9.
    assert growth == pytest.approx(least, abs=1e-7)
    # Control: other edges diverge by more.
    assert divergence(own - (alternative - mu) / 2) > least + 1e-3


def mean_of_process(laws: list[FloatArray], mu: float, alternative: float) -> float:
    """Mean of the e-value of canaries with these laws (coin by value), over coins, values and orders."""
    f, canaries, total = np.exp(log_bets(mu, alternative)), len(laws), 0.0
    values = laws[0].shape[1]
    orders = [np.array(order) for order in itertools.permutations(range(canaries))]
    for outcome in itertools.product(range(2 * values), repeat=canaries):
        coins, rank = np.divmod(np.array(outcome), values)
        chance = math.prod(law[c, x] / 2 for law, c, x in zip(laws, coins, rank, strict=True))
        for order in orders:
            total += chance * float(np.prod(f ** cell_counts(rank, coins, order)))
    return total / len(orders)


def test_the_product_over_canaries_has_mean_at_most_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all outcomes of four canaries, also of different laws; later bets learn from earlier ones."""
    monkeypatch.setattr(independent_noise, "WARM_UP", 1)

    def law(mu: float, *cuts: float, turned: bool = False) -> FloatArray:
        ends = np.concatenate([[-np.inf], cuts, [np.inf]])
        found = np.stack([np.diff(norm.cdf(ends - shift)) for shift in (0.0, mu)])
        return found[:, ::-1] if turned else found

    alike = [law(1.0, 0.2, 1.1)] * 4
    different = [law(1.0, 0.5, 0.6), law(1.0, -3.0, 0.3, turned=True), law(0.4, 1.0, 9.0)]
    for laws in (alike, [*different, law(1.0, 0.0, 2.0)]):
        assert mean_of_process(laws, 1.0, 1.8) <= 1 + 1e-12
    # Control: the same canaries with a larger separation than the claim allows.
    assert mean_of_process([law(2.0, 0.7, 1.3)] * 4, 1.0, 1.8) > 1.02


def test_separations_are_those_of_closed_forms() -> None:
    for mu in (0.2, 1.0, 3.0):
        epsilon = gaussian_epsilon(DELTA, sensitivity=mu, noise=1.0)
        assert separation(epsilon, DELTA) == pytest.approx(mu, abs=1e-9)
    # At epsilon = 0 delta is the total variation, 2 Phi(mu / 2) - 1, up to which nothing is claimed.
    assert 2 * norm.cdf(separation(0.0, 0.1) / 2) - 1 == pytest.approx(0.1, abs=1e-12)


# --- bounds -----------------------------------------------------------------------------------


def gaussian(mu: float, canaries: int, rng: np.random.Generator) -> em.Scores:
    member = rng.random(canaries) < 0.5
    scores = mu * member + rng.normal(size=canaries)
    return em.Scores.of_canaries(scores[member], scores[~member]).assuming_independent_noise()


def bounds_of(mu: float, canaries: int, runs: int) -> FloatArray:
    rng = np.random.default_rng(round(100 * mu) + canaries)
    tests = (
        IndependentNoiseTest(scores=gaussian(mu, canaries, rng), search=False) for _ in range(runs)
    )
    return np.array([largest_refuted(test, DELTA, ERROR) for test in tests])


@pytest.mark.parametrize(
    ("mu", "canaries", "share"), [(0.0, 300, 0.0), (1.0, 500, 0.55), (1.4, 3000, 0.85)]
)
def test_bounds_are_below_the_truth_and_near_it(mu: float, canaries: int, share: float) -> None:
    """Shares of the truth are what was measured, rounded down; (epsilon, delta) alone proves a third."""
    truth = gaussian_epsilon(DELTA, sensitivity=mu, noise=1.0) if mu else 0.0
    bounds = bounds_of(mu, canaries, 60)
    assert binom.sf(np.sum(bounds > truth) - 1, len(bounds), ERROR) > RARE
    assert bounds.mean() >= share * truth
    # Control: a claim of three quarters of the truth is refuted far more often than the error.
    assert not mu or np.mean(bounds > 0.75 * truth) > 0.2 + 0.6 * (canaries > 500)


def test_only_the_order_of_scores_matters() -> None:
    rng = np.random.default_rng(5)
    without, with_point = rng.normal(size=400), rng.normal(size=410) + 1.5
    plain = em.Scores.of_canaries(with_point, without)
    bent = em.Scores.of_canaries(np.exp(with_point), np.exp(without))
    tests = [IndependentNoiseTest(scores=scores) for scores in (plain, bent)]
    assert len({test.log_e_value(1.0, DELTA, ERROR) for test in tests}) == 1
    assert len({test.searched for test in tests}) == 1


def test_what_could_be_proven_at_best() -> None:
    rng = np.random.default_rng(6)
    small, large = (gaussian(9.0, size, rng) for size in (300, 3000))
    tests = [IndependentNoiseTest(scores=scores) for scores in (small, large)]
    most = [test.most_provable(DELTA, ERROR) for test in tests]
    assert 5 < most[0] < most[1] <= 30
    for test, limit in zip(tests, most, strict=True):
        assert largest_refuted(test, DELTA, ERROR) <= limit + 1e-3
    assert tests[0].most_provable(0.0, ERROR) == 0.0


# --- the search for shared luck ---------------------------------------------------------------

Draw = Callable[[BoolArray, np.random.Generator], FloatArray]


def clustered(size: int, *, noise: float = 0.0, luck: float = 0.0) -> Draw:
    """Scores whose clusters share a part of their noise, or how far they are from the middle."""

    def draw(member: BoolArray, rng: np.random.Generator) -> FloatArray:
        which = np.arange(len(member)) // size
        shift, scale = rng.normal(size=(2, which[-1] + 1))[:, which]
        found = member - 0.5 + math.sqrt(1 - noise) * rng.normal(size=len(member))
        return np.asarray((found + math.sqrt(noise) * shift) * np.exp(luck * scale))

    return draw


def p_values(draw: Draw, runs: int, *, size: int = 800, mixed: bool = False) -> FloatArray:
    rng, found = np.random.default_rng(11), []
    for _ in range(runs):
        member = rng.random(size) < 0.5
        scores = draw(member, rng)
        sides = [scores[~member], scores[member]]
        if mixed:
            sides = [rng.permutation(side) for side in sides]
        found.append(shared_luck((BaseScores.of(*sides),)))
    return np.array(found)


def test_independent_canaries_share_no_luck() -> None:
    """The p-value is exact: at most its level, for laws of any shape."""
    laws: list[Draw] = [
        lambda member, rng: member + rng.normal(size=len(member)),
        lambda member, rng: rng.standard_cauchy(size=len(member)) * (1 + 5 * member),
        lambda member, rng: member + rng.integers(3, size=len(member)).astype(float),
    ]
    found = np.concatenate([p_values(law, 40, size=300) for law in laws])
    for level in (FALSE_ALARM, 0.1, 0.5):
        assert binom.sf(np.sum(found <= level) - 1, len(found), level) > RARE


@pytest.mark.parametrize(
    "draw", [clustered(10, noise=0.5), clustered(100, noise=0.2), clustered(40, luck=0.7)]
)
def test_luck_of_neighbours_is_found(draw: Draw) -> None:
    assert np.mean(p_values(draw, 20) <= FALSE_ALARM) > 0.9
    # Control: the same scores in a random order, where it cannot be seen.
    assert np.mean(p_values(draw, 20, mixed=True) <= FALSE_ALARM) < 0.3


def test_luck_of_the_whole_run_is_not_found() -> None:
    """As the docstring says: all canaries of a run agree."""
    assert np.mean(p_values(clustered(800, noise=0.5), 20) <= FALSE_ALARM) < 0.3


def canaries(without: Any, with_point: Any) -> em.Scores:
    return em.Scores.of_canaries(with_point, without).assuming_independent_noise()


def test_why_nothing_is_proven() -> None:
    rng = np.random.default_rng(3)
    without, with_point = rng.normal(size=400), rng.normal(size=400) + 3

    def withheld(scores: em.Scores, delta: float = DELTA, **how: bool) -> str:
        test = IndependentNoiseTest(scores=scores, **how)
        assert largest_refuted(test, delta, ERROR) == 0.0
        return str(test.withheld(delta))

    assert withheld(canaries(without, with_point), 0.0) == (
        "normal noise has no finite epsilon at delta = 0"
    )
    assert "with fewer than 32 canaries" in withheld(canaries(without[:31], with_point))
    assert "scores are equal" in withheld(canaries(without.round(1), with_point.round(1)))
    assert "seem to share luck" in withheld(canaries(np.sort(without), with_point))
    two = em.Scores(without=[without, with_point], with_point=[with_point] * 2, one_run=True)
    assert withheld(two, independent=False) == "the runs may share coins"
    unknown = canaries(without, with_point)
    base = unknown.bases[0]
    blank = BaseScores(value=base.value, zeros=base.zeros, ones=base.ones)
    assert "order of the canaries is not known" in withheld(unknown.with_bases([blank]))
    # Control: nothing of this.
    test = IndependentNoiseTest(scores=unknown)
    assert test.withheld(DELTA) is None
    assert largest_refuted(test, DELTA, ERROR) > 8


# --- in proofs --------------------------------------------------------------------------------


def test_proofs_of_other_scores_have_no_condition() -> None:
    scores = gaussian(1.5, 1000, np.random.default_rng(8))
    plain = em.Scores.of_canaries(*reversed(scores.bases[0].in_training_order))
    assert em.prove(plain, delta=DELTA).conditional is None
    assert em.prove(scores, delta=DELTA).at_least == em.prove(plain, delta=DELTA).at_least
    with pytest.raises(InputError, match="expected scores of canaries of training runs"):
        em.Scores(without=[[1.0, 2.0]], with_point=[[3.0]]).assuming_independent_noise()


def test_the_assumption_stays_with_the_scores() -> None:
    rng = np.random.default_rng(9)
    one, other = (gaussian(1.5, 300, rng) for _ in range(2))
    assert one.take([0]).independent_noise
    assert one.with_flaws(["odd"]).independent_noise
    assert one.joined(other).independent_noise
    plain = em.Scores.of_canaries(*other.bases[0].in_training_order)
    assert not one.joined(plain).independent_noise


def test_a_conditional_proof_says_its_condition() -> None:
    scores = gaussian(1.5, 2000, np.random.default_rng(10))
    proof = em.prove(scores, delta=DELTA, claim=4.0)
    known = proof.conditional
    assert known is not None
    assert not proof.refuted
    assert known.refuted
    assert known.at_least > 5
    assert proof.at_least < 4
    assert known.refutation.endswith(f"at most 5 %, if {CONDITION}")
    assert "show no shared luck" in known.finding
    entry = json.loads(json.dumps(proof.described()))["conditional"]
    assert entry["condition"] == CONDITION
    assert entry["at_least"] == known.at_least
    assert entry["shared_luck_p_value"] == known.shared_luck
    assert entry["withheld"] is None
    assert "conditional" not in entry
    assert "if noise is independent" in str(proof.summary())
    # Withheld: the bound is 0, and the reason is said.
    without, with_point = scores.bases[0].in_training_order
    sorted_scores = canaries(np.sort(without), with_point)
    lost = em.prove(sorted_scores, delta=DELTA, claim=4.0).conditional
    assert lost is not None
    assert (lost.at_least, lost.refuted, lost.e_value) == (0.0, False, 0.0)
    assert lost.finding == f"nothing: {lost.withheld}"


def mean_where_canaries_differ() -> float:
    """The mean e-value against a true claim, where the first half of the canaries scores lower."""
    rng, epsilon, size = np.random.default_rng(8), 0.2, 100
    place = np.repeat([-2.0, 2.0], size // 2)
    found: list[float] = []
    while len(found) < 2000:
        member = rng.random(size) < 0.5
        if 35 <= member.sum() <= 65:  # coins that look fair
            score = place + rng.normal(size=size) + separation(epsilon, DELTA) * member
            canaries = em.Scores.of_canaries(score[member], score[~member])
            test = IndependentNoiseTest(scores=canaries, search=False)
            found.append(math.exp(test.log_e_value(epsilon, DELTA, ERROR)))
    return float(np.mean(found))


def test_canaries_need_not_be_alike_for_the_mean_to_be_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The standard error is about 0.1.
    assert mean_where_canaries_differ() < 1
    # Control: an order that follows from their number alone tells the coins of those not bet on.
    monkeypatch.setattr(
        independent_noise, "seeded_by", lambda rank, _: np.random.default_rng(len(rank))
    )
    assert mean_where_canaries_differ() > 2
