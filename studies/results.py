"""Results of studies: a folder each, with the plan and one CSV file per table."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import version
from pathlib import Path

from studies.runner import Plan
from studies.tables import Tables, from_csv, to_csv

#: The committed ones.
FOLDER = Path(__file__).resolve().parent / "results"


def write(folder: Path, plan: Plan, tables: Tables) -> None:
    """The plan and the tables."""
    head = {"epsilometer": version("epsilometer"), "plan": plan.digest()}
    text = json.dumps(head | plan.described(), indent=1) + "\n"
    (folder / "plan.json").write_text(text, encoding="utf-8")
    for name, rows in tables.items():
        (folder / name).write_text(to_csv(rows), encoding="utf-8")


@cache
def read(study: str) -> tuple[Tables, float]:
    """The committed tables of a study, and its error probability."""
    folder = FOLDER / study
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    tables = {
        path.name: from_csv(path.read_text(encoding="utf-8")) for path in folder.glob("*.csv")
    }
    return tables, float(plan["significance"])
