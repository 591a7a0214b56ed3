"""A study: reproducible for any workers, nothing lost on interruption, every study runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from epsilometer.errors import InputError
from studies import results, run, runner
from studies.catalogue import STUDIES
from studies.count import CountsCell, ModelCell, ScoresCell
from studies.mechanisms import LaplaceMechanism, Null
from studies.runner import Cell, Job, Plan, Tallies, jobs_of, run_study, tables_of, tallied
from studies.tables import from_csv, to_csv

SMALL = Plan(
    cells=(
        ModelCell(likelihood="binomial", bases=2, trials=50, runs=3),
        CountsCell(
            mechanism=LaplaceMechanism(1.0),
            rate=0.1,
            power=1.0,
            trials=50,
            bases=2,
            runs=40,
            posterior_runs=2,
        ),
        ScoresCell(mechanism=Null(), power=1.0, canaries=60, runs=120),
    )
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.jsonl"
    run_study(SMALL, path)
    return path


@pytest.mark.slow
def test_processes_give_the_same_results(finished: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    both = run_study(SMALL, tmp_path / "s.jsonl", workers=2, on_progress=lambda *n: seen.append(n))
    assert both == run_study(SMALL, finished)
    assert seen[-1] == (len(jobs_of(SMALL)), len(jobs_of(SMALL)))


def test_an_interrupted_study_continues(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, text = run_study(SMALL, finished), finished.read_text()
    lines = text.splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_text("".join(lines[:3]) + lines[3][:20])  # interrupted while writing
    ran: list[str] = []
    original = runner.run_job

    def noted(plan: Plan, job: Job) -> Tallies:
        ran.append(job.key)
        return original(plan, job)

    monkeypatch.setattr(runner, "run_job", noted)
    assert run_study(SMALL, path) == whole
    assert len(ran) == len(jobs_of(SMALL)) - 2
    assert sorted(path.read_text().splitlines()) == sorted(text.splitlines())
    ran.clear()
    run_study(SMALL, path)
    assert ran == []
    path.write_text(text[:10])  # before the first line was written
    assert run_study(SMALL, path) == whole


SCRIPT = """
import sys
from pathlib import Path
from studies.runner import run_study
from tests.studies.test_runner import LONGER
if __name__ == "__main__":
    run_study(LONGER, Path(sys.argv[1]), workers=2)
"""
LONGER = Plan(cells=(ScoresCell(mechanism=Null(), power=1.0, canaries=40, runs=800),))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow
def test_a_killed_study_leaves_no_process_and_continues(
    end: signal.Signals, tmp_path: Path
) -> None:
    path, script = tmp_path / "study.jsonl", tmp_path / "script.py"
    script.write_text(SCRIPT)
    places = [str(run.ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    begun = subprocess.Popen(
        [sys.executable, str(script), str(path)],
        env=environment,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    patience = time.monotonic() + 120
    while time.monotonic() < patience and not (path.exists() and path.read_text().count("\n") > 2):
        time.sleep(0.02)
    workers = psutil.Process(begun.pid).children(recursive=True)
    begun.send_signal(end)
    begun.wait(60)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    assert 2 <= path.read_text().count("\n") - 1 < len(jobs_of(LONGER))
    assert run_study(LONGER, path) == run_study(LONGER, tmp_path / "whole.jsonl")


def test_other_plans_other_code_and_damage_are_refused(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="made by another plan"):
        run_study(replace(SMALL, seed=2), finished)
    path, lines = tmp_path / "damaged.jsonl", finished.read_text().splitlines()
    for bad in ("{", "[1]", '{"job": 1}'):
        path.write_text("\n".join([lines[0], bad, *lines[2:]]) + "\n")
        with pytest.raises(InputError, match="not a file of finished jobs"):
            run_study(SMALL, path)
    monkeypatch.setattr(runner, "code_digest", lambda: "another")
    with pytest.raises(InputError, match="made by another code"):
        run_study(SMALL, finished)


def test_tallies_add_up_and_must_be_alike() -> None:
    first, second = {"a": {"runs": 1, "ranks": [0.5]}}, {"a": {"runs": 2, "ranks": [0.1, 0.2]}}
    assert tallied([first, second]) == {"a": {"runs": 3, "ranks": [0.5, 0.1, 0.2]}}
    assert first == {"a": {"runs": 1, "ranks": [0.5]}}
    with pytest.raises(InputError, match="a: expected runs, ranks, got runs"):
        tallied([first, {"a": {"runs": 1}}])


def test_an_interval_beside_the_truth_is_above_or_below() -> None:
    found = [runner.interval_tally(q, 1.0) for q in ([0, 0.5, 0.9], [1.5, 2, 3], [1, 1, 1])]
    assert [(one["above"], one["below"]) for one in found] == [(0, 1), (1, 0), (0, 0)]
    columns = runner.columns_of(tallied({"x": one} for one in found)["x"])
    assert (columns["runs"], columns["covers"], columns["mean_high"]) == (3, 1, 1.633333)
    assert [runner.bound_tally(bound, 1.0)["above"] for bound in (0.9, 1.0, 1.1)] == [0, 0, 1]


def test_tables_come_back_from_their_files(finished: Path) -> None:
    for rows in tables_of(SMALL, run_study(SMALL, finished)).values():
        assert from_csv(to_csv(rows)) == rows


def shortened(plan: Plan) -> Plan:
    """The plan with two runs of each cell."""

    def few(cell: Cell) -> Cell:
        less = {"posterior_runs": 1} if isinstance(cell, CountsCell) else {}
        return replace(cell, runs=2, **less)

    return replace(plan, cells=tuple(map(few, plan.cells)))


LONG = ("groups", "planning", "auditors")


@pytest.mark.parametrize(
    "study", [pytest.param(s, marks=[pytest.mark.slow] * (s in LONG)) for s in STUDIES]
)
def test_every_study_runs(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two audits of every quick setting: plan, tables and text; run again, nothing changes."""
    plan = shortened(STUDIES[study].plan(quick=True))
    monkeypatch.setattr(STUDIES[study], "plan", lambda quick: plan)
    command = [study, "--quick", "--output", str(tmp_path), "--workers", "1"]
    assert run.main(command) == 0
    said = capsys.readouterr().out
    assert said.count("| --- |") >= 1
    assert json.loads((tmp_path / "plan.json").read_text())["plan"] == plan.digest()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert run.main(command) == 0
    assert capsys.readouterr().out == said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    # The tables have the columns of the committed ones.
    for name, rows in results.read(study)[0].items():
        own = from_csv(before[name].decode())
        assert list(vars(own[0])) == list(vars(rows[0])), name


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_every_quick_form_runs_from_a_checkout(study: str, tmp_path: Path) -> None:
    command = [sys.executable, "studies/run.py", study, "--quick", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=run.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # The controls are detected where a study has one with enough runs.
    assert study in ("verdicts", "pool", "one-run") or "NOT detected" not in done.stdout
