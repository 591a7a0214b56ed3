"""The study of pools: truths, rows of the plan, the control, and the documentation."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import norm

from epsilometer.calibration.interference import Failures, Separate, SharedNoise, SpillOver
from epsilometer.calibration.one_run import WHOLE_CURVE
from epsilometer.calibration.plan import StudyPlan, pool_plan
from epsilometer.calibration.pool import (
    BOUNDS,
    BY_MODEL,
    BY_POINT,
    MULTIPLIED,
    PROOF,
    PoolBoundCell,
    PoolIntervalCell,
    bounds_of,
)
from epsilometer.calibration.pool_table import (
    PoolBoundRow,
    PoolIntervalRow,
    pool_bound_rows,
    pool_interval_rows,
)
from epsilometer.calibration.study import run_study
from epsilometer.calibration.table import to_csv
from epsilometer.cli.main import run
from epsilometer.errors import InputError
from epsilometer.proofs.proof import prove
from tests.calibration import scripts

FOLDER = scripts.DOCS / "calibration" / "pool"
CATASTROPHE = Failures(response=0.0, probability=0.1)


def small_plan() -> StudyPlan:
    noise = SharedNoise(mu=2.0, group=4, correlation=0.5)
    return StudyPlan(
        cells=(
            PoolBoundCell(mechanism=noise, models=16, points=4, runs=3),
            PoolIntervalCell(mechanism=Separate(mu=2.0), models=12, points=2, runs=2),
        ),
        seed=3,
    )


# --- truths -------------------------------------------------------------------------------------


def test_what_one_score_shows() -> None:
    """Spill-over is nearly normal if many points spill a little, and smallest if nothing does."""
    mechanism = SpillOver(mu=1.0, group=401, spill=0.05)
    spread = np.sqrt(1 + 400 * 0.05**2 / 4)
    near = Separate(mu=1 / spread).epsilon(1e-3)
    assert mechanism.point_epsilon(1e-3) == pytest.approx(near, rel=2e-3)
    assert mechanism.point_epsilon(1e-3) < Separate(mu=1.0).epsilon(1e-3) < mechanism.epsilon(1e-3)
    noise = SharedNoise(mu=1.0, group=20, correlation=0.9)
    assert noise.point_epsilon(1e-5) == Separate(mu=1.0).epsilon(1e-5) < noise.epsilon(1e-5)


def test_one_score_against_its_densities() -> None:
    """Two points, written out: the other is included or not."""
    mechanism = SpillOver(mu=1.5, group=2, spill=0.8)
    grid = np.linspace(-12, 16, 200_001)
    zero = (norm.pdf(grid) + norm.pdf(grid - 1.2)) / 2
    one = (norm.pdf(grid - 1.5) + norm.pdf(grid - 2.7)) / 2
    epsilon = mechanism.point_epsilon(0.05)
    rest = np.maximum(one - np.exp(epsilon) * zero, 0)
    assert np.trapezoid(rest, grid) == pytest.approx(0.05, abs=1e-7)


@pytest.mark.parametrize("shared", [True, False])
def test_failures_have_the_stated_privacy(shared: bool) -> None:
    mechanism = Failures(response=1.0, probability=0.1, shared=shared)
    assert mechanism.epsilon(0.1) == pytest.approx(1.0)
    assert mechanism.epsilon(0.0999) == np.inf
    assert mechanism.epsilon(0.1 + 0.9 * np.tanh(0.5)) == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(1)
    member = rng.random((4000, 2)) < 0.5
    scores = np.stack([mechanism.scores(own, rng) for own in member])
    failed = np.abs(scores) > 1
    assert failed.mean() == pytest.approx(0.1, abs=0.02)
    assert (failed[:, 0] == failed[:, 1]).all() == shared
    # Delta at epsilon = 1 is the probability of a failure, from the two sides' rates of each outcome.
    for sign, own in ((1, member), (-1, ~member)):
        told, lied = (np.mean(sign * scores[side] > 0) for side in (own, ~own))
        assert told - math.e * lied == pytest.approx(0.1, abs=0.06)
        assert told - lied > 0.3  # were epsilon 0, this would be delta
    with pytest.raises(InputError, match="expected response >= 0"):
        Failures(response=-1.0, probability=0.1)


# --- runs ---------------------------------------------------------------------------------------


def test_rows_are_of_every_cell(tmp_path: Path) -> None:
    plan = small_plan()
    found = run_study(plan, tmp_path / "study.jsonl")
    bounds, intervals = pool_bound_rows(plan, found), pool_interval_rows(plan, found)
    assert [(row.method, row.runs) for row in bounds] == [(method, 3) for method in BOUNDS]
    assert [row.method for row in intervals] == [WHOLE_CURVE]
    assert intervals[0].covers + intervals[0].above + intervals[0].below == intervals[0].runs == 2
    assert bounds[0].setting == "mu=2 correlation=0.5"
    assert bounds[0].true_epsilon > bounds[0].point_epsilon
    assert run_study(plan, tmp_path / "study.jsonl") == found


def test_bounds_are_those_of_proofs() -> None:
    cell = PoolBoundCell(mechanism=Separate(mu=2.0), models=40, points=10, runs=1)
    drawn = cell.draw(np.random.default_rng(1))
    found = bounds_of(drawn, 1e-5, 0.05)
    assert found[PROOF] == prove(drawn, delta=1e-5).at_least > 0.5
    unfair = prove(replace(drawn, fair_coins=False), delta=1e-5)
    assert found[BY_POINT] == unfair.at_least
    assert found[BY_MODEL] > found[PROOF]
    with pytest.raises(InputError, match="expected whole clusters of 4"):
        PoolBoundCell(
            mechanism=SharedNoise(mu=1.0, group=4, correlation=0.5), models=8, points=6, runs=1
        )


def test_failures_mislead_multiplied_points() -> None:
    """The study's control in miniature: models fail for all points at once."""
    cell = PoolBoundCell(delta=0.1, mechanism=CATASTROPHE, models=64, points=100, runs=1)
    found = cell.judge(0.05, 12, np.random.default_rng(2))
    assert found[MULTIPLIED]["above"] >= 3
    assert found[PROOF]["above"] == 0


