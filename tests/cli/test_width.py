"""Text fits the terminal: answers, tables, warnings and errors at several widths."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from epsilometer._text import table_lines
from epsilometer.cli.main import run

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
    arguments: list[str],
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(arguments) == 0
    # A command to copy is never broken.
    lines = [
        line
        for line in capsys.readouterr().out.splitlines()
        if not line.startswith("  epsilometer")
    ]
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


def on_terminal(arguments: list[str], columns: int) -> str:
    """What the real program writes to a terminal of that width."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    program = subprocess.Popen(
        [sys.executable, "-m", "epsilometer", *arguments], stdout=slave, stderr=slave, stdin=slave
    )
    os.close(slave)
    written = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    os.close(master)
    program.wait(timeout=60)
    return written.decode().replace("\r\n", "\n")


def test_errors_are_wrapped_on_a_terminal() -> None:
    text = on_terminal(["estimate", COUNTS], 60)
    assert text.startswith("epsilometer: expected --delta")
    assert max(map(len, text.splitlines())) <= 60
    assert len(text.splitlines()) == 2


def test_errors_stay_on_one_line_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log or a program reads them line by line."""
    monkeypatch.setenv("COLUMNS", "60")
    assert run(["estimate", COUNTS]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert len(error) > 60
