"""The page of the calibration study agrees with its tables, and the tables with the plan."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from epsilometer.calibration.plan import curve_plan, full_plan
from epsilometer.calibration.table import (
    DELIBERATE,
    TOO_OFTEN,
    BoundRow,
    CurveRow,
    ModelRow,
    Section,
    from_csv,
    to_csv,
    within_level,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER = DOCS / "calibration"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_calibration", DOCS / "make_calibration.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bounds() -> list[BoundRow]:
    return from_csv((FOLDER / "bounds.csv").read_text(), BoundRow, name="bounds.csv")


def models() -> list[ModelRow]:
    return from_csv((FOLDER / "coverage.csv").read_text(), ModelRow, name="coverage.csv")


def test_the_page_has_the_tables(script: ModuleType) -> None:
    text = (DOCS / "calibration.md").read_text(encoding="utf-8")
    assert script.render(text) == text
    assert text.count("| --- |") >= 5


def test_the_tables_are_of_the_plan_that_ships() -> None:
    plan = json.loads((FOLDER / "plan.json").read_text())
    assert plan["plan"] == full_plan().digest()
    assert plan["cells"] == json.loads(json.dumps(full_plan().described()["cells"]))


def test_readme_matches_the_measurements() -> None:
    """No bound that ships is above the truth too often; controls are detected; the posterior covers."""
    for row in bounds():
        if row.verdict(0.05) == TOO_OFTEN:
            assert row.estimator in DELIBERATE or row.estimator.endswith("Bonferroni"), row
    wrong = {row.estimator for row in bounds() if row.verdict(0.05) == TOO_OFTEN}
    assert wrong >= DELIBERATE
    for model in models():
        for level in (50, 80, 90, 95):
            covered = getattr(model, f"covered_{level}")
            assert within_level(covered, model.runs, level / 100), model
            assert within_level(model.runs - covered, model.runs, 1 - level / 100), model


# --- the whole curve --------------------------------------------------------------------------


def curves() -> list[CurveRow]:
    text = (FOLDER / "curve" / "coverage.csv").read_text()
    return from_csv(text, CurveRow, name="coverage.csv")


def test_the_whole_curve_has_every_setting_of_its_plan() -> None:
    described = json.loads((FOLDER / "curve" / "plan.json").read_text())
    assert described["plan"] == curve_plan().digest()
    assert len(curves()) == len(curve_plan().cells)
    planned = sorted(cell.runs for cell in curve_plan().cells)
    assert sorted(row.runs for row in curves()) == planned


def test_the_whole_curve_table_is_of_the_current_plan() -> None:
    described = json.loads((FOLDER / "curve" / "plan.json").read_text())
    assert described["plan"] == curve_plan().digest()


def test_the_page_lists_every_violation(script: ModuleType) -> None:
    text = script.curve_blocks(bounds())["curve-verdict"]
    said = " ".join(text.split())
    for row in curves():
        if row.section is Section.CONTROL:
            assert row.mark(0.05) == "!!"
        elif row.mark(0.05):
            assert script.place_of(row) in said.partition("**Not met**")[2]
    assert "is detected" in said


def test_statements_of_the_page_follow_from_the_table(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All fine, one violated level, a control that was not detected."""
    monkeypatch.setattr(script, "CURVE", tmp_path)
    (tmp_path / "plan.json").write_text('{"significance": 0.05}')
    rows = [replace(row, runs=200, covers=190, above=5, below=5) for row in curves()]
    control = rows.pop()
    assert control.section is Section.CONTROL

    def blocks(*more: CurveRow) -> dict[str, str]:
        text = to_csv([*rows[1:], *more], CurveRow)
        (tmp_path / "coverage.csv").write_text(text)
        return {name: " ".join(x.split()) for name, x in script.curve_blocks(bounds()).items()}

    wrong = replace(control, covers=0, above=200, below=0)
    good = blocks(rows[0], wrong)
    assert "Both stated rates are met in all of them" in good["curve-verdict"]
    assert "is detected: above in 100.0 % of 200 runs" in good["curve-verdict"]
    assert good["curve-short"].count("**") == 2  # nowhere too often
    bad = blocks(replace(rows[0], covers=160, above=40, below=0), control)
    assert "**Not met** in 1: null, 1 base of 100 (covers 80.0 %" in bad["curve-verdict"]
    assert "was NOT detected" in bad["curve-verdict"]
    assert "**Best attacks: above the true ε.** null (ε = 0.00)" in bad["curve-short"]
    assert "| null **!!** |" in bad["curve-best"]


def test_the_count_model_is_shown_next_to_it(script: ModuleType) -> None:
    table = script.curve_blocks(bounds())["curve-best"]
    # Marks of violated levels are not part of the name.
    lines = [line.replace(" **!!**", "").replace(" **!**", "") for line in table.splitlines()]
    shown = {tuple(line.split(" | ")[i] for i in (0, 2, 3)): line for line in lines[2:]}
    assert shown["| Gaussian (mu=1)", "5", "100"].endswith("| 5.0 % |")
    assert shown["| Gaussian (mu=1)", "1", "1,000"].endswith("| - |")
    assert shown["| Gaussian (mu=0.5)", "5", "100"].endswith("| - |")
