"""Groups of dependent attacks on the command line: `estimate`, `attack`, pages and warnings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
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


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--dependence", "independent"], {"name": "IndependentRows"}),
        (
            ["--dependence", "pooled", "--spread", "0.02"],
            {"name": "PooledGroups", "spread": {"name": "Fixed", "value": 0.02}},
        ),
    ],
)
def test_options_say_how_groups_depend(
    grouped: str,
    options: list[str],
    expected: dict[str, object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["estimate", grouped, "--delta", "0.01", "--json", *options]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["assumptions"]["dependence"] == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dependence", "no"], "dependence"),
        (["--scatter", "round"], "scatter"),
        (["--dependence", "independent", "--spread", "0.1"], "--spread cannot be combined with"),
        (["--dependence", "pooled", "--scatter", "normal"], "--scatter cannot be combined with"),
        (
            ["--spread", "0.1", "--spread-prior-scale", "0.1"],
            "cannot be combined with --spread-prior-scale",
        ),
        (["--spread", "2"], "0 <= spread < 1"),
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


@pytest.fixture
def losses(tmp_path: Path) -> str:
    rng = np.random.default_rng(2)
    lines = ["challenge_base,hypothesis,replicate,loss"]
    for base in range(3):
        for hypothesis in (0, 1):
            for replicate in range(30):
                loss = np.exp(rng.normal(1.0 - 1.5 * hypothesis, 0.5))
                lines.append(f"b{base},{hypothesis},{replicate},{loss:.6f}")
    path = tmp_path / "losses.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_several_target_rates_are_dealt_out_as_groups(
    losses: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "dealt.csv"
    assert run(["attack", losses, "--target-alpha", "0.1,0.3", "--output", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "2 decision rules" in printed
    table = [line for line in printed.splitlines() if str(tmp_path) not in line]
    assert all(len(line) <= 80 for line in table)
    counts = em.AttackCounts.read(target)
    assert counts.groups == ("b0", "b0", "b1", "b1", "b2", "b2")
    assert counts.pooled().trials_h0.tolist() == [30, 30, 30]
    assert run(["estimate", str(target), "--delta", "0.01", "--dependence", "pooled"]) == 0


def test_several_statistics_are_rules_as_well(
    losses: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "attack",
        losses,
        "--statistic",
        "loss,logit",
        "--target-alpha",
        "0.1,0.2",
        "--json",
    ]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rules"]) == 4
    assert {row["group"] for row in found["bases"]} == {"b0", "b1", "b2"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target-alpha", "0.1,x"], "rates in (0, 1)"),
        (["--target-alpha", "0.1,0.1"], "distinct operating points"),
        (["--target-alpha", "0.1,0.2", "--curves", "c.csv"], "--curves is for one"),
    ],
)
def test_rules_that_make_no_sense_are_refused(
    losses: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["attack", losses, *options]) == 2
    assert said in capsys.readouterr().err
