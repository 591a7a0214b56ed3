"""The design pool: which records are in which model, what a store checks, and which queries are made."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from epsilometer._arrays import BoolArray
from epsilometer.errors import InputError, StoreError, TrainingError
from epsilometer.measurement import pool as pool_module
from epsilometer.measurement.bases import Replace
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.pool import Pool, PoolBase, pool_design
from epsilometer.measurement.store import MemoryStore, SqliteStore
from epsilometer.measurement.tasks import with_queries
from tests.measurement.algorithms import Asked, Logistic, Remembers, labelled, plan, pool_plan

#: False-alarm rate of random checks; seeds are fixed, so a passing test keeps passing.
FALSE_ALARM = 1e-5


def tiny(**changed: Any) -> PoolBase:
    usual: dict[str, Any] = {"records": np.arange(3), "references": np.arange(3, 5), "share": 0.5}
    return PoolBase(**usual | {"fixed_size": False, "seed": 4} | changed)


def base_of(plan: Plan) -> PoolBase:
    (found,) = plan.bases
    assert isinstance(found, PoolBase)
    return found


def coins(pool: PoolBase, models: int) -> BoolArray:
    return np.stack([pool.member(number) for number in range(models)])


# --- coins ----------------------------------------------------------------------------------------


def test_coins_depend_on_the_seed_and_the_model_number_only() -> None:
    pool = tiny(records=np.arange(50))
    moved = tiny(records=np.arange(100, 150), references=np.arange(3), crafted="a")
    for number in (7, 0, 7):
        np.testing.assert_array_equal(pool.member(number), moved.member(number))
    assert (pool.member(0) != pool.member(1)).any()
    assert (pool.member(0) != replace(pool, seed=5).member(0)).any()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_share(share: float) -> None:
    inside = int(coins(tiny(records=np.arange(200), share=share), 50).sum())
    assert stats.binomtest(inside, 10_000, share).pvalue > FALSE_ALARM
    assert stats.binomtest(inside, 10_000, share + 0.05).pvalue < FALSE_ALARM


@pytest.mark.parametrize(("share", "size"), [(0.5, 10), (0.33, 7), (0.9, 18)])
def test_replacing_gives_every_model_as_many_records(share: float, size: int) -> None:
    plan = pool_plan(adjacency=Replace(), share=share, models=30)
    pool = base_of(plan)
    assert {len(pool.train_on(plan.all_records, 0, number)) for number in range(30)} == {size}
    # And all records alike.
    often = coins(pool, 400).sum(axis=0)
    assert stats.chisquare(often).pvalue > FALSE_ALARM


def independence(pool: PoolBase, point: int) -> float:
    """P-value for independence of a point's coin from the rest."""
    member = coins(pool, 3000)
    rest = np.delete(member, point, axis=1) @ np.array([1, 2])
    table = [np.bincount(rest[member[:, point] == side], minlength=4) for side in (False, True)]
    kept = np.array(table)
    return float(stats.chi2_contingency(kept[:, kept.any(axis=0)]).pvalue)


def test_given_the_coin_of_a_point_the_rest_is_drawn_alike() -> None:
    """With three records the others have four cases; with subsets of fixed size the check fails."""
    for point in range(3):
        assert independence(tiny(), point) > FALSE_ALARM
        assert independence(tiny(share=0.3), point) > FALSE_ALARM
        assert independence(tiny(fixed_size=True), point) < 1e-100


def test_coins_are_called_fair_only_where_they_are() -> None:
    assert tiny().shared_points()["fair_coins"]
    assert not tiny(share=0.4).shared_points()["fair_coins"]
    assert not tiny(fixed_size=True).shared_points()["fair_coins"]


# --- which records --------------------------------------------------------------------------------


def test_records_and_references_are_different_records_of_the_population() -> None:
    pool = base_of(pool_plan(records=25, references=15))
    assert (len(pool.records), len(pool.references)) == (25, 15)
    assert sorted(pool.everything) == list(range(40))
    assert pool.records.tolist() != sorted(pool.records)


def test_chosen_points_come_first() -> None:
    plan = pool_plan(challenge="outliers", judged=4, references=3)
    pool = base_of(plan)
    assert plan.chosen is not None
    np.testing.assert_array_equal(pool.records[:4], plan.chosen.indices)
    assert len(np.unique(pool.everything)) == 23
    listed = base_of(pool_plan(challenge=[30, 2], judged=2))
    assert listed.records[:2].tolist() == [30, 2]


def test_the_original_of_a_mislabelled_copy_is_never_in_the_pool() -> None:
    plan = pool_plan(challenge="mislabelled", judged=10, records=36, references=4)
    pool, chosen = base_of(plan), plan.chosen
    assert chosen is not None
    assert pool.records[:10].tolist() == list(range(40, 50))
    assert not np.isin(chosen.origins, pool.everything).any()
    # All others are needed, so originals would have been drawn.
    with pytest.raises(InputError, match="records and references <= 40"):
        pool_plan(challenge="mislabelled", judged=10, records=36, references=5)
    (points,) = pool.points(plan.all_records)
    np.testing.assert_array_equal(points.features[:10], labelled().features[chosen.origins])
    assert points.labels is not None
    original = labelled().labels
    assert original is not None
    assert (points.labels[:10] != original[chosen.origins]).all()


