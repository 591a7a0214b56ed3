"""Every attack on a pool: the papers' formulas, the contract, what it may use, and the null."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks import rmia as rmia_module
from epsilometer.attacks.lira import Lira, LiraOffline
from epsilometer.attacks.pool_attacks import (
    POOL_ATTACKS,
    cross_fitted_scores,
    held_out_scores,
    most_leaking,
)
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.rmia import Rmia, RmiaOffline
from epsilometer.attacks.single_loss import PopulationAttack
from epsilometer.errors import InputError
from tests.attacks.pool_oracles import auc, leaks, lira, log_odds, pool, rmia

TEACHERS, JUDGED = np.arange(9), np.arange(9, 12)


def changed(losses: PoolLosses, **fields: object) -> PoolLosses:
    """The same losses with some fields replaced."""
    names = ("loss", "member", "references", "fair_coins", "features", "labels")
    return PoolLosses(**{name: getattr(losses, name) for name in names} | fields)


# --- the papers' formulas -------------------------------------------------------------------------


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("offline", [False, True])
def test_lira_is_the_formula(queries: int, own: bool, offline: bool) -> None:
    losses = pool(24, 6, queries=queries, references=2)
    teachers, judged = np.arange(20), np.array([22, 21])
    kind = LiraOffline if offline else Lira
    attack = kind(own_variance_from=20 if own else 21)
    found = attack.score(losses, teachers=teachers, judged=judged)
    for (row, model), point in itertools.product(enumerate(judged), range(6)):
        expected = lira(losses, teachers, model, point, own=own, offline=offline)
        # Log odds amplify the rounding of losses: a few units of 1e-13 here.
        assert found[row, point] == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("queries", [1, 2, 3])
@pytest.mark.parametrize("references", [0, 40])
@pytest.mark.parametrize("offline", [False, True])
def test_rmia_is_the_formula(queries: int, references: int, offline: bool) -> None:
    losses = pool(12, 30, queries=queries, references=references)
    attack = RmiaOffline() if offline else Rmia()
    found = attack.score(losses, teachers=TEACHERS, judged=JUDGED)
    for point in range(0, 30, 7):
        expected = rmia(losses, TEACHERS, 10, point, offline=offline)
        assert found[1, point] == pytest.approx(expected, abs=1e-12)


def test_rmia_with_other_settings() -> None:
    losses = pool(12, 25)
    for gamma, a in ((1.0, 0.3), (0.5, 1.0), (4.0, 0.0)):
        found = RmiaOffline(gamma=gamma, a=a).score(losses, teachers=TEACHERS, judged=JUDGED)
        expected = [
            rmia(losses, TEACHERS, 9, point, offline=True, gamma=gamma, a=a) for point in range(25)
        ]
        assert found[0] == pytest.approx(np.array(expected), abs=1e-12)


def test_sabotaged_formulas_are_seen() -> None:
    """Control: sides swapped, gamma ignored, the target model among its shadow models."""
    losses = pool(12, 30, references=40)
    arguments = {"teachers": TEACHERS, "judged": JUDGED}
    swapped = losses.member.copy()
    swapped[:, :30] = ~swapped[:, :30]
    for attack in (Lira(), LiraOffline(), Rmia(), RmiaOffline()):
        right = attack.score(losses, **arguments)
        with_itself = attack.score(losses, teachers=np.append(TEACHERS, 10), judged=JUDGED)
        assert np.abs(with_itself - right)[1].max() > 0.01, attack.name
        other = attack.score(changed(losses, member=swapped), **arguments)
        # Sides have equal weight in online RMIA: it alone may have them swapped.
        assert (np.abs(other - right).max() > 0.01) == (attack.name != "rmia"), attack.name
    swapped_lira = Lira().score(changed(losses, member=swapped), **arguments)
    assert auc(swapped_lira, losses.member[9:, :30]) < 0.4
    ignored = Rmia(gamma=1.0).score(losses, **arguments)
    assert np.abs(ignored - Rmia().score(losses, **arguments)).max() > 0.1


def test_votes_use_the_stated_number_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = pool(12, 30, queries=3)
    monkeypatch.setattr(rmia_module, "MOST_COMPARED", 10)
    found = Rmia().score(losses, teachers=TEACHERS, judged=JUDGED)
    kept = np.arange(0, 30, 3)
    alone = losses.take(points=kept)
    monkeypatch.undo()
    expected = Rmia().score(alone, teachers=TEACHERS, judged=JUDGED)
    assert found[:, kept] == pytest.approx(expected, abs=1e-12)


def test_population_is_the_share_of_references_of_its_label() -> None:
    losses = pool(3, 20, references=60)
    labels = np.asarray(losses.labels).copy()
    labels[5] = 7  # no reference has it, so all are used
    losses = changed(losses, labels=labels)
    found = PopulationAttack().score(losses, teachers=TEACHERS[:0], judged=np.array([1]))[0]
    for point in range(20):
        same = [z for z in range(20, 80) if labels[z] == labels[point]] or list(range(20, 80))
        above = [losses.loss[1, z, 0] > losses.loss[1, point, 0] for z in same]
        assert found[point] == pytest.approx(np.mean(above))
    tied = changed(losses, loss=np.ones((3, 80)))
    assert (PopulationAttack().score(tied, teachers=TEACHERS[:0], judged=TEACHERS[:3]) == 0.5).all()


# --- the contract ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POOL_ATTACKS)
class TestContract:
    """Holds for every named attack."""

    def score(self, name: str, losses: PoolLosses) -> FloatArray:
        attack = POOL_ATTACKS[name]
        attack.check(losses)
        return attack.score(losses, teachers=TEACHERS, judged=JUDGED)

    @pytest.mark.parametrize("points", [1, 30])
    def test_shape_and_name(self, name: str, points: int) -> None:
        assert POOL_ATTACKS[name].name == name
        references = [25] if name == "population" else [0, 25]
        for queries, count in itertools.product((1, 2), references):
            found = self.score(name, pool(points=points, references=count, queries=queries))
            assert found.shape == (3, points)
            assert np.isfinite(found).all()

    def test_members_score_higher(self, name: str) -> None:
        losses = pool(references=40, leak=3.0, points=200)
        assert auc(self.score(name, losses), losses.member[9:, :200]) > 0.6

    def test_order_of_points_and_teachers_does_not_matter(self, name: str) -> None:
        losses, attack = pool(references=25), POOL_ATTACKS[name]
        order = np.random.default_rng(5).permutation(30)
        turned = losses.take(points=order)
        found = attack.score(turned, teachers=TEACHERS[::-1], judged=JUDGED)
        # Pooled variances sum in another order; random features see the same references.
        assert found == pytest.approx(self.score(name, losses)[:, order], rel=1e-9, abs=1e-9)

    @pytest.mark.parametrize("inside", [False, True])
    def test_all_in_or_all_out(self, name: str, inside: bool) -> None:
        losses = pool(references=25)
        member = losses.member.copy()
        member[:9, :10] = inside
        found = self.score(name, changed(losses, member=member))
        assert np.isfinite(found).all()
        member[:9, :30] = inside
        assert np.isfinite(self.score(name, changed(losses, member=member))).all()

    def test_losses_of_zero_and_equal_ones(self, name: str) -> None:
        losses = pool(references=25)
        for loss in (np.zeros((12, 55)), np.full((12, 55), 800.0)):
            found = self.score(name, changed(losses, loss=loss))
            assert not np.isnan(found).any()
            assert np.ptp(found) < 1e-6

    def test_scores_use_the_target_model_and_shadow_models_only(self, name: str) -> None:
        losses = pool(references=25)
        right = self.score(name, losses)
        rng = np.random.default_rng(6)
        loss, member = losses.loss.copy(), losses.member.copy()
        loss[[9, 11]] = rng.exponential(size=(2, 55, 1))
        member[9:, :30] = rng.random((3, 30)) < 0.5
        found = self.score(name, changed(losses, loss=loss, member=member))
        assert np.array_equal(found[1], right[1])
        loss[10] = loss[9]
        assert not np.array_equal(self.score(name, changed(losses, loss=loss))[1], right[1])

    def test_attacks_that_learn_nothing_use_no_coins(self, name: str) -> None:
        """And if there is a leak, the shadow models' coins matter."""
        losses = pool(references=25)
        member = losses.member.copy()
        member[:9, :30] = np.random.default_rng(7).random((9, 30)) < 0.5
        same = np.array_equal(
            self.score(name, changed(losses, member=member)), self.score(name, losses)
        )
        assert same == (POOL_ATTACKS[name].least_teachers == 0)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(POOL_ATTACKS)))
