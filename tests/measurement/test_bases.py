"""Challenge bases: the two datasets they define, and that each is drawn from its own stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epsilometer.errors import InputError
from epsilometer.measurement.bases import (
    Adjacency,
    ChallengeBase,
    Include,
    Replace,
    Source,
    draw_base,
)
from epsilometer.measurement.population import Population
from tests.measurement.algorithms import plan


def drawn(number: int, *, size: int = 12, adjacency: Adjacency | None = None) -> ChallengeBase:
    people = Population(features=np.arange(20.0))
    kind = adjacency or Include()
    return draw_base(number, Source(population=people, dataset_size=size, adjacency=kind, seed=3))


def test_bases_differ() -> None:
    prints = {base.fingerprint for base in plan(bases=100).bases}
    assert len(prints) == 100
    assert drawn(0).fingerprint != drawn(0, adjacency=Replace()).fingerprint


@pytest.mark.parametrize("number", range(20))
def test_the_challenge_is_left_out_or_replaced(number: int) -> None:
    for adjacency, size in ((Include(), 13), (Replace(), 14)):
        base = drawn(number, adjacency=adjacency)
        other = [] if base.replacement is None else [base.replacement]
        assert len(other) == size - 13
        assert base.records(0).tolist() == [*base.dataset.tolist(), *other]
        assert base.records(1).tolist() == [*base.dataset.tolist(), base.challenge]
        assert len({*base.records(0).tolist(), base.challenge}) == size


def test_train_on_hands_out_the_records() -> None:
    population = Population(features=np.arange(20.0), labels=np.arange(20) * 2)
    base = ChallengeBase(dataset=[5, 3], challenge=9, replacement=1)
    without, with_point = base.train_on(population, 0), base.train_on(population, 1)
    assert without.features.tolist() == [5.0, 3.0, 1.0]
    assert with_point.features.tolist() == [5.0, 3.0, 9.0]
    assert with_point.labels is not None
    assert with_point.labels.tolist() == [10, 6, 18]


def test_every_record_is_as_likely_to_be_the_challenge() -> None:
    bases = [drawn(number) for number in range(4000)]
    counts = np.bincount([base.challenge for base in bases], minlength=20)
    # Binomial(4000, 1/20): six standard deviations, for a false-alarm rate of 20 * 2e-9.
    assert abs(counts - 200).max() < 6 * np.sqrt(4000 * 0.05 * 0.95)
    inside = np.bincount(np.concatenate([base.dataset for base in bases]), minlength=20)
    assert abs(inside - 2400).max() < 6 * np.sqrt(4000 * 0.6 * 0.4)


def test_fingerprints_see_every_index_and_not_the_name() -> None:
    bases = [
        ChallengeBase(dataset=[1, 2], challenge=3),
        ChallengeBase(dataset=[2, 1], challenge=3),
        ChallengeBase(dataset=[1, 2], challenge=4),
        ChallengeBase(dataset=[1, 2], challenge=3, replacement=4),
        ChallengeBase(dataset=[1, 2], challenge=4, replacement=3),
        ChallengeBase(dataset=[1, 2, 4], challenge=3),
    ]
    assert len({base.fingerprint for base in bases}) == len(bases)
    named = ChallengeBase(dataset=np.array([1, 2], dtype=np.uint8), challenge=3, name="x")
    assert named.fingerprint == bases[0].fingerprint


@pytest.mark.parametrize(
    "wrong",
    [
        {"dataset": [], "challenge": 0},
        {"dataset": [[1, 2]], "challenge": 0},
        {"dataset": [1.0, 2.0], "challenge": 0},
        {"dataset": [True, False], "challenge": 2},
        {"dataset": [1, 1], "challenge": 0},
        {"dataset": [1, 2], "challenge": 2},
        {"dataset": [1, 2], "challenge": -1},
        {"dataset": [-1, 2], "challenge": 0},
        {"dataset": [1, 2], "challenge": 3, "replacement": 3},
        {"dataset": [1, 2], "challenge": 3, "replacement": 1},
        {"dataset": [1, 2], "challenge": 1.5},
        {"dataset": [1, 2], "challenge": 3, "replacement": 0.5},
        {"dataset": [1, 2], "challenge": "3"},
    ],
    ids=str,
)
def test_wrong_indices(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        ChallengeBase(**wrong)


def test_a_base_cannot_be_changed() -> None:
    given = np.array([1, 2])
    base = ChallengeBase(dataset=given, challenge=3)
    given[0] = 9
    assert base.dataset.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        base.dataset[0] = 5


def test_data_sets_too_large() -> None:
    assert len(drawn(0, size=19).dataset) == 19
    with pytest.raises(InputError, match="expected dataset_size <= 19"):
        drawn(0, size=20)
    with pytest.raises(InputError, match="expected dataset_size <= 18"):
        drawn(0, size=19, adjacency=Replace())
