"""Runs in MLflow, logged by its own client into a store on disk and read back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = "from epsilometer.cli.main import run; raise SystemExit(run())"


def command(
    *arguments: str, folder: Path, tracking: str | None
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: MLflow keeps state and threads."""
    settings = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    settings["MLFLOW_DISABLE_TELEMETRY"] = "true"
    environment = {name: value for name, value in os.environ.items() if "MLFLOW" not in name}
    if tracking is not None:
        settings["MLFLOW_TRACKING_URI"] = tracking
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        cwd=folder,
        env=environment | settings,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_is_logged_and_read_back(tmp_path: Path) -> None:
    counts = str(ROOT / "examples" / "counts.csv")
    arguments = ["estimate", counts, "--delta", "1e-2", "--claim", "2", "--fail-on", "fail"]
    store = tmp_path / "runs"
    done = command(*arguments, "--log", "mlflow", "--json", folder=tmp_path, tracking=str(store))
    assert done.returncode == 3, done.stderr
    printed = json.loads(done.stdout)

    (run,) = [path.parent for path in store.rglob("metrics")]

    def read(*parts: str) -> str:
        return run.joinpath(*parts).read_text(encoding="utf-8")

    def metric(name: str) -> float:
        return float(read("metrics", name).split()[1])

    assert read("params", "delta") == "0.01"
    assert read("params", "claim") == "2.0"
    assert read("params", "model") == "count"
    assert read("tags", "verdict") == "FAIL (proven)"
    assert read("tags", "epsilometer.source") == "counts.csv"
    assert metric("median") == pytest.approx(printed["epsilon"]["median"], rel=1e-12)
    low, high = printed["epsilon"]["interval"]
    assert [metric("interval_low"), metric("interval_high")] == pytest.approx([low, high])
    assert metric("proven") == pytest.approx(printed["proof"]["at_least"])
    assert metric("probability_above") == pytest.approx(printed["claim"]["probability_above"])
    logged = json.loads(read("artifacts", "summary.json"))
    assert logged["epsilon"] == printed["epsilon"]


@pytest.mark.slow
def test_a_tracking_server_that_is_gone_does_not_lose_the_answer(tmp_path: Path) -> None:
    arguments = ["estimate", str(ROOT / "examples" / "counts.csv"), "--delta", "1e-2", "--json"]
    gone = "http://127.0.0.1:9"
    done = command(*arguments, "--log", "mlflow", folder=tmp_path, tracking=gone)
    assert done.returncode == 2
    assert json.loads(done.stdout)["delta"] == 0.01
    assert done.stderr.splitlines()[-1].startswith("epsilometer: --log mlflow: ")
    assert "Traceback" not in done.stderr
