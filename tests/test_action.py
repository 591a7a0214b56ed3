"""The steps of the GitHub Action, run by bash with the environment that a runner sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
COUNTS = (
    "challenge_base,false_positives,trials_h0,false_negatives,trials_h1\n"
    "::add-mask::one,100,1000,120,1000\ntwo,60,1000,150,1000\n"
)


def step(name: str) -> dict[str, Any]:
    (found,) = (each for each in STEPS if each.get("name") == name)
    return found


class Runner:
    """As much of a runner as the steps see: a workspace, a temporary folder, and files for outputs."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.temporary = folder / "work space", folder / "temp"
        self.output, self.summary = folder / "output", folder / "summary"
        for each in (self.workspace, self.temporary):
            each.mkdir()
        (self.workspace / "counts.csv").write_text(COUNTS)
        commands = folder / "bin"
        commands.mkdir()
        tool = commands / "epsilometer"
        code = "from epsilometer.cli.main import run; raise SystemExit(run())"
        tool.write_text(f"#!{sys.executable}\n{code}\n")
        tool.chmod(0o755)
        (commands / "python").symlink_to(sys.executable)
        self.path = f"{commands}:{os.environ['PATH']}"

    def run(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        found = step(name)
        given = {key: str(value.get("default", "")) for key, value in ACTION["inputs"].items()}
        given |= {key.replace("_", "-"): value for key, value in inputs.items()}
        environment = {
            variable: given[str(value).removeprefix("${{ inputs.").removesuffix(" }}")]
            for variable, value in found["env"].items()
            if "inputs." in str(value)
        }
        script = self.temporary / "script.sh"
        script.write_text(found["run"])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace,
            env=os.environ
            | environment
            | {
                "PATH": self.path,
                "ACTION": str(ROOT),
                "RUNNER_TEMP": str(self.temporary),
                "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(self.workspace),
                "GITHUB_OUTPUT": str(self.output),
                "GITHUB_STEP_SUMMARY": str(self.summary),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def outputs(self) -> dict[str, str]:
        lines = self.output.read_text(encoding="utf-8").splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_inputs_never_reach_the_text_of_a_script() -> None:
    scripts = [each["run"] for each in STEPS if "run" in each]
    assert len(scripts) == 2
    assert all("${{" not in script for script in scripts)
    declared = {
        str(value).removeprefix("${{ inputs.").removesuffix(" }}")
        for each in STEPS
        for value in each.get("env", {}).values()
        if "inputs." in str(value)
    }
    assert declared | {"python-version", "working-directory", "artifact"} == set(ACTION["inputs"])


def test_outputs_come_from_the_step_that_sets_them() -> None:
    assert step("Audit")["id"] == "audit"
    for name, each in ACTION["outputs"].items():
        assert each["value"] == f"${{{{ steps.audit.outputs.{name} }}}}"
        assert f"{name}=" in step("Audit")["run"]


@pytest.mark.parametrize(
    ("claim", "code", "kind"),
    [("1", 3, "error"), pytest.param("12", 0, "notice", marks=pytest.mark.slow)],
)
def test_a_file_is_judged_and_annotated(runner: Runner, claim: str, code: int, kind: str) -> None:
    done = runner.run("Audit", file="counts.csv", delta="0.01", claim=claim, fail_on="fail")
    assert done.returncode == code, done.stderr
    assert f"::{kind} file=counts.csv,title=Epsilometer%3A " in done.stderr
    assert runner.outputs["exit-code"] == str(code)
    folder = Path(runner.outputs["folder"])
    wanted = {"finding.txt", "report.html", "junit.xml", "result"}
    assert {each.name for each in folder.iterdir()} == wanted
    root = ElementTree.parse(folder / "junit.xml").getroot()
    assert root.get("failures") == ("1" if code else "0")
    assert runner.summary.read_text(encoding="utf-8").startswith("### Epsilometer: counts")
    # Names in the finding are no commands of the runner.
    start, *finding, end = done.stdout.splitlines()
    token = start.removeprefix("::stop-commands::")
    assert (len(token), end) == (32, f"::{token}::")
    assert token not in "\n".join(finding)


def test_an_audit_file_is_run(runner: Runner) -> None:
    from tests.cli.small_audit import AUDIT

    (runner.workspace / "audit.toml").write_text(AUDIT + "claim = 0.01\n")
    done = runner.run("Audit", audit="audit.toml", fail_on="inconclusive")
    assert done.returncode == 3, done.stderr
    assert "::error file=audit.toml,title=" in done.stderr
    result = Path(runner.outputs["folder"]) / "result"
    assert (result / "losses.csv").exists()


HOSTILE = {"file": "$(touch pwned)", "delta": '0.01"; touch pwned; "', "claim": "`touch pwned`",
           "fail_on": "fail\ntouch pwned"}  # fmt: skip


@pytest.mark.parametrize(
    "inputs", [HOSTILE, {"file": "x.csv; touch pwned"}, {"audit": "--show-config"}]
)
def test_hostile_inputs_are_whole_arguments(runner: Runner, inputs: dict[str, str]) -> None:
    seen = runner.temporary / "seen"
    tool = Path(runner.path.partition(":")[0]) / "epsilometer"
    tool.write_text(f"#!/bin/bash\nprintf '%s\\0' \"$@\" > '{seen}'\nexit 2\n")
    assert runner.run("Audit", **inputs).returncode == 2
    arguments = seen.read_text().split("\0")
    assert set(inputs.values()) <= set(arguments)
    # An audit file never reads as an option.
    assert "--" in arguments[: arguments.index(next(iter(inputs.values())))]
    assert not list(runner.workspace.glob("pwned*"))


@pytest.mark.parametrize("inputs", [{}, {"audit": "audit.toml", "file": "counts.csv"}])
def test_missing_inputs_are_refused(runner: Runner, inputs: dict[str, str]) -> None:
    assert runner.run("Audit", **inputs).returncode == 2


@pytest.mark.parametrize("extras", ["x]; touch pwned", "$(touch pwned)", "a b", "-r file"])
def test_hostile_extras_are_refused(runner: Runner, extras: str) -> None:
    done = runner.run("Install", extras=extras)
    assert done.returncode == 2
    assert "::error title=Epsilometer::" in done.stdout
    assert not list(runner.workspace.glob("pwned*"))


TRAINING = """
class Own:
    def train(self, dataset, rng):
        return rng.normal()
    def loss(self, model, point):
        return abs(model)
algorithm = Own()
"""


@pytest.mark.slow
def test_the_hook_runs_an_audit_file_again_after_its_code_has_changed(runner: Runner) -> None:
    from tests.cli.small_audit import AUDIT

    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    text = AUDIT.replace('"clipped-mean"', '"hook_training:algorithm"')
    text = text.replace("options = { noise = 0.02, records = 50 }\n", "")
    (runner.workspace / "audit.toml").write_text(text + "claim = 50.0\n")
    source = runner.workspace / "hook_training.py"
    before = {"audit.toml", "counts.csv", "hook_training.py"}
    for code in (TRAINING, TRAINING + "# changed\n"):
        source.write_text(code)
        done = subprocess.run(
            [*hook["entry"].split(), "audit.toml"],
            cwd=runner.workspace,
            env=os.environ | {"PATH": runner.path, "TMPDIR": str(runner.temporary)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "120 models trained now, 0 reused" in done.stdout
        left = {each.name for each in runner.workspace.iterdir()} - {"__pycache__"}
        assert left == before
        assert not list(runner.temporary.glob("epsilometer-*"))


def test_input_errors_are_annotated(runner: Runner) -> None:
    done = runner.run("Audit", audit="no%\n::warning::x.toml")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    (command,) = [line for line in done.stderr.splitlines() if line.startswith("::")]
    assert command.startswith("::error title=Epsilometer::no%25 ::warning::x.toml: cannot")
