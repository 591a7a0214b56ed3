"""The table on the page about groups is that of the committed study."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("groups_study", DOCS / "groups" / "group_study.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_holds_the_studys_table(study: ModuleType) -> None:
    page = study.PAGE.read_text(encoding="utf-8")
    assert study.with_table(page) == page
    assert study.with_table(page.replace(" % |", " ? |")) == page


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
    crowd = found["scattered, MCMC"]
    assert crowd["if_independent"]["coverage"] < crowd["coverage"]["epsilon"] - 0.1
