"""Files around the package say the same: versions, Python versions, floors, and names of files."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import epsilometer

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
YAML_FILES = [
    *(ROOT / ".github").rglob("*.yml"),
    ROOT / "action.yml",
    ROOT / ".pre-commit-config.yaml",
    ROOT / ".pre-commit-hooks.yaml",
    ROOT / "CITATION.cff",
]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def load(name: str) -> Any:
    return yaml.safe_load(read(name))


# --- versions ---------------------------------------------------------------------------------


def test_one_version_and_its_date() -> None:
    citation = load("CITATION.cff")
    found = re.search(r"^## (\d+\.\d+\.\d+) — (\d{4}-\d{2}-\d{2})$", read("CHANGELOG.md"), re.M)
    assert found, "CHANGELOG.md has no dated release"
    assert found[1] == PROJECT["version"] == str(citation["version"])
    assert found[2] == str(citation["date-released"])
    assert citation["license"] == PROJECT["license"]


def test_the_package_knows_its_version() -> None:
    from importlib.metadata import version

    assert epsilometer.__version__ == version("epsilometer")


def test_every_python_that_is_stated_is_tested() -> None:
    stated = {
        each.rpartition(" ")[2]
        for each in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", each)
    }
    jobs = load(".github/workflows/tests.yml")["jobs"]
    for name in ("tests", "package"):
        assert set(jobs[name]["strategy"]["matrix"]["python-version"]) == stated, name
    oldest = min(stated, key=lambda each: int(each.partition(".")[2]))
    assert PROJECT["requires-python"] == f">={oldest}"
    steps = jobs["oldest-dependencies"]["steps"]
    (used,) = (each["with"] for each in steps if "setup-python" in each.get("uses", ""))
    assert used["python-version"] == oldest


def test_constraints_are_the_floors() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "oldest.py"))["constraints"]()
    assert read("constraints-oldest.txt") == made, (
        "run: python .ci/oldest.py > constraints-oldest.txt"
    )
    assert "constraints-oldest.txt" in read(".github/workflows/tests.yml")


# --- commands and names -----------------------------------------------------------------------


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_can_be_read(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_issue_forms_have_what_github_requires() -> None:
    forms = [each for each in YAML_FILES if each.parent.name == "ISSUE_TEMPLATE"]
    assert len(forms) == 4
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.name == "config.yml":
            continue
        assert {"name", "description", "body"} <= set(form)
        marks = [each["id"] for each in form["body"] if each["type"] != "markdown"]
        assert len(set(marks)) == len(marks) > 0


def test_tasks_run_what_the_readme_says() -> None:
    tasks = runpy.run_path(str(ROOT / "tasks.py"))["TASKS"]
    assert list(tasks) == ["test", "durations", "lint", "types", "docs", "fix"]
    ((*command, slowest),) = tasks["test"][1]
    assert slowest == "--durations=30"
    block = read("README.md").split("<!-- test command -->")[1].split("<!-- end -->")[0]
    assert f".venv/bin/{' '.join(command)}\n" in block
    for name in tasks:
        assert f"`python tasks.py {name}`" in read("CONTRIBUTING.md")


def test_tasks_pass_arguments_on() -> None:
    done = subprocess.run(
        [sys.executable, "tasks.py", "types", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("mypy ")
    wrong = [sys.executable, "tasks.py", "tset"]
    refused = subprocess.run(wrong, cwd=ROOT, capture_output=True, check=False)
    assert refused.returncode == 2


def test_hooks_run_tools_that_are_installed() -> None:
    (local,) = load(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    tools = [hook["entry"].split()[0] for hook in local["hooks"]]
    assert tools == ["ruff", "ruff", "mypy"]
    assert all(hook["language"] == "system" for hook in local["hooks"])
    for tool in set(tools):
        assert any(each.startswith(tool) for each in PROJECT["optional-dependencies"]["dev"])


def named_files(text: str) -> set[str]:
    """Paths in back quotes, and targets of links."""
    quoted = re.findall(
        r"`((?:src|tests|docs|examples|benchmarks|studies|reproduction|\.ci)/[\w./-]*)`", text
    )
    single = re.findall(r"`([\w.-]+\.(?:py|toml|txt|md|cff))`", text)
    links = re.findall(r"\]\(([\w./-]+)\)", text)
    return {*quoted, *single, *links}


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_named_files_exist(name: str) -> None:
    found = named_files(read(name))
    assert found
    if name == "ARCHITECTURE.md":  # its back quotes are relative to the package
        found = set(re.findall(r"\]\(([\w./-]+)\)", read(name)))
    missing = [each for each in found if not (ROOT / each).exists()]
    written = {"finding.txt", "summary.json", "docs/_build"}  # by commands
    assert set(missing) <= written, missing


def test_names_in_the_recipes_exist() -> None:
    """Every class or constant that a recipe names is defined in a file that the recipe names."""
    recipes = read("CONTRIBUTING.md").split("## Recipes")[1].split("## Release")[0]
    for recipe in recipes.split("### ")[1:]:
        files = [ROOT / each for each in named_files(recipe) if (ROOT / each).suffix == ".py"]
        text = "\n".join(each.read_text(encoding="utf-8") for each in files)
        named = re.findall(r"`([A-Z]\w+|[a-z]+_\w+)(?:\(.*?\))?`", recipe)
        assert named, recipe
        for each in named:
            assert re.search(rf"\b{each}\b", text), (recipe.splitlines()[0], each)


def test_citation_names_the_paper() -> None:
    (paper,) = load("CITATION.cff")["references"]
    page = " ".join(read("docs/explanation/model.md").split())
    names = ", ".join(each["family-names"] for each in paper["authors"])
    assert f"({names})" in page
    assert paper["title"] in page


def test_workflows_use_no_third_party() -> None:
    for path in (*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "action.yml"):
        used = re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
        assert used
        assert all(each == "./" or each.startswith("actions/") for each in used), used
    assert json.dumps(load(".github/workflows/tests.yml")["permissions"]) == '{"contents": "read"}'
