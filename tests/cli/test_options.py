"""Options are declared once: where several commands have one, it is the same one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest
import typer

from epsilometer import _progress
from epsilometer.cli import results
from epsilometer.cli.main import app
from epsilometer.cli.options import flat, option
from tests.cli.shell import Shell


def options_of(name: str) -> dict[str, Any]:
    root: Any = typer.main.get_command(app)
    return {
        parameter.opts[0]: parameter
        for parameter in root.commands[name].params
        if parameter.opts[0].startswith("--")
    }


@pytest.mark.parametrize("other", ["audit", "report", "compare"])
def test_what_two_commands_share_is_the_same(other: str) -> None:
    first, second = options_of("estimate"), options_of(other)
    # In `report` the output is the page; it and `compare` are about one delta.
    shared = set(first) & set(second) - (
        {"--output", "--delta"} if other == "report" else {"--delta"}
    )
    assert len(shared) >= (4 if other == "compare" else 8)
    for name in shared:
        for part in ("help", "metavar", "default", "is_flag"):
            assert getattr(first[name], part) == getattr(second[name], part), (name, part)


def test_the_page_has_the_same_option_as_elsewhere() -> None:
    root: Any = typer.main.get_command(app)
    (names,) = (each.opts for each in root.commands["report"].params if "--report" in each.opts)
    assert {"--report", "--output", "-o"} == set(names)


def test_help_lists_options_by_panel(shell: Shell) -> None:
    text = shell.said("estimate", "--help")
    titles = [
        line[:-1] for line in text.splitlines() if line and line[0] != " " and line[-1] == ":"
    ]
    assert titles[:2] == ["Arguments", "Options"]
    assert {"Reading losses", "Assumptions", "Claim and verdict", "Output"} <= set(titles)
    assert max(map(len, text.splitlines())) <= 80


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A group of two."""

    left: int = option("N", "The left one.", default=1)
    right: int | None = option("N", "The right one.")


def test_a_group_reaches_the_command_whole() -> None:
    seen: list[Any] = []

    @flat
    def command(name: str, *, pair: Pair, loud: bool = False) -> int:
        seen.append((name, pair, loud))
        return 7

    single = typer.Typer(add_completion=False)
    single.command()(command)
    assert single(["x", "--right", "5", "--loud"], standalone_mode=False) == 7
    assert single(["y", "--left", "2"], standalone_mode=False) == 7
    assert seen == [("x", Pair(left=1, right=5), True), ("y", Pair(left=2, right=None), False)]


def test_one_display_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What estimates inside of something that is shown already goes on in the same display."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with results.progress("outer") as (report, advance):
        assert report is not None
        assert advance is not None
        with results.progress("inner"):
            assert len({id(bar) for bar, _ in _progress._open}) == 1
            results.tell("seen")
    assert _progress._open == []
    results.tell("nobody is there to hear it")
