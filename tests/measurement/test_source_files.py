"""The files an algorithm depends on, found by reading code rather than loaded modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from epsilometer.measurement.source_files import source_digests


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / (name.replace("__in", "/__in") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_file_and_what_it_imports_from_its_folder(tmp_path: Path) -> None:
    write(tmp_path, main="import numpy\nimport one\nfrom two import x\n", one="import main\n")
    write(tmp_path, two="def f():\n    import three\n", three="", unrelated="")
    found = source_digests(tmp_path / "main.py")
    assert set(found) == {"main.py", "one.py", "two.py", "three.py"}


def test_packages_and_relative_imports(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    write(
        package, train="from . import layers\nfrom .losses import entropy\n", layers="", losses=""
    )
    (tmp_path / "helper.py").write_text("")
    (package / "losses.py").write_text("import helper\n")
    found = source_digests(package / "train.py")
    assert set(found) == {
        "mine/train.py", "mine/layers.py", "mine/losses.py", "mine/__init__.py", "helper.py",
    }  # fmt: skip


@pytest.mark.parametrize("changed", ["main", "one"])
def test_a_change_of_either_shows(tmp_path: Path, changed: str) -> None:
    write(tmp_path, main="import one\n", one="x = 1\n")
    before = source_digests(tmp_path / "main.py")
    (tmp_path / f"{changed}.py").write_text("import one\nx = 2\n")
    after = source_digests(tmp_path / "main.py")
    assert {name for name in after if before[name] != after[name]} == {f"{changed}.py"}


def test_installed_packages_are_left_out() -> None:
    assert source_digests(Path(str(pytest.__file__))) == {}


def test_a_file_that_is_not_python(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_bytes(b"\0(((")
    assert set(source_digests(tmp_path / "odd.py")) == {"odd.py"}


def test_imports_beyond_the_folder_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, outside="")
    inner = tmp_path / "inner"
    inner.mkdir()
    write(inner, main="from .. import outside\nfrom ..outside import x\n")
    assert set(source_digests(inner / "main.py")) == {"main.py"}
