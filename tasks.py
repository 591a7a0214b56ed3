"""The commands that contributors use, with nothing but Python: ``python tasks.py test``.

Arguments after the name go to the tool, such as ``python tasks.py test -k badge``.
A Makefile would need make, which Windows and small images lack; nox would install everything again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent

TASKS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "test": (
        "run the tests, as CI does",
        (("pytest", "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-q"),),
    ),
    "lint": (
        "check style and format",
        (("ruff", "check", "."), ("ruff", "format", "--check", ".")),
    ),
    "types": ("check types", (("mypy",),)),
    "docs": (
        "build the documentation site into docs/_build",
        (("sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", "docs/_build"),),
    ),
    "fix": ("fix style and format", (("ruff", "check", "--fix", "."), ("ruff", "format", "."))),
}
"""What each is for, and the modules that it runs."""


def main(arguments: list[str]) -> int:
    """Run a task and return its exit code."""
    if not arguments or arguments[0] not in TASKS:
        print("usage: python tasks.py TASK [ARGUMENT ...]\n")
        for name, (purpose, _) in TASKS.items():
            print(f"  {name:<8}{purpose}")
        return 0 if arguments in ([], ["-h"], ["--help"]) else 2
    name, *rest = arguments
    for command in TASKS[name][1]:
        code = subprocess.run([sys.executable, "-m", *command, *rest], cwd=ROOT, check=False)
        if code.returncode:
            return code.returncode
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