def test_held_out_scores_do_not_use_coins_of_target_models(seed: int, name: str) -> None:
    losses = pool(8, 12, references=22, seed=seed % 1000)
    member = losses.member.copy()
    member[5:, :12] = np.random.default_rng(seed).random((3, 12)) < 0.5
    one, two = (
        held_out_scores(each, POOL_ATTACKS[name], teachers=5)
        for each in (losses, changed(losses, member=member))
    )
    assert np.array_equal(one.value, two.value)
    assert not one.dependent
    assert one.fair_coins


def test_peeking_attacks_gain_nothing_and_dependent_scores_are_detected() -> None:
    """Coins of target models are hidden; a score that depends on other target models proves nothing."""

    @dataclass(frozen=True)
    class Peeks:
        name: ClassVar[str] = "peeks"
        least_teachers: ClassVar[int] = 0

        def check(self, losses: PoolLosses) -> None: ...

        def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
            return losses.member[judged, : losses.challenges].astype(float)

    @dataclass(frozen=True)
    class Standardises(Peeks):
        def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
            mine = losses.loss[judged, : losses.challenges, 0]
            return np.asarray(mine - mine.mean(axis=0))

    losses = pool(8, 12)
    seen = held_out_scores(losses, Peeks(), teachers=5)
    assert not seen.value.any()
    assert losses.member[5:, : losses.challenges].any()  # control: there was something to see
    assert np.array_equal(seen.member, losses.member[5:, : losses.challenges])
    assert not seen.dependent
    assert held_out_scores(losses, Standardises(), teachers=5).dependent


