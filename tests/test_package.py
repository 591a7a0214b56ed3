"""The house rules: light imports, one direction of dependencies, README code that runs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "epsilometer"
ORDER = ("model", "inference", "report", "cli")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("folder", ORDER)
def test_imports_point_one_way(folder: str) -> None:
    later = ORDER[ORDER.index(folder) + 1 :]
    for path in (SOURCE / folder).glob("*.py"):
        for name in _imports(path):
            assert not any(name.startswith(f"epsilometer.{other}") for other in later), (path, name)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, epsilometer;"
        "print([m for m in ('numba','xarray','arviz_stats','matplotlib','scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_readme_python_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "counts.csv").write_bytes(
        (ROOT / "examples" / "counts.csv").read_bytes()
    )
    script = "\n".join(blocks) + "\nassert same.median('epsilon') == middle\n"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_readme_has_the_command_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("<!-- test command -->")[1].split("<!-- end -->")[0]
    assert len(re.findall(r"^python3 .*pytest", block, flags=re.MULTILINE)) == 1
