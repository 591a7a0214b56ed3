"""``epsilometer attack``: losses in any form, counts in any form, one pipe to ``estimate``."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.cli.main import run
from tests.cli.test_estimate import in_shell
from tests.golden.reference import CORRELATED

PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "paper" / "losses"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two bases of normal losses, the second with a strange name."""
    rng = np.random.default_rng(3)
    losses = em.Losses(
        challenge_base=["a"] * 60 + ["<b>, \x1b[1m"] * 60,
        hypothesis=([0] * 30 + [1] * 30) * 2,
        replicate=list(range(30)) * 4,
        loss=rng.normal(([5.0] * 30 + [3.0] * 30) * 2),
    )
    path = tmp_path / "losses.csv"
    losses.write(path)
    return path


def test_json_holds_the_counts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", str(file), "--target-alpha", "0.2", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    expected = em.rows.cross_feed(em.Losses.read(file)).counts(0.2)
    assert err == ""
    assert found["target_alpha"] == 0.2
    assert found["statistic"] == "loss"
    assert [base["challenge_base"] for base in found["bases"]] == ["a", "<b>, \x1b[1m"]
    for column in ("false_positives", "trials_h0", "false_negatives", "trials_h1"):
        assert [base[column] for base in found["bases"]] == getattr(expected, column).tolist()


def test_text_fits_the_terminal_and_escapes_names(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["attack", str(file)]) == 0
    out, _ = capsys.readouterr()
    assert "\x1b" not in out
    assert "<b>, \\x1b[1m" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_written_counts_read_back(
    file: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"counts.{ending}"
    assert run(["attack", str(file), "--output", str(target)]) == 0
    expected = em.rows.cross_feed(em.Losses.read(file)).counts(0.1)
    counts = em.AttackCounts.read(target)
    assert counts.names == expected.names
    assert counts.false_negatives.tolist() == expected.false_negatives.tolist()


@pytest.mark.parametrize("printing", [["--output", "-"], ["--json"]])
def test_a_pipe_to_estimate(file: Path, printing: list[str]) -> None:
    counts = in_shell("attack", str(file), *printing)
    assert counts.returncode == 0
    done = in_shell(
        "estimate", "-", "--delta", "0.01", "--likelihood", "correlated", "--json",
        stdin=counts.stdout,
    )  # fmt: skip
    assert done.returncode == 0
    assert json.loads(done.stdout)["num_challenge_bases"] == 2


def test_losses_from_standard_input_and_parquet(file: Path, tmp_path: Path) -> None:
    em.Losses.read(file).write(tmp_path / "losses.parquet")
    piped = in_shell("attack", "-", "--json", stdin=file.read_text())
    stored = in_shell("attack", str(tmp_path / "losses.parquet"), "--json")
    assert json.loads(piped.stdout) == json.loads(stored.stdout)


def test_curves_are_the_sweep(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "curves.csv"
    assert run(["attack", str(file), "--curves", str(path)]) == 0
    with path.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    sweep = em.rows.cross_feed(em.Losses.read(file)).sweep()
    assert len(rows) == 99 * 2
    assert [int(row["false_positives"]) for row in rows] == sweep.false_positives.ravel().tolist()
    assert [int(row["false_negatives"]) for row in rows] == sweep.false_negatives.ravel().tolist()


@pytest.mark.parametrize("method", ["pooled-variance", "offline", "threshold"])
def test_other_methods(file: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", str(file), "--method", method, "--statistic", "logit", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attack"] == method


def test_a_function_of_ones_own(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_statistic_module.py").write_text("def root(x):\n    return -abs(x) ** 0.5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = ["attack", str(file), "--statistic", "own_statistic_module:root", "--json"]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    own = em.attacks.CustomStatistic(function=lambda x: -(abs(x) ** 0.5))
    expected = em.rows.cross_feed(em.Losses.read(file), statistic=own).counts(0.1)
    assert [b["false_positives"] for b in found["bases"]] == expected.false_positives.tolist()


def test_a_missed_target_is_said_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "losses.csv"
    em.Losses(
        challenge_base=["heavy"] * 400,
        hypothesis=[0] * 200 + [1] * 200,
        replicate=list(range(200)) * 2,
        loss=np.exp(3 * rng.standard_normal(400)),
    ).write(path)
    assert run(["attack", str(path)]) == 0
    err = capsys.readouterr().err
    assert err.startswith("epsilometer: warning: 1 of 1 bases missed the target")
    assert "logit" in err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--target-alpha", "0"], "0 < target_alpha < 1"),
        (["--target-alpha", "nan"], "finite target_alpha"),
        (["--statistic", "nothing"], "expected loss, logit or module:function"),
        (["--statistic", "no_such_module:f"], "cannot import no_such_module"),
        (["--method", "best"], "expected method to be one of"),
        (["--variant", "0.1"], "--variant is for stores"),
        (["--shadows", "1"], "expected shadows >= 2"),
        (["--shadows", "3"], "expected replicates in blocks of 7"),
        (["--json", "--output", "-"], "choose one"),
    ],
)
def test_wrong_options_are_one_line(
    file: Path, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["attack", str(file), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert expected in err
    assert err.count("\n") == 1


def test_a_target_too_small_to_be_seen(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", str(file), "--target-alpha", "0.01"]) == 0
    assert "less than one false positive in the 30 challenges" in capsys.readouterr().err


def test_a_wrong_row_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "losses.csv"
    path.write_text("challenge_base,hypothesis,replicate,loss\na,0,0,1.0\na,2,0,1.0\n")
    assert run(["attack", str(path)]) == 2
    assert "losses.csv row 3: expected a whole number from 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "golden"), [("A1", "A1"), ("A3_sigma0p1", "A3"), ("A4_sigma0p05", "A4")]
)
def test_counts_of_the_published_losses(
    name: str, golden: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = PUBLISHED / f"{name}.csv"
    if not path.is_file():
        pytest.skip("the paper's losses are not beside this checkout")
    arguments = ["attack", str(path), "--target-alpha", "0.1", "--statistic", "loss", "--json"]
    assert run(arguments) == 0
    bases = json.loads(capsys.readouterr().out)["bases"]
    assert [base["false_positives"] for base in bases] == CORRELATED[golden][0]
    assert [base["false_negatives"] for base in bases] == CORRELATED[golden][1]
