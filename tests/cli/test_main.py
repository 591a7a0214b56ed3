"""The command line as a whole: the guide, help, completion, ``python -m epsilometer``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from epsilometer.cli.main import app, run
from tests.cli.shell import Shell

COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real program, as a user runs it."""
    return subprocess.run(
        [sys.executable, "-m", "epsilometer", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_alone_it_prints_a_short_guide(shell: Shell) -> None:
    out, err = shell()
    assert err == ""
    assert len(out.splitlines()) <= 24
    for command in ("audit", "estimate", "prove"):
        assert f"  epsilometer {command} " in out
    assert "epsilometer -h" in out


def test_commands_of_the_guide_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    """Those on a file run as they are printed."""
    lines = [line for line in shell.said().splitlines() if "scores.csv" in line]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.csv").write_text(
        "score,member\n" + "".join(f"{k},{int(k >= 100)}\n" for k in range(200))
    )
    codes = {}
    for line in lines:
        _, *arguments = line.split()
        codes[arguments[0]] = run(arguments)
    assert codes == {"estimate": 0, "prove": 3}


def test_python_m_runs_the_same_program() -> None:
    done = program("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"epsilometer \S+\n", done.stdout)
    assert program("nonsense").returncode == 2


@pytest.mark.parametrize("command", [[], *([each] for each in COMMANDS), ["losses", "export"]])
def test_h_is_help_everywhere(command: list[str], shell: Shell) -> None:
    short = shell.said(*command, "-h")
    assert shell.said(*command, "--help") == short
    assert short.startswith("Usage: epsilometer")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("epsilometer es", ["estimate"]),
        ("epsilometer estimate --engine ", ["exact", "mcmc", "published"]),
        ("epsilometer estimate --fail-on p", ["proven"]),
        ("epsilometer plan --design ", ["many", "one-run", "pool"]),
        ("epsilometer audit --executor d", ["dask"]),
        ("epsilometer losses ", ["export", "import"]),
    ],
)
def test_commands_and_choices_are_completed(
    words: str, expected: list[str], shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_EPSILOMETER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert shell.said().split() == expected


def test_the_completion_script_is_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a shell by name: which one runs the tests, if any, does not matter."""
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    script = shell.said("--show-completion", "bash")
    assert "_EPSILOMETER_COMPLETE=complete_bash" in script


def test_other_commands_do_not_hint_at_options_they_lack(shell: Shell) -> None:
    assert "--claim" not in shell.refused("status", "x.db", "--epsilon", "2")
