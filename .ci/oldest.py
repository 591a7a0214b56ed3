"""Write the oldest supported version of each dependency as constraints for pip.

    python .ci/oldest.py > constraints-oldest.txt

The floors are those of `pyproject.toml`; the extras for development and documentation have none to test.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = ("dev", "docs")


def constraints() -> str:
    """One line for each dependency of the package and its extras, in the order of `pyproject.toml`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for name, extra in project["optional-dependencies"].items():
        wanted += [] if name in LEFT_OUT else extra
    lines = ["# Made by .ci/oldest.py from the floors in pyproject.toml; do not edit."]
    for requirement in wanted:
        found = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)", requirement)
        assert found, f"{requirement}: expected NAME>=VERSION"
        lines.append(f"{found[1]}=={found[2]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(constraints(), end="")
