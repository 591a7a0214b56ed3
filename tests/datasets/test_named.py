"""Populations by name, and from files: every format, and precise errors for anything wrong."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from epsilometer.datasets import named
from epsilometer.errors import InputError
from epsilometer.measurement.population import Population

FEATURES = np.array([[0.5, -1.0], [2.0, 1e-300], [3.0, 0.1]])


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def write(path: Path, labels: Any = None) -> Path:
    """The same population in the format of the file name."""
    if path.suffix == ".npz":
        arrays = {"features": FEATURES} | ({} if labels is None else {"labels": labels})
        np.savez(path, **arrays)
    elif path.suffix == ".csv":
        rows = ["a,b" + ("" if labels is None else ",label")]
        for number, row in enumerate(FEATURES.tolist()):
            cells = [repr(value) for value in row]
            rows.append(",".join(cells + ([] if labels is None else [str(labels[number])])))
        path.write_text("\n".join(rows) + "\n")
    else:
        columns = {"a": FEATURES[:, 0], "b": FEATURES[:, 1]}
        pa.parquet.write_table(
            pa.table(columns | ({} if labels is None else {"label": labels})), path
        )
    return path


@pytest.mark.parametrize("suffix", named.SUFFIXES)
@pytest.mark.parametrize("labels", [None, [1, 0, 1], ["cat", "dog", "cat"]], ids=str)
def test_every_kind_reads_alike(suffix: str, labels: Any, tmp_path: Path) -> None:
    population = named.read_file(write(tmp_path / f"people{suffix}", labels))
    assert population.features.tolist() == FEATURES.tolist()
    if labels is None:
        assert population.labels is None
    else:
        assert population.labels is not None
        assert population.labels.tolist() == labels
    assert population.name == f"people{suffix}"
    assert population.fingerprint == Population(features=FEATURES, labels=labels).fingerprint


def test_suffixes_in_capitals(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv").rename(tmp_path / "A.CSV")
    assert len(named.read_file(path)) == 3


@pytest.mark.parametrize("suffix", named.SUFFIXES)
def test_missing_file(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"absent\{suffix}: expected a file .*no such file"):
        named.read_file(tmp_path / f"absent{suffix}")


@pytest.mark.parametrize("suffix", named.SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"PK\x03\x04 broken", b"\xff\xfe\x00a"])
def test_garbage(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"garbage{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"garbage\{suffix}"):
        named.read_file(path)


@pytest.mark.parametrize("suffix", named.SUFFIXES)
def test_truncated(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"cut{suffix}")
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 1 if suffix == ".csv" else 17):
        path.write_bytes(whole[:length])
        try:
            population = named.read_file(path)
        except InputError:
            continue
        # Text may end anywhere between two rows or digits.
        assert suffix == ".csv"
        assert len(population) <= 3


# --- npz ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", ["features", "labels"])
def test_pickled_objects_are_refused(array: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    arrays: dict[str, Any] = {"features": FEATURES, "labels": np.arange(3)}
    arrays[array] = np.array([Bomb(mark)] * 3, dtype=object)
    path = tmp_path / "bomb.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="without pickle"):
        named.read_file(path)
    assert not mark.exists()


def test_a_pickle_by_another_name_is_refused(tmp_path: Path) -> None:
    mark, path = tmp_path / "mark", tmp_path / "bomb.npz"
    path.write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(InputError, match="cannot be read as npz"):
        named.read_file(path)
    assert not mark.exists()


def test_a_single_array_by_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "array.npz"
    with path.open("wb") as file:
        np.save(file, FEATURES)
    with pytest.raises(InputError, match=r"array\.npz"):
        named.read_file(path)


def test_arrays_of_other_names(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=FEATURES, y=FEATURES)
    with pytest.raises(InputError, match=r"expected arrays named features .*got x, y"):
        named.read_file(path)


def test_images(tmp_path: Path) -> None:
    path = tmp_path / "images.npz"
    np.savez_compressed(path, features=np.zeros((5, 4, 4, 3), dtype=np.uint8))
    population = named.read_file(path)
    assert population.features.shape == (5, 4, 4, 3)
    assert population.features.dtype == np.uint8


def test_values_out_of_range_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "nan.npz"
    np.savez(path, features=np.array([[1.0], [np.nan]]))
    with pytest.raises(InputError, match=r"nan\.npz: expected finite numbers in features"):
        named.read_file(path)
    np.savez(path, features=FEATURES, labels=np.arange(2))
    with pytest.raises(InputError, match=r"nan\.npz: expected labels of shape"):
        named.read_file(path)


# --- csv ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3,x\n", r"bad\.csv row 3: expected a finite number in column 'b', got 'x'"),
        ("a,b\n1,2\n3,\n", r"bad\.csv row 3: expected a finite number in column 'b', got ''"),
        ("a,b\n1,2\n3\n", r"bad\.csv row 3: expected 2 cells, got 1"),
        ("a,b\n1,2\n\n\n3,4,5\n", r"bad\.csv row 5: expected 2 cells, got 3"),
        ("a,a\n1,2\n3,4\n", r"bad\.csv row 1: expected distinct column names"),
        ("a,label,label\n1,2,3\n4,5,6\n", r"bad\.csv row 1: expected distinct column names"),
        ("a,b\n1,2\n", "at least 2 records"),
        ("a,b\n", "at least 2 records"),
        ("label\n1\n2\n", r"bad\.csv.*feature"),
        ("a\n1\nnan\n", r"bad\.csv row 3"),
        ("a\n1\ninf\n", r"bad\.csv row 3"),
        ('a,b\n1,"2\n', r"bad\.csv row .*not valid CSV"),
    ],
)
def test_malformed_text_is_named_by_row(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        named.read_file(path)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-2"], [1, -2]),
        (["1", "b"], ["1", "b"]),
        (["1.5", "2"], ["1.5", "2"]),
        (["1", "²"], ["1", "²"]),
        (["1", "--2"], ["1", "--2"]),
        (["9" * 30, "1"], ["9" * 30, "1"]),
    ],
)
def test_labels_are_whole_numbers_if_all_are(
    cells: list[str], expected: list[Any], tmp_path: Path
) -> None:
    path = tmp_path / "labels.csv"
    rows = "".join(f"{number},{cell}\n" for number, cell in enumerate(cells))
    path.write_text("a,label\n" + rows, encoding="utf-8")
    labels = named.read_file(path).labels
    assert labels is not None
    assert labels.tolist() == expected


# --- Parquet --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        {"label": [1, 2]},
        {"a": ["x", "y"]},
        {"a": [1.0, None]},
        {"a": [[1.0], [2.0]]},
        {"a": [1.0, 2.0], "label": ["x", None]},
        {"a": [1.0, 2.0], "label": [1, None]},
        {"a": [1.0]},
    ],
    ids=str,
)
def test_tables_that_are_no_population(columns: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    with pytest.raises(InputError, match=r"bad\.parquet"):
        named.read_file(path)


def test_digits() -> None:
    digits = named.load_population("digits")
    assert digits.features.shape == (1797, 64)
    assert digits.features.min() == 0.0
    assert digits.features.max() == 1.0
    # Whole sixteenths, as the images have 17 grey levels.
    assert (digits.features * 16 % 1 == 0).all()
    assert digits.labels is not None
    assert digits.labels.dtype == np.int64
    assert sorted(set(digits.labels.tolist())) == list(range(10))
    assert digits.name == "digits"


def test_directions_have_length_one_and_never_change() -> None:
    directions = named.load_population("directions")
    assert directions.features.shape == (10_000, 64)
    lengths = np.linalg.norm(directions.features, axis=1)
    np.testing.assert_allclose(lengths, 1.0, rtol=0, atol=4 * np.finfo(float).eps)
    assert directions.labels is None
    assert named.load_population("directions").fingerprint == directions.fingerprint


def test_files_by_path_and_from_a_folder(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", features=np.eye(3))
    assert len(named.load_population(str(tmp_path / "mine.npz"))) == 3
    assert len(named.load_population("mine.npz", folder=tmp_path)) == 3
    with pytest.raises(InputError, match=r"absent\.csv.*no such file"):
        named.load_population("absent.csv", folder=tmp_path)


@pytest.mark.parametrize("source", ["Digits", "mnist", "", "data.txt", "data"])
def test_unknown_names(source: str) -> None:
    with pytest.raises(InputError, match=r"digits, directions\).*\.npz, \.csv.*got source="):
        named.load_population(source)
