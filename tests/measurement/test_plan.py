"""Plans: what makes two of them the same, and that a model's place determines its randomness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epsilometer.errors import InputError
from epsilometer.measurement.bases import ChallengeBase, Include, Replace
from epsilometer.measurement.designs import CrossFed, ShadowModels
from epsilometer.measurement.plan import (
    Plan,
    Sizes,
    Task,
    canonical,
    differences,
    release_stream,
    training_stream,
)
from epsilometer.measurement.population import Population
from epsilometer.training.clipped_mean import ClippedMean
from epsilometer.training.output_perturbation import NoiseLevels

FEATURES = np.random.default_rng(1).standard_normal((30, 3))
LABELS = np.arange(30) % 2


def make(**changed: Any) -> Plan:
    settings: dict[str, Any] = {
        "population": Population(features=FEATURES, labels=LABELS),
        "algorithm": ClippedMean(noise=0.5, records=10),
        "design": CrossFed(replicates=5),
        "challenge_bases": 3,
        "dataset_size": 10,
        "adjacency": Include(),
        "seed": 1,
    }
    return Plan(**(settings | changed))


def people(features: Any = FEATURES, labels: Any = LABELS) -> Population:
    return Population(features=features, labels=labels)


def nudged() -> Any:
    features = FEATURES.copy()
    features[17, 1] = np.nextafter(features[17, 1], 9)
    return features


INGREDIENTS: dict[str, dict[str, Any]] = {
    "one bit of a record": {"population": people(nudged())},
    "type of the records": {"population": people(FEATURES.astype(np.float32))},
    "shape of the records": {"population": people(FEATURES.reshape(30, 3, 1))},
    "order of the records": {"population": people(FEATURES[::-1])},
    "a label": {"population": people(labels=np.arange(30) % 2 == 0)},
    "type of the labels": {"population": people(labels=LABELS.astype(np.int32))},
    "no labels": {"population": people(labels=None)},
    "seed": {"seed": 2},
    "a setting of the algorithm": {"algorithm": ClippedMean(noise=0.25, records=10)},
    "another setting": {"algorithm": ClippedMean(noise=0.5, records=11)},
    "a wrapper": {
        "algorithm": NoiseLevels(algorithm=ClippedMean(noise=0.5, records=10), scales=(1.0,))
    },
    "design": {"design": ShadowModels(replicates=1, shadows_h0=2, shadows_h1=2)},
    "shadows": {"design": ShadowModels(replicates=1, shadows_h0=3, shadows_h1=2)},
    "adjacency": {"adjacency": Replace()},
    "dataset size": {"dataset_size": 11},
}


def test_equal_plans() -> None:
    assert make().identity == make().identity
    assert make().content_hash == make().content_hash
    named = Population(features=FEATURES.copy(), labels=LABELS.copy(), name="other name")
    assert make(population=named).identity == make().identity


@pytest.mark.parametrize("ingredient", INGREDIENTS)
def test_every_ingredient_counts(ingredient: str) -> None:
    changed = make(**INGREDIENTS[ingredient])
    assert changed.identity != make().identity
    assert changed.content_hash != make().content_hash
    assert differences(make().identity, changed.identity)


def test_no_two_ingredients_alike() -> None:
    hashes = [make(**change).content_hash for change in INGREDIENTS.values()]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("grown", [{"challenge_bases": 9}, {"design": CrossFed(replicates=9)}])
def test_size_is_no_part_of_identity(grown: dict[str, Any]) -> None:
    assert make(**grown).identity == make().identity
    assert make(**grown).content_hash != make().content_hash


def test_given_bases_count_in_the_hash() -> None:
    def given(*datasets: list[int]) -> Plan:
        bases = [ChallengeBase(dataset=dataset, challenge=29) for dataset in datasets]
        return make(challenge_bases=bases, dataset_size=None)

    assert given([1, 2]).identity == given([2, 1]).identity
    assert given([1, 2]).content_hash != given([2, 1]).content_hash
    assert given([1, 2]).sizes == Sizes(1, 5, 5, ("",))


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": np.int64(1)},
        {"dataset_size": np.int64(10)},
        {"challenge_bases": np.int64(3)},
        {"design": CrossFed(replicates=np.int64(5))},  # type: ignore[arg-type]
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_whole_numbers_of_numpy_are_whole_numbers(changed: dict[str, Any]) -> None:
    assert make(**changed).content_hash == make().content_hash


# --- tasks and streams ----------------------------------------------------------------------------


def test_tasks_in_order() -> None:
    design = ShadowModels(replicates=2, shadows_h0=2, shadows_h1=3)
    tasks = list(make(design=design, challenge_bases=2).tasks())
    assert tasks == sorted(set(tasks))
    assert len(tasks) == make(design=design, challenge_bases=2).sizes.models == 2 * (10 + 14)
    assert str(tasks[0]) == "base 0, hypothesis 0, replicate 0"


def test_streams_differ_between_tasks_and_not_within() -> None:
    tasks = list(make(challenge_bases=4).tasks())
    first = [training_stream(1, task).integers(2**63) for task in tasks]
    assert len(set(first)) == len(tasks)
    assert first == [training_stream(1, task).integers(2**63) for task in tasks]
    assert not set(first) & {training_stream(2, task).integers(2**63) for task in tasks}


def test_streams_of_variants_differ() -> None:
    task = Task(0, 1, 2)
    streams = [release_stream(1, task, name).integers(2**63) for name in ("", "a", "b")]
    streams.append(training_stream(1, task).integers(2**63))
    streams.append(release_stream(1, Task(0, 1, 3), "a").integers(2**63))
    assert len(set(streams)) == 5
    assert release_stream(1, task, "a").integers(2**63) == streams[1]


def test_streams_are_unchanged() -> None:
    # Version 1 of the streams; another value means other models, and needs another version.
    assert training_stream(1, Task(0, 0, 0)).integers(2**63) == 7758031844092804758
    assert release_stream(1, Task(2, 1, 3), "0.1").integers(2**63) == 542262061121917734


# --- range errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seed": -1}, "expected seed >= 0, got seed=-1"),
        ({"seed": 1.0}, "expected seed to be a whole number"),
        ({"challenge_bases": 0}, "expected challenge_bases >= 1"),
        ({"challenge_bases": []}, "at least one challenge base"),
        ({"challenge_bases": True}, "challenge_bases"),
        ({"dataset_size": None}, "expected dataset_size, since bases are drawn"),
        ({"dataset_size": 0}, "expected dataset_size >= 1"),
        ({"dataset_size": 30}, "expected dataset_size <= 29"),
        ({"dataset_size": 29, "adjacency": Replace()}, "expected dataset_size <= 28"),
        ({"algorithm": ClippedMean}, "got a class"),
        ({"algorithm": object()}, "got object without train"),
        (
            {"challenge_bases": [ChallengeBase(dataset=[1], challenge=30)], "dataset_size": None},
            "challenge base 0: expected indices below 30, the size of the population, got 30",
        ),
        (
            {"challenge_bases": [ChallengeBase(dataset=[1], challenge=2)]},
            "dataset_size applies to drawn bases only",
        ),
    ],
)
def test_out_of_range(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make(**changed)


def test_names_must_differ() -> None:
    bases = [ChallengeBase(dataset=[n], challenge=9, name="same") for n in (1, 2)]
    with pytest.raises(InputError, match="distinct names"):
        _ = make(challenge_bases=bases, dataset_size=None).names


class Releasing:
    """Has the given variants."""

    def __init__(self, *variants: str) -> None:
        self.variants = variants

    def train(self, dataset: Any, rng: Any) -> None: ...

    def loss(self, model: Any, point: Any) -> float:
        return 0.0

    def release(self, model: Any, variant: str, rng: Any) -> Any: ...


@pytest.mark.parametrize("variants", [(), ("a", "a")])
def test_variants_must_differ(variants: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="expected variants with distinct names"):
        make(algorithm=Releasing(*variants))


# --- differences in words -------------------------------------------------------------------------


def test_differences_in_words() -> None:
    there = {"seed": 1, "a": {"x": [1, 2], "y": None}, "same": 0}
    here = {"seed": 2, "a": {"x": [1], "z": "new"}, "same": 0}
    assert differences(there, here) == [
        "a.x is [1,2] there and [1] here",
        'a.z is absent there and "new" here',
        "seed is 1 there and 2 here",
    ]
    assert differences(there, there) == []


def test_long_values_are_shortened_but_tell_the_difference() -> None:
    (line,) = differences({"sha256": "a" * 64}, {"sha256": "b" * 64})
    assert len(line) < 120
    assert "aaa" in line
    assert "bbb" in line
    (line,) = differences({"x": "a" * 30 + "1" + "a" * 30}, {"x": "a" * 30 + "2" + "a" * 30})
    shown_there, _, shown_here = (
        line.removeprefix("x is ").removesuffix(" here").partition(" there and ")
    )
    assert shown_there != shown_here


def test_canonical_text_does_not_depend_on_order() -> None:
    assert canonical({"b": 1, "a": [2, "é"]}) == '{"a":[2,"\\u00e9"],"b":1}'
