"""How far one audit goes through the package: files, functions, depth, calls of views into engines.

    python benchmarks/audit_path.py NAME

audits three bases of the clipped mean, prints the numbers, and keeps them in audit_path.json under NAME.
Run it with PYTHONPATH at another version of the package to compare the two; a version without
``em.audit`` is measured through its command.  Imports are done before.  Functions are those with a name
of their own, and a view is any module of ``report/`` or ``display/``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import epsilometer as em

RESULTS = Path(__file__).with_suffix(".json")
PACKAGE = os.path.dirname(em.__file__) + os.sep
VIEWS = ("report", "display")
COMPUTING = ("inference", "engines", "posteriors", "checks", "proofs", "baselines", "judgement")

AUDIT = """
[population]
source = "digits"
[audit]
challenge_bases = 3
replicates = 20
dataset_size = 100
seed = 1
[algorithm]
object = "clipped-mean"
options = { noise = 0.02, records = 100 }
[attack]
statistic = "loss"
[estimate]
delta = 1e-3
claim = 1.0
"""


class Passed:
    """What is passed between two calls of :func:`sys.setprofile`."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.functions: set[tuple[str, str]] = set()
        self.deepest = 0
        self.from_views: Counter[str] = Counter()
        self._stack: list[str] = []

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        """Count calls of functions of the package."""
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        if event == "return":
            del self._stack[-1:]
        elif event == "call":
            place = code.co_filename.removeprefix(PACKAGE)
            room = place.split(os.sep)[0]
            self.files.add(place)
            self.functions.add((place, code.co_qualname))
            if self._stack and self._stack[-1] in VIEWS and room in COMPUTING:
                self.from_views[room] += 1
            self._stack.append(room)
            self.deepest = max(self.deepest, len(self._stack))

    def numbers(self) -> dict[str, Any]:
        """The counts, as plain values."""
        return {
            "files": len(self.files),
            "functions": len(self.functions),
            "depth": self.deepest,
            "calls_from_views": dict(sorted(self.from_views.items())),
        }


def measured(call: Callable[[], object]) -> dict[str, Any]:
    """The path of a call."""
    path = Passed()
    sys.setprofile(path.follow)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            call()
    finally:
        sys.setprofile(None)
    return path.numbers()


def paths() -> dict[str, Any]:
    """The audit alone, and with its folder and page."""
    from epsilometer.cli.main import run

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("audit.toml").write_text(AUDIT, encoding="utf-8")

        def command(*options: str) -> Callable[[], object]:
            return lambda: run(["audit", "audit.toml", "--store", "none", *options])

        written = ("--output", "result", "--report", "page.html", "--force")
        measured(command(*written))  # imports and compilation
        numbers = {
            "command": measured(command()),
            "command with folder and page": measured(command(*written)),
        }
        if callable(getattr(em, "audit", None)):
            numbers["em.audit"] = measured(lambda: em.audit("audit.toml", store=None).verdict)
        return numbers


def main(name: str) -> None:
    """Measure, print and keep the numbers."""
    folder = Path.cwd()
    numbers = paths()
    os.chdir(folder)
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    known[name] = numbers
    RESULTS.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main(sys.argv[1])
