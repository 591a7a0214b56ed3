"""The reference names everything that is public, and nothing else; commands come from the program."""

from __future__ import annotations

import doctest
import re

import pytest

from tests.docs.scripts import DOCS, EXTENSIONS, script

FOLDERS = (".", "how-to", "explanation", "reference", "notebooks")
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|exception):: (\w+)$", flags=re.MULTILINE)
PART = re.compile(
    r"^\.\. currentmodule:: (epsilometer[\w.]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def documented() -> list[str]:
    """Full names, as the reference documents them."""
    pages = sorted((DOCS / "reference").glob("*.md"))
    parts = [part for page in pages for part in PART.findall(page.read_text(encoding="utf-8"))]
    return [f"{module}.{name}" for module, text in parts for name in DIRECTIVE.findall(text)]


def test_every_public_name_is_in_the_reference_once() -> None:
    """A new name goes into the section of its module: ``.. autoclass::`` or ``.. autofunction::``."""
    public = script("public_names").public()
    top = set(public["epsilometer"])
    expected = [f"epsilometer.{name}" for name in top]
    for module, names in public.items():
        expected += [f"{module}.{name}" for name in names if name not in top]
    assert sorted(documented()) == sorted(expected)


def test_every_submodule_is_in_the_reference() -> None:
    """The stub of the package names the submodules, and the stub of each its names."""
    import epsilometer

    modules = {f"epsilometer.{name}" for name in set(dir(epsilometer)) - set(epsilometer.__all__)}
    assert len(modules) == 15
    assert {name.rpartition(".")[0] for name in documented()} == {"epsilometer", *modules}


def test_every_page_is_in_the_contents() -> None:
    listed = re.findall(r"^[\w/-]+$", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.M)
    found = [*script("run_pages").pages(), *DOCS.glob("notebooks/*.ipynb")]
    pages = [page.relative_to(DOCS) for page in found]
    # Other folders hold the data of studies.
    named = {str(page.with_suffix("")) for page in pages if str(page.parent) in FOLDERS}
    named |= {f"notebooks/{page.stem}" for page in (DOCS / "notebooks").glob("*.ipynb")}
    assert named - {"index"} == set(listed)


def test_every_command_is_in_the_reference_with_its_options() -> None:
    found = {
        context.command_path: command for context, command in script("command_reference").commands()
    }
    assert {"epsilometer audit", "epsilometer estimate", "epsilometer losses import"} <= set(found)
    names = {name for option in found["epsilometer estimate"].params for name in option.opts}
    assert {"--delta", "--claim", "--json"} <= names


@pytest.mark.parametrize("name", EXTENSIONS)
def test_examples_of_the_extensions(name: str) -> None:
    assert doctest.testmod(script(name)).failed == 0


def test_pages_that_fetch_something_are_seen() -> None:
    fetched = script("offline").fetched
    assert fetched('<a href="https://a.example/x">x</a><img src="_images/x.png">') == []
    for text in (
        '<script src="https://a.example/x.js"></script>',
        '<script async="async" src=//a.example/x.js></script>',
        '<link rel="stylesheet" href="https://a.example/x.css">',
        "<img alt='x' src='http://a.example/x.png'>",
        "@import url(https://a.example/font.css);",
        '@font-face { src: url("//a.example/f.woff2") }',
    ):
        assert len(fetched(text)) == 1, text


def test_every_figure_is_made_shown_and_small() -> None:
    folder = DOCS / "explanation" / "figures"
    pages = (DOCS / "explanation").glob("*.md")
    shown = re.findall(r"\(figures/(\w+)\.svg\)", "".join(page.read_text() for page in pages))
    files = list(folder.iterdir())
    assert sorted(shown) == sorted(path.stem for path in files)
    assert sorted(shown) == sorted(script("make_figures").FIGURES)
    assert max(path.stat().st_size for path in files) < 100_000
