"""A study: reproducible for any workers, nothing lost on interruption, controls detected."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest

from epsilometer.baselines.catalogue import FROM_COUNTS, FROM_SCORES
from epsilometer.baselines.estimator import Kind
from epsilometer.calibration import study as module
from epsilometer.calibration.controls import CONTROLS
from epsilometer.calibration.mechanisms import LaplaceMechanism, Null
from epsilometer.calibration.plan import (
    CountsCell,
    ModelCell,
    ScoresCell,
    StudyPlan,
    full_plan,
    quick_plan,
)
from epsilometer.calibration.study import POSTERIOR, Tally, jobs_of, run_study
from epsilometer.calibration.table import (
    KINDS,
    NO_BOUND,
    TOO_OFTEN,
    BoundRow,
    ModelRow,
    bound_rows,
    from_csv,
    model_rows,
    summarise_bounds,
    to_csv,
    within_level,
)
from epsilometer.errors import InputError

SMALL = StudyPlan(
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


def nominal_plan(runs: int, score_runs: int) -> StudyPlan:
    """Null and Laplace, attacked so well that exact bounds have no slack but their own."""
    cells: list[CountsCell | ScoresCell] = []
    for mechanism in (Null(), LaplaceMechanism(1.0)):
        cells += [
            CountsCell(
                mechanism=mechanism,
                rate=0.1,
                power=1.0,
                trials=trials,
                bases=bases,
                runs=runs,
            )
            for trials in ((100,) if runs < 10_000 else (100, 1000))
            for bases in (1, 5)
        ]
        cells.append(ScoresCell(mechanism=mechanism, power=1.0, canaries=400, runs=score_runs))
    return StudyPlan(cells=tuple(cells), seed=3)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.jsonl"
    run_study(SMALL, path)
    return path


def test_processes_give_the_same_results(finished: Path, tmp_path: Path) -> None:
    alone = run_study(SMALL, finished)
    seen: list[tuple[int, int]] = []
    both = run_study(SMALL, tmp_path / "s.jsonl", workers=2, on_progress=lambda *n: seen.append(n))
    assert both == alone
    assert seen[-1] == (len(jobs_of(SMALL)), len(jobs_of(SMALL)))


def test_an_interrupted_study_continues(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_study(SMALL, finished)
    text = finished.read_text()
    lines = text.splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_text("".join(lines[:3]) + lines[3][:20])  # interrupted while writing
    ran: list[str] = []
    original = module.run_job

    def noted(plan: StudyPlan, job: module.StudyJob) -> object:
        ran.append(job.key)
        return original(plan, job)

    monkeypatch.setattr(module, "run_job", noted)
    assert run_study(SMALL, path) == whole
    assert len(ran) == len(jobs_of(SMALL)) - 2
    assert sorted(path.read_text().splitlines()) == sorted(text.splitlines())
    ran.clear()
    run_study(SMALL, path)
    assert ran == []


SCRIPT = """
import sys
from pathlib import Path
from epsilometer.calibration.study import run_study
from tests.calibration.test_study import LONGER
if __name__ == "__main__":
    run_study(LONGER, Path(sys.argv[1]), workers=2)
