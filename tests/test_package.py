"""The house rules: light imports, one direction of dependencies, README code that runs.

The code of the documentation runs in `docs/test_pages.py`.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_house import MODULES
from tests.test_house import _cycles as cycles
from tests.test_house import _imported as imported

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "epsilometer"
#: Rooms that never meet: scores and error counts are all that passes from measurement to engines.
APART = {
    "engines": {"attacks", "measurement", "training", "datasets"},
    "measurement": {"engines", "judgement", "proofs"},
    "judgement": {"attacks", "measurement", "report"},
    "report": {"measurement", "auditing", "cli"},
}


def _folders() -> dict[str, set[str]]:
    """The folders that each folder imports; modules beside them count as folders, private ones not."""
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        folder = _folder(name)
        if folder:
            others = {_folder(other) for other in imported(path)}
            graph[folder] = graph.get(folder, set()) | others - {"", folder}
    return graph


def _folder(module: str) -> str:
    """The folder below the package, without private modules."""
    name = [*module.split("."), ""][1]
    return "" if name.startswith("_") else name


def test_folders_do_not_import_each_other_both_ways() -> None:
    folders = _folders()
    assert {"api", "cli", "engines", "judgement", "report"} <= set(folders)
    assert cycles(folders) == []


@pytest.mark.parametrize("folder", APART)
def test_rooms_that_never_meet(folder: str) -> None:
    assert _folders()[folder] & APART[folder] == set()


def test_the_shell_asks_objects_and_not_their_classes() -> None:
    """A prior, a likelihood, a dependence and a posterior say of themselves what words need."""
    files = [*(SOURCE / "cli").glob("*.py"), *(SOURCE / "report" / "text").glob("*.py")]
    assert len(files) > 20
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith(("epsilometer.model", "epsilometer.posteriors"))
            for alias in node.names
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "isinstance":
                asked = {name.id for name in ast.walk(call.args[1]) if isinstance(name, ast.Name)}
                assert not asked & classes, (path, ast.unparse(call))


def test_every_public_name_is_there() -> None:
    from tests.docs.scripts import script

    public = script("public_names").public()
    assert len(public["epsilometer"]) <= 40
    for module, names in public.items():
        for name in names:
            assert getattr(import_module(module), name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    import epsilometer

    for module in (epsilometer, epsilometer.families):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            getattr(module, "nothing")  # noqa: B009 - type checkers know that it is not there


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


#: What README's reader has: records, a module and a loop.
HELD = """
import torch

rng = __import__("numpy").random.default_rng(1)
features, labels = rng.normal(size=(120, 4)).astype("float32"), rng.integers(3, size=120)


def make_module():
    return torch.nn.Linear(4, 3)


def fit(module, dataset):
    descent = torch.optim.SGD(module.parameters(), lr=1.0)
    for _ in range(5):
        descent.zero_grad()
        loss = torch.nn.functional.cross_entropy
        loss(module(torch.tensor(dataset.features)), torch.tensor(dataset.labels)).backward()
        descent.step()
"""


@pytest.mark.slow
def test_readme_python_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 3
    assert all(len(block.splitlines()) <= 5 for block in blocks)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    code = "\n".join([HELD, *blocks, "print(posterior.summary(), verdict.label, result)"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "estimated (algorithm)" in done.stdout
    assert "INCONCLUSIVE" in done.stdout
    assert (tmp_path / "digits" / "summary.json").is_file()


def test_readme_fits_two_screens() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 111


def test_readme_shows_the_audit_that_was_run() -> None:
    """The output between the marks is what `docs/make_readme.py` puts there."""
    from tests.docs.scripts import script

    make_readme = script("make_readme")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    printed = (ROOT / "docs" / "readme" / "audit.txt").read_text(encoding="utf-8")
    assert make_readme.with_output(text, make_readme.excerpt(printed)) == text
    other = printed.replace("epsilon is at least", "epsilon is at most")
    assert make_readme.with_output(text, make_readme.excerpt(other)) != text


def test_names_in_the_documentation_are_public() -> None:
    from tests.docs.scripts import script

    public = {name: set(names) for name, names in script("public_names").public().items()}
    named = re.compile(r"\bem\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?")
    for page in (*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")):
        if page.name == "CHANGELOG.md":  # it also has the names of earlier versions
            continue
        for first, second in named.findall(page.read_text(encoding="utf-8")):
            submodule = public.get(f"epsilometer.{first}")
            known = (
                first in public["epsilometer"] if submodule is None else second in submodule | {""}
            )
            assert known, (page, first, second)


def test_readme_has_the_command_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("<!-- test command -->")[1].split("<!-- end -->")[0]
    assert len(re.findall(r"^python3 .*pytest", block, flags=re.MULTILINE)) == 1
