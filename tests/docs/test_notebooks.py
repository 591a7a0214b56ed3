"""The notebooks run in a real kernel, and what they show is what is committed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER, SCRIPT = ROOT / "docs" / "notebooks", ROOT / "docs" / "make_notebooks.py"
NAMES = ("dp-sgd-with-a-bug", "first-audit", "own-pytorch-model")

#: Relative, of every number that is shown: other processors round sums in another order.
TOLERANCE = 0.05

LARGEST_OUTPUT, LARGEST_FILE = 180_000, 400_000

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")

Notebook = dict[str, Any]


def read(path: Path) -> Notebook:
    found: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return found


def execute(folder: Path, name: str) -> Notebook:
    """Run a notebook of a folder by the script that makes the committed ones."""
    command = [sys.executable, str(SCRIPT), "--folder", str(folder), name]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return read(folder / f"{name}.ipynb")


def texts(notebook: Notebook) -> list[str]:
    """What each output says, cell by cell; of a figure its size."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                found.append("".join(output["text"]))
            else:
                found.append("".join(output["data"].get("text/plain", "")))
    return found


def differences(there: list[str], here: list[str]) -> list[str]:
    """Outputs that differ by more than rounding."""
    if len(there) != len(here):
        return [f"{len(there)} outputs against {len(here)}"]
    return [f"{a!r} against {b!r}" for a, b in zip(there, here, strict=True) if not _alike(a, b)]


def _alike(one: str, other: str) -> bool:
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    numbers = [[float(text.replace(",", "")) for text in pair] for pair in pairs]
    return all(abs(a - b) <= TOLERANCE * max(abs(a), abs(b)) + 0.011 for a, b in numbers)


def test_these_are_the_notebooks() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_committed_executed_and_plain(name: str) -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        from make_notebooks import dumps, plain
    finally:
        sys.path.pop(0)
    path = FOLDER / f"{name}.ipynb"
    text, notebook = path.read_text(encoding="utf-8"), read(path)
    assert dumps(plain(notebook)) == text
    assert len(text) < LARGEST_FILE
    assert not re.search(r"/tmp/|/root/|/home/|Traceback", text)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert len(outputs) >= 6
    for output in outputs:
        assert output["output_type"] != "error"
        assert len(json.dumps(output)) < LARGEST_OUTPUT
        assert "<script" not in json.dumps(output)


def run_again(name: str, folder: Path) -> None:
    committed = FOLDER / f"{name}.ipynb"
    (folder / committed.name).write_text(committed.read_text(encoding="utf-8"), encoding="utf-8")
    assert differences(texts(read(committed)), texts(execute(folder, name))) == []


def test_the_first_audit_runs(tmp_path: Path) -> None:
    run_again("first-audit", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own-pytorch-model", "dp-sgd-with-a-bug"])
def test_training_notebooks_run(name: str, tmp_path: Path) -> None:
    run_again(name, tmp_path)


def test_differences_are_seen() -> None:
    """Control."""
    assert differences(["epsilon 2.00, x"], ["epsilon 2.05, x"]) == []
    assert differences(["epsilon 2.00, x"], ["epsilon 2.50, x"])
    assert differences(["epsilon 2.00, x"], ["epsilon 2.00, y"])
    assert differences(["a"], ["a", "b"])


SMALL = """
import epsilometer as em
plan = em.Plan(
    population=em.datasets.load_population("directions"),
    algorithm=em.training.ClippedMean(noise=0.05, records=20),
    design=em.CrossFed(replicates=8), challenge_bases=2, dataset_size=19, seed=1,
)
def train(**more): return em.measure(plan, **more)
"""


def test_measure_shows_progress_in_a_kernel(tmp_path: Path) -> None:
    """A bar by default, none if asked for none; and a figure without pyplot is an image."""
    sources = [
        SMALL,
        "losses = train().only",
        "train(on_progress='none').only.plot()",
        "import sys; assert 'matplotlib.pyplot' not in sys.modules",
    ]
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for source in sources
    ]
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (tmp_path / "small.ipynb").write_text(json.dumps(whole), encoding="utf-8")
    made = execute(tmp_path, "small")
    (bar,) = made["cells"][1]["outputs"]
    assert "".join(bar["data"]["text/html"]) == (
        '<div><progress value="32" max="32"></progress> 32 of 32 models</div>'
    )
    (figure,) = made["cells"][2]["outputs"]
    assert set(figure["data"]) == {"image/png", "text/plain"}
