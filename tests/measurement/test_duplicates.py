"""Duplicate records: found, and reported briefly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epsilometer.measurement.bases import ChallengeBase
from epsilometer.measurement.duplicates import (
    base_warnings,
    duplicates_of,
    duplicates_within,
    pool_warnings,
)
from epsilometer.measurement.population import Population


def people(labels: bool = True, dtype: Any = np.float64) -> Population:
    """30 records; 20, 21 equal 3; 22 has the features of 3 under another label; 23 equals 4."""
    rows = np.random.default_rng(1).permutation(120).reshape(30, 2, 2).astype(dtype)
    tags = np.arange(30) % 2
    for copy, original in ((20, 3), (21, 3), (22, 3), (23, 4)):
        rows[copy], tags[copy] = rows[original], tags[original]
    tags[22] = 1 - tags[3]
    return Population(features=rows, labels=tags if labels else None)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("labels", [True, False])
def test_records_with_the_features_of_a_point(dtype: Any, labels: bool) -> None:
    records = people(labels=labels, dtype=dtype)
    assert duplicates_of(records, 3, np.arange(30)).tolist() == [20, 21, 22]
    # Only the records of the dataset count.
    assert duplicates_of(records, 3, [0, 1, 3, 21, 5]).tolist() == [21]
    assert duplicates_of(records, 3, []).tolist() == []
    groups = duplicates_within(records, np.arange(30)[::-1])
    assert [group.tolist() for group in groups] == [[3, 20, 21, 22], [4, 23]]
    assert duplicates_within(records, np.arange(20)) == []


def test_nearly_equal_is_not_equal_and_zeros_are() -> None:
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, np.nextafter(1.0, 2.0)]])
    assert duplicates_of(Population(features=rows), 0, [1, 2]).tolist() == [1]


def test_a_crafted_copy_has_its_original() -> None:
    """Copies of the original in D are found; so is the original itself, if it were there."""
    whole = people().extended(people().features[[3]], [0])
    assert duplicates_of(whole, 30, np.arange(30)).tolist() == [3, 20, 21, 22]


def test_sentences_of_bases() -> None:
    bases = [
        ChallengeBase(dataset=[1, 2, 5], challenge=3),
        ChallengeBase(dataset=[1, 20, 21], challenge=3),
        ChallengeBase(dataset=[1, 22], challenge=3),
        ChallengeBase(dataset=[1, 2], challenge=4, replacement=23),
    ]
    end = ": the attack can hardly tell them apart, so this base underestimates the leakage."
    assert base_warnings(people(), list("abcd"), bases) == [
        f"base b: its challenge point (record 3) is also in D as records 20, 21{end}",
        f"base c: its challenge point (record 3) is also in D as record 22 (with other labels){end}",
        f"base d: its challenge point (record 4) is also in D as record 23{end}",
    ]
    many = base_warnings(people(), list("abcdefghij"), [bases[1]] * 10)
    assert len(many) == 4
    assert many[3] == "7 more bases have a copy of their challenge point in D."


def test_sentences_of_a_pool() -> None:
    assert [line.split(":")[1] for line in pool_warnings(people(), np.arange(30))] == [
        " records 3, 20, 21 and 1 more (with other labels) are equal",
        " records 4, 23 are equal",
    ]