# --- fresh and cross-fitted -----------------------------------------------------------------------


def test_fresh_scores_of_the_models_that_did_not_teach() -> None:
    losses = pool()
    first = held_out_scores(losses, Lira(), teachers=9)
    assert (first.models, first.points) == (3, 30)
    assert np.array_equal(first.member, losses.member[9:])
    named = held_out_scores(losses, Lira(), teachers=[11, 0, 5, 3], points=[4, 2])
    assert np.array_equal(named.member, losses.member[[1, 2, 4, 6, 7, 8, 9, 10]][:, [4, 2]])
    assert named.names == ("4", "2")
    whole = held_out_scores(losses, Lira(), teachers=[0, 3, 5, 11])
    assert named.value == pytest.approx(whole.value[:, [4, 2]])


def test_cross_fitted_equals_held_out_fold_by_fold() -> None:
    losses = pool()
    found = cross_fitted_scores(losses, Lira(), folds=4)
    assert found.dependent
    assert not found.fair_coins
    group = np.array([1, 5, 9])
    teachers = np.setdiff1d(np.arange(12), group)
    assert np.array_equal(
        found.value[group], held_out_scores(losses, Lira(), teachers=teachers).value
    )
    assert np.array_equal(found.value, cross_fitted_scores(losses, Lira()).value)
    plain = cross_fitted_scores(losses, POOL_ATTACKS["logit"])
    assert (plain.models, plain.dependent, plain.fair_coins) == (12, False, True)


