"""Challenge points: which records a kind selects, the bases around them, and how stores treat them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.errors import InputError, StoreError
from epsilometer.measurement import challenges
from epsilometer.measurement.bases import (
    ADJACENCIES,
    ChallengeBase,
    Include,
    Replace,
    Source,
    draw_base,
)
from epsilometer.measurement.challenges import (
    CHALLENGE_KINDS,
    CustomPoints,
    Mislabelled,
    Outliers,
    RandomPoints,
    challenge_kind_of,
)
from epsilometer.measurement.designs import CrossFed
from epsilometer.measurement.one_run import OneRun
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Dataset, Population, stream_of
from tests.measurement.algorithms import NoisyMean

LABELS = np.arange(60) % 3
FEATURES = np.random.default_rng(4).standard_normal((60, 4))
PEOPLE = Population(features=FEATURES, labels=LABELS)


def last_records(population: Population, count: int, rng: np.random.Generator) -> Any:
    """Not the first of a fixed order: with more bases the first points differ."""
    del rng
    return np.arange(len(population) - count, len(population))


def blanks(population: Population, count: int, rng: np.random.Generator) -> Dataset:
    features = np.full((count, *population.features.shape[1:]), 1.0) * np.arange(count)[:, None]
    return Dataset(features=features, labels=rng.integers(3, size=count))


KINDS: dict[str, Any] = {
    "random": "random",
    "mislabelled": "mislabelled",
    "outliers": "outliers",
    "few neighbours": Outliers(neighbours=1),
    "given": [5, 59, 0, 7],
    "own records": last_records,
    "own points": blanks,
}


def make(challenge: Any = "random", bases: int | None = 4, **changed: Any) -> Plan:
    settings: dict[str, Any] = {
        "population": PEOPLE,
        "algorithm": NoisyMean(),
        "design": CrossFed(replicates=3),
        "challenge_bases": bases,
        "dataset_size": 30,
        "challenge": challenge,
        "seed": 1,
    }
    return Plan(**(settings | changed))


def bases_of(plan: Plan) -> list[ChallengeBase]:
    return [base for base in plan.bases if isinstance(base, ChallengeBase)]


# --- random points are what they were ---------------------------------------------------------


def source(records: int, size: int, kind: Include | Replace, *, seed: int) -> Source:
    people = Population(features=np.arange(float(records)))
    return Source(population=people, dataset_size=size, adjacency=kind, seed=seed)


def test_random_bases_are_unchanged() -> None:
    """Recorded before challenge points could be chosen; another value trains other models."""
    prints = [
        draw_base(number, source(50, 20, kind, seed=3)).fingerprint[:16]
        for number, kind in ((0, Include()), (7, Include()), (7, Replace()))
    ]
    assert prints == ["aa308e3701e75de4", "08bc335a3c2831be", "f5591e8dbf573d5a"]


def test_the_identity_of_random_plans_is_unchanged() -> None:
    plan = make()
    assert plan.identity["bases"] == {"drawn": True, "dataset_size": 30, "adjacency": "include"}
    drawn = [draw_base(number, source(60, 30, Include(), seed=1)) for number in range(4)]
    assert [base.fingerprint for base in plan.bases] == [base.fingerprint for base in drawn]
    assert plan.chosen is None
    assert plan.all_records is plan.population


# --- choices ------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES.values(), ids=list(ADJACENCIES))
@pytest.mark.parametrize("kind", KINDS)
def test_bases_never_train_on_the_point_without_it(kind: str, adjacency: Any) -> None:
    """Nor on the original of a mislabelled copy, nor on other crafted points."""
    # D is as large as possible, so every eligible record is drawn.
    size = 60 - 1 - (adjacency.name == "replace")
    plan = make(KINDS[kind], dataset_size=size, adjacency=adjacency)
    for number, base in enumerate(bases_of(plan)):
        assert len(base.dataset) == size
        assert base.challenge not in base.records(0)
        assert base.records(0).max() < 60
        assert base.records(1)[-1] == base.challenge
        if plan.chosen is not None:
            assert base.challenge == plan.chosen.indices[number]
            assert plan.chosen.origins[number] not in base.records(0)


@pytest.mark.parametrize("kind", KINDS)
def test_choices_repeat(kind: str) -> None:
    again = make(KINDS[kind])
    assert make(KINDS[kind]).content_hash == again.content_hash
    assert make(KINDS[kind], seed=2).content_hash != again.content_hash


@pytest.mark.parametrize("kind", [*CHALLENGE_KINDS, "few neighbours"])
def test_a_base_does_not_depend_on_how_many_there_are(kind: str) -> None:
    few, many = make(KINDS[kind], 8), make(KINDS[kind], 50)
    assert few.identity == many.identity
    assert [base.fingerprint for base in few.bases] == [base.fingerprint for base in many.bases[:8]]
    assert next(few.bases[7].points(few.all_records)).features.tolist() == (
        next(many.bases[7].points(many.all_records)).features.tolist()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_points_differ_and_lie_in_the_population(kind: str) -> None:
    found = challenge_kind_of(KINDS[kind]).choose(PEOPLE, 4, stream_of(1, challenges.CHALLENGES))
    assert len(set(found.indices.tolist())) == len(found) == 4
    assert (found.population.features[:60] == FEATURES).all()
    assert found.indices.max() < len(found.population) == 60 + found.population.crafted
    assert set(found.indices.tolist()) <= set(found.excluded().tolist())


def test_mislabelled_points_are_copies_under_another_label() -> None:
    found = Mislabelled().choose(PEOPLE, 60, np.random.default_rng(1))
    assert sorted(found.origins.tolist()) == list(range(60))
    points, originals = found.population.take(found.indices), PEOPLE.take(found.origins)
    assert points.features.tolist() == originals.features.tolist()
    assert points.labels is not None
    assert originals.labels is not None
    assert (points.labels != originals.labels).all()
    assert set(points.labels.tolist()) == {0, 1, 2}
    assert found.excluded(3).tolist() == sorted([found.origins[3], 63])


def test_training_records_and_challenge_points() -> None:
    plan = make(blanks)
    base = plan.bases[2]
    assert next(base.points(plan.all_records)).features.tolist() == [[2.0] * 4]
    assert base.train_on(plan.all_records, 1).features[-1].tolist() == [2.0] * 4
    assert len(em.measure(plan).only) == 24


def test_a_function_gets_the_original_records_and_its_own_stream() -> None:
    seen: list[Any] = []

    def look(population: Population, count: int, rng: np.random.Generator) -> list[int]:
        seen.append((len(population), count, int(rng.integers(2**40))))
        return list(range(count))

    for seed in (1, 1, 2):
        challenge_kind_of(look).choose(PEOPLE, 3, stream_of(seed, challenges.CHALLENGES))
    assert seen[0] == seen[1]
    assert [each[:2] for each in seen] == [(60, 3)] * 3
    assert seen[0][2] != seen[2][2]


def test_random_points_of_a_pool_are_the_first_of_an_order() -> None:
    drawn = (RandomPoints().choose(PEOPLE, count, np.random.default_rng(1)) for count in (5, 60))
    few, many = (chosen.indices for chosen in drawn)
    assert few.tolist() == many[:5].tolist()
    assert sorted(many.tolist()) == list(range(60))


def test_the_first_bases_of_a_plan_do_not_change() -> None:
    plan = make(last_records)
    assert make(last_records, 2).bases[0].fingerprint != plan.bases[0].fingerprint
    first = plan.first(2)
    assert first.bases == plan.bases[:2]
    assert (first.sizes.challenge_bases, first.names) == (2, ("0", "1"))
    assert first.identity == plan.identity
    given = make(challenge_bases=bases_of(plan), dataset_size=None).first(3)
    assert given.bases == plan.bases[:3]


# --- outliers -----------------------------------------------------------------------------------


def planted(labels: Any, far: float) -> Population:
    """200 records around two centres, and five far from all."""
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((205, 6))
    rows[:200, 0] += 6 * (np.arange(200) % 2)
    rows[200:] *= far / np.linalg.norm(rows[200:], axis=1, keepdims=True)
    return Population(features=rows, labels=labels)


@pytest.mark.parametrize(
    "labels",
    [None, np.arange(205) % 2, np.zeros(205), np.arange(205) * 0.1, np.arange(205) % 3],
    ids=["none", "classes", "one", "a regression's", "classes that mean nothing"],
)
def test_planted_outliers_are_found(labels: Any) -> None:
    chosen = Outliers().choose(planted(labels, 25.0), 5, np.random.default_rng(1))
    assert sorted(chosen.indices.tolist()) == [200, 201, 202, 203, 204]
    # Control: random points miss them, and so do outliers where none are planted.
    drawn = RandomPoints().choose(planted(labels, 25.0), 5, np.random.default_rng(1))
    assert not set(drawn.indices.tolist()) & set(range(200, 205))
    near = Outliers().choose(planted(labels, 1.0), 5, np.random.default_rng(1))
    assert set(near.indices.tolist()) != set(range(200, 205))


def test_records_among_another_label_are_outliers() -> None:
    labels = np.arange(200) % 2
    labels[[10, 11]] = 1, 0  # each surrounded by records of the other
    rows = planted(None, 1.0).features[:200]
    chosen = Outliers().choose(
        Population(features=rows, labels=labels), 2, np.random.default_rng(1)
    )
    assert sorted(chosen.indices.tolist()) == [10, 11]


def test_outlier_scores_equal_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed in blocks of a few rows."""
    monkeypatch.setattr(challenges, "DISTANCES_AT_ONCE", 400)
    rng = np.random.default_rng(2)
    people = Population(features=rng.normal(size=(90, 2, 3)), labels=rng.integers(3, size=90))
    assert people.labels is not None
    rows = people.features.reshape(90, -1)
    rows = rows / (rows.max(axis=0) - rows.min(axis=0))
    for number, score in enumerate(challenges.outlier_scores(people, neighbours=4)):
        distance = np.linalg.norm(rows - rows[number], axis=1)
        same = people.labels == people.labels[number]
        own = np.sort(distance[same])[1:5].mean()
        assert score == pytest.approx(own**2 / np.sort(distance[~same])[:4].mean(), rel=1e-9)