"""
LONGER = StudyPlan(cells=(ScoresCell(mechanism=Null(), power=1.0, canaries=40, runs=800),))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_study(LONGER, tmp_path_factory.mktemp("whole") / "study.jsonl")


@pytest.mark.parametrize(
    "end", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_a_killed_study_leaves_no_process_and_continues(
    end: signal.Signals, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    path, script = tmp_path / "study.jsonl", tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    run = subprocess.Popen(
        [sys.executable, str(script), str(path)],
        env=environment,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    patience = time.monotonic() + 60
    while time.monotonic() < patience and not (path.exists() and path.read_text().count("\n") > 2):
        time.sleep(0.02)
    workers = psutil.Process(run.pid).children(recursive=True)
    run.send_signal(end)
    run.wait(60)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    done = path.read_text().count("\n") - 1
    assert 2 <= done < len(jobs_of(LONGER))
    assert run_study(LONGER, path) == uninterrupted


def test_other_studies_and_damage_are_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds a study with another plan or seed"):
        run_study(replace(SMALL, seed=2), finished)
    path = tmp_path / "damaged.jsonl"
    lines = finished.read_text().splitlines()
    for bad, message in (
        ("{", "line 2: not valid JSON"),
        ("[1]", "line 2: expected an object"),
        ('{"job": 1, "result": {}}', "line 2: expected a job and its result"),
    ):
        path.write_text("\n".join([lines[0], bad, *lines[2:]]) + "\n")
        with pytest.raises(InputError, match=message):
            run_study(SMALL, path)
    path.write_text("\n".join([lines[0], '{"job": "1/runs/0+40", "result": {"x": {}}}', ""]))
    with pytest.raises(InputError, match="expected a known estimator"):
        bound_rows(SMALL, run_study(SMALL, path))


def test_numbers_of_other_code_are_not_mixed_in(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.jsonl"
    path.write_text(finished.read_text())
    monkeypatch.setattr(module, "code_digest", lambda: "another")
    with pytest.raises(InputError, match="created by another version of the estimators"):
        run_study(SMALL, path)


def test_a_study_ended_before_its_first_line(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    path.write_text(finished.read_text()[:10])
    assert run_study(SMALL, path) == run_study(SMALL, finished)


def test_every_estimator_has_its_row(finished: Path) -> None:
    rows = bound_rows(SMALL, run_study(SMALL, finished))
    assert {row.estimator for row in rows} == set(KINDS)
    labels = {e.label for e in FROM_COUNTS} | {e.label for e in (*FROM_SCORES, *CONTROLS)}
    assert labels | {POSTERIOR} < set(KINDS)
    # Labels are unique, otherwise a table would add them up.
    assert len(KINDS) == len(FROM_COUNTS) + len(FROM_SCORES) + len(CONTROLS) + 2
    for row in rows:
        posterior = row.estimator == POSTERIOR
        assert row.runs == (2 if posterior else 40 if row.mechanism == "Laplace" else 120)
    models = model_rows(SMALL, run_study(SMALL, finished))
    assert [(row.parameter, row.runs) for row in models] == [("epsilon", 3), ("strength", 3)]
    for table, kind in ((rows, BoundRow), (models, ModelRow)):
        assert from_csv(to_csv(table, kind), kind, name="t.csv") == table  # type: ignore[type-var]


def test_rows_of_a_table_are_checked() -> None:
    with pytest.raises(InputError, match="missing setting"):
        from_csv("mechanism\nx\n", BoundRow, name="t.csv")
    text = to_csv([], ModelRow) + "binomial,x,1,epsilon,1,1,1,1,1,0.5\n"
    with pytest.raises(InputError, match=r"t\.csv row 2: invalid literal"):
        from_csv(text, ModelRow, name="t.csv")


def test_tallies_add_up() -> None:
    low, high = np.array([0.0, 1.5, 0.5, 1.0]), np.array([0.9, np.inf, 2.0, 1.0])
    whole = Tally.of(low, high, truth=1.0)
    assert (whole.above, whole.below, whole.runs, whole.bounded) == (1, 1, 4, 3)
    parts = Tally.of(low[:1], high[:1], truth=1.0) + Tally.of(low[1:], high[1:], truth=1.0)
    assert parts == whole
    assert Tally.from_dict(json.loads(json.dumps(whole.as_dict()))) == whole
    for bad in ({}, {**whole.as_dict(), "runs": "4"}, {**whole.as_dict(), "more": 1}):
        with pytest.raises(InputError, match="expected a tally"):
            Tally.from_dict(bad)


def test_plans_are_distinguished_and_have_their_documented_contents() -> None:
    plans = [full_plan(), quick_plan(), SMALL, replace(SMALL, seed=9)]
    assert len({plan.digest() for plan in plans}) == 4
    full = full_plan().cells
    assert {(c.likelihood, c.bases) for c in full if isinstance(c, ModelCell)} == {
        (likelihood, n) for likelihood in ("binomial", "correlated") for n in (1, 5, 20)
    }
    for mechanism in (Null(), LaplaceMechanism(1.0)):
        own = [c for c in full if not isinstance(c, ModelCell) and c.mechanism == mechanism]
        assert any(isinstance(c, ScoresCell) and c.runs >= 10_000 for c in own)
        assert any(isinstance(c, CountsCell) and c.runs >= 10_000 for c in own)


@pytest.mark.parametrize(
    ("runs", "score_runs"), [(1500, 60), pytest.param(10_000, 10_000, marks=pytest.mark.slow)]
)
def test_every_bound_is_within_its_level_and_the_control_is_not(
    runs: int, score_runs: int, tmp_path: Path
) -> None:
    plan = nominal_plan(runs, score_runs)
    workers = 1 if runs < 10_000 else 2
    rows = bound_rows(plan, run_study(plan, tmp_path / "study.jsonl", workers=workers))
    controls = {control.label for control in CONTROLS}
    bounds = [
        row
        for row in rows
        if row.kind in (Kind.EXACT_BOUND, Kind.APPROXIMATE_BOUND) and row.estimator not in controls
    ]
    assert len({row.estimator for row in bounds}) == len(KINDS) - len(controls) - 3
    for row in bounds:
        assert row.verdict(plan.significance) != TOO_OFTEN, row
    # And not trivially: each comes close to the truth on Laplace.
    for summary in summarise_bounds(bounds, plan.significance):
        best = max(
            row.tightness for row in bounds if row.estimator == summary.estimator and row.truth
        )
        assert 0.05 < best < 1.2, summary.estimator
    worst = CONTROLS[-1].label
    blamed = {
        row.mechanism for row in rows if row.estimator == worst and row.verdict(0.05) == TOO_OFTEN
    }
    assert blamed == {"null", "Laplace"}
    assert all(row.verdict(0.05) == NO_BOUND for row in rows if row.estimator == "joint beta")


def test_what_chance_explains() -> None:
    assert within_level(50, 1000, 0.05)
    assert within_level(0, 1000, 0.05)
    assert not within_level(100, 1000, 0.05)
