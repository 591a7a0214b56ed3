"""Groups of dependent attacks on the command line: `estimate`, `attack`, pages and warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

from epsilometer.cli.main import run
from tests.cli.shell import Shell

HEADER = "challenge_base,group,false_positives,trials_h0,false_negatives,trials_h1\n"
ROWS = (
    "one,a,20,80,48,80\ntwo,a,25,80,40,80\nthree,a,23,80,45,80\n4,b,60,80,20,80\n5,,55,80,18,80\n"
)


@pytest.fixture
def grouped(tmp_path: Path) -> str:
    path = tmp_path / "grouped.csv"
    path.write_text(HEADER + ROWS)
    return str(path)


@pytest.mark.slow
def test_groups_scatter_unless_said_otherwise(grouped: str, shell: Shell, tmp_path: Path) -> None:
    folder, page = tmp_path / "result", tmp_path / "page.html"
    command = ["estimate", grouped, "--delta", "0.01", "--output", str(folder), "--details"]
    printed = shell.said(*command)
    assert "spread in groups" in printed
    assert "scatter normally around its average" in printed
    assert run(["report", str(folder), "-o", str(page)]) == 0
    text = page.read_text()
    assert "spread in groups" in text
    assert "ScatteredMembers(scatter=NormalScatter()" in text


def test_an_option_says_how_groups_depend(grouped: str, shell: Shell) -> None:
    options = ["--delta", "0.01", "--json", "--dependence", "independent"]
    summary = shell.json("estimate", grouped, *options)
    assert summary["assumptions"]["dependence"] == {"name": "IndependentRows"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dependence", "no"], "dependence"),
        (["--likelihood", "correlated"], "not supported"),
        (["--likelihood", "correlated", "--dependence", "pooled"], "PooledGroups"),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    grouped: str, options: list[str], said: str, shell: Shell
) -> None:
    assert said in shell.refused("estimate", grouped, "--delta", "0.01", *options)


def test_a_base_twice_without_a_group_is_warned_of(tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "twice.csv"
    path.write_text(HEADER.replace("group,", "") + "x,20,80,48,80\nx,25,80,40,80\n")
    assert "group" in shell("estimate", path, "--delta", "0.01")[1]
    path.write_text(HEADER + "x,g,20,80,48,80\nx,g,25,80,40,80\n")
    assert "warning" not in shell("estimate", path, "--delta", "0.01", "--dependence", "pooled")[1]
