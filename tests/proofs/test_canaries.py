"""The claim test of canaries: guesses at the top and at both ends, and how often they mislead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import epsilometer as em
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.baselines.one_run import epsilon_one_run_fdp, fair_coin
from epsilometer.model.base_scores import BaseScores
from epsilometer.proofs.canaries import OneRunTest, bound_of, guesses_at, ranks_of, useful_ranks

Mechanism = Callable[[BoolArray, np.random.Generator], FloatArray]

#: Of binomial tests here: with fewer than twenty of them the suite's false alarms stay below 1e-3.
RARE = 1e-5


def slow_guesses(scores: FloatArray, member: BoolArray, rank: int, both: bool) -> tuple[int, int]:
    """One loop over the canaries, whose scores differ."""
    high, low = np.sort(scores)[-rank], np.sort(scores)[rank - 1] if both else -np.inf
    guesses = right = 0
    for score, included in zip(scores, member, strict=True):
        if score >= high or score <= low:
            guesses += 1
            right += included == (score >= high)
    return guesses, right


@pytest.mark.parametrize("both", [False, True])
def test_guesses_are_those_of_a_loop(both: bool) -> None:
    rng = np.random.default_rng(1)
    for canaries in (4, 5, 40, 101):
        member = rng.permutation(canaries) < canaries // 2
        scores = rng.random(canaries)
        ranks = np.arange(1, canaries // 2 + 1)
        base = BaseScores.of(scores[~member], scores[member])
        found = np.transpose(guesses_at(base, ranks, both=both))
        for rank, pair in zip(ranks, found, strict=True):
            assert tuple(pair) == slow_guesses(scores, member, int(rank), both)


def test_of_equal_scores_a_fixed_number_is_guessed_at_random() -> None:
    rng = np.random.default_rng(1)
    ranks, right = ranks_of(90), []
    for _ in range(300):
        scores, member = rng.integers(3, size=90) / 2, rng.random(90) < 0.5
        base = BaseScores.of(scores[~member], scores[member])
        for both, times in ((False, 1), (True, 2)):
            guesses, correct = guesses_at(base, ranks, both=both)
            assert guesses.tolist() == (times * ranks).tolist()
            right.append(correct / guesses - 0.5)
    # Scores say nothing about coins.  The control guesses members first, as if ties were in that order.
    z_scores = np.mean(right, axis=0) / (np.std(right, axis=0) / np.sqrt(len(right) / 2))
    assert np.abs(z_scores).max() < 4
    assert (np.cumsum(np.sort(member)[::-1])[ranks - 1] / ranks).min() > 0.9


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("canaries", [2, 30, 1000, 100_000])
def test_ranks_that_are_left_out_could_prove_nothing(canaries: int, both: bool) -> None:
    error, times = 0.025, 2 if both else 1
    ranks = useful_ranks(canaries, error, both=both)
    every = ranks_of(canaries)
    for place in range(len(every) - len(ranks)):
        # Left out one by one: at that moment the ranks from this one on share the error.
        guesses, level = int(every[place]) * times, error / (len(every) - place)
        assert not epsilon_one_run_fdp(10**6, guesses, guesses, 0.0, level) > 0
    if len(ranks):
        guesses = int(ranks[0]) * times
        assert epsilon_one_run_fdp(10**6, guesses, guesses, 0.0, error / len(ranks)) > 0


# --- how often a true claim is refuted -------------------------------------------------------------


def kov(epsilon: float, delta: float) -> Mechanism:
    """Per canary: with probability delta its coin is released, otherwise randomised response.

    By Kairouz, Oh and Viswanath every (epsilon, delta)-private score is a post-processing of this one.
    """

    def scores(member: BoolArray, rng: np.random.Generator) -> FloatArray:
        flipped = rng.random(len(member)) < expit(-epsilon)
        released = rng.random(len(member)) < delta
        size = np.where(released, 2.0, 1.0) + rng.random(len(member)) / 2
        return np.where(member ^ (flipped & ~released), size, -size)

    return scores


def shared_luck(epsilon: float, delta: float) -> Mechanism:
    """The same, but the coins of a whole run are released together."""

    def scores(member: BoolArray, rng: np.random.Generator) -> FloatArray:
        released = rng.random() < delta
        flipped = rng.random(len(member)) < expit(-epsilon)
        size = 1 + rng.random(len(member))
        return np.where(member ^ (flipped & ~released), size, -size)

    return scores


def false_refutations(
    mechanism: Mechanism, bound: Callable[[BaseScores], float], truth: float, runs: int
) -> int:
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(runs):
        member = rng.random(200) < 0.5
        scores = mechanism(member, rng)
        base = BaseScores.of(scores[~member], scores[member])
        # Coins that look unfair are refused.
        wrong += bool(fair_coin(base.trials_h1, base.trials_h0)) and bound(base) > truth
    return wrong


def greedy(base: BaseScores, delta: float, error: float) -> float:
    """The sabotaged twin: each number of guesses has all of the error."""
    canaries, found = base.trials_h0 + base.trials_h1, []
    for both in (False, True):
        ranks: IntArray = np.arange(1, canaries // 2 + 1)
        guesses, right = guesses_at(base, ranks, both=both)
        found.append(epsilon_one_run_fdp(canaries, guesses, right, delta, error).max())
    return float(max(found))


@pytest.mark.parametrize(
    ("make", "epsilon", "delta"),
    [(kov, 0.0, 0.0), (kov, 1.0, 0.0), (kov, 1.0, 0.01), (shared_luck, 0.5, 0.03)],
)
def test_a_true_claim_is_rarely_refuted(
    make: Callable[[float, float], Mechanism], epsilon: float, delta: float
) -> None:
    runs, error = 400, 0.05
    # Epsilon is found to 1e-9.
    wrong = false_refutations(
        make(epsilon, delta), lambda base: bound_of(base, delta, error)[0], epsilon + 1e-6, runs
    )
    assert binom.sf(wrong - 1, runs, error) > RARE


def test_the_same_check_rejects_errors_that_are_not_shared() -> None:
    runs, error = 400, 0.05
    wrong = false_refutations(kov(1.0, 0.0), lambda base: greedy(base, 0.0, error), 1 + 1e-6, runs)
    assert binom.sf(wrong - 1, runs, error) < RARE


def test_both_ends_prove_more_of_a_symmetric_leak_and_the_top_of_a_one_sided_one() -> None:
    rng = np.random.default_rng(3)
    member = rng.random(2000) < 0.5
    noise = rng.standard_normal(2000)
    leaks = {"symmetric": 2.0 * member, "top": 4.0 * (member & (rng.random(2000) < 0.1))}
    for name, signal in leaks.items():
        scores = signal + noise
        auditor = em.baselines.CanaryScoreAuditor(scores[member], scores[~member])
        top, both = (
            auditor.epsilon_one_run_fdp(0.05, 1e-5, one_sided=one) for one in (True, False)
        )
        assert (both > top + 0.2) if name == "symmetric" else (top > both + 0.5)
        proven = OneRunTest(scores=em.Scores.of_canaries(scores[member], scores[~member]))
        # Half of the error, and ranks twice apart, cost less than choosing the wrong end.
        assert proven.bound(1e-5, 0.05) > max(top, both) - 0.2


@pytest.mark.parametrize("equal", [True, False])
def test_the_best_outcome_proves_what_is_said_to_be_most_provable(equal: bool) -> None:
    places = np.arange(1000.0)
    scores = 1.0 * (places >= 500) if equal else places
    perfect = OneRunTest(scores=em.Scores.of_canaries(scores[500:], scores[:500]))
    assert perfect.bound(1e-5, 0.05) == perfect.most_provable(1e-5, 0.05)
    # All guesses are right, at the level of one of the ranks.
    ranks = useful_ranks(1000, 0.025, both=True)
    level = 0.025 / len(ranks)
    best = epsilon_one_run_fdp(1000, 2 * ranks, 2 * ranks, 1e-5, level).max()
    assert perfect.bound(1e-5, 0.05) == pytest.approx(float(best))
    rng = np.random.default_rng(5)
    mixed = rng.permutation(places)
    other = OneRunTest(scores=em.Scores.of_canaries(mixed[500:], mixed[:500]))
    assert other.most_provable(1e-5, 0.05) == perfect.most_provable(1e-5, 0.05)


def test_perfect_scores_prove_the_most_whatever_the_coins() -> None:
    rng, runs = np.random.default_rng(2), 50
    reached = 0
    for _ in range(runs):
        member = rng.random(400) < 0.5
        scores = rng.random(400) + 2 * member
        test = OneRunTest(scores=em.Scores.of_canaries(scores[member], scores[~member]))
        reached += test.bound(1e-5, 0.05) == test.most_provable(1e-5, 0.05)
    # Members must be 180 to 220 of 400: two standard deviations.
    assert reached >= 0.85 * runs