def test_the_command_runs_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("epsilometer.calibration.plan.quick_pool_plan", small_plan)
    folder = tmp_path / "out"
    command = ["calibrate", "--study", "pool", "--quick", "--output", str(folder), "--workers", "1"]
    assert run(command) == 0
    out = capsys.readouterr().out
    assert "NOT DETECTED" in out  # too few runs to detect it
    assert max(map(len, out.splitlines())) <= 80 + len(str(folder))
    assert {path.name for path in folder.iterdir()} >= {"plan.json", "bounds.csv", "coverage.csv"}
    assert run([*command, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["plan"] == replace(small_plan(), seed=1).digest()
    assert len(data["bounds"]) == len(BOUNDS)


# --- what is committed --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return scripts.script("calibration_of_pool")


@pytest.fixture(scope="module")
def bounds(script: ModuleType) -> list[PoolBoundRow]:
    found: list[PoolBoundRow] = script.read("bounds.csv", PoolBoundRow)
    return found


@pytest.fixture(scope="module")
def intervals(script: ModuleType) -> list[PoolIntervalRow]:
    found: list[PoolIntervalRow] = script.read("coverage.csv", PoolIntervalRow)
    return found


def test_the_tables_are_of_the_plan_that_ships(
    bounds: list[PoolBoundRow], intervals: list[PoolIntervalRow]
) -> None:
    plan = pool_plan()
    assert json.loads((FOLDER / "plan.json").read_text())["plan"] == plan.digest()
    proven = [cell for cell in plan.cells if isinstance(cell, PoolBoundCell)]
    assert [row.runs for row in bounds if row.method == PROOF] == [cell.runs for cell in proven]
    judged = [cell for cell in plan.cells if isinstance(cell, PoolIntervalCell)]
    assert [row.runs for row in intervals] == [cell.runs for cell in judged]
    assert to_csv(bounds, PoolBoundRow) == (FOLDER / "bounds.csv").read_text(encoding="utf-8")
    for cell, row in zip(judged, intervals, strict=True):
        expected = cell.mechanism.point_epsilon(cell.delta)
        assert row.point_epsilon == pytest.approx(expected, abs=1e-6)


def test_proofs_err_no_more_often_than_stated_and_the_control_does(
    bounds: list[PoolBoundRow],
) -> None:
    assert all(row.within_level(0.05) for row in bounds if not row.control)
    failing = [row for row in bounds if row.control and row.mechanism == Failures.name]
    assert max(row.above / row.runs for row in failing) > 0.2
    assert any(not row.within_level(0.05) for row in failing)


def test_the_posterior_covers_where_points_are_independent_and_not_where_they_share(
    intervals: list[PoolIntervalRow],
) -> None:
    apart = [row for row in intervals if row.independent == "yes" and row.delta < 0.1]
    assert all(row.within_level(0.05) for row in apart)
    shared = [row for row in intervals if row.independent == "no"]
    assert any(not row.within_level(0.05) for row in shared)


def test_statements_of_the_page_follow_from_the_tables(
    script: ModuleType, bounds: list[PoolBoundRow], intervals: list[PoolIntervalRow]
) -> None:
    said = " ".join(script.bound_text(bounds, 0.05).split())
    assert said.count("never significantly too often") == 3
    assert "NOT detected" not in said
    bad = [replace(row, above=0 if row.control else row.runs) for row in bounds]
    said = " ".join(script.bound_text(bad, 0.05).split())
    assert said.count("**too often**") == 3
    assert "NOT detected" in said
    wrong = [replace(row, covers=0, above=row.runs, below=0) for row in intervals]
    said = " ".join(script.interval_text(wrong, 0.05).split())
    assert said.count("**not met**") == 3
    assert script.interval_table(wrong, 0.05).count("**!**") == len(wrong)
