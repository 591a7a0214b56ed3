"""The commands that contributors use, with nothing but Python: ``python tasks.py test``.

Arguments after the name go to the tool, such as ``python tasks.py test -k junit``.
A Makefile would need make, which Windows and small images lack; nox would install everything again.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent
DURATIONS = ROOT / "tests" / "durations.csv"

PYTEST = ("pytest", "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-q")
#: What each is for, and the modules that it runs.
TASKS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "test": (
        "run the tests, as CI does; prints the slowest 30",
        ((*PYTEST, "--durations=30"),),
    ),
    "durations": ("time the tests of every file into tests/durations.csv", ()),
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


def durations(arguments: list[str]) -> int:
    """Run the tests, and keep the seconds of each file: they decide which files start first."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.xml"
        command = [*PYTEST, "--durations=30", f"--junit-xml={record}", *arguments]
        code = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode
        seconds: Counter[str] = Counter()
        for case in ElementTree.parse(record).iter("testcase"):
            seconds[_file(case.get("classname", ""))] += float(case.get("time", 0))
    with DURATIONS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["file", "seconds"])
        writer.writerows((name, f"{total:.1f}") for name, total in seconds.most_common())
    return code


def _file(dotted: str) -> str:
    """The file of a test that the record names by module and, perhaps, class."""
    while dotted and not (path := ROOT / f"{dotted.replace('.', '/')}.py").exists():
        dotted = dotted.rpartition(".")[0]
    return path.relative_to(ROOT).as_posix() if dotted else ""


def main(arguments: list[str]) -> int:
    """Run a task and return its exit code."""
    if not arguments or arguments[0] not in TASKS:
        print("usage: python tasks.py TASK [ARGUMENT ...]\n")
        for name, (purpose, _) in TASKS.items():
            print(f"  {name:<11}{purpose}")
        return 0 if arguments in ([], ["-h"], ["--help"]) else 2
    name, *rest = arguments
    if name == "durations":
        return durations(rest)
    for command in TASKS[name][1]:
        code = subprocess.run([sys.executable, "-m", *command, *rest], cwd=ROOT, check=False)
        if code.returncode:
            return code.returncode
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
