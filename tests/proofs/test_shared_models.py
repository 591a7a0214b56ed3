"""Points that share models: exact means over all data, a slow implementation, and mistakes to avoid."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.proofs.bettors import bettors_against
from epsilometer.proofs.claim_tests import claim_test_of
from epsilometer.proofs.outcomes import RANK_RATES, outcomes_of
from epsilometer.proofs.pairs import PairTest, log_mixtures
from epsilometer.proofs.proof import prove
from epsilometer.proofs.shared_models import DRAWN, FAIR, SharedModels


def pool(
    models: int, points: int, *, mu: float = 0.0, seed: int = 1, fair_coins: bool = True
) -> PoolScores:
    rng = np.random.default_rng(seed)
    member = rng.random((models, points)) < 0.5
    value = rng.normal(size=member.shape) + mu * member
    return PoolScores(value=value, member=member, fair_coins=fair_coins)


def evidence(value: FloatArray, member: BoolArray, *, fair_coins: bool = True) -> SharedModels:
    return SharedModels.of_pool(PoolScores(value=value, member=member, fair_coins=fair_coins))


# --- means over all that can happen -------------------------------------------------------------

FAILS = 0.2


def failing(fails: BoolArray, member: BoolArray) -> FloatArray:
    """Capital of two points, averaged and as if multiplied, against (0, FAILS)-DP.

    A model fails with probability FAILS and then reveals its members; otherwise all scores are 0.  That
    is (0, FAILS)-private, and no delta below FAILS suffices.
    """
    value = np.where(fails[:, None], np.where(member, 1.0, -1.0), 0.0)
    found = evidence(value, member)
    together = PairTest(outcomes=found.by_point.outcomes).log_e_value(0.0, FAILS, 0.05)
    return np.exp([found.by_point.log_e_value(0.0, FAILS, 0.05), together])


def test_averaged_over_points_the_capital_of_a_true_claim_does_not_grow() -> None:
    """Multiplied as if points had separate models it does: models fail for all points at once."""
    models = np.arange(32)
    past = models % 4 < 2, np.stack([models % 2 == 1] * 2, axis=1)
    before, after, chances = failing(*past), np.zeros(2), 0.0
    for bits in product((False, True), repeat=6):
        fails, *member = np.reshape(bits, (3, 2))
        chance = FAILS ** fails.sum() * (1 - FAILS) ** (~fails).sum() / 4**2
        new = np.append(past[0], fails), np.vstack([past[1], np.transpose(member)])
        after += chance * failing(*new)
        chances += chance
    assert chances == pytest.approx(1.0)
    averaged, multiplied = after / before
    assert 0.9 < averaged <= 1 + 1e-9
    assert multiplied > 1.005


def mean_e_value(coin: float, error: float) -> float:
    """Exact mean against epsilon = 0 for uninformative scores: two points in three models."""
    total = 0.0
    for bits in product((False, True), repeat=6):
        member = np.array(bits).reshape(3, 2)
        chance = coin ** member.sum() * (1 - coin) ** (~member).sum()
        found = evidence(np.zeros((3, 2)), member).log_e_value(0.0, 0.0, error)
        total += chance * np.exp(found)
    return total


def test_the_bound_by_model_keeps_the_mean_and_needs_fair_coins() -> None:
    assert 0.5 < mean_e_value(0.5, 0.5) <= 1
    assert mean_e_value(0.5, 0.5) > 0.5 + 1 / 64  # the bound contributed sometimes
    assert mean_e_value(0.9, 0.5) > 1


# --- against the slow twin ----------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
def test_by_point_is_the_average_of_the_pairs_of_the_points(ties: bool) -> None:
    scores = pool(40, 7, mu=1.0)
    if ties:
        scores = PoolScores(value=np.rint(scores.value), member=scores.member)
    parts = [(scores.value[~m, n], scores.value[m, n]) for n, m in enumerate(scores.member.T)]
    alone = [outcomes_of([(zeros[: len(ones)], ones[: len(zeros)])]) for zeros, ones in parts]
    fast = SharedModels.of_pool(scores)
    for epsilon, delta in ((0.0, 0.0), (0.7, 1e-5), (3.0, 0.1)):
        slow = [PairTest(outcomes=bets).log_e_value(epsilon, delta, 0.05) for bets in alone]
        expected = np.log(np.mean(np.exp(slow)))
        assert fast.by_point.log_e_value(epsilon, delta, 0.05) == pytest.approx(expected, abs=1e-9)


def test_the_bound_by_model_is_that_of_canaries() -> None:
    """Each model is a run with the points as its canaries: all of them together are one run."""
    scores = pool(16, 30, mu=2.0)
    auditor = CanaryScoreAuditor(scores.value[scores.member], scores.value[~scores.member])
    found = SharedModels.of_pool(scores).bound_by_model(1e-5, 0.05)
    assert found == pytest.approx(auditor.epsilon_one_run_fdp(0.05, 1e-5), abs=2e-4)
    assert found > 1


def test_matrix_and_points_agree_in_any_order_of_rows() -> None:
    scores = pool(24, 12, mu=1.5)
    points = scores.by_point()
    mixed = np.random.default_rng(2).permutation(scores.value.size)
    model, point = np.divmod(mixed, scores.points)
    cells = (scores.member[model, point], scores.value[model, point])
    shuffled = Scores.of_rows([scores.names[n] for n in point], *cells, one_run=True, model=model)
    of_matrix = prove(scores, delta=1e-5, claim=0.5)
    for other in (points, shuffled):
        found = prove(other, delta=1e-5, claim=0.5, independent=True)
        # The bound is reduced for points that were dropped: half a thousandth of the error here.
        assert found.at_least == pytest.approx(of_matrix.at_least, abs=5e-3)
        assert found.assumes == of_matrix.assumes == FAIR
        assert not found.any_time
    one, two = (SharedModels.of_scores(each) for each in (points, shuffled))
    capitals = [
        np.sort(log_mixtures(each.by_point.outcomes, bettors_against(0.5, 1e-5)))
        for each in (one, two)
    ]
    np.testing.assert_allclose(capitals[0], capitals[1])


def test_points_left_out_are_paid_for() -> None:
    """With few models many points are dropped; the bound by model then has no error left."""
    scores = pool(6, 200, mu=5.0)
    assert SharedModels.of_pool(scores).bound_by_model(1e-5, 0.05) > 2
    points = SharedModels.of_scores(scores.by_point())
    assert points.one_sided == pytest.approx(len(points.sizes) / 32)
    assert points.bound_by_model(1e-5, 0.05) == 0


# --- what is proven -----------------------------------------------------------------------------


def test_both_parts_speak() -> None:
    scores = pool(128, 50, mu=2.0)
    found = SharedModels.of_pool(scores)
    assert prove(scores, delta=1e-5).at_least > 2.5
    unfair = pool(128, 50, mu=2.0, fair_coins=False)
    alone = prove(unfair, delta=1e-5)
    assert 0.3 < alone.at_least < 2.5
    assert alone.assumes == DRAWN
    assert found.log_e_value(0.5, 1e-5, 0.05) > np.log(20)
    assert prove(pool(128, 50), delta=1e-5).at_least == 0


def test_unfair_coins_have_no_bound_by_model_and_lose_its_half() -> None:
    """Whether the bound is used must not depend on the coins."""
    rng = np.random.default_rng(1)
    member = rng.random((40, 30)) < 0.8
    found = evidence(rng.normal(size=member.shape), member)
    assert found.bound_by_model(1e-5, 0.05) == 0
    half = found.by_point.log_e_value(1.0, 1e-5, 0.05) - np.log(2)
    assert found.log_e_value(1.0, 1e-5, 0.05) == pytest.approx(half)


def test_infinite_scores_are_the_highest_and_lowest() -> None:
    scores = pool(40, 5, mu=1.0)
    high, low = scores.value.max(), scores.value.min()
    ends = np.where(
        scores.value == high, np.inf, np.where(scores.value == low, -np.inf, scores.value)
    )
    found = evidence(ends, scores.member)
    expected = SharedModels.of_pool(scores)
    assert found.bound_by_model(1e-5, 0.05) == expected.bound_by_model(1e-5, 0.05)
    codes = [each.by_point.outcomes.codes[: len(RANK_RATES)] for each in (found, expected)]
    np.testing.assert_array_equal(codes[0], codes[1])
    # Fits leave them out, and what is beyond a finite threshold is beyond it.
    e_values = [each.log_e_value(0.3, 1e-5, 0.05) for each in (found, expected)]
    assert e_values[0] == pytest.approx(e_values[1], abs=0.1)


def test_scores_that_depend_on_target_models_prove_nothing() -> None:
    scores = pool(8, 3)
    bad = PoolScores(value=scores.value, member=scores.member, fair_coins=True, dependent=True)
    for data in (bad, bad.by_point()):
        with pytest.raises(InputError, match="prove nothing"):
            claim_test_of(data)


def test_points_without_pairs_count_and_prove_nothing() -> None:
    member = np.zeros((10, 3), dtype=bool)
    member[:5, 0] = True
    found = evidence(np.zeros((10, 3)), member, fair_coins=False)
    capitals = log_mixtures(found.by_point.outcomes, bettors_against(0.0, 0.0))
    np.testing.assert_allclose(capitals[1:], 0.0, atol=1e-12)
    empty = evidence(np.zeros((10, 2)), np.zeros((10, 2), dtype=bool), fair_coins=False)
    assert empty.log_e_value(0.0, 0.0, 0.05) == pytest.approx(0.0)
