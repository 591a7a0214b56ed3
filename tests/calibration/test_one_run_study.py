"""The study of interfering canaries: reproducible, tables of the plan, error rates within levels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from epsilometer.calibration.interference import Release, Separate, SharedLuck, SharedNoise
from epsilometer.calibration.one_run import (
    AS_GAUSSIAN,
    PROOF,
    WHOLE_CURVE,
    BoundTally,
    IntervalTally,
    OneRunBoundCell,
    OneRunIntervalCell,
    scores_of,
)
from epsilometer.calibration.one_run_table import (
    YES,
    OneRunBoundRow,
    OneRunIntervalRow,
    one_run_bound_rows,
    one_run_interval_rows,
)
from epsilometer.calibration.plan import CATASTROPHE, StudyPlan, one_run_plan
from epsilometer.calibration.study import run_study
from epsilometer.calibration.table import to_csv, within_level
from epsilometer.cli.main import run
from tests.calibration import scripts

FOLDER = scripts.DOCS / "calibration" / "one-run"
ROC, GAUSSIAN_ROC = "ROC scan, Clopper-Pearson", "ROC scan, Gaussian DP"
GAUSSIAN_RUN = "one-run scan, f-DP, Gaussian"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return scripts.script("calibration_of_one_run")


def small_plan() -> StudyPlan:
    noise = SharedNoise(mu=1.0, group=5, correlation=0.5)
    return StudyPlan(
        cells=(
            OneRunBoundCell(mechanism=Separate(mu=3.0), canaries=60, runs=5),
            OneRunBoundCell(mechanism=noise, canaries=60, training_runs=2, runs=3),
            OneRunIntervalCell(mechanism=Separate(mu=3.0), canaries=60, runs=2),
        ),
        seed=3,
    )


# --- runs -------------------------------------------------------------------------------------


def test_rows_are_of_every_cell(tmp_path: Path) -> None:
    plan = small_plan()
    found = run_study(plan, tmp_path / "study.jsonl")
    bounds, intervals = one_run_bound_rows(plan, found), one_run_interval_rows(plan, found)
    assert [row.runs for row in bounds if row.method == PROOF] == [5, 3]
    assert len(bounds) == 2 * 7
    assert [row.method for row in intervals] == [WHOLE_CURVE, AS_GAUSSIAN]
    assert all(row.runs == row.covers + row.above + row.below == 2 for row in intervals)
    assert all(row.mean_low < row.mean_median < row.mean_high for row in intervals)
    # Again from the file: nothing is run again.
    assert run_study(plan, tmp_path / "study.jsonl") == found


@pytest.mark.slow
def test_numbers_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    alone = run_study(small_plan(), tmp_path / "one.jsonl")
    together = run_study(small_plan(), tmp_path / "two.jsonl", workers=2)
    assert alone == together


def test_several_runs_share_the_canaries() -> None:
    cell = OneRunBoundCell(mechanism=Separate(mu=1.0), canaries=400, training_runs=4, runs=1)
    drawn = cell.draw(np.random.default_rng(1))
    assert [len(without) + len(with_point) for without, with_point in drawn] == [100] * 4
    scores = scores_of(drawn)
    assert scores.one_run
    assert len(scores) == 4
    assert int(scores.trials_h1.sum()) == sum(len(with_point) for _, with_point in drawn)


def test_the_catastrophe_misleads_methods_that_assume_independence() -> None:
    """The study's control in miniature: half of the runs release all, epsilon is 0 from 1/2 on."""
    half = Release(probability=0.5, share=1.0)
    cell = OneRunBoundCell(delta=0.5, mechanism=half, canaries=200, runs=40)
    found = cell.judge(0.05, 40, np.random.default_rng(2))
    assert found[ROC]["above"] > 10
    assert found[PROOF]["above"] == found["one-run scan"]["above"] == 0


def test_a_run_is_above_below_or_neither() -> None:
    assert BoundTally.of(1.1, truth=1.0).above == 1
    assert BoundTally.of(1.0, truth=1.0).above == 0
    ends = {
        truth: IntervalTally.of(np.array([1.0, 2.0, 3.0]), truth=truth) for truth in (0.5, 2, 4)
    }
    assert [(each.above, each.below) for each in ends.values()] == [(1, 0), (0, 0), (0, 1)]


def test_unfair_coins_prove_nothing() -> None:
    """They are refused, so there is no bound; with many canaries, 4 of 5 included is refused."""
    cell = OneRunBoundCell(mechanism=Separate(mu=3.0), canaries=100, runs=1)
    rng = np.random.default_rng(3)
    drawn = [(rng.normal(size=20), rng.normal(size=80) + 3)]
    assert cell._bounds(drawn, 0.05)[PROOF] == 0.0
    assert cell._bounds(drawn, 0.05)[ROC] > 0.0


def test_what_a_method_assumes() -> None:
    def row(method: str, *, independent: str = "no", gaussian: str = "yes") -> OneRunBoundRow:
        return OneRunBoundRow(
            mechanism="any",
            setting="",
            independent=independent,
            gaussian=gaussian,
            delta=1e-5,
            canaries=100,
            training_runs=1,
            true_epsilon=1.0,
            method=method,
            runs=100,
            above=0,
            mean_at_least=0.5,
        )

    assert row(PROOF, gaussian="no").holds
    assert row("one-run scan, both ends", gaussian="no").holds
    assert row(GAUSSIAN_RUN).holds
    assert not row(GAUSSIAN_RUN, gaussian="no").holds
    assert not row(ROC).holds
    assert row(ROC, independent=YES, gaussian="no").holds
    assert not row(GAUSSIAN_ROC, independent=YES, gaussian="no").holds
    assert not row(WHOLE_CURVE).holds


