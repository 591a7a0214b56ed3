"""The table of challenge points on its page is that of the committed benchmark."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

from tests.docs.scripts import ROOT
from tests.docs.test_studies import load

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return load(BENCHMARKS / "challenge_points.py")


def test_the_page_holds_the_benchmarks_table(benchmark: ModuleType) -> None:
    page = benchmark.PAGE.read_text(encoding="utf-8")
    assert benchmark.with_table(page) == page
    assert benchmark.with_table(page.replace("| `outliers` |", "| `others` |", 1)) == page


def test_chosen_points_show_more_than_random_ones(benchmark: ModuleType) -> None:
    """In every audit, with as many models."""
    found = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    audits = found["tables"]["audits"]
    assert {row["models"] for row in audits} == {2 * benchmark.BASES * benchmark.REPLICATES}
    for row in audits:
        (random,) = (
            each for each in audits if (each["challenge"], each["seed"]) == ("random", row["seed"])
        )
        if row is not random:
            assert row["proven"] > random["proven"]
            assert row["median base"] > random["median base"]
