"""``epsilometer selftest`` on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.shell import Shell
from tests.drawn import losses_of


def test_what_ships_keeps_quiet_on_null_scores(shell: Shell) -> None:
    text = shell("selftest", "--runs", "40", "--canaries", "200")[0]
    assert "All bounds have error rates within their stated levels" in text
    assert text.count("BROKEN") == 1  # the control
    assert max(map(len, text.splitlines())) <= 80


def test_too_little_to_tell_is_said(shell: Shell) -> None:
    found = shell.json("selftest", "--runs", "20", "--canaries", "4", "--delta", "0", code=3)
    assert "The negative control was not detected" in found["verdict"]
    assert not any("Gaussian" in test["pipeline"] for test in found["tests"])


def test_functions_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "selftested.py").write_text(
        "def quiet(members, others):\n    return 0.0\n"
        "def loud(members, others):\n    return abs(members.mean() - others.mean())\n"
        "from itertools import count\nnumber = count()\n"
        "def sometimes(members, others):\n    return float(next(number) % 10 == 0)\n"
        "def fails(members, others):\n    raise RuntimeError('no')\n"
    )
    assert "Error rate within its stated level" in shell.said(
        "selftest", "--pipeline", "selftested:quiet", "--runs", "20"
    )
    assert "BROKEN: false alarms in 20 of 20" in shell.said(
        "selftest", "--pipeline", "selftested:loud", "--runs", "20", code=3
    )
    assert "SUSPECT: false alarms in 4 of 40" in shell.said(
        "selftest", "--pipeline", "selftested:sometimes", "--runs", "40"
    )
    assert "RuntimeError: no" in shell.refused(
        "selftest", "--pipeline", "selftested:fails", "--runs", "20"
    )


def test_losses_of_others(tmp_path: Path, shell: Shell) -> None:
    """Independent losses: the attack has nothing to find, however well it would do with the point."""
    rng = np.random.default_rng(1)
    losses = losses_of(["a"], rng.normal([[5.0], [0.0]], size=(1, 2, 120)))
    path = tmp_path / "losses.csv"
    losses.write(path)
    found = shell.json("selftest", str(path), "--runs", "30")["tests"]
    assert [test["pipeline"][-6:] for test in found] == ["t 0.02", "at 0.1", "at 0.3", "at 0.5"]
    assert all((test["runs"], test["broken"]) == (30, False) for test in found)
    assert "expected seed >= 0" in shell.refused("selftest", str(path), "--seed", "-1")
    assert "expected LOSSES or --pipeline" in shell.refused(
        "selftest", str(path), "--pipeline", "a:b"
    )