def test_the_command_runs_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("epsilometer.calibration.plan.quick_one_run_plan", small_plan)
    folder = tmp_path / "out"
    command = ["calibrate", "--study", "one-run", "--quick", "--output", str(folder)]
    assert run([*command, "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "NOT SEEN" in out  # too few runs to detect it
    assert max(map(len, out.splitlines())) <= 80 + len(str(folder))
    assert {path.name for path in folder.iterdir()} >= {"plan.json", "bounds.csv", "coverage.csv"}
    assert run([*command, "--workers", "1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["plan"] == replace(small_plan(), seed=1).digest()
    assert len(data["bounds"]) == 14


# --- what is committed ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bounds(script: ModuleType) -> list[OneRunBoundRow]:
    found: list[OneRunBoundRow] = script.read("bounds.csv", OneRunBoundRow)
    return found


@pytest.fixture(scope="module")
def intervals(script: ModuleType) -> list[OneRunIntervalRow]:
    found: list[OneRunIntervalRow] = script.read("coverage.csv", OneRunIntervalRow)
    return found


def test_the_tables_are_of_the_plan_that_ships(
    bounds: list[OneRunBoundRow], intervals: list[OneRunIntervalRow]
) -> None:
    plan = one_run_plan()
    assert json.loads((FOLDER / "plan.json").read_text())["plan"] == plan.digest()
    proven = [cell for cell in plan.cells if isinstance(cell, OneRunBoundCell)]
    assert [row.runs for row in bounds if row.method == PROOF] == [cell.runs for cell in proven]
    judged = [cell for cell in plan.cells if isinstance(cell, OneRunIntervalCell)]
    assert [r.runs for r in intervals if r.method == WHOLE_CURVE] == [c.runs for c in judged]
    text = (FOLDER / "bounds.csv").read_text(encoding="utf-8")
    assert to_csv(bounds, OneRunBoundRow) == text
    assert min(row.runs for row in bounds) >= 400
    assert min(row.runs for row in intervals) >= 200


def test_truths_in_the_tables_are_those_of_the_mechanisms(bounds: list[OneRunBoundRow]) -> None:
    proven = [cell for cell in one_run_plan().cells if isinstance(cell, OneRunBoundCell)]
    for cell, row in zip(proven, [r for r in bounds if r.method == PROOF], strict=True):
        assert row.true_epsilon == pytest.approx(cell.mechanism.epsilon(cell.delta), abs=1e-6)


def test_bounds_err_no_more_often_than_stated_where_they_may_be_used(
    bounds: list[OneRunBoundRow],
) -> None:
    assert all(row.within_level(0.05) for row in bounds if row.holds)
    # Methods that assume only fair coins are valid everywhere, however canaries interfere.
    assert all(row.holds for row in bounds if row.method in (PROOF, "one-run scan"))
    assert sum(row.method == GAUSSIAN_RUN and row.holds for row in bounds) > 10


def test_the_controls_are_caught(
    bounds: list[OneRunBoundRow], intervals: list[OneRunIntervalRow]
) -> None:
    """One in ten runs of the catastrophic failure misleads methods that assume independence."""
    own = [row for row in bounds if row.delta == 0.1 and "share=1" in row.setting.split()]
    scans = [row for row in own if row.method == ROC and row.training_runs == 1]
    assert len(scans) == 3
    for scan in scans:
        assert within_level(scan.above, scan.runs, CATASTROPHE.probability)
        assert within_level(scan.runs - scan.above, scan.runs, 1 - CATASTROPHE.probability)
    assert not max(scans, key=lambda row: row.runs).within_level(0.05)
    assert all(row.above == 0 for row in own if row.method == PROOF)
    judged = [
        row
        for row in intervals
        if row.mechanism == CATASTROPHE.name
        and (row.canaries, row.training_runs, row.method) == (1000, 1, WHOLE_CURVE)
    ]
    assert [within_level(row.above, row.runs, 0.1) for row in judged] == [True]
    assert judged[0].above > 0.05 * judged[0].runs
    # An exactly Gaussian curve, modelled as such, with luck shared by the run: too high, and too low.
    luck = [r for r in intervals if r.mechanism == SharedLuck.name and r.method == AS_GAUSSIAN]
    assert any(r.above > 0.2 * r.runs and r.below > 0.2 * r.runs for r in luck)
    scan_of_luck = [
        r for r in bounds if r.mechanism == SharedLuck.name and r.method == GAUSSIAN_ROC
    ]
    assert any(row.above > 0.2 * row.runs for row in scan_of_luck)


def test_the_posterior_covers_where_canaries_are_independent(
    intervals: list[OneRunIntervalRow],
) -> None:
    for row in intervals:
        if row.holds and (row.true_epsilon > 0 or row.method == WHOLE_CURVE):
            assert row.within_level(0.05), row
    interfering = [row for row in intervals if row.interferes]
    assert min(row.covers for row in interfering) == 0


def test_statements_of_the_page_follow_from_the_tables(
    script: ModuleType, bounds: list[OneRunBoundRow], intervals: list[OneRunIntervalRow]
) -> None:
    said = " ".join(script.bound_text(bounds, 0.05).split())
    assert "never significantly too often" in said
    assert "NOT detected" not in said
    bad = [replace(row, above=row.runs if row.holds else 0) for row in bounds]
    said = " ".join(script.bound_text(bad, 0.05).split())
    assert "**too often**" in said
    assert "NOT detected" in said
    wrong = [replace(row, covers=0, above=row.runs, below=0) for row in intervals]
    assert "**not met**" in script.interval_text(wrong, 0.05)
    assert "**not met**" not in script.interval_text(intervals, 0.05)
    assert script.interval_table(wrong, 0.05).count("**!**") == len(wrong)
