"""Tables on the pages about groups, planning and auditors are those of the committed studies."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_study", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study() -> ModuleType:
    return load(DOCS / "groups" / "group_study.py")


@pytest.mark.parametrize("script", ["groups/group_study.py", "planning/study.py"])
def test_the_page_holds_the_studys_table(script: str) -> None:
    module = load(DOCS / script)
    page = module.PAGE.read_text(encoding="utf-8")
    assert module.with_table(page) == page
    assert module.with_table(page.replace(" % |", " ? |").replace(" %) |", " ?) |")) == page


def test_most_audits_were_as_wide_as_planned() -> None:
    found = json.loads((DOCS / "planning" / "study.json").read_text(encoding="utf-8"))
    own = found["summary"][0]
    assert own["carried_out"] >= 60
    assert own["within_20_percent"] >= 0.8 * own["carried_out"]


def test_the_study_was_run_as_it_is_planned(study: ModuleType) -> None:
    found = json.loads((DOCS / "groups" / "study.json").read_text(encoding="utf-8"))
    assert list(found) == list(study.CELLS)
    for name, cell in study.CELLS.items():
        for key in ("engine", "groups", "members", "trials", "runs"):
            assert found[name][key] == getattr(cell, key), (name, key)


def test_groups_cover_and_independent_rows_do_not(study: ModuleType) -> None:
    found = json.loads((DOCS / "groups" / "study.json").read_text(encoding="utf-8"))
    for name, cell in found.items():
        # 4 standard errors of a share of 90 %.
        room = 4 * (0.09 / cell["runs"]) ** 0.5
        assert abs(cell["coverage"]["epsilon"] - 0.9) < room, name
        assert min(cell["uniformity_p_value"].values()) > 1e-4, name
    for name in ("pooled, exact", "a crowd on two points, MCMC"):
        crowd = found[name]
        assert crowd["if_independent"]["coverage"] < crowd["coverage"]["epsilon"] - 0.2, name


# --- auditors ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def auditors() -> ModuleType:
    return load(DOCS / "auditors" / "make_table.py")


@pytest.fixture(scope="module")
def audited(auditors: ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(auditors.RESULTS.read_text(encoding="utf-8"))
    return found


def test_the_page_of_auditors_holds_the_committed_numbers(auditors: ModuleType) -> None:
    page = auditors.PAGE.read_text(encoding="utf-8")
    assert auditors.with_tables(page) == page
    changed = page.replace("covers ε in", "misses ε in")
    assert changed != page
    assert auditors.with_tables(changed) == page


def test_every_setting_was_drawn_as_often_as_it_says(
    auditors: ModuleType, audited: dict[str, Any]
) -> None:
    wanted = [(each.key, k) for each in auditors.SETTINGS for k in range(each.draws)]
    assert [(row["setting"], row["draw"]) for row in audited["draws"]] == wanted


def test_the_truths_of_the_table_are_those_of_accountants(
    auditors: ModuleType, audited: dict[str, Any]
) -> None:
    assert audited["truth"] == pytest.approx(auditors.truths(), abs=1e-3)
    # Opacus states the upper end of an error of 0.01.
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(auditors.SIGMA, auditors.RATE, auditors.STEPS)]
    stated = accountant.get_epsilon(auditors.DELTA)
    own = audited["truth"]["DP-SGD, likelihood ratio, 5,000"]
    assert own <= stated <= own + 0.02
    assert audited["truth"]["DP-SGD, sum, 5,000"] < own


def test_one_draw_comes_out_again(auditors: ModuleType, audited: dict[str, Any]) -> None:
    # Sums in another order move the last digits; another draw moves the first.
    again = auditors.one(0, 0)
    first, other = audited["draws"][:2]
    for name in ("default", "strength 1", "Gaussian"):
        assert again[name] == pytest.approx(first[name], abs=2e-3), name
        assert again[name] != pytest.approx(other[name], abs=2e-3), name
    for name in (*auditors.POINTS, *auditors.BOUNDS):
        assert again[name] == pytest.approx(first[name], abs=2e-3), name


def test_bounds_of_the_table_hold_where_they_must(audited: dict[str, Any]) -> None:
    """Each errs with 5 %: at most 4 of 20, with a probability below 3 in 1,000 of more."""
    for name in ("proof", "f-DP", "Steinke"):
        for setting, truth in audited["truth"].items():
            rows = [row for row in audited["draws"] if row["setting"] == setting]
            assert sum(row[name] > truth for row in rows) <= 4, (name, setting)
