"""Scores of points that share models: both readings, and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.errors import InputError
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores


def drawn(models: int = 7, points: int = 4, *, fair: bool = True) -> PoolScores:
    rng = np.random.default_rng(5)
    member = rng.random((models, points)) < 0.5
    member[0], member[1] = True, False
    value = rng.normal(size=member.shape) + member
    return PoolScores(value=value, member=member, names=list("abcd")[:points], fair_coins=fair)


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