def test_without_a_number_of_points_as_many_are_chosen_as_there_are() -> None:
    """Default: 100, or all of a smaller pool; a chosen point is never a reference."""
    plan = pool_plan(challenge="outliers", records=20, references=20)
    assert plan.chosen is not None
    assert sorted(base_of(plan).records) == sorted(plan.chosen.indices)


FINGERPRINTS: dict[str, dict[str, Any]] = {
    "a record": {"records": np.array([0, 1, 6])},
    "the order of records": {"records": np.array([0, 2, 1])},
    "a reference": {"references": np.array([3, 6])},
    "a record that is a reference": {"records": np.arange(2), "references": np.arange(2, 5)},
    "share": {"share": 0.25},
    "size": {"fixed_size": True},
    "seed": {"seed": 5},
    "crafted points": {"crafted": "abc"},
}


def test_the_fingerprint_changes_with_whatever_changes_models() -> None:
    found = {tiny(**changed).fingerprint for changed in FINGERPRINTS.values()}
    assert len({*found, tiny().fingerprint}) == len(FINGERPRINTS) + 1
    assert tiny().fingerprint == tiny(records=np.array([0, 1, 2])).fingerprint


# --- measured -------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", [None, Replace()])
def test_models_are_trained_on_members_and_evaluated_on_all_points(adjacency: Any) -> None:
    """A model that is its dataset reveals its members: as the coins say, and never a reference."""
    plan = pool_plan(Remembers(), adjacency=adjacency, references=6, models=12)
    losses = measure(plan).only
    assert losses.loss.shape == (12, 26, 1)
    np.testing.assert_array_equal(losses.loss[:, :, 0] == 0, losses.member)
    np.testing.assert_array_equal(losses.member[:, :20], coins(base_of(plan), 12))
    assert not losses.member[:, 20:].any()
    assert losses.references == 6
    assert losses.names == tuple(map(str, base_of(plan).everything))
    assert losses.fair_coins == (adjacency is None)


def test_many_points_are_evaluated_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measure(pool_plan(references=3)).only
    monkeypatch.setattr(pool_module, "POINTS_AT_ONCE", 7)
    assert len(list(base_of(pool_plan(references=3)).points(labelled()))) == 4
    assert measure(pool_plan(references=3)).only == whole


