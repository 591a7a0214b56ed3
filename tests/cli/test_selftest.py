"""``epsilometer selftest`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.losses import Losses
from epsilometer.cli.main import run


def test_what_ships_keeps_quiet_on_null_scores(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["selftest", "--runs", "40", "--canaries", "200"]) == 0
    text = capsys.readouterr().out
    assert "All bounds have error rates within their stated levels" in text
    assert text.count("BROKEN") == 1  # the control
    assert max(map(len, text.splitlines())) <= 80


def test_too_little_to_tell_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["selftest", "--runs", "20", "--canaries", "4", "--delta", "0", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert "The negative control was not detected" in found["verdict"]
    assert not any("Gaussian" in test["pipeline"] for test in found["tests"])


def test_functions_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "selftested.py").write_text(
        "def quiet(members, others):\n    return 0.0\n"
        "def loud(members, others):\n    return abs(members.mean() - others.mean())\n"
        "from itertools import count\nnumber = count()\n"
        "def sometimes(members, others):\n    return float(next(number) % 10 == 0)\n"
        "def fails(members, others):\n    raise RuntimeError('no')\n"
    )
    assert run(["selftest", "--pipeline", "selftested:quiet", "--runs", "20"]) == 0
    assert "Error rate within its stated level" in capsys.readouterr().out
    assert run(["selftest", "--pipeline", "selftested:loud", "--runs", "20"]) == 3
    assert "BROKEN: false alarms in 20 of 20" in capsys.readouterr().out
    assert run(["selftest", "--pipeline", "selftested:sometimes", "--runs", "40"]) == 0
    assert "SUSPECT: false alarms in 4 of 40" in capsys.readouterr().out
    assert run(["selftest", "--pipeline", "selftested:fails", "--runs", "20"]) == 2
    assert "RuntimeError: no" in capsys.readouterr().err


def test_losses_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Independent losses: the attack has nothing to find, however well it would do with the point."""
    rng = np.random.default_rng(1)
    models = 120
    losses = Losses(
        challenge_base=["a"] * 2 * models,
        hypothesis=[0] * models + [1] * models,
        replicate=[*range(models), *range(models)],
        loss=np.concatenate([rng.normal(5, 1, models), rng.normal(0, 1, models)]),
    )
    path = tmp_path / "losses.csv"
    losses.write(path)
    assert run(["selftest", str(path), "--runs", "30", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tests"]
    assert [test["pipeline"][-6:] for test in found] == ["t 0.02", "at 0.1", "at 0.3", "at 0.5"]
    assert all((test["runs"], test["broken"]) == (30, False) for test in found)
    assert run(["selftest", str(path), "--seed", "-1"]) == 2
    assert "expected seed >= 0" in capsys.readouterr().err
    assert run(["selftest", str(path), "--pipeline", "a:b"]) == 2
    assert "expected LOSSES or --pipeline" in capsys.readouterr().err