def test_of_many_records_a_sample_is_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.arange(205) % 2
    whole = challenges.outlier_scores(planted(labels, 25.0), neighbours=10)
    monkeypatch.setattr(challenges, "REFERENCES", 60)
    sampled = challenges.outlier_scores(planted(labels, 25.0), neighbours=10)
    assert sorted(np.argsort(sampled)[-5:].tolist()) == [200, 201, 202, 203, 204]
    assert np.corrcoef(whole, sampled)[0, 1] > 0.9
    assert (
        sampled.tolist() == challenges.outlier_scores(planted(labels, 25.0), neighbours=10).tolist()
    )


def test_constant_features_and_copies_make_no_trouble() -> None:
    people = Population(features=np.zeros((30, 3), dtype=np.uint8), labels=np.arange(30) % 2)
    assert challenges.outlier_scores(people, neighbours=10).tolist() == [0.0] * 30
    images = Population(features=np.eye(30, dtype=np.uint8) * 255)
    assert np.ptp(challenges.outlier_scores(images, neighbours=40)) < 1e-12


# --- stores -------------------------------------------------------------------------------------


def test_a_store_refuses_another_kind_and_takes_more_bases(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    assert em.measure(make("mislabelled", 2), store).trained == 12
    for other in ("random", "outliers", [1, 2]):
        with pytest.raises(StoreError, match=r"holds another plan.*bases\.challenge"):
            em.measure(make(other, 2), store)
    grown = em.measure(make("mislabelled", 3), store)
    assert (grown.trained, grown.reused) == (6, 12)


def test_a_list_may_grow_but_not_change(tmp_path: Path) -> None:
    em.measure(make([5, 9], None), tmp_path / "s.db")
    assert em.measure(make([5, 9, 7], None), tmp_path / "s.db").trained == 6
    with pytest.raises(StoreError, match="its challenge base 1 has different records"):
        em.measure(make([5, 8], None), tmp_path / "s.db")


def test_crafted_points_that_change_are_seen(tmp_path: Path) -> None:
    """The function has the same code but returns something else."""
    value = [1.0]

    class Points:
        fingerprint = "same"

        def __call__(self, population: Population, count: int, _: Any) -> Dataset:
            rows = np.full((count, 4), value[0]) + np.arange(count)[:, None]
            return Dataset(features=rows, labels=np.zeros(count, dtype=np.int64))

    em.measure(make(Points(), 2), tmp_path / "s.db")
    assert em.measure(make(Points(), 2), tmp_path / "s.db").trained == 0
    value[0] = 3.0
    with pytest.raises(StoreError, match="its challenge base 0 has different records"):
        em.measure(make(Points(), 2), tmp_path / "s.db")


# --- what is refused ----------------------------------------------------------------------------


def test_outliers_have_neighbours() -> None:
    with pytest.raises(InputError, match="expected neighbours >= 1"):
        Outliers(neighbours=0)


def answering(value: Any) -> Any:
    return CustomPoints(function=lambda *_: value, name="mine:points")


WRONG: dict[str, tuple[Any, dict[str, Any]]] = {
    "expected challenge to be one of random, mislabelled, outliers": ("outlier", {}),
    "expected a kind of challenge points, indices of records or a function": (3, {}),
    "distinct points, got record 4 twice": ([4, 1, 4, 2], {}),
    "expected indices from 0 to 59, got 60": ([1, 2, 3, 60], {}),
    "expected indices from 0 to .*, got -1": ([1, 2, 3, -1], {}),
    "expected indices of at least one record": ([], {}),
    "expected indices of at least one record, .* got \\(1.5,\\)": ([1.5], {}),
    "expected 3 challenge bases, one per given point, got challenge_bases=4": ([1, 2, 3], {}),
    "expected challenge_bases to be a whole number": ("outliers", {"challenge_bases": None}),
    "points of kind outliers <= 60": ("outliers", {"challenge_bases": 61}),
    "points of kind mislabelled <= 60": ("mislabelled", {"challenge_bases": 61}),
    "mislabelled points need labels": (
        "mislabelled",
        {"population": Population(features=FEATURES)},
    ),
    "expected dataset_size <= 59": ("mislabelled", {"dataset_size": 60}),
    "expected dataset_size <= 58": ("outliers", {"dataset_size": 59, "adjacency": Replace()}),
    "challenge mine:points: expected 4 points, got 3": (answering([1, 2, 3]), {}),
    "challenge mine:points: expected distinct": (answering([1, 2, 3, 3]), {}),
    "challenge mine:points: expected indices .* got None": (answering(None), {}),
    "challenge mine:points: expected features of crafted records with shape \\(4,\\) each": (
        answering(Dataset(features=np.zeros((4, 3)), labels=np.zeros(4))),
        {},
    ),
    "challenge mine:points: expected labels for crafted records": (
        answering(Dataset(features=np.zeros((4, 4)))),
        {},
    ),
    "for designs with whole models": ("outliers", {"design": OneRun(canaries=5)}),
    "challenge applies to drawn bases only": (
        "outliers",
        {"challenge_bases": [ChallengeBase(dataset=[1], challenge=2)], "dataset_size": None},
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_refused(words: str) -> None:
    challenge, changed = WRONG[words]
    with pytest.raises(InputError, match=words):
        make(challenge, **changed)
