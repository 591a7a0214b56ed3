"""Studies of proofs and verdicts: reproducible, tables of the plans, error rates within their levels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from epsilometer.calibration.mechanisms import GaussianMechanism, Null, RandomisedResponse
from epsilometer.calibration.plan import (
    StudyPlan,
    proof_plan,
    verdict_plan,
)
from epsilometer.calibration.proof_table import (
    PowerRow,
    RefutationRow,
    VerdictRow,
    power_rows,
    refutation_rows,
    verdict_rows,
)
from epsilometer.calibration.proofs import (
    FIXED,
    ONE_RUN,
    PEEKING,
    PROOF,
    PowerCell,
    RefutationCell,
    called,
)
from epsilometer.calibration.study import run_study
from epsilometer.calibration.table import SUSPECT, to_csv
from epsilometer.calibration.verdicts import COUNTS, SCORES, VerdictCell
from epsilometer.cli.main import run
from epsilometer.model.scores import Scores
from tests.calibration import scripts

FOLDER = scripts.DOCS / "calibration"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return scripts.script("calibration_of_verdicts")


def small_plan() -> StudyPlan:
    return StudyPlan(
        cells=(
            RefutationCell(mechanism=Null(), bases=2, models=20, runs=6),
            PowerCell(mechanism=RandomisedResponse(3.0), bases=1, sizes=(20, 60), runs=4),
            VerdictCell(mechanism=RandomisedResponse(1.0), data=COUNTS, bases=5, models=50, runs=3),
        ),
        seed=3,
    )


# --- runs -------------------------------------------------------------------------------------


def test_rows_are_of_every_cell(tmp_path: Path) -> None:
    plan = small_plan()
    found = run_study(plan, tmp_path / "study.jsonl")
    true, false = refutation_rows(plan, found), power_rows(plan, found)
    judged = verdict_rows(plan, found)
    assert [(row.method, row.runs) for row in true] == [(PROOF, 6), (PEEKING, 6)]
    assert {row.models for row in false} == {20, 60}
    assert {ONE_RUN, PROOF, FIXED} <= {row.method for row in false}
    assert [row.factor for row in judged] == [0.5, 1.0, 2.0]
    assert all(row.runs == 3 for row in judged)
    # Again from the file: nothing is run again, and the rows are the same.
    again = run_study(plan, tmp_path / "study.jsonl")
    assert again == found


@pytest.mark.slow
def test_numbers_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    alone = run_study(small_plan(), tmp_path / "one.jsonl")
    together = run_study(small_plan(), tmp_path / "two.jsonl", workers=2)
    assert alone == together


def test_more_models_prove_more() -> None:
    cell = PowerCell(mechanism=RandomisedResponse(3.0), bases=1, sizes=(30, 300), runs=5)
    found = cell.judge(0.05, 5, np.random.default_rng(1))
    for method in (PROOF, FIXED, ONE_RUN):
        few, many = (found[f"{method} @ {size}"]["sum_at_least"] for size in (30, 300))
        assert few < many < 5 * 3.0


def test_the_fixed_threshold_aims_at_its_rate() -> None:
    rng = np.random.default_rng(1)
    scores = Scores(without=[rng.normal(size=5000)], with_point=[rng.normal(size=5000) + 1])
    ((without, with_point),) = called(scores, GaussianMechanism(1.0))
    assert abs(without.mean() - 0.1) < 0.02
    assert abs(with_point.mean() - 0.39) < 0.03
    bits = Scores(without=[np.array([0.0, 0, 0, 1])], with_point=[np.array([0.0, 1, 1, 1])])
    ((without, with_point),) = called(bits, RandomisedResponse(1.0))
    assert (without.tolist(), with_point.tolist()) == ([False] * 3 + [True], [False] + [True] * 3)


def test_claims_of_the_null_are_themselves() -> None:
    assert VerdictCell(mechanism=Null(), bases=5, runs=1).claims() == {0.5: 0.5, 1.0: 1.0, 2.0: 2.0}
    claims = VerdictCell(mechanism=RandomisedResponse(1.0), bases=5, runs=1).claims()
    assert claims[2.0] == pytest.approx(2 * claims[1.0])


@pytest.mark.parametrize("study", ["proofs", "verdicts"])
def test_the_command_runs_a_study(
    study: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = small_plan()
    kept = small.cells[:2] if study == "proofs" else small.cells[2:]
    name = "quick_proof_plan" if study == "proofs" else "quick_verdict_plan"
    monkeypatch.setattr(f"epsilometer.calibration.plan.{name}", lambda: replace(small, cells=kept))
    folder = tmp_path / "out"
    command = ["calibrate", "--study", study, "--quick", "--output", str(folder), "--workers", "1"]
    assert run(command) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80 + len(str(folder))
    assert (folder / "plan.json").exists()
    assert run([*command, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["plan"] == replace(small, cells=kept, seed=1).digest()


# --- what is committed ------------------------------------------------------------------------


def test_the_tables_are_of_the_plans_that_ship(script: ModuleType) -> None:
    for study, plan in (("proofs", proof_plan()), ("verdicts", verdict_plan())):
        described = json.loads((FOLDER / study / "plan.json").read_text())
        assert described["plan"] == plan.digest(), study
    true = script.read("proofs", "refutations.csv", RefutationRow)
    planned = [cell for cell in proof_plan().cells if isinstance(cell, RefutationCell)]
    assert sorted(row.runs for row in true) == sorted(2 * [cell.runs for cell in planned])
    judged = script.read("verdicts", "verdicts.csv", VerdictRow)
    assert len(judged) == 3 * len(verdict_plan().cells)


def test_true_claims_are_refuted_no_more_often_than_stated(script: ModuleType) -> None:
    rows = script.read("proofs", "refutations.csv", RefutationRow)
    assert all(row.within_level(0.05) for row in rows if row.method == PROOF)
    assert any(not row.within_level(0.05) for row in rows if row.method == PEEKING)  # the control
    assert {row.runs for row in rows} >= {10_000}
    assert len({(row.mechanism, row.setting) for row in rows}) >= 5


def test_the_proof_is_not_bought_with_power(script: ModuleType) -> None:
    """With several bases it proves more than any bound that is valid for a single analysis."""
    rows = script.read("proofs", "power.csv", PowerRow)
    for mechanism in {row.mechanism for row in rows}:
        own = [row for row in rows if row.mechanism == mechanism and row.bases == 20]
        best = max(row.mean_at_least for row in own if row.method != PROOF)
        assert max(row.mean_at_least for row in own if row.method == PROOF) > best


def test_verdicts_are_wrong_no_more_often_than_required(script: ModuleType) -> None:
    rows = script.read("verdicts", "verdicts.csv", VerdictRow)
    for row in rows:
        assert row.chance(0.05) > SUSPECT, row
    true = [row for row in rows if row.claim_holds]
    assert sum(row.wrong for row in true) <= 0.05 * sum(row.runs for row in true)
    half = [row for row in rows if not row.claim_holds and row.power == 1]
    assert sum(row.pass_judged for row in half) <= 0.05 * sum(row.runs for row in half)
    # It is informative: most false claims fail, most that are twice the truth pass.
    scores = [row for row in rows if row.data == SCORES and row.power == 1 and row.true_epsilon > 0]
    failed = sum(row.fail_proven + row.fail_judged for row in scores if row.factor == 0.5)
    assert failed > 0.5 * sum(row.runs for row in scores if row.factor == 0.5)


def test_statements_of_the_page_follow_from_the_tables(script: ModuleType) -> None:
    """A violated level, and a control that was not detected, would be reported."""
    true = script.read("proofs", "refutations.csv", RefutationRow)
    assert "is detected" in " ".join(script.refuted_text(true, 0.05).split())
    bad = [replace(row, refuted=row.runs if row.method == PROOF else 0) for row in true]
    said = " ".join(script.refuted_text(bad, 0.05).split())
    assert "**Exceeded**" in said
    assert "was NOT detected" in said
    judged = script.read("verdicts", "verdicts.csv", VerdictRow)
    assert "met in all settings" in " ".join(script.verdict_text(judged, 0.05).split())
    wrong = [replace(judged[0], fail_judged=judged[0].runs), *judged[1:]]
    assert "**Not met** in 1" in script.verdict_text(wrong, 0.05)
    assert " **!!**" in script.verdict_table(wrong, 0.05)


def test_tables_round_trip(script: ModuleType) -> None:
    rows = script.read("verdicts", "verdicts.csv", VerdictRow)
    text = (FOLDER / "verdicts" / "verdicts.csv").read_text(encoding="utf-8")
    assert to_csv(rows, VerdictRow) == text
