"""Scores by base and by model: selection, joining, flaws, matrices of pools."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.counts import counts_of
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores

values = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=8)


def base_of(without: list[float], with_point: list[float]) -> BaseScores:
    return Scores(without=[without], with_point=[with_point]).bases[0]


def test_a_base_is_its_distinct_scores_from_the_top() -> None:
    base = base_of([0.0, 2.0, -1.0, 2.0], [2.0, 5.0, -0.0])
    assert base.value.tolist() == [5.0, 2.0, 0.0, -1.0]
    assert base.zeros.tolist() == [0, 2, 1, 1]
    assert base.ones.tolist() == [1, 1, 1, 0]
    assert (base.trials_h0, base.trials_h1, base.tied, base.grouped) == (4, 3, True, False)
    assert not np.signbit(base.value).any() or base.value.min() < 0
    without, with_point = base.by_hypothesis
    assert without.tolist() == [2.0, 2.0, 0.0, -1.0]
    assert with_point.tolist() == [5.0, 2.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        base.zeros[0] = 3


@settings(derandomize=True, max_examples=100, deadline=None)
@given(without=values, with_point=values)
def test_area_is_the_share_of_pairs_in_order(without: list[float], with_point: list[float]) -> None:
    base = base_of(without, with_point)
    pairs = [(b > a) + (b == a) / 2 for a in without for b in with_point]
    assert base.auc() == pytest.approx(np.mean(pairs), abs=1e-12)
    false, true = base.roc()
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.all(np.diff(false) >= 0)
    assert np.all(np.diff(true) >= 0)
    # At the rates of thresholds the best true-positive rate is that of the lowest such threshold.
    for rate in false.tolist():
        assert base.true_positive_rate(rate) == pytest.approx(true[false == rate].max())
    assert base.true_positive_rate(1.0) == 1.0


@settings(derandomize=True, max_examples=100, deadline=None)
@given(without=values, with_point=values)
def test_orders_keep_what_is_ordered_and_shuffle_ties(
    without: list[float], with_point: list[float]
) -> None:
    base = base_of(without, with_point)
    orders = base.orders(5)
    assert len(orders) == (5 if base.tied else 1)
    ends = np.cumsum(base.zeros + base.ones)
    for labels in orders:
        np.testing.assert_array_equal(np.cumsum(labels)[ends - 1], np.cumsum(base.ones))
        assert len(labels) == len(without) + len(with_point)


def test_orders_of_ties_are_even() -> None:
    """All 20 orders of three and three, equally often: chi-square with a false alarm of 1e-6."""
    base = base_of([1.0] * 3, [1.0] * 3)
    found = base.orders(20_000)
    _, seen = np.unique(np.stack(found), axis=0, return_counts=True)
    assert len(seen) == 20
    statistic = ((seen - 1000) ** 2 / 1000).sum()
    assert statistic < 62.0  # chi-square of 19: its upper 1e-6 quantile is 61.9


def test_orders_depend_on_ranks_alone() -> None:
    rng = np.random.default_rng(3)
    without, with_point = rng.integers(0, 4, 30), rng.integers(1, 5, 20)
    first = base_of(without.tolist(), with_point.tolist()).orders(3)
    # Another order of rows, another scale, another name.
    again = Scores(
        without=[np.exp(rng.permutation(without))],
        with_point=[np.exp(rng.permutation(with_point))],
        names=["other"],
    ).bases[0].orders(3)  # fmt: skip
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)


def test_infinite_scores_are_the_ends() -> None:
    base = base_of([-np.inf, 0.0], [np.inf, 0.5])
    assert base.value.tolist() == [np.inf, 0.5, 0.0, -np.inf]
    assert base.auc() == 1.0


def test_counts_are_two_blocks() -> None:
    counts = counts_of([1, 0, 10], 10, [4, 8, 0], 8, names=["a", "b", "c"])
    scores = Scores.of_counts(counts)
    assert scores.names == ("a", "b", "c")
    assert [base.zeros.tolist() for base in scores.bases] == [[1, 9], [10], [10]]
    assert [base.ones.tolist() for base in scores.bases] == [[4, 4], [8], [8]]
    assert all(base.grouped for base in scores.bases)
    assert scores.trials_h0.tolist() == [10, 10, 10]
    assert scores.trials_h1.tolist() == [8, 8, 8]


def test_rows_in_any_order_are_the_same_scores() -> None:
    base = ["b", "a", "b", "a", "b", "a"]
    label, score = [0, 1, 1, 0, 0, 1], [0.1, 0.9, 0.7, 0.2, 0.3, 0.4]
    found = Scores.of_rows(base, label, score)
    assert found.names == ("b", "a")
    assert found.take([1, 0]) == Scores(
        without=[[0.2], [0.1, 0.3]], with_point=[[0.9, 0.4], [0.7]], names=["a", "b"]
    )
    order = [3, 0, 2, 1, 5, 4]
    again = Scores.of_rows(
        [base[i] for i in order], [label[i] for i in order], [score[i] for i in order]
    )
    assert again.take([again.names.index(name) for name in found.names]) == found
    # Booleans are labels too.
    assert Scores.of_rows(base, [bool(each) for each in label], score) == found


def test_joining_adds_models_to_bases_of_one_name() -> None:
    first = Scores(without=[[1.0], [2.0]], with_point=[[3.0], [4.0]], names=["a", "b"])
    second = Scores(without=[[5.0], [6.0]], with_point=[[7.0], [8.0]], names=["b", "c"])
    both = first.joined(second)
    assert both.names == ("a", "b", "c")
    assert both == Scores(
        without=[[1.0], [2.0, 5.0], [6.0]],
        with_point=[[3.0], [4.0, 7.0], [8.0]],
        names=["a", "b", "c"],
    )
    assert first != both
    assert first.joined() == first


def test_equality_is_about_all_of_it() -> None:
    one = Scores(without=[[1.0]], with_point=[[2.0]])
    assert one == Scores(without=[[1.0]], with_point=[[2.0]])
    assert one != Scores(without=[[1.5]], with_point=[[2.0]])
    assert one != Scores(without=[[1.0]], with_point=[[2.0]], names=["x"])
    assert one != "scores"
    grouped = BaseScores(
        value=one.bases[0].value, zeros=one.bases[0].zeros, ones=one.bases[0].ones, grouped=True
    )
    assert one != one.with_bases([grouped])


# --- refusals -------------------------------------------------------------------------------------

GROUPS = counts_of([1, 2], 10, [1, 2], 10, groups=["g", "g"])
ONE = Scores(without=[[1.0]], with_point=[[2.0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scores(without=[], with_point=[]), "expected at least one challenge base"),
        (lambda: Scores(without=[[1.0]], with_point=[]), "equally many bases, got 1 and 0"),
        (
            lambda: Scores(without=[[]], with_point=[[1.0]]),
            "challenge base '0': expected scores of models without the point (hypothesis 0), got none",
        ),
        (
            lambda: Scores(without=[[1.0]], with_point=[[]], names=["x"]),
            "challenge base 'x': expected scores of models with the point (hypothesis 1), got none",
        ),
        (lambda: Scores(without=[[[1.0]]], with_point=[[1.0]]), "got shape (1, 1)"),
        (lambda: Scores(without=[[np.nan]], with_point=[[1.0]]), "expected numbers as scores, got nan"),
        (
            lambda: Scores(without=[[1.0]], with_point=[[1.0, np.nan]]),
            "expected numbers as scores, got nan with the point",
        ),
        (lambda: Scores(without=[[1.0]], with_point=[[1.0]], names=["a", "b"]), "expected 1 names"),
        (
            lambda: Scores(without=[[1.0]] * 2, with_point=[[1.0]] * 2, names=["a", "a"]),
            "expected each challenge base once, got 'a' twice",
        ),
        (lambda: Scores.of_rows(["a", "a"], [0, 2], [1, 2]), "to be 0 or 1, got hypothesis=2"),
        (lambda: Scores.of_rows(["a", "a"], [0, 0.5], [1, 2]), "got hypothesis=0.5"),
        (lambda: Scores.of_rows(["a"], [0, 1], [1, 2]), "expected equally many bases"),
        (lambda: Scores.of_rows(["a", "a"], [0, 0], [1, 2]), "(hypothesis 1), got none"),
        (lambda: Scores.of_rows([None, "a"], [0, 1], [1, 2]), "expected challenge_base to be text"),
        (lambda: Scores.of_counts(GROUPS), "expected independent counts"),
        (lambda: Scores(without=[[1.0, 1.0]], with_point=[[1.0]]).check(), "got only ties"),
        (
            lambda: Scores.of_counts(
                counts_of([0], 5, [5], 5, names=["0"])
            ).joined(ONE),
            "challenge base '0': cannot add scores to counts",
        ),
    ],
)  # fmt: skip
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("labels", [["in", "out"], [None, 1], [np.nan, 1.0]])
def test_labels_that_are_no_numbers(labels: list[object]) -> None:
    with pytest.raises(InputError, match="hypothesis"):
        Scores.of_rows(["a", "a"], labels, [1.0, 2.0])  # type: ignore[arg-type]


@pytest.mark.parametrize("scores", [["high", "low"], [None, 1.0]])
def test_scores_that_are_no_numbers(scores: list[object]) -> None:
    given: Any = scores
    with pytest.raises(InputError, match="expected numbers as scores"):
        Scores(without=[given], with_point=[[1.0]])
    with pytest.raises(InputError, match="expected numbers as scores"):
        Scores.of_rows(["a", "a"], [0, 1], given)


# --- scores of points that share models: both readings, and files ---------------------------------


def drawn(models: int = 7, points: int = 4, *, fair: bool = True) -> PoolScores:
    rng = np.random.default_rng(5)
    member = rng.random((models, points)) < 0.5
    member[0], member[1] = True, False
    value = rng.normal(size=member.shape) + member
    return PoolScores(value=value, member=member, names=tuple("abcd"[:points]), fair_coins=fair)


def test_points_hold_their_scores() -> None:
    pool = drawn()
    points = pool.by_point()
    assert points.shared_models == 7
    assert not points.one_run
    for n, base in enumerate(points.bases):
        without, with_point = base.in_training_order
        assert without.tolist() == pool.value[~pool.member[:, n], n].tolist()
        assert with_point.tolist() == pool.value[pool.member[:, n], n].tolist()


def test_points_come_back_from_files(tmp_path: Path) -> None:
    pool = drawn()
    pool.by_point().write(tmp_path / "scores.csv")
    read = Scores.read(tmp_path / "scores.csv")
    assert read.fair_coins
    assert read == pool.by_point()
    assert read.models is not None
    for pair, inside in zip(read.models, pool.member.T, strict=True):
        assert [side.tolist() for side in pair] == [
            np.flatnonzero(~inside).tolist(),
            np.flatnonzero(inside).tolist(),
        ]


def test_unfair_coins_stay_unfair(tmp_path: Path) -> None:
    pool = drawn(fair=False)
    pool.by_point().write(tmp_path / "scores.csv")
    assert not Scores.read(tmp_path / "scores.csv").fair_coins


@pytest.mark.parametrize(
    ("models", "words"),
    [([([0, 1], [1])], "each model once"), ([([0], [1])], "a model for each score")],
)
def test_wrong_models_are_refused(models: list[tuple[list[int], list[int]]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Scores(without=[[0.0, 1.0]], with_point=[[2.0]], models=models)


def test_pools_are_not_joined() -> None:
    points = drawn().by_point()
    with pytest.raises(InputError, match="share"):
        points.joined(points)
