"""Models that chose points or trained the attack are not evaluated, so nothing false is proven."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy import stats

from epsilometer._arrays import IntArray
from epsilometer.attacks.pool_attacks import (
    POOL_ATTACKS,
    attack_result,
    held_out_scores,
    most_leaking,
)
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.errors import InputError
from epsilometer.measurement.algorithm import Algorithm
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.pool import Pool
from epsilometer.measurement.store import MemoryStore
from epsilometer.model.pool_scores import PoolScores
from epsilometer.proofs.proof import prove
from tests.attacks.pool_oracles import leaks
from tests.measurement.algorithms import IgnoresData, Remembers, pool_plan

every_attack = pytest.mark.parametrize("attack", POOL_ATTACKS)

MODELS, POINTS, REFERENCES, JUDGED = 32, 60, 20, 6


def no_leak(seed: int, models: int = MODELS) -> PoolLosses:
    """A pool without a leak: points differ, but coins have no effect."""
    rng = np.random.default_rng(seed)
    points = POINTS + REFERENCES
    member = rng.random((models, points)) < 0.5
    member[:, POINTS:] = False
    odds = rng.normal(size=(models, points)) + rng.normal(size=points)
    return PoolLosses(
        loss=np.logaddexp(0, -odds),
        member=member,
        references=REFERENCES,
        fair_coins=True,
        features=rng.normal(size=(points, 3)),
        labels=np.arange(points) % 2,
    )


def design(attack: str, **changed: object) -> Pool:
    usual = {"models": MODELS, "references": REFERENCES, "pilot": True, "judged": JUDGED}
    return Pool(attack=attack, **usual | changed)  # type: ignore[arg-type]


def changed(losses: PoolLosses, models: IntArray, points: IntArray, *, coins: bool) -> PoolLosses:
    """A copy with other losses of some points under some models, or with other coins."""
    loss, member = losses.loss.copy(), losses.member.copy()
    places = np.ix_(models, points)
    if coins:
        member[places] = ~member[places]
    else:
        loss[places] *= 3.0
    return PoolLosses(
        loss=loss, member=member, references=REFERENCES, fair_coins=True,
        features=losses.features, labels=losses.labels,
    )  # fmt: skip


# --- what scores depend on ------------------------------------------------------------------------


@every_attack
def test_target_models_neither_choose_points_nor_train_the_attack(attack: str) -> None:
    losses, chosen = no_leak(1), design(attack)
    everything, judged = np.arange(POINTS), np.arange(16, MODELS)
    points = chosen.judged_points(losses)
    scores = chosen.pool_scores(losses)
    assert scores.models == 16
    assert scores.names == tuple(map(str, points))
    np.testing.assert_array_equal(scores.member, losses.member[16:, points])
    # Their coins are not used.
    flipped = changed(losses, judged, everything, coins=True)
    np.testing.assert_array_equal(chosen.judged_points(flipped), points)
    np.testing.assert_array_equal(chosen.pool_scores(flipped).value, scores.value)
    # Nor do their losses select points, or affect the score of another model.
    other = changed(losses, judged[3:4], everything, coins=False)
    np.testing.assert_array_equal(chosen.judged_points(other), points)
    same = np.delete(np.arange(16), 3)
    np.testing.assert_allclose(chosen.pool_scores(other).value[same], scores.value[same])
    assert (chosen.pool_scores(other).value[3] != scores.value[3]).any()


@every_attack
def test_models_that_teach_do_matter(attack: str) -> None:
    """Control: the checks above can fail."""
    losses, chosen = no_leak(1), design(attack)
    everything = np.arange(POINTS)
    flipped = changed(losses, np.arange(16), everything, coins=True)
    assert chosen.judged_points(flipped).tolist() != chosen.judged_points(losses).tolist()
    taught = POOL_ATTACKS[attack].least_teachers > 0
    other = changed(losses, np.arange(16), everything, coins=False)
    fixed = design(attack, pilot=False, first_stage=16)
    differs = (fixed.pool_scores(other).value != fixed.pool_scores(losses).value).any()
    assert differs == taught


@pytest.mark.parametrize("attack", ["loss", "logit", "population"])
def test_attacks_without_shadow_models_use_the_target_model_only(attack: str) -> None:
    losses, chosen = no_leak(2), design(attack)
    points = chosen.judged_points(losses)
    unchosen = np.setdiff1d(np.arange(POINTS), points)
    # Nor its losses at other points.
    later = changed(losses, np.arange(16, MODELS), unchosen, coins=False)
    np.testing.assert_array_equal(chosen.pool_scores(later).value, chosen.pool_scores(losses).value)


# --- the first stage ------------------------------------------------------------------------------


def test_points_are_the_first_unless_a_pilot_chooses() -> None:
    losses = no_leak(3)
    assert design("loss", pilot=False).judged_points(losses).tolist() == list(range(JUDGED))
    assert design("loss", pilot=False, judged=None).judged_points(losses).tolist() == list(
        range(POINTS)
    )
    first = most_leaking(losses, models=np.arange(10), count=JUDGED)
    np.testing.assert_array_equal(design("loss", first_stage=10).judged_points(losses), first)


def test_losses_below_zero_have_leaking_points_too() -> None:
    """Any losses rank points, by their differences of means."""
    losses = no_leak(3)
    below = PoolLosses(loss=losses.loss - 5, member=losses.member, references=REFERENCES)
    found = most_leaking(below, models=np.arange(20), count=POINTS)
    first = below.take(models=np.arange(20))
    expected = leaks(-first.loss[:, :POINTS, 0], first.member[:, :POINTS])
    assert found.tolist() == np.argsort(-np.array(expected), kind="stable").tolist()
    # A negative loss under a model that is evaluated later changes nothing.
    late = losses.loss.copy()
    late[25, 3] = -1.0
    mixed = PoolLosses(loss=late, member=losses.member, references=REFERENCES)
    np.testing.assert_array_equal(
        most_leaking(mixed, models=np.arange(20), count=9),
        most_leaking(losses, models=np.arange(20), count=9),
    )


@pytest.mark.parametrize("attack", ["lira", "loss"])
def test_a_store_that_is_not_full(attack: str) -> None:
    """With two models beyond the first stage it can be evaluated; with fewer an error helps."""
    store, plan = MemoryStore(), pool_plan(models=12, attack=attack, pilot=True, judged=3)
    whole = list(filled(plan).pool_rows(plan.sizes))
    store.prepare(plan)
    store.add(whole[1:7])
    with pytest.raises(InputError, match="in addition to the 6 of the first stage, got 6 in total"):
        plan.design.scores(store.pool_losses(plan.sizes, ""))
    store.add(whole[9:])
    losses = store.pool_losses(plan.sizes, "")
    assert judged(plan, losses).models == 4
    # The first stage is defined by model numbers, so a missing model moves none into it.
    assert losses.numbers.tolist() == [1, 2, 3, 4, 5, 6, 9, 10, 11]
    assert plan.design.first_models(losses).tolist() == [0, 1, 2, 3, 4]  # type: ignore[attr-defined]


def judged(plan: Plan, losses: PoolLosses) -> PoolScores:
    assert isinstance(plan.design, Pool)
    return plan.design.pool_scores(losses)


def filled(plan: Plan) -> MemoryStore:
    store = MemoryStore()
    measure(plan, store)
    return store


def test_points_with_models_on_one_side_are_left_out_in_their_order() -> None:
    member = np.ones((4, 12), dtype=bool)
    member[:2, 5] = False
    scores = PoolScores(value=np.arange(48.0).reshape(4, 12), member=member)
    found = attack_result(scores, "loss")
    assert found.names == ("5",)
    assert found.left_out == ("0", "1", "2", "3", "4", "6", "7", "8", "9", "10", "11")


# --- nothing is proven where nothing leaks --------------------------------------------------------

ERROR = 0.05
#: Significance of each count of refutations below; seeds are fixed.
FALSE_ALARM = 1e-5

Judge = Callable[[PoolLosses], PoolScores]


def refuted(judge: Judge, pools: int) -> int:
    """The number of pools without a leak in which epsilon = 0 is refuted."""
    proofs = (prove(judge(no_leak(seed)), delta=0.0, error=ERROR) for seed in range(pools))
    return sum(proof.at_least > 0 for proof in proofs)


def most_allowed(pools: int) -> int:
    return int(stats.binom.isf(FALSE_ALARM, pools, ERROR))


def judged_by_itself(losses: PoolLosses) -> PoolScores:
    """The mistake to avoid: all models choose the points, and the same models are evaluated."""
    points = most_leaking(losses, models=np.arange(losses.models), count=JUDGED)
    return held_out_scores(losses, POOL_ATTACKS["logit"], teachers=0, points=points)


@pytest.mark.parametrize("pools", [25, pytest.param(200, marks=pytest.mark.slow)])
@every_attack
def test_false_refutations_are_within_the_stated_level(attack: str, pools: int) -> None:
    assert refuted(design(attack).pool_scores, pools) <= most_allowed(pools)


def test_judging_the_models_that_chose_would_refute_too_often() -> None:
    assert refuted(judged_by_itself, 40) > most_allowed(40)


def proven(seed: int, algorithm: Algorithm) -> float:
    plan = pool_plan(
        algorithm, models=16, records=30, seed=seed, attack="loss", pilot=True, judged=5
    )
    return prove(judged(plan, measure(plan).only), delta=0.0, error=ERROR).at_least


def test_an_algorithm_that_ignores_its_data_end_to_end() -> None:
    found = list(map(partial(proven, algorithm=IgnoresData()), range(20)))
    assert sum(each > 0 for each in found) <= most_allowed(20)
    assert all(proven(seed, Remembers()) > 0.3 for seed in range(3))  # and an algorithm that leaks
