"""What holds for all tests."""

from __future__ import annotations

import csv
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.shell import Shell

# Workers share the cores; threads of linear algebra on top of them only get in the way.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Text is printed in 80 columns, unless a test says otherwise.
os.environ.pop("COLUMNS", None)

# A shell that starts the tests in the background has them ignore interrupts, and so would every process
# that they start; tests of interrupts need them as a terminal has them.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long start first, so that the workers end together (``tasks.py durations``)."""
    path = Path(__file__).with_name("durations.csv")
    with path.open(newline="", encoding="utf-8") as file:
        seconds = {row["file"]: float(row["seconds"]) for row in csv.DictReader(file)}
    root = path.parent.parent
    items.sort(key=lambda item: -seconds.get(item.path.relative_to(root).as_posix(), 0.0))


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line in this process."""
    from tests.cli.shell import Shell  # after the environment is set

    return Shell(capsys)


@pytest.fixture(autouse=True)
def errors_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every error of ours that is raised while a test runs is one line."""
    from epsilometer.errors import EpsilometerError  # after the environment is set

    def made(error: EpsilometerError, *words: object) -> None:
        assert "\n" not in "".join(map(str, words)), words
        Exception.__init__(error, *words)

    monkeypatch.setattr(EpsilometerError, "__init__", made)
