"""Groups of dependent attacks on the command line: `estimate`, `attack`, pages and warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epsilometer.cli.main import run

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
def test_groups_scatter_unless_said_otherwise(
    grouped: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, page = tmp_path / "result", tmp_path / "page.html"
    command = ["estimate", grouped, "--delta", "0.01", "--output", str(folder), "--details"]
    assert run(command) == 0
    printed = capsys.readouterr().out
    assert "spread in groups" in printed
    assert "scatter normally around its average" in printed
    assert run(["report", str(folder), "-o", str(page)]) == 0
    text = page.read_text()
    assert "spread in groups" in text
    assert "ScatteredMembers(scatter=NormalScatter()" in text


def test_an_option_says_how_groups_depend(grouped: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--delta", "0.01", "--json", "--dependence", "independent"]
    assert run(["estimate", grouped, *options]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["assumptions"]["dependence"] == {"name": "IndependentRows"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dependence", "no"], "dependence"),
        (["--likelihood", "correlated"], "use MCMC"),
        (["--likelihood", "correlated", "--dependence", "pooled"], "PooledGroups"),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    grouped: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["estimate", grouped, "--delta", "0.01", *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_a_base_twice_without_a_group_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "twice.csv"
    path.write_text(HEADER.replace("group,", "") + "x,20,80,48,80\nx,25,80,40,80\n")
    assert run(["estimate", str(path), "--delta", "0.01"]) == 0
    assert "group" in capsys.readouterr().err
    path.write_text(HEADER + "x,g,20,80,48,80\nx,g,25,80,40,80\n")
    assert run(["estimate", str(path), "--delta", "0.01", "--dependence", "pooled"]) == 0
    assert "warning" not in capsys.readouterr().err