def test_more_models_do_not_change_the_first(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    first = measure(pool_plan(models=5), path).only
    more = measure(pool_plan(models=9, attack="loss", judged=3), path)
    assert (more.trained, more.reused) == (4, 5)
    grown = more.only
    assert grown.loss[:5].tobytes() == first.loss.tobytes()
    assert grown.member[:5].tobytes() == first.member.tobytes()
    assert grown == measure(pool_plan(models=9)).only
    fewer = measure(pool_plan(models=5), path)
    assert (fewer.trained, fewer.only) == (0, first)


CHANGED: dict[str, Callable[[], Plan]] = {
    r"bases\.dataset_size is 20 there and 21 here": lambda: pool_plan(records=21),
    r"design\.share is 0\.5 there and 0\.4 here": lambda: pool_plan(share=0.4),
    r"design\.references is 0 there and 2 here": lambda: pool_plan(references=2),
    r"seed is 1 there and 2 here": lambda: pool_plan(seed=2),
    r'bases\.adjacency is "include" there': lambda: pool_plan(adjacency=Replace()),
    r"bases\.challenge is absent there and": lambda: pool_plan(challenge="outliers"),
}


@pytest.mark.parametrize("words", CHANGED)
def test_a_store_refuses_another_pool_in_one_line(words: str) -> None:
    store = MemoryStore()
    before = measure(pool_plan(models=4), store).only
    with pytest.raises(StoreError, match=f"holds another plan: .*{words}"):
        measure(CHANGED[words](), store)
    assert measure(pool_plan(models=4), store).only == before


def test_other_chosen_points_are_another_pool(tmp_path: Path) -> None:
    measure(pool_plan(models=4, challenge="outliers", judged=3), tmp_path / "pool.db")
    with pytest.raises(StoreError, match="its challenge base 0 has different records"):
        measure(pool_plan(models=4, challenge="outliers", judged=5), tmp_path / "pool.db")


def test_how_models_are_judged_is_no_part_of_the_identity() -> None:
    usual = pool_plan(models=8)
    others = [
        pool_plan(models=20, attack="rmia", judged=7),
        pool_plan(models=8, first_stage=5),
        pool_plan(models=8, pilot=True, judged=2),
    ]
    for other in others:
        assert other.identity == usual.identity
        assert [base.fingerprint for base in other.bases] == [
            base.fingerprint for base in usual.bases
        ]


# --- numbers that are refused ---------------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "models >= 4": {"models": 3},
    "0 < share < 1": {"share": 0.0},
    "share": {"share": 1.0},
    "references >= 0": {"references": -1},
    "attack to be one of": {"attack": "odd"},
    "points >= 1": {"judged": 0},
    "first_stage <= 6": {"first_stage": 7},
    "first_stage >= 4": {"first_stage": 3},
    "expected first_stage >= 4": {"first_stage": 3, "attack": "loss", "pilot": True},
    "first_stage >= 0": {"first_stage": -1, "attack": "loss"},
    "points <= 20, got points=21": {"judged": 21},
    "records of a pool >= 10": {"records": 9},
    "records and references <= 40": {"records": 35, "references": 6},
    "A pool needs judged=2": {"challenge": [1, 2]},
    "indices from 0 to 39": {"challenge": [1, 40], "judged": 2},
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_numbers(words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        pool_plan(**{"models": 8} | WRONG[words])


def test_one_pool_only() -> None:
    with pytest.raises(InputError, match="expected one pool"):
        replace(pool_plan(), challenge_bases=2)


def test_teachers() -> None:
    def teachers(**given: Any) -> int:
        return Pool(models=9, **given).teachers

    assert teachers() == 4  # half, rounded down
    assert teachers(attack="loss") == 0
    assert teachers(attack="loss", pilot=True) == 4
    assert teachers(attack="loss", first_stage=0) == 0
    assert teachers(first_stage=7) == 7


def test_the_design_that_a_store_recorded(tmp_path: Path) -> None:
    plan = pool_plan(attack="rmia", first_stage=5, pilot=True, judged=3, references=2, share=0.4)
    with SqliteStore(tmp_path / "pool.db") as store:
        store.prepare(plan)
        assert pool_design(plan.identity["design"], store.judging, 8) == plan.design
    assert pool_design({}, None, 8) == Pool(models=8)
    with pytest.raises(InputError, match="a known pool design: expected first_stage"):
        pool_design({}, {"first_stage": "many"}, 8)


# --- queries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", ["right", "list"])
def test_the_point_is_query_0_and_the_others_follow(answers: str) -> None:
    """Even though the algorithm changes every array that it receives."""
    plan = pool_plan(Asked(answers=answers), references=2)
    losses = measure(plan).only
    assert (losses.points, losses.queries) == (22, 3)
    plain = measure(pool_plan(Logistic(), references=2)).only
    np.testing.assert_allclose(losses.loss[:, :, :1], plain.loss, rtol=1e-12)
    # Log odds are proportional to the multiple of the point.  For losses near 0 they are rounded.
    odds = -np.log(np.expm1(plain.loss)) * np.array([2.0, 3.0])
    np.testing.assert_allclose(losses.loss[:, :, 1:], np.logaddexp(0.0, -odds), rtol=1e-6)


WRONG_QUERIES = {
    "flat": r"one or more arrays of shape \(4,\), got \(4,\)",
    "none": r"one or more arrays of shape \(4,\), got \(0, 4\)",
    "wide": r"one or more arrays of shape \(4,\), got \(2, 5\)",
    "number": r"one or more arrays of shape \(4,\), got 1\.0",
    "ragged": r"one or more arrays of shape \(4,\), got \[array",
    "unequal": "the same number of arrays for every point, got 2 and 3",
}


@pytest.mark.parametrize("answers", WRONG_QUERIES)
def test_wrong_queries_are_refused_in_one_line(answers: str) -> None:
    plan = pool_plan(Asked(answers=answers))
    points = plan.population.take(np.arange(9))
    with pytest.raises(InputError, match=WRONG_QUERIES[answers]):
        with_queries(plan.algorithm, np.ones(4), points)
    with pytest.raises(TrainingError, match=WRONG_QUERIES[answers]):
        measure(plan)


def test_a_loss_that_is_no_number_fails_its_model_alone() -> None:
    plan = pool_plan(SomeNan(), models=6)
    with pytest.raises(TrainingError, match="expected finite losses, got loss=nan"):
        measure(plan)


class SomeNan(Logistic):
    """Returns no number for one record."""

    def loss(self, model: Any, point: Any) -> float:
        return float("nan") if point.features[0] > 1 else super().loss(model, point)


def test_every_point_gets_its_own_record() -> None:
    """For attacks that use records; losses of other designs are unchanged."""
    pool = pool_plan(models=4)
    losses = pool.with_records(measure(pool).only)
    assert len(losses.features) == losses.points
    for number, name in enumerate(losses.names):
        record = pool.all_records.point(int(name))
        np.testing.assert_array_equal(losses.features[number], record.features)
    other = measure(plan(bases=1, replicates=3)).only
    assert plan(bases=1, replicates=3).with_records(other) is other
