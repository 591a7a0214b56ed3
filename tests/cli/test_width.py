"""Text fits the terminal: answers, tables, warnings and errors at several widths."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from epsilometer._text import message_lines, table_lines
from tests.cli.shell import Shell

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COUNTS, SCORES = str(EXAMPLES / "counts.csv"), str(EXAMPLES / "scores.csv")

ANSWERS = [
    [],
    ["estimate", COUNTS, "--delta", "1e-2", "--claim", "2", "--check-model"],
    ["estimate", SCORES, "--delta", "1e-1,1e-2,1e-3", "--claim", "2"],
    ["prove", COUNTS, "--delta", "1e-2", "--claim", "2"],
    ["compare", COUNTS, "--delta", "1e-2"],
    ["compare", SCORES, "--delta", "0"],
]


@pytest.mark.parametrize("arguments", ANSWERS, ids=lambda each: " ".join(each[:1] + each[2:]))
@pytest.mark.parametrize("columns", [60, 100])
def test_answers_fit(
    arguments: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = shell.said(*arguments).splitlines()
    # A command to copy is never broken.
    lines = [line for line in said if not line.startswith("  epsilometer")]
    assert max(map(len, lines)) <= columns
    assert max(map(len, lines)) > columns - 25  # and the room is used


def test_a_table_that_is_too_wide_keeps_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    head = ("a long name of the rows", *(f"column number {k}" for k in range(8)))
    rows = [head, *((f"row {r}", *(f"{r}{k}.1234" for k in range(8))) for r in range(3))]
    lines = table_lines(rows)
    assert max(map(len, lines)) <= 40
    words = " ".join(lines).split()
    assert all(cell in words for row in rows[1:] for cell in row[1:])
    monkeypatch.setenv("COLUMNS", "100")
    assert len(table_lines([row[:5] for row in rows])) == 4


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_errors_are_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """And stay on one line elsewhere: a log or a program reads them line by line."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = message_lines("word " * 30, Terminal())
    assert len(lines) == 3
    assert max(map(len, lines)) < 60
    assert message_lines("word " * 30, io.StringIO()) == ["word " * 30]


def test_errors_are_one_line_without_a_terminal(shell: Shell) -> None:
    error = shell("estimate", COUNTS, code=2)[1]
    assert len(error.splitlines()) == 1
    assert error.startswith("epsilometer: expected --delta")
