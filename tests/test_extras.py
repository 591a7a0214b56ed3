"""Advice on missing libraries: a command that works wherever Epsilometer was installed from."""

from __future__ import annotations

import shlex
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from epsilometer import _extras
from epsilometer.errors import InputError

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


@pytest.mark.parametrize("extra", ["dask", "parquet", "sklearn", "torch"])
def test_the_packages_of_an_extra_are_advised_by_their_own_names(extra: str) -> None:
    listed = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"][extra]
    command = shlex.split(_extras.advice(extra, "x"))
    assert command[:2] == ["pip", "install"]
    assert sorted(command[2:]) == sorted(listed)


def test_a_missing_module_is_an_error_with_that_command() -> None:
    with pytest.raises(
        InputError, match=r"tables need it: pip install 'pyarrow>=18', or use CSV\.$"
    ):
        _extras.load("no_such_module", "tables need it", "parquet", instead=", or use CSV")


def test_without_metadata_the_library_itself_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_extras, "requires", nothing)
    assert _extras.advice("torch", "torch.nn") == "pip install torch"
