"""Pages on pools and challenge points: their tables are those of benchmarks; the example runs."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.cli.main import run
from tests.docs.scripts import ROOT, script

BENCHMARKS = ROOT / "benchmarks"
#: Benchmarks of the pages, and how a row of each begins.
TABLES = {
    "pool_versus_many": "| pool | pilot |",
    "attacks_by_models": "| `lira` | 0.",
    "challenge_points": "| `outliers` |",
}


def tables(name: str) -> dict[str, Any]:
    text = (BENCHMARKS / f"{name}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["tables"]
    return found


@pytest.fixture(params=list(TABLES))
def benchmark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return script(str(request.param))


def test_the_page_holds_the_benchmarks_table(benchmark: ModuleType) -> None:
    page = benchmark.PAGE.read_text(encoding="utf-8")
    assert benchmark.with_table(page) == page
    row = TABLES[benchmark.RESULTS.stem]
    assert row in page
    assert benchmark.with_table(page.replace(row, row.upper(), 1)) == page


def test_a_pool_proves_more_than_as_many_models_on_the_same_kind_of_points() -> None:
    """Medians over seeds, as the page says; each audit of chosen points by itself as well."""
    rows = tables("pool_versus_many")["audits"]
    for kind in ("random", "mislabelled", "outliers", "pilot"):
        pool = [row["proven"] for row in rows if (row["way"], row["points"]) == ("pool", kind)]
        others: dict[str, list[float]] = {}
        for row in rows:
            if row["way"] != "pool" and row["points"] == kind:
                others.setdefault(row["way"], []).append(row["proven"])
        assert len(pool) == 5
        assert {len(each) for each in others.values()} == {5}
        assert np.median(pool) > max(np.median(each) for each in others.values())
        if kind != "random":
            assert min(pool) > max(map(max, others.values()))


def test_chosen_points_show_more_than_random_ones() -> None:
    """In every audit, with as many models."""
    audits = tables("challenge_points")["audits"]
    assert len({row["models"] for row in audits}) == 1
    random = {row["seed"]: row for row in audits if row["challenge"] == "random"}
    for row in audits:
        if row["challenge"] != "random":
            assert row["proven"] > random[row["seed"]]["proven"]
            assert row["median base"] > random[row["seed"]]["median base"]


def test_a_large_pool_is_handled_in_minutes_and_little_memory() -> None:
    steps = {row["step"]: row for row in tables("large_pool")["steps"]}
    assert {"compare-attacks, toml", "estimate, 100 points", "export parquet"} <= set(steps)
    assert max(row["GiB at most"] for row in steps.values()) < 1.1
    assert max(row["seconds"] for row in steps.values()) < 300


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the example in a small size, whose modules can be imported until the test ends."""
    place = tmp_path / "pool"
    shutil.copytree(ROOT / "examples" / "pool", place, ignore=shutil.ignore_patterns("*.db*"))
    for config in place.glob("*.toml"):
        text = config.read_text(encoding="utf-8")
        for name, size in (("models", 8), ("pool_size", 80), ("references", 20), ("points", 4)):
            line = next(line for line in text.splitlines() if line.startswith(f"{name} = "))
            text = text.replace(line, f"{name} = {size}")
        text = text.replace("epochs = 60", "epochs = 5").replace("epochs = 20", "epochs = 5")
        config.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(place))
    yield place
    for name in ("training", "with_queries"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("config", "queries"), [("audit.toml", 1), ("queries.toml", 5)])
def test_the_example_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], config: str, queries: int
) -> None:
    settings = em.rows.read_audit(folder / config)
    losses = em.measure(settings.plan, settings.store).only
    assert (losses.models, losses.challenges, losses.queries) == (8, 80, queries)
    design = settings.plan.design
    assert isinstance(design, em.Pool)
    assert len(design.judged_points(losses)) == 4
    if queries > 1:
        importlib.import_module("with_queries").main(settings.store)
        rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
        assert [row[:2] for row in rows[:2]] == [["lira", "1"], ["lira", "5"]]
        return
    assert run(["losses", "export", str(settings.store), str(folder / "losses.npz")]) == 0
    assert em.PoolLosses.read(folder / "losses.npz") == losses


def test_queries_of_the_example_are_shifts_by_a_pixel(folder: Path) -> None:
    training = importlib.import_module("training")
    assert Path(str(training.__file__)).parent == folder
    point = em.datasets.load_population("digits").point(0)
    image = np.asarray(point.features).reshape(8, 8)
    found = training.ShiftedDigits(hidden=4).queries(point).reshape(-1, 8, 8)
    assert len(found) == 4
    np.testing.assert_array_equal(found[0][1:], image[:-1])
    np.testing.assert_array_equal(found[3][:, :-1], image[:, 1:])
