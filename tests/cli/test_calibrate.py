"""``epsilometer calibrate`` and ``selftest`` on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.losses import Losses
from epsilometer.calibration import plan as plans
from epsilometer.calibration.table import BoundRow, ModelRow, from_csv
from epsilometer.cli.main import run
from tests.calibration.test_study import SMALL


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "quick_plan", lambda: SMALL)


def test_a_study_leaves_its_plan_table_and_figure(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "study"
    arguments = ["calibrate", "--quick", "--output", str(target), "--workers", "1"]
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert "control: uncorrected scan" in text
    said = " ".join(text.split())
    assert "NOT SEEN to be wrong" in said or "Above the truth too often" in said
    described = json.loads((target / "plan.json").read_text())
    assert len(described["cells"]) == len(SMALL.cells)
    rows = from_csv((target / "bounds.csv").read_text(), BoundRow, name="bounds.csv")
    assert {row.mechanism for row in rows} == {"null", "Laplace"}
    assert from_csv((target / "coverage.csv").read_text(), ModelRow, name="coverage.csv")
    assert (target / "calibration.png").read_bytes().startswith(b"\x89PNG")
    # Again: nothing is run once more, and the files are the same.
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    assert run([*arguments, "--json"]) == 0
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    found = json.loads(capsys.readouterr().out)
    assert found["plan"] == SMALL.digest()
    assert {row["likelihood"] for row in found["coverage"]} == {"binomial"}


def test_workers_are_checked(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "--quick", "--workers", "0"]) == 2
    assert "expected workers >= 1" in capsys.readouterr().err


def test_another_seed_needs_another_folder(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.jsonl").write_text('{"plan": "other"}\n')
    assert run(["calibrate", "--quick", "--output", str(tmp_path), "--workers", "1"]) == 2
    assert "holds a study with another plan or seed" in capsys.readouterr().err
    file = tmp_path / "file"
    file.write_text("")
    assert run(["calibrate", "--quick", "--output", str(file)]) == 2
    assert "expected a folder" in capsys.readouterr().err


# --- selftest --------------------------------------------------------------------------------------


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
    assert "BROKEN: it reports a positive epsilon in 20 of 20" in capsys.readouterr().out
    assert run(["selftest", "--pipeline", "selftested:sometimes", "--runs", "40"]) == 0
    assert "SUSPECT: false alarms in 10.0" in capsys.readouterr().out
    assert run(["selftest", "--pipeline", "selftested:fails", "--runs", "20"]) == 2
    assert "RuntimeError: no" in capsys.readouterr().err


def test_commands_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "bound.py"
    script.write_text(
        "import sys\nrows = [line.split(',') for line in open(sys.argv[1])][1:]\n"
        "assert {row[1].strip() for row in rows} == {'0', '1'}\n"
        "print(float(sys.argv[2]))\n"
    )
    command = f"{sys.executable} -S {script} {{file}}"
    options = ["--runs", "20", "--canaries", "20"]
    assert run(["selftest", "--command", f"{command} 0", *options]) == 0
    assert run(["selftest", "--command", f"{command} 0.3", *options]) == 3
    capsys.readouterr()
    assert run(["selftest", "--command", f"{command} x", *options]) == 2
    assert "ended with 1" in capsys.readouterr().err
    assert run(["selftest", "--command", "echo {file}", *options]) == 2
    assert "expected a number on standard output" in capsys.readouterr().err
    assert run(["selftest", "--command", "echo 1", *options]) == 2
    assert "expected {file}" in capsys.readouterr().err
    assert run(["selftest", "--command", "/nowhere/at/all {file}", *options]) == 2
    assert "cannot be run" in capsys.readouterr().err


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
    assert "expected one of LOSSES, --pipeline and --command" in capsys.readouterr().err
