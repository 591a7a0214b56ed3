"""``audit --check``, training code that fails, and what ``status`` says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.cli.small_audit import own_audit

TRAINING = """
class Own:
    def train(self, dataset, rng):
        return helper(rng)
    def loss(self, model, point):
        return model
def helper(rng):
    return {drawn}
algorithm = Own()
"""


def audit(folder: Path, name: str, drawn: str) -> str:
    return own_audit(folder, name, TRAINING.format(drawn=drawn), (3, 12))


def asked(shell: Shell, *arguments: object, code: int = 0) -> tuple[Any, str]:
    """The JSON object on stdout, if any, and stderr."""
    out, err = shell(*arguments, "--json", code=code)
    return json.loads(out) if out else None, err


def test_check_stops_after_the_first_models(tmp_path: Path, shell: Shell) -> None:
    config = audit(tmp_path, "works_a", "rng.normal()")
    found, err = asked(shell, "audit", config, "--check")
    assert err == ""
    assert (found["models"], found["models_done"], found["models_trained"]) == (72, 3, 3)
    assert found["store"] == str(tmp_path / "audit.db")
    assert found["workers"] == 1
    assert found["warnings"] == found["models_failed"] == []
    (losses,) = found["losses"]
    assert (len(losses["losses_h0"]), len(losses["losses_h1"])) == (2, 1)
    whole, _ = asked(shell, "audit", config)
    assert (whole["models_trained"], whole["models_reused"]) == (69, 3)
    again, _ = asked(shell, "audit", config, "--check")
    assert (again["models_done"], again["models_trained"]) == (72, 0)
    assert again["seconds_per_model"] is None


def test_check_in_words(tmp_path: Path, shell: Shell) -> None:
    out = shell.said("audit", audit(tmp_path, "works_b", "rng.normal()"), "--check")
    assert out.startswith("The training works.\n")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert {"models 72", "done 3", "workers 1", "time for the others about 1 s"} <= set(rows)
    assert any(row.startswith("losses without the point") for row in rows)
    assert max(map(len, out.splitlines()[:-1])) <= 80


def test_code_that_fails_is_shown_and_mended(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = audit(tmp_path, "fails_a", "{}['no\\x1b[2J such']")
    monkeypatch.chdir(tmp_path)
    found, err = asked(shell, "audit", config, code=2)
    assert found is None
    first, *lines = err.splitlines()
    assert first.startswith("epsilometer: no model could be trained (base 0, hypothesis 0, ")
    assert "KeyError" in first
    assert "`epsilometer status audit.db` has the traceback" in first
    assert "fails_a.py" in lines[0]
    assert lines[0].endswith("in train")
    assert "in helper" in err
    assert "epsilometer/measurement" not in err
    assert "\x1b" not in err
    # The code is mended: nothing is lost, so nothing is asked.
    config = audit(tmp_path, "fails_b", "rng.normal()")
    found, _ = asked(shell, "audit", config, "--check")
    assert found["models_trained"] == 3
    assert asked(shell, "status", "audit.db")[0]["failures"] == []


def test_status_shows_equal_errors_once(tmp_path: Path, shell: Shell) -> None:
    config = audit(tmp_path, "fails_c", "rng.normal() if rng.random() < 0.7 else 1 / 0")
    found, _ = asked(shell, "audit", config)
    failed = len(found["models_failed"])
    assert failed > 5
    assert "traceback" not in found["models_failed"][0]
    store = str(tmp_path / "audit.db")
    shown, _ = asked(shell, "status", store)
    assert len(shown["failures"]) == failed
    assert "fails_c.py" in shown["failures"][0]["traceback"]
    out = shell.said("status", store)
    assert f"{failed} models (first: base" in out
    assert out.count("ZeroDivisionError: division by zero") == 2  # its words, and its traceback
    assert out.count("in helper") == 1


@pytest.mark.parametrize(("delta", "warned"), [("0.05", True), ("0.0499", False)])
def test_delta_of_one_record(delta: str, warned: bool, tmp_path: Path, shell: Shell) -> None:
    config = audit(tmp_path, "works_c", "rng.normal()")
    found, err = asked(shell, "audit", config, "--check", "--delta", delta)
    assert ("is not below 1/20" in err) is warned
    assert len(found["warnings"]) == warned
    if warned:
        found, err = asked(shell, "audit", config, "--delta", delta)
        assert any("is not below 1/20" in text for text in found["counts"]["warnings"])
        assert err.count("is not below 1/20") == 1
