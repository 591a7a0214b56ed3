"""The page of the calibration study has the numbers of its tables, and the tables are of the plan."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from epsilometer.calibration.plan import full_plan
from epsilometer.calibration.table import (
    DELIBERATE,
    TOO_OFTEN,
    BoundRow,
    ModelRow,
    from_csv,
    keeps,
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


def test_readme_claims_what_was_measured() -> None:
    """No bound that ships above the truth too often; controls seen; the posterior covers."""
    for row in bounds():
        if row.verdict(0.05) == TOO_OFTEN:
            assert row.estimator in DELIBERATE or row.estimator.endswith("Bonferroni"), row
    wrong = {row.estimator for row in bounds() if row.verdict(0.05) == TOO_OFTEN}
    assert wrong >= DELIBERATE
    for model in models():
        for level in (50, 80, 90, 95):
            covered = getattr(model, f"covered_{level}")
            assert keeps(covered, model.runs, level / 100), model
            assert keeps(model.runs - covered, model.runs, 1 - level / 100), model