def test_small_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = pool(references=25, queries=2)
    for attack in POOL_ATTACKS.values():
        whole = held_out_scores(losses, attack, teachers=9).value
        with monkeypatch.context() as patch:
            patch.setattr("epsilometer.attacks.pool_losses.LOSSES_AT_ONCE", 100)
            part = held_out_scores(losses, attack, teachers=9).value
        assert part == pytest.approx(whole, rel=1e-9, abs=1e-9), attack.name


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: held_out_scores(pool(), Lira(), teachers=3), "at least 4 shadow models for"),
        (lambda: held_out_scores(pool(), Lira(), teachers=12), "teachers <= 11"),
        (lambda: held_out_scores(pool(), Lira(), teachers=[0, 0, 1, 2]), "each once"),
        (lambda: held_out_scores(pool(), Lira(), teachers=[0.5]), "whole numbers"),
        (lambda: held_out_scores(pool(), Lira(), teachers=range(12)), "not a teacher, got none"),
        (lambda: held_out_scores(pool(), Lira(), teachers=9, points=[30]), "points from 0 to 29"),
        (lambda: cross_fitted_scores(pool(), Lira(), folds=1), "folds >= 2"),
        (lambda: cross_fitted_scores(pool(5, 5), Lira()), "at least 4 shadow models"),
        (lambda: cross_fitted_scores(pool(3, 5), Rmia()), "folds <= 3"),
        (lambda: held_out_scores(pool(), PopulationAttack(), teachers=0), "reference points"),
        (lambda: Rmia(gamma=0), "gamma > 0"),
        (lambda: RmiaOffline(a=1.5), "0 <= a <= 1"),
        (lambda: Lira(own_variance_from=0), "own_variance_from >= 1"),
        (lambda: most_leaking(pool(), models=[0, 1], count=31), "count <= 30"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(call: object, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        call()  # type: ignore[operator]


def test_losses_that_an_attack_cannot_read_are_refused() -> None:
    losses = pool(references=25)
    below = changed(losses, loss=losses.loss - 1)
    for name in ("logit", "lira", "lira-offline", "rmia", "rmia-offline"):
        with pytest.raises(InputError, match="at least 0"):
            held_out_scores(below, POOL_ATTACKS[name], teachers=9)
    assert held_out_scores(below, POOL_ATTACKS["loss"], teachers=9).models == 3


# --- points that leak -----------------------------------------------------------------------------


def test_most_leaking_is_the_shrunken_difference() -> None:
    losses = pool(16, 20, queries=2)
    odds = np.vectorize(log_odds)(losses.loss).mean(axis=2)
    models = np.arange(12)
    leak = leaks(odds[:12], losses.member[:12])
    assert (
        most_leaking(losses, models=models, count=20).tolist()
        == np.argsort(-np.array(leak)).tolist()
    )
    other = losses.loss.copy()
    other[12:] = 0.5
    changed_later = most_leaking(changed(losses, loss=other), models=models, count=5)
    assert np.array_equal(changed_later, most_leaking(losses, models=models, count=5))


def test_most_leaking_points_come_first_and_unknown_ones_last() -> None:
    rng = np.random.default_rng(8)
    member = rng.random((40, 50)) < 0.5
    member[:, 0] = False
    member[1:, 1] = True
    odds = rng.normal(size=(40, 50)) + np.where(np.arange(50) >= 45, 3.0, 0.0) * member
    losses = PoolLosses(loss=np.logaddexp(0, -odds), member=member)
    order = most_leaking(losses, models=np.arange(40), count=50)
    assert set(order[:5]) == set(range(45, 50))
    assert order[-2:].tolist() == [0, 1]
    flat = PoolLosses(loss=np.ones((40, 50)), member=member)
    tied = most_leaking(flat, models=np.arange(40), count=48)
    assert tied.tolist() == list(range(2, 50))


# --- the null -------------------------------------------------------------------------------------


def null_pool(models: int, points: int, references: int) -> PoolLosses:
    """Coins that nothing depends on."""
    losses = pool(models, points, references=references, leak=0.0, seed=11)
    member = losses.member.copy()
    member[:, :points] = np.random.default_rng(12).random((models, points)) < 0.5
    return changed(losses, member=member)


def auc_error(member: np.ndarray) -> float:
    """The standard error of an area without a leak."""
    ones = member.sum()
    zeros = member.size - ones
    return float(np.sqrt((ones + zeros + 1) / (12 * ones * zeros)))


@pytest.mark.parametrize("name", POOL_ATTACKS)
def test_held_out_scores_are_uninformative_without_a_leak(name: str) -> None:
    """The target models' coins are fair whatever the scores: so are all counts above a threshold."""
    losses = null_pool(48, 250, 60)
    scores = held_out_scores(losses, POOL_ATTACKS[name], teachers=24)
    error = auc_error(scores.member)
    assert abs(auc(scores.value, scores.member) - 0.5) < 4 * error
    for share in (0.01, 0.1, 0.5):
        above = scores.value >= np.quantile(scores.value, 1 - share)
        assert abs(2 * scores.member[above].sum() - above.sum()) < 4 * np.sqrt(above.sum())
    # Control: coins that follow the scores slightly are detected by the same check.
    leaning = scores.member | (scores.value > np.quantile(scores.value, 0.9))
    assert auc(scores.value, leaning) - 0.5 > 4 * error


@pytest.mark.parametrize("name", POOL_ATTACKS)
def test_cross_fitted_scores_are_uninformative_without_a_leak(name: str) -> None:
    scores = cross_fitted_scores(null_pool(16, 500, 60), POOL_ATTACKS[name])
    assert abs(auc(scores.value, scores.member) - 0.5) < 4 * auc_error(scores.member)


def test_scoring_shadow_models_would_show_a_spurious_leak() -> None:
    """Control of the two above: LiRA that learns from the target models finds a spurious leak."""
    losses = null_pool(16, 500, 0)
    everybody = np.arange(16)
    value = Lira().score(losses, teachers=everybody, judged=everybody)
    assert auc(value, losses.member) > 0.55


def test_curves_of_points_read_low_and_lowest_when_one_is_left_out() -> None:
    """As documented for cross-fitting: 4 folds cost 0.02 here, leave-one-out 0.06."""
    losses = null_pool(24, 800, 0)
    mean = {}
    for folds in (4, 24):
        scores = cross_fitted_scores(losses, Lira(), folds=folds)
        mean[folds] = np.mean([base.auc() for base in scores.by_point().bases])
    assert 0.46 < mean[4] < 0.49
    assert mean[24] < 0.45


def test_an_attack_by_its_name_and_not_as_a_class() -> None:
    losses = pool(8, 12)
    by_name = held_out_scores(losses, "loss", teachers=4)
    assert np.array_equal(
        by_name.value, held_out_scores(losses, POOL_ATTACKS["loss"], teachers=4).value
    )
    with pytest.raises(InputError, match=r"such as Lira\(\), got a class"):
        held_out_scores(losses, Lira, teachers=4)  # type: ignore[arg-type]


@pytest.mark.parametrize("whose", ["model", "point"])
def test_coins_that_are_not_independent_and_fair_are_detected(whose: str) -> None:
    """Halves of a fixed size, or each point in exactly half of the models, declared fair."""
    rng = np.random.default_rng(1)
    rows = np.array([rng.permutation(40) < 20 for _ in range(40)])
    member = rows if whose == "model" else rows.T
    loss = rng.exponential(size=member.shape)
    with pytest.raises(InputError, match=f"numbers of members per {whose} that are implausible"):
        held_out_scores(PoolLosses(loss=loss, member=member, fair_coins=True), "loss", teachers=0)
    held_out_scores(PoolLosses(loss=loss, member=member), "loss", teachers=0)
    fair = rng.random(member.shape) < 0.5
    held_out_scores(PoolLosses(loss=loss, member=fair, fair_coins=True), "loss", teachers=0)
