"""Populations: what is accepted, what is handed out, and that a fingerprint detects every change."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from epsilometer.errors import InputError
from epsilometer.measurement.population import Population, array_fingerprint


def test_records_by_index() -> None:
    features = np.arange(24.0).reshape(4, 3, 2)
    population = Population(features=features, labels=["a", "b", "c", "d"])
    dataset = population.take(np.array([3, 0]))
    assert len(population) == 4
    assert len(dataset) == 2
    assert dataset.features.tolist() == features[[3, 0]].tolist()
    assert dataset.labels is not None
    assert dataset.labels.tolist() == ["d", "a"]
    point = population.point(2)
    assert point.features.tolist() == features[2].tolist()
    assert point.label == "c"


def test_without_labels() -> None:
    population = Population(features=[1.0, 2.0])
    assert population.take(np.array([0])).labels is None
    assert population.point(1).label is None


def test_returned_arrays_are_copies() -> None:
    given = np.ones((3, 2))
    population = Population(features=given, labels=[0, 1, 2])
    given[:] = 5
    dataset = population.take(np.array([0, 1]))
    dataset.features[:] = 7
    assert dataset.labels is not None
    dataset.labels[:] = 7
    population.point(0).features[:] = 7
    assert (population.features == 1).all()
    assert population.labels is not None
    assert population.labels.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        population.features[0, 0] = 3


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        (1.0, None, "at least 2 records"),
        ([[1.0]], None, "at least 2 records"),
        ([[1.0], [np.nan]], None, "finite numbers in features"),
        ([[1.0], [np.inf]], None, "finite numbers in features"),
        ([["a"], ["b"]], None, "expected numeric features, got text"),
        ([1j, 2j], None, "expected numbers"),
        (np.array([object(), object()]), None, "got object"),
        ([1.0, 2.0], [1], "labels of shape"),
        ([1.0, 2.0], [[1], [2]], "labels of shape"),
        ([1.0, 2.0], [1.0, np.nan], "finite numbers in labels"),
        ([1.0, 2.0], [None, "a"], "in labels, got object"),
    ],
)
def test_refused(features: Any, labels: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Population(features=features, labels=labels)


CHANGES: list[Any] = [
    np.array([[1.0, 2.0], [3.0, 4.0]]),
    np.array([[1.0, 2.0], [3.0, 4.5]]),
    np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32),
    np.array([[1, 2], [3, 4]]),
    np.array([[1, 2], [3, 4]], dtype=np.uint64),
    np.array([[1.0, 2.0, 3.0, 4.0]]),
    np.array([1.0, 2.0, 3.0, 4.0]),
    np.array([[1.0, 3.0], [2.0, 4.0]]),
    np.array([[0.0, 2.0], [3.0, 4.0]]),
    np.array([[-0.0, 2.0], [3.0, 4.0]]),
    np.array(1.0),
    np.zeros((3, 0)),
    np.zeros((0, 3)),
]


def test_fingerprints_see_values_types_and_shapes() -> None:
    prints = [array_fingerprint(array) for array in CHANGES]
    assert len(set(prints)) == len(prints)


def test_fingerprints_do_not_see_memory() -> None:
    array = np.random.default_rng(2).standard_normal((6, 5))
    for other in (np.asfortranarray(array), array[::-1].copy()[::-1], array.T.copy().T):
        assert array_fingerprint(other) == array_fingerprint(array)


def test_labels_and_features_do_not_mix() -> None:
    one = Population(features=[0.0, 1.0], labels=[2.0, 3.0]).fingerprint
    assert one != Population(features=[2.0, 3.0], labels=[0.0, 1.0]).fingerprint
    assert one != Population(features=[0.0, 1.0]).fingerprint


def test_a_copy_in_another_process_is_the_same() -> None:
    population = Population(features=[[0.0], [1.0]], labels=["x", "y"])
    assert pickle.loads(pickle.dumps(population)).fingerprint == population.fingerprint


def test_padding_bytes_are_not_records() -> None:
    # An 80-bit float takes 16 bytes, of which six are uninitialised.
    rows = [np.ones(2, dtype=np.longdouble) for _ in range(2)]
    if rows[0].itemsize > 10:
        rows[1].view(np.uint8).reshape(2, -1)[:, 10:] = 7
    assert (rows[0] == rows[1]).all()
    try:
        prints = {Population(features=row).fingerprint for row in rows}
    except InputError:
        return  # refusing is fine too
    assert len(prints) == 1


# --- crafted records ------------------------------------------------------------------------------


def test_crafted_records_follow_the_others() -> None:
    given = Population(features=np.arange(6.0).reshape(3, 2), labels=[0, 1, 0], name="people")
    larger = given.extended([[7.0, 8.0]], [1]).extended([[9.0, 9.0]], [0])
    assert (len(larger), larger.records, larger.crafted, larger.name) == (5, 3, 2, "people")
    assert larger.point(3).features.tolist() == [7.0, 8.0]
    assert larger.take(np.array([4, 0])).features.tolist() == [[9.0, 9.0], [0.0, 1.0]]
    assert larger.fingerprint != given.fingerprint
    assert len(larger.row_hashes) == 5
    with pytest.raises(ValueError, match="read-only"):
        larger.features[0, 0] = 1.0


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        ([[1, 2, 3]], [0], r"with shape \(2,\) each, got shape \(1, 3\)"),
        ([1, 2], [0], r"got shape \(2,\)"),
        (np.empty((0, 2)), [], "expected features of crafted records"),
        ([[0.5, 2]], [0], "to be uint8 like the others"),
        ([[300, 2]], [0], "to be uint8 like the others"),
        ([[1, 2]], None, "expected labels for crafted records"),
        ([[1, 2]], [0, 1], "labels of crafted records of shape \\(1,\\)"),
        ([[1, 2]], [0.5], "labels of crafted records to be int64"),
        ([["a", "b"]], [0], "got text"),
    ],
)
def test_crafted_records_must_fit_in(features: Any, labels: Any, words: str) -> None:
    given = Population(features=np.arange(6, dtype=np.uint8).reshape(3, 2), labels=[0, 1, 0])
    with pytest.raises(InputError, match=words):
        given.extended(features, labels)


def test_crafted_records_may_be_rounded_to_the_type_of_the_others() -> None:
    given = Population(features=np.zeros((3, 2), dtype=np.float32))
    larger = given.extended([[0.1, 1]])
    assert larger.features.dtype == np.float32
    with pytest.raises(InputError, match="expected no labels"):
        given.extended([[0.1, 1]], [0])
    with pytest.raises(InputError, match="expected finite numbers"):
        given.extended([[1e300, 1]])


def test_shaped_records_are_the_same_numbers_and_another_population() -> None:
    rows = np.arange(12.0).reshape(2, 6)
    plain = Population(features=rows, labels=[0, 1], name="six")
    shaped = plain.shaped((1, 2, 3))
    assert shaped.point(1).features.tolist() == [[[6.0, 7.0, 8.0], [9.0, 10.0, 11.0]]]
    assert (shaped.name, shaped.point(1).label) == ("six", 1)
    assert shaped.fingerprint != plain.fingerprint
    assert shaped.shaped((6,)).fingerprint == plain.fingerprint


@pytest.mark.parametrize("shape", [(5,), (), (0, 6), (-1, 6), (2.0, 3.0)])
def test_shapes_that_do_not_fit(shape: Any) -> None:
    with pytest.raises(InputError, match="shape"):
        Population(features=np.zeros((2, 6))).shaped(shape)
