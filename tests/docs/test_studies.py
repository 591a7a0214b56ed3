"""Tables on the pages about groups and planning are those of the committed studies."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

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
