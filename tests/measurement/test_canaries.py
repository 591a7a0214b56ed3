"""Canaries: drawn or crafted, included by fair coins, scored without knowing them, saved to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.measurement.canary_kinds import flip
from epsilometer.measurement.population import Dataset, Point, Population

KIND_NAMES = ("population", "mislabelled", "noise")


def labelled(records: int = 60, seed: int = 1) -> Population:
    rng = np.random.default_rng(seed)
    return Population(features=rng.normal(size=(records, 3)), labels=rng.integers(4, size=records))


def drawn(seed: int = 2, **options: Any) -> em.Canaries:
    settings: dict[str, Any] = {"count": 20, "kind": "mislabelled"} | options
    return em.Canaries.draw(labelled(), **{"rng": np.random.default_rng(seed)} | settings)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_the_same_stream_draws_the_same(kind: str) -> None:
    assert drawn(kind=kind).fingerprint == drawn(kind=kind).fingerprint
    assert drawn(kind=kind).fingerprint != drawn(seed=3, kind=kind).fingerprint


def test_records_are_distinct_and_not_trained_on_otherwise() -> None:
    trained_on = np.arange(30)
    canaries = drawn(kind="population", count=30, outside=trained_on)
    assert canaries.records is not None
    assert sorted(canaries.records.tolist()) == list(range(30, 60))
    population = labelled()
    assert np.array_equal(canaries.points.features, population.features[canaries.records])
    assert population.labels is not None
    assert np.array_equal(np.asarray(canaries.points.labels), population.labels[canaries.records])


def test_a_mask_selects_the_training_records() -> None:
    mask = np.arange(60) < 30
    assert drawn(outside=mask).fingerprint == drawn(outside=np.flatnonzero(mask)).fingerprint


def test_mislabelled_canaries_have_any_label_but_their_own() -> None:
    population = labelled(records=900)
    canaries = em.Canaries.draw(
        population, count=800, rng=np.random.default_rng(1), kind="mislabelled"
    )
    own, given = population.labels, canaries.points.labels
    assert own is not None
    assert given is not None
    assert canaries.records is not None
    steps = (given - own[canaries.records]) % 4
    # Three other labels, equally likely: 267 of 800, standard deviation 13.
    assert np.abs(np.bincount(steps, minlength=4) - [0, 267, 267, 267]).max() < 60
    assert np.bincount(steps)[0] == 0


def test_noise_is_within_the_range_of_the_features() -> None:
    whole = Population(features=np.arange(40).reshape(20, 2) % 7, labels=[0, 1] * 10)
    canaries = em.Canaries.draw(whole, count=300, rng=np.random.default_rng(1), kind="noise")
    features = canaries.points.features
    assert features.dtype == whole.features.dtype
    assert (features.min(axis=0) == whole.features.min(axis=0)).all()
    assert (features.max(axis=0) == whole.features.max(axis=0)).all()
    assert set(np.asarray(canaries.points.labels).tolist()) == {0, 1}


def test_custom_canaries() -> None:
    def twos(population: Population, count: int, rng: np.random.Generator) -> Dataset:
        del population, rng
        return Dataset(features=np.full((count, 3), 2.0) + np.arange(count)[:, None])

    canaries = drawn(kind=twos)
    assert canaries.kind == "twos"
    assert canaries.points.features[5].tolist() == [7.0, 7.0, 7.0]
    assert canaries.points.labels is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "expected a Dataset or a tuple .features, labels., got NoneType"),
        (([[1.0]] * 3, None), "expected 20 points, got shape"),
        (np.zeros(()), "expected at least two points"),
        (([[1.0], [1.0, 2.0]], None), "expected points of the same shape"),
        ((np.array([{}] * 20), None), "expected numeric points, got object"),
        ((np.zeros((20, 3)), np.zeros(3)), "expected 20 labels, one per canary, got 3"),
    ],
)
def test_points_made_by_a_function_are_checked(answer: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        drawn(kind=lambda *_: answer)


def test_coins_are_fair_and_independent() -> None:
    """Heads in half of all flips, and two in a row as often as expected by chance."""
    coins = flip(40_000, np.random.default_rng(7))
    assert abs(int(coins.sum()) - 20_000) < 5 * 100  # standard deviation 100
    pairs = int((coins[1:] == coins[:-1]).sum())
    assert abs(pairs - 20_000) < 5 * 100


def test_coins_are_independent_of_the_records_drawn() -> None:
    """The coin of a record that is drawn many times is fair and independent."""
    found = [drawn(seed=seed, count=40, kind="population") for seed in range(300)]
    inside, drawn_at_all = np.zeros(60), np.zeros(60)
    for each in found:
        assert each.records is not None
        drawn_at_all[each.records] += 1
        inside[each.records] += each.coins
    deviations = (inside - drawn_at_all / 2) / np.sqrt(drawn_at_all / 4)
    assert np.abs(deviations).max() < 4.5  # of 60 records
    assert 30 < float(deviations @ deviations) < 100  # a chi-square of 60


def test_one_sided_coins_are_refused() -> None:
    said = set()
    for seed in range(40):
        try:
            drawn(seed=seed, count=2)
        except InputError as error:
            said.add(str(error).split("got ")[1].split(" of")[0])
    assert said == {"none", "all"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 61}, "at most 60 canaries, .* not always trained on"),
        ({"count": 31, "outside": range(30)}, "at most 30 canaries"),
        ({"count": 1}, "count >= 2"),
        ({"outside": [60]}, "indices from 0 to 59 or a mask of 60 records"),
        ({"outside": [-1]}, "indices from 0 to 59"),
        ({"outside": [True, False]}, "indices from 0 to 59"),
        ({"kind": "strange"}, "one of population, mislabelled, noise"),
        ({"rng": 1}, r"expected rng=numpy.random.default_rng\(seed\), got rng=1"),
        ({"kind": 3}, "a kind of canaries or a function"),
    ],
)
def test_out_of_range(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        drawn(**options)


def test_labels_are_needed() -> None:
    for labels, words in ((None, "mislabelled points need labels"), ([1] * 9, "with two labels")):
        bare = Population(features=np.zeros((9, 2)), labels=labels)
        with pytest.raises(InputError, match=words):
            em.Canaries.draw(bare, count=3, rng=np.random.default_rng(1), kind="mislabelled")


# --- training data and scores -------------------------------------------------------------------


def test_only_those_that_are_in_are_added() -> None:
    canaries = drawn()
    before = labelled().take(np.arange(5))
    after = canaries.added_to(before)
    assert len(after) == 5 + int(canaries.coins.sum())
    inside = canaries.points.features[canaries.coins]
    assert np.array_equal(after.features[5:], inside)
    assert np.array_equal(canaries.included.features, inside)
    assert np.array_equal(after.features[:5], before.features)


def test_the_rest_of_the_population() -> None:
    canaries, population = drawn(), labelled()
    assert canaries.records is not None
    expected = [n for n in range(60) if n not in canaries.records]
    assert np.array_equal(canaries.rest.features, population.features[expected])
    with pytest.raises(InputError, match="got crafted ones"):
        _ = drawn(kind="noise").rest


def test_canaries_that_are_out_must_not_be_in_the_data() -> None:
    canaries = drawn(kind="population")
    with pytest.raises(InputError, match=r"excluded canaries in it; train on `canaries\.rest`"):
        canaries.added_to(labelled().take(np.arange(60)))
    assert len(canaries.added_to(canaries.rest)) == 40 + int(canaries.coins.sum())


def test_points_are_copies() -> None:
    canaries = drawn(kind="noise")
    before = canaries.fingerprint
    for dataset in (canaries.points, canaries.included):
        dataset.features[:] = 9.0
        assert dataset.labels is not None
        dataset.labels[:] = 0
    canaries.losses(lambda point: float(np.add(point.features, 9.0, out=point.features)[0]))
    assert canaries.fingerprint == before


def test_scores_are_negated_losses_by_coin() -> None:
    canaries = drawn()
    losses = np.random.default_rng(3).normal(size=20)
    scores = canaries.scores(losses, name="first")
    without, with_point = scores.bases[0].in_training_order
    assert scores.one_run
    assert scores.names == ("first",)
    assert with_point.tolist() == [
        -x for x, coin in zip(losses, canaries.coins, strict=True) if coin
    ]
    assert without.tolist() == [
        -x for x, coin in zip(losses, canaries.coins, strict=True) if not coin
    ]


def test_a_loss_function_is_called_for_every_point() -> None:
    canaries = drawn()

    def loss(point: Point) -> float:
        return float(point.features.sum() + point.label)

    points = canaries.points
    assert points.labels is not None
    expected = points.features.sum(axis=1) + points.labels
    assert canaries.losses(loss) == pytest.approx(expected)
    compared = canaries.scores(loss, compared_with=expected)
    assert not compared.bases[0].value.any()


def test_losses_that_are_none() -> None:
    canaries = drawn()
    losses = np.zeros(20)
    losses[[4, 7]] = np.nan
    with pytest.raises(InputError, match=r"canary 4: expected a number as loss, got nan \(2 of 20"):
        canaries.scores(losses)
    with pytest.raises(InputError, match="to return a number for one point"):
        canaries.scores(lambda point: point.features)  # type: ignore[arg-type, return-value]
    with pytest.raises(InputError, match="expected one number per canary"):
        canaries.scores(["a"] * 20)
    with pytest.raises(InputError, match="canary 0: expected a number as loss, got nan"):
        canaries.scores(np.full(20, np.inf), compared_with=np.full(20, np.inf))
    with pytest.raises(InputError, match=r"expected 20 losses.*of the same canaries"):
        canaries.scores(np.zeros(19))


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_files_round_trip(kind: str, tmp_path: Path) -> None:
    canaries = drawn(kind=kind)
    for name in ("one.npz", "two.npz"):
        canaries.write(tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    again = em.Canaries.read(tmp_path / "one.npz", labelled())
    assert again.fingerprint == canaries.fingerprint
    assert again.coins.tolist() == canaries.coins.tolist()
    assert again.kind == canaries.kind


def test_other_coins_are_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    drawn().write(path)
    drawn().write(path)  # the same
    before = path.read_bytes()
    with pytest.raises(InputError, match="perhaps coins"):
        drawn(seed=3).write(path)
    assert path.read_bytes() == before


def test_records_are_not_written(tmp_path: Path) -> None:
    """A canary file stores identities and reveals no record."""
    drawn().write(tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as kept:
        assert "features" not in kept.files
        assert "records" in kept.files


def test_coins_of_another_file(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    drawn().write(path)
    with pytest.raises(InputError, match="records: pass read"):
        em.Canaries.read(path)
    with pytest.raises(InputError, match="is this another population"):
        em.Canaries.read(path, labelled(seed=2))
    with pytest.raises(InputError, match="are not in this population"):
        em.Canaries.read(path, labelled(records=5))


@pytest.mark.parametrize(
    "kept",
    [
        {"coins": np.ones(20, dtype=np.uint8)},
        {"coins": np.full(20, 2)},
        {"coins": np.zeros((2, 10))},
        {"records": np.full(20, -1)},
        {"features": np.zeros((20, 3))},
        {"format": np.array([1, 2])},
        {"format": np.array("x")},
        {"format": np.array(np.nan)},
        {"labels": np.array(3)},
        {"kind": np.array([1.0])},
        {"coins": np.zeros(0, dtype=np.uint8)},
        {"format": np.array(9)},
        {"sha256": np.array("x")},
        *("coins", "records", "labels"),
    ],
)
def test_changed_and_impossible_files(kept: dict[str, Any] | str, tmp_path: Path) -> None:
    """A name: that array in another order."""
    path = tmp_path / "c.npz"
    drawn().write(path)
    with np.load(path) as file:
        whole = dict(file)
    whole |= {kept: whole[kept][::-1]} if isinstance(kept, str) else kept
    with path.open("wb") as target:
        np.savez(target, **whole)
    with pytest.raises(InputError, match=r"c\.npz: "):
        em.Canaries.read(path, labelled())


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with path.open("wb") as file:
        np.savez(file, coins=np.array([{}], dtype=object), format=1, kind="x", sha256="y")
    with pytest.raises(InputError, match="cannot be read as npz without pickle"):
        em.Canaries.read(path)
    path.write_bytes(b"not a file of canaries")
    with pytest.raises(InputError, match="cannot be read as npz without pickle"):
        em.Canaries.read(path)


# --- added to records ------------------------------------------------------------------------------

TOKENS = np.arange(60).reshape(20, 3)


def of_tokens(labels: list[int] | None = None) -> em.Canaries:
    return em.Canaries.of(features=TOKENS, labels=labels, rng=np.random.default_rng(1))


@pytest.mark.parametrize("labelled", [False, True])
def test_included_canaries_follow_the_records(labelled: bool) -> None:
    drawn = of_tokens([7] * 20 if labelled else None)
    own = Dataset(features=np.zeros((4, 3)), labels=np.zeros(4) if labelled else None)
    found = drawn.added_to(own)
    assert (found.features[4:] == TOKENS[drawn.coins]).all()
    assert found.labels is None or found.labels.tolist() == [0] * 4 + [7] * int(drawn.coins.sum())
    assert (found.labels is not None) == labelled


def test_labels_are_not_dropped_in_silence() -> None:
    own = Dataset(features=np.zeros((4, 3)), labels=np.zeros(4))
    with pytest.raises(InputError, match="got only those of records"):
        of_tokens().added_to(own)
    with pytest.raises(InputError, match="got only those of canaries"):
        of_tokens([0] * 20).added_to(Dataset(features=np.zeros((4, 3))))


def test_another_shape_is_refused() -> None:
    with pytest.raises(InputError, match=r"shape of the records, \(4,\), got \(3,\)"):
        of_tokens().added_to(Dataset(features=np.zeros((4, 4))))
