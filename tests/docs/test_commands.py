"""Commands in the pages exist: subcommands, options, and how many arguments they take.

Those under ``<!-- runs -->`` are run for real by `test_pages.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from epsilometer.cli.main import app
from tests.docs.scripts import ROOT, script

run_pages = script("run_pages")
READMES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("examples/*/README.md")),
    ROOT / "reproduction/README.md",
]
PAGES = [*run_pages.pages(), *READMES]
OPERATORS = "|&;<>()"
PROGRAM: Any = typer.main.get_command(app)

# typer does not name the base of its errors in public.
Misuse: type[Exception] = typer.BadParameter.__mro__[2]


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of every ``epsilometer`` in the shell blocks of a page."""
    for block in run_pages.blocks(text):
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                yield from in_line(line)


def in_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=OPERATORS)
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if set(token) <= set(OPERATORS):
            if words and Path(words[0]).name == "epsilometer":
                yield words[1:]
            words = []
        else:
            words.append(token)


def parse(arguments: list[str]) -> None:
    """Parse as the program would, and do nothing; raises what the program would word."""
    command = PROGRAM
    context = command.context_class(command, info_name="epsilometer")
    rest = list(arguments)
    while rest and hasattr(command, "commands"):
        name = rest.pop(0)
        command = command.commands[name]
        context = type(context)(command, info_name=name, parent=context)
    command.make_context(context.info_name, rest, parent=context.parent)


def test_commands_in_shell_blocks_can_be_parsed() -> None:
    seen = 0
    for page in PAGES:
        for arguments in commands(page.read_text(encoding="utf-8")):
            seen += 1
            try:
                parse(arguments)
            except (KeyError, Misuse) as error:
                pytest.fail(f"{page}: epsilometer {shlex.join(arguments)}: {error!r}")
    assert seen > 40


def known(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts} | {"--help"}


def test_commands_named_in_sentences_exist() -> None:
    seen = 0
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for words in re.findall(r"`epsilometer ([^`]*)`", text):
            command, names = PROGRAM, words.split()
            while names and hasattr(command, "commands") and names[0].islower():
                command = command.commands.get(names.pop(0))
                assert command is not None, (page, words)
            options = {name for name in names if name.startswith("--")}
            assert command is PROGRAM or options <= known(command), (page, words)
            seen += 1
    assert seen > 10


@pytest.mark.parametrize(
    "line",
    [
        "epsilometer estmate counts.csv --delta 1e-3",
        "epsilometer estimate counts.csv --delt 1e-3 --json",
        "epsilometer estimate",
        "epsilometer audit a.toml --workers many",
        "cat a | epsilometer estimate - -x",
    ],
)
def test_wrong_commands_are_seen(line: str) -> None:
    (arguments,) = in_line(line)
    with pytest.raises((KeyError, Misuse)):
        parse(arguments)
