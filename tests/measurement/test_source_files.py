"""The files an algorithm depends on, found by reading code rather than loaded modules."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from epsilometer.measurement.source_files import BYTES, SYNTAX, source_digest, source_digests


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


CODE = """
import functools

LIMIT = 10


@functools.cache
def clipped(value, norm=1.0, *, u="no"):
    class Inner:
        pass

    return f"{value:.3f}" + u if value < LIMIT else -norm


async def nothing():
    return {**{}, "a": [1, None, ...]}
"""


def code_digest(text: str) -> str:
    return source_digest(text.encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 10", "LIMIT = 10  # a comment\n# another"),
        ("import functools", "\n\nimport functools"),
        ("import functools", '"""What this file does."""\nimport functools'),
        ("    class Inner:", '    """What it does."""\n    class Inner:'),
        ("        pass", '        """What it is."""\n        pass'),
        ("    return {**", "    'What it does.'\n    return {**"),
        ("clipped(value, norm=1.0, *, u", "clipped(\n    value, norm = 1.0,\n    *,\n    u"),
        ('u="no"', "u='no'"),
        ('u="no"', 'u=u"no"'),
        ("value < LIMIT", "(value < LIMIT)"),
        ("LIMIT = 10", "LIMIT = 1_0"),
    ],
)
def test_what_does_not_run_does_not_count(old: str, new: str) -> None:
    assert old in CODE
    changed = CODE.replace(old, new)
    assert code_digest(changed) == code_digest(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 10", "LIMIT = 11"),
        ("LIMIT = 10", "LIMIT = 10.0"),
        ("LIMIT = 10", 'LIMIT = "10"'),
        ("LIMIT = 10", "LIMIT: int = 10"),
        ("norm=1.0", "norm=2.0"),
        ("norm=1.0", "norm"),
        ('u="no"', "u=None"),
        ('u="no"', "u"),
        (", *, u", ", u"),
        ("@functools.cache\n", ""),
        ("@functools.cache", "@functools.lru_cache"),
        (":.3f", ":.4f"),
        ("{value:.3f}", "{value!r:.3f}"),
        ("value < LIMIT", "value <= LIMIT"),
        ("-norm", "norm"),
        ("-norm", "not norm"),
        ("async def", "def"),
        ("{**{}, ", "{"),
        ("None, ...", "..., None"),
        ("class Inner:", "class Other:"),
        ("        pass\n", "        x = 1\n"),
        ("import functools", "import functools as functools"),
        ("import functools", "from . import functools"),
        ("import functools", "import functools\nb'what is no docstring'"),
    ],
)
def test_what_runs_counts(old: str, new: str) -> None:
    assert old in CODE
    assert code_digest(CODE.replace(old, new)) != code_digest(CODE)


def test_docstrings_count_where_they_are_read() -> None:
    text = '"""Usage: {}."""\nprint(__doc__)\n'
    assert code_digest(text.format("a")) != code_digest(text.format("b"))
    assert code_digest(text.format("a")) == code_digest(text.format("a") + "# comment\n")


def test_the_digest_is_the_same_in_every_version_of_python() -> None:
    """Computed with Python 3.11.7, 3.12.1 and 3.13.0."""
    assert code_digest(CODE) == (
        "syntax:7fb6bbc2bb756b94b599c765e66507e99d572d3f00a6d9672689697074a8ff2a"
    )


def test_code_that_cannot_be_read_is_compared_byte_by_byte() -> None:
    for text in (b"\0(((", b"x = (", b"x = " + b"(" * 10_000 + b")" * 10_000, b"\xff"):
        digest = source_digest(text)
        assert digest == BYTES + hashlib.sha256(text).hexdigest()
        assert source_digest(text + b" # comment") != digest
    deep = b"x = " + b" + ".join([b"1"] * 600)
    assert source_digest(deep).startswith(SYNTAX)


@pytest.mark.filterwarnings("error")
def test_warnings_of_the_parser_change_nothing() -> None:
    assert code_digest('x = "\\d"').startswith(SYNTAX)


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
