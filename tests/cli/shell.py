"""The command line inside the tests' own process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from epsilometer.cli.main import run


@dataclass(frozen=True)
class Shell:
    """Runs commands and returns what they print; arguments need not be text."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object, code: int = 0) -> tuple[str, str]:
        """Standard output and standard error of a command that ends with this code."""
        self.capsys.readouterr()
        assert run(list(map(str, arguments))) == code
        out, err = self.capsys.readouterr()
        return out, err

    def said(self, *arguments: object, code: int = 0) -> str:
        """Standard output."""
        return self(*arguments, code=code)[0]

    def json(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        """What the command prints with ``--json``."""
        found: dict[str, Any] = json.loads(self.said(*arguments, "--json", code=code))
        return found

    def refused(self, *arguments: object) -> str:
        """The one line with which a command refuses, after nothing but warnings."""
        out, err = self(*arguments, code=2)
        assert out == ""
        *warned, said = err.splitlines()
        assert all(line.startswith("epsilometer: warning: ") for line in warned), err
        assert said.startswith("epsilometer: ")
        return said
