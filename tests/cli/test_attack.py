"""``epsilometer attack``: losses in any form, counts in any form, one pipe to ``estimate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.cli.main import run
from tests.cli.shell import Shell
from tests.cli.test_estimate import in_shell
from tests.drawn import losses_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two bases of normal losses, the second with a strange name."""
    rng = np.random.default_rng(3)
    losses = losses_of(("a", "<b>, \x1b[1m"), rng.normal([[5.0], [3.0]], size=(2, 2, 30)))
    path = tmp_path / "losses.csv"
    losses.write(path)
    return path


def test_json_holds_the_counts(file: Path, shell: Shell) -> None:
    out, err = shell("attack", file, "--target-alpha", "0.2", "--json")
    found = json.loads(out)
    expected = em.rows.cross_feed(em.Losses.read(file)).counts(0.2)
    assert err == ""
    assert found["target_alpha"] == 0.2
    assert found["statistic"] == "loss"
    assert [base["challenge_base"] for base in found["bases"]] == ["a", "<b>, \x1b[1m"]
    for column in ("false_positives", "trials_h0", "false_negatives", "trials_h1"):
        assert [base[column] for base in found["bases"]] == getattr(expected, column).tolist()


def test_text_fits_the_terminal_and_escapes_names(file: Path, shell: Shell) -> None:
    out, _ = shell("attack", file)
    assert "\x1b" not in out
    assert "<b>, \\x1b[1m" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_written_counts_read_back(file: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"counts.{ending}"
    assert run(["attack", str(file), "--output", str(target)]) == 0
    expected = em.rows.cross_feed(em.Losses.read(file)).counts(0.1)
    counts = em.AttackCounts.read(target)
    assert counts.names == expected.names
    assert counts.false_negatives.tolist() == expected.false_negatives.tolist()


def test_a_pipe_to_estimate(file: Path, shell: Shell) -> None:
    """Counts in either form, and losses from standard input as from a file."""
    for printing in (["--output", "-"], ["--json"]):
        counts = shell.said("attack", file, *printing)
        done = in_shell("estimate", "-", "--delta", "0.01", "--json", stdin=counts)
        assert json.loads(done.stdout)["num_challenge_bases"] == 2
    em.Losses.read(file).write(file.with_suffix(".parquet"))
    piped = in_shell("attack", "-", "--json", stdin=file.read_text())
    assert json.loads(piped.stdout) == shell.json("attack", file.with_suffix(".parquet"))


def test_curves_are_the_sweep(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    assert run(["attack", str(file), "--curves", str(path)]) == 0
    sweep = em.rows.cross_feed(em.Losses.read(file)).sweep()
    assert path.read_bytes().decode() == sweep.to_csv()


@pytest.mark.parametrize("method", ["pooled-variance", "offline", "threshold"])
def test_other_methods(file: Path, method: str, shell: Shell) -> None:
    assert (
        shell.json("attack", file, "--method", method, "--statistic", "logit")["attack"] == method
    )


def test_a_function_of_ones_own(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    (tmp_path / "own_statistic_module.py").write_text("def root(x):\n    return -abs(x) ** 0.5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = ["attack", str(file), "--statistic", "own_statistic_module:root", "--json"]
    found = shell.json(*arguments)
    own = em.attacks.CustomStatistic(function=lambda x: -(abs(x) ** 0.5))
    expected = em.rows.cross_feed(em.Losses.read(file), statistic=own).counts(0.1)
    assert [b["false_positives"] for b in found["bases"]] == expected.false_positives.tolist()


def test_a_missed_target_is_said_on_stderr(tmp_path: Path, shell: Shell) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "losses.csv"
    losses_of(["heavy"], np.exp(3 * rng.standard_normal((1, 2, 200)))).write(path)
    err = shell("attack", path)[1]
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
    file: Path, arguments: list[str], expected: str, shell: Shell
) -> None:
    assert expected in shell.refused("attack", file, *arguments)


def test_a_target_too_small_to_be_seen(file: Path, shell: Shell) -> None:
    err = shell("attack", file, "--target-alpha", "0.01")[1]
    assert "less than one false positive in the 30 challenges" in err
