"""Losses of a pool in files: exact round trips, and one line for every wrong file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from epsilometer import _columns, _files
from epsilometer.attacks import pool_losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.errors import InputError
from tests.attacks.pool_oracles import pool

COLUMNS = tuple(pool_losses.COLUMNS)
KINDS = ("npz", "parquet", "csv")
ROWS: list[tuple[object, ...]] = [
    ("a", 0, 0, 1, 0, 0, 0.5),
    ("b", 0, 0, 0, 0, 0, 1.5),
    ("a", 1, 0, 0, 0, 0, 0.25),
    ("b", 1, 0, 1, 0, 0, 2.5),
]


def written(path: Path, rows: Sequence[tuple[object, ...]], columns: tuple[str, ...]) -> Path:
    path.write_text(_files.csv_text(columns, rows))
    return path


def as_parquet(path: Path) -> Path:
    """The same table as Parquet, as another tool would write it."""
    from pyarrow import csv, parquet

    target = path.with_suffix(".parquet")
    parquet.write_table(csv.read_csv(path), target)
    return target


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("references", "queries"), [(0, 1), (7, 3)])
def test_the_same_bits_back(tmp_path: Path, kind: str, references: int, queries: int) -> None:
    losses = pool(5, 9, references=references, queries=queries)
    path = tmp_path / f"losses.{kind}"
    losses.write(path)
    assert PoolLosses.read(path) == losses
    unfair = PoolLosses(
        loss=losses.loss,
        member=losses.member,
        names=[f"p {n}" for n in range(9)] + [f"r{n}" for n in range(references)],
    )
    unfair.write(str(path))
    assert PoolLosses.read(path) == unfair
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_rows_in_any_order(tmp_path: Path) -> None:
    losses = pool(4, 6, references=3, queries=2)
    rows = list(zip(*losses.rows().values(), strict=True))
    order = np.random.default_rng(1).permutation(len(rows))
    path = written(tmp_path / "a.csv", [rows[n] for n in order], COLUMNS)
    for source in (path, as_parquet(path)):
        found = PoolLosses.read(source)
        assert (found.references, found.fair_coins) == (3, True)
        assert set(found.names[-3:]) == {"6", "7", "8"}
        for place, name in enumerate(found.names):
            assert np.array_equal(found.loss[:, place], losses.loss[:, int(name)])
            assert np.array_equal(found.member[:, place], losses.member[:, int(name)])


def test_columns_that_may_be_left_out(tmp_path: Path) -> None:
    rows = [(row[0], row[1], row[3], row[6]) for row in ROWS]
    path = written(tmp_path / "a.csv", rows, ("point", "model", "member", "loss"))
    for source in (path, as_parquet(path)):
        found = PoolLosses.read(source)
        assert found.names == ("a", "b")
        assert (found.references, found.fair_coins) == (0, False)
        assert found.loss[:, :, 0].tolist() == [[0.5, 1.5], [0.25, 2.5]]
        assert found.member.tolist() == [[True, False], [False, True]]


def edited(row: int, column: int, value: object) -> list[tuple[object, ...]]:
    rows = [list(each) for each in ROWS]
    rows[row][column] = value
    return [tuple(each) for each in rows]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (ROWS[:3], "2 models, 2 points and 1 queries, got 3 rows"),
        (edited(3, 0, "a"), "one loss for each point"),
        (edited(3, 1, 7), "8 models"),
        (edited(3, 2, 1), "2 queries"),
        (edited(3, 3, 2), "member"),
        (edited(3, 4, 1), "reference to be the same"),
        (edited(3, 5, 1), "fair_coins to be the same"),
        (edited(3, 6, "inf"), "finite losses"),
        (edited(3, 1, -1), "model"),
        (edited(3, 0, "x" * 300), "200 characters"),
        (
            edited(1, 4, 1)[:2] + [("a", 1, 0, 0, 0, 0, 1.0), ("b", 1, 0, 1, 1, 0, 1.0)],
            "trained on",
        ),
        ([], "row"),
    ],
)
def test_wrong_tables_are_named_in_one_line(
    tmp_path: Path, rows: list[tuple[object, ...]], expected: str
) -> None:
    path = written(tmp_path / "a.csv", rows, COLUMNS)
    for source in (path, as_parquet(path)) if rows else (path,):
        with pytest.raises(InputError, match=expected) as caught:
            PoolLosses.read(source)
        assert source.name in str(caught.value)


def test_members_that_differ_by_query(tmp_path: Path) -> None:
    rows = [("a", 0, query, query, 0, 0, 1.0) for query in (0, 1)]
    with pytest.raises(InputError, match="the same for all queries"):
        PoolLosses.read(written(tmp_path / "a.csv", rows, COLUMNS))


def test_other_kinds_of_columns(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    good = {"point": ["a"], "model": [0], "member": [True], "loss": [0.5]}
    for column, values in (
        ("model", [0.0]),
        ("loss", ["0.5"]),
        ("member", ["yes"]),
        ("loss", [None]),
        ("point", [b"\xff"]),
        ("point", [[1]]),
    ):
        parquet.write_table(pa.table(good | {column: values}), path)
        with pytest.raises(InputError, match=column):
            PoolLosses.read(path)
    parquet.write_table(pa.table(good | {"more": [1]}), path)
    with pytest.raises(InputError, match="unknown column 'more'"):
        PoolLosses.read(path)
    parquet.write_table(pa.table(good), path)
    assert PoolLosses.read(path).loss.tolist() == [[[0.5]]]


@pytest.mark.parametrize(
    "arrays",
    [
        {"loss": np.ones((2, 2))},
        {"loss": np.ones((2, 2)), "member": np.ones((2, 2))},
        {"loss": np.array([["a", "b"]]), "member": np.ones((1, 2), dtype=bool)},
        {"loss": np.ones((1, 2)), "member": np.ones((1, 2), dtype=bool), "references": [1]},
        {"loss": np.ones((1, 2)), "member": np.ones((1, 2), dtype=bool), "names": [1, 2]},
        {"loss": np.ones((1, 2)), "member": np.ones((1, 2), dtype=bool), "names": ["a", "a"]},
        {"loss": np.ones((1, 2)), "member": np.ones((1, 2), dtype=bool), "references": 1},
        {"loss": np.array([[np.nan, 1]]), "member": np.ones((1, 2), dtype=bool)},
        {"loss": np.array([None, "x"]), "member": np.ones((1, 2), dtype=bool)},
    ],
)
def test_wrong_arrays_are_refused(tmp_path: Path, arrays: dict[str, object]) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=re.escape("a.npz")):
        PoolLosses.read(path)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_one_line(tmp_path: Path, kind: str) -> None:
    losses = pool(3, 5, references=2)
    path = tmp_path / f"a.{kind}"
    losses.write(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    spoil: list[Callable[[], bytes]] = [
        lambda: whole[: rng.integers(0, len(whole))],
        lambda: bytes(rng.integers(0, 256, 200, dtype=np.uint8)),
    ]
    refused = []
    for number in range(60):
        if number < 20:
            data = spoil[number % 2]()
        else:
            place = int(rng.integers(0, len(whole)))
            data = whole[:place] + bytes([rng.integers(0, 256)]) + whole[place + 1 :]
        path.write_bytes(data)
        try:
            PoolLosses.read(path)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) >= 20
    assert not any("\n" in each for each in refused)


def test_files_of_other_names_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in \.npz, \.parquet or \.csv"):
        PoolLosses.read(tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"ends in \.npz, \.parquet or \.csv"):
        pool(2, 2).write(tmp_path / "a.txt")
    for kind in KINDS:
        with pytest.raises(InputError, match=f"a.{kind}"):
            PoolLosses.read(tmp_path / f"a.{kind}")


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_size_is_limited(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"a.{kind}"
    pool(5, 40).write(path)
    monkeypatch.setattr(pool_losses, "LARGEST_LOSSES", 1000)
    monkeypatch.setattr(_columns, "MOST_ROWS", 100)
    with pytest.raises(InputError, match="more"):
        PoolLosses.read(path)
