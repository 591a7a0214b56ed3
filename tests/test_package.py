"""The house rules: light imports, one direction of dependencies, README code that runs.

The code of the documentation runs in `docs/test_pages.py`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "epsilometer"
MAY_IMPORT = {
    "model": set(),
    "baselines": {"model"},
    "proofs": {"model", "baselines"},
    "inference": {"model", "proofs", "baselines"},
    "calibration": {"model", "proofs", "inference", "baselines", "attacks"},
    "planning": {"model", "proofs", "inference", "baselines"},
    "report": {"model", "proofs", "inference", "baselines", "calibration", "attacks", "planning"},
    "attacks": {"model"},
    "measurement": {"model", "attacks"},
    "datasets": {"model", "attacks", "measurement"},
    "training": {"model", "attacks", "measurement"},
    "audit": {"model", "proofs", "inference", "attacks", "measurement", "datasets", "training"},
    "display": {
        "audit",
        "model",
        "proofs",
        "inference",
        "calibration",
        "planning",
        "report",
        "attacks",
        "measurement",
    },
    "cli": {
        "audit",
        "model",
        "proofs",
        "inference",
        "baselines",
        "calibration",
        "planning",
        "report",
        "attacks",
        "measurement",
        "datasets",
        "training",
    },
}
"""Inference and measurement never meet below `audit`: error counts are all that passes between them."""


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_every_folder_has_its_rule() -> None:
    found = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert found == set(MAY_IMPORT)


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_point_one_way(folder: str) -> None:
    for path in (SOURCE / folder).rglob("*.py"):
        for name in _imports(path):
            top, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if top == "epsilometer" and other in MAY_IMPORT:
                assert other in MAY_IMPORT[folder] | {folder}, (path, name)


def test_the_shell_asks_objects_and_not_their_classes() -> None:
    """A prior, a likelihood, a dependence and a posterior say of themselves what words need."""
    files = [*(SOURCE / "cli").glob("*.py"), *(SOURCE / "report").glob("*.py")]
    assert len(files) > 20
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith(("epsilometer.model", "epsilometer.inference"))
            for alias in node.names
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "isinstance":
                asked = {name.id for name in ast.walk(call.args[1]) if isinstance(name, ast.Name)}
                assert not asked & classes, (path, ast.unparse(call))


def test_every_public_name_is_there() -> None:
    import epsilometer

    for name in epsilometer.__all__:
        assert getattr(epsilometer, name) is not None


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ["numpy", "numba", "xarray", "arviz_stats", "matplotlib", "scipy", "pydantic"]
    heavy += ["dask", "jinja2"]
    code = f"import sys, epsilometer; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_algorithms_can_be_named_without_the_libraries_they_train_with() -> None:
    heavy = ("torch", "opacus", "sklearn")
    names = [f"epsilometer.training.{path.stem}" for path in (SOURCE / "training").glob("*.py")]
    assert "epsilometer.training.dp_sgd" in names
    lines = [f"import {name}" for name in names if not name.endswith("__init__")]
    lines.append(f"import sys; print([m for m in {heavy} if m in sys.modules])")
    code = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_readme_python_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    script = "\n".join(blocks) + "\nprint(posterior.summary(), verdict.label)\n"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert "estimated (algorithm)" in done.stdout
    assert "INCONCLUSIVE" in done.stdout


def test_readme_fits_two_screens() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120


def test_readme_shows_the_audit_that_was_run() -> None:
    """The output between the marks is what `docs/make_readme.py` puts there."""
    from tests.docs.scripts import script

    make_readme = script("make_readme")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    printed = (ROOT / "docs" / "readme" / "audit.txt").read_text(encoding="utf-8")
    assert make_readme.with_output(text, make_readme.excerpt(printed)) == text
    other = printed.replace("proven to be at least", "proven to be at most")
    assert make_readme.with_output(text, make_readme.excerpt(other)) != text


def test_names_in_the_documentation_are_public() -> None:
    import epsilometer

    for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"):
        named = set(re.findall(r"\bem\.([A-Za-z_]\w*)", page.read_text(encoding="utf-8")))
        assert named <= set(epsilometer.__all__), page


def test_readme_has_the_command_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("<!-- test command -->")[1].split("<!-- end -->")[0]
    assert len(re.findall(r"^python3 .*pytest", block, flags=re.MULTILINE)) == 1


def test_renamed_names_still_work_and_warn() -> None:
    import epsilometer as em

    assert len(em._RENAMED) > 10
    for old, new in em._RENAMED.items():
        assert old not in em.__all__
        with pytest.warns(DeprecationWarning, match=f"use epsilometer.{new}"):
            found = getattr(em, old)
        assert found is getattr(em, new)


def test_renamed_properties_still_work_and_warn() -> None:
    import epsilometer as em

    for each in (
        em.priors.HalfNormal(scale=1.0),
        em.likelihoods.IndependentBinomial(),
        em.likelihoods.PooledGroups(),
    ):
        with pytest.warns(DeprecationWarning, match=r"use \w+.description"):
            found = each.words
        assert found == each.description
