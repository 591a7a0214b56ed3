"""Gate options of the three commands: files, annotations, and agreement with the exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.shell import Shell
from tests.cli.small_audit import AUDIT
from tests.cli.test_report import COUNTS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "counts.csv").write_text(COUNTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path


def outcome(path: Path) -> str:
    """What a JUnit file says of its one test case."""
    (case,) = ElementTree.parse(path).getroot().iter("testcase")
    return next((each.tag for each in case if each.tag != "system-out"), "passed")


@pytest.mark.parametrize(
    ("claim", "fail_on", "code", "found", "kind"),
    [
        ("1", "proven", 3, "failure", "error"),
        ("2.9", "inconclusive", 3, "failure", "error"),
        ("12", "inconclusive", 0, "passed", "notice"),
    ],
)
def test_estimate_tells_all_gates_the_same(
    folder: Path, shell: Shell, claim: str, fail_on: str, code: int, found: str, kind: str
) -> None:
    arguments = ["estimate", "counts.csv", "--delta", "0.01", "--claim", claim, "--json"]
    arguments += ["--fail-on", fail_on, "--junit", "j.xml"]
    out, err = shell(*arguments, "--annotate", "github", code=code)
    label = json.loads(out)["verdict"]["outcome"]
    assert outcome(folder / "j.xml") == found
    (line,) = (line for line in err.splitlines() if line.startswith("::"))
    assert line.startswith(f"::{kind} file=counts.csv,title=Epsilometer%3A {label}")
    assert label in (folder / "summary.md").read_text(encoding="utf-8")


def test_annotations_name_files_from_the_workspace(
    folder: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "inner").mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    monkeypatch.chdir(folder / "inner")
    arguments = ["estimate", "../counts.csv", "--delta", "0.01", "--annotate", "github"]
    assert "::notice file=counts.csv,title=Epsilometer::" in shell(*arguments)[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit", "missing.toml"], "missing.toml: cannot be read"),
        (["estimate", "counts.csv", "--delta", "0.1", "--fail-on", "fail"], "--fail-on fail needs"),
        (["report", "counts.csv", "--unknown"], "No such option: --unknown"),
    ],
)
@pytest.mark.parametrize("annotate", [["--annotate", "github"], ["--annotate=github"], []])
def test_input_errors_are_annotated_if_asked(
    folder: Path, shell: Shell, arguments: list[str], words: str, annotate: list[str]
) -> None:
    message, *commands = shell(*arguments, *annotate, code=2)[1].splitlines()
    assert message.startswith("epsilometer: ")
    assert words in message
    assert len(commands) == bool(annotate)
    assert all(each.startswith("::error title=Epsilometer::") for each in commands)
    assert all(words in each for each in commands)


def test_nothing_is_annotated_unless_asked(
    folder: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::" not in shell("estimate", "counts.csv", "--delta", "0.01", "--claim", "1")[1]
    assert not (folder / "summary.md").exists()


def test_audit_with_variants(folder: Path, shell: Shell) -> None:
    text = AUDIT.replace("noise = 0.02", "noise = 0.0")
    text = text.replace("[attack]", "output_perturbation = [0.02, 2.0]\n[attack]")
    (folder / "audit.toml").write_text(text)
    arguments = ["audit", "audit.toml", "--claim", "0.05", "--fail-on", "inconclusive"]
    arguments += ["--junit", "j.xml", "--annotate", "github"]
    err = shell(*arguments, code=3)[1]
    cases = list(ElementTree.parse(folder / "j.xml").getroot().iter("testcase"))
    assert [case.get("classname") for case in cases] == ["epsilometer.0.02", "epsilometer.2.0"]
    assert err.count(" file=audit.toml,title=") == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--junit", "x.html"], "x.html: expected a file name for --junit that ends in .xml"),
        (["--junit", "none/x.xml"], "the folder for --junit does not exist"),
        (["--annotate", "gitlab"], "annotate"),
    ],
)
def test_wrong_outputs_are_refused_before_any_work(
    folder: Path, shell: Shell, options: list[str], words: str
) -> None:
    assert words in shell.refused("estimate", "counts.csv", "--delta", "0.01", *options)
    assert sorted(os.listdir(folder)) == ["counts.csv"]


def test_only_files_of_earlier_runs_are_replaced(folder: Path, shell: Shell) -> None:
    arguments = ["estimate", "counts.csv", "--delta", "0.01", "--junit", "j.xml"]
    shell(*arguments)
    shell(*arguments)
    (folder / "j.xml").write_text("<xml>somebody's own</xml>")
    assert "j.xml: exists already" in shell.refused(*arguments)
    assert "own" in (folder / "j.xml").read_text()
    shell(*arguments, "--force")
