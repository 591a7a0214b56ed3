"""What is committed: pages with the numbers of the tables, and tables of the plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from studies import results, run
from studies.catalogue import STUDIES
from studies.tables import filled, from_csv, to_csv


def test_pages_have_the_committed_numbers() -> None:
    pages = run.filled_pages()
    assert run.ROOT / "docs" / "calibration.md" in pages
    for page, text in pages.items():
        assert page.read_text(encoding="utf-8") == text, page
    assert (
        filled("a\n<!-- x -->\nold\n<!-- end -->", {"x": "new"})
        == "a\n<!-- x -->\nnew\n<!-- end -->"
    )


@pytest.mark.parametrize("study", STUDIES)
def test_tables_are_of_the_plan(study: str) -> None:
    plan, folder = STUDIES[study].plan(), results.FOLDER / study
    described = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    assert described["plan"] == plan.digest()
    assert described["cells"] == json.loads(json.dumps(plan.described()["cells"]))
    tables, significance = results.read(study)
    assert significance == plan.significance
    for name, rows in tables.items():
        assert to_csv(rows) == (folder / name).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("study", STUDIES)
def test_every_setting_was_run_as_often_as_planned(study: str) -> None:
    planned = [cell.runs for cell in STUDIES[study].plan().cells]
    for rows in results.read(study)[0].values():
        if hasattr(rows[0], "runs"):
            assert {row.runs for row in rows} & set(planned)
            assert max(row.runs for row in rows) <= max(planned)
        else:  # a row for each run
            assert len(rows) == sum(planned)


def test_writing_and_reading(tmp_path: Path) -> None:
    plan = STUDIES["verdicts"].plan(quick=True)
    tables, _ = results.read("verdicts")
    results.write(tmp_path, plan, tables)
    written = from_csv((tmp_path / "verdicts.csv").read_text(encoding="utf-8"))
    assert written == tables["verdicts.csv"]
