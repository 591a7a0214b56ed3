"""Populations by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.datasets import named
from epsilometer.errors import InputError


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
