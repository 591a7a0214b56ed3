"""Gate options of the three commands: files, annotations, and agreement with the exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from epsilometer.cli.main import run
from tests.cli.small_audit import AUDIT

COUNTS = (
    "challenge_base,false_positives,trials_h0,false_negatives,trials_h1\n"
    "one,100,1000,120,1000\ntwo,60,1000,150,1000\n"
)


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
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    claim: str,
    fail_on: str,
    code: int,
    found: str,
    kind: str,
) -> None:
    arguments = ["estimate", "counts.csv", "--delta", "0.01", "--claim", claim, "--json"]
    arguments += ["--fail-on", fail_on, "--junit", "j.xml", "--badge", "b.svg"]
    assert run([*arguments, "--annotate", "github"]) == code
    printed = capsys.readouterr()
    label = json.loads(printed.out)["verdict"]["outcome"]
    assert outcome(folder / "j.xml") == found
    assert f"ε ≤ {claim} at δ=0.01: {label}" in (folder / "b.svg").read_text(encoding="utf-8")
    (line,) = (line for line in printed.err.splitlines() if line.startswith("::"))
    assert line.startswith(f"::{kind} file=counts.csv,title=Epsilometer%3A {label}")
    assert label in (folder / "summary.md").read_text(encoding="utf-8")


def test_annotations_name_files_from_the_workspace(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "inner").mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    monkeypatch.chdir(folder / "inner")
    arguments = ["estimate", "../counts.csv", "--delta", "0.01", "--annotate", "github"]
    assert run(arguments) == 0
    assert "::notice file=counts.csv,title=Epsilometer::" in capsys.readouterr().err


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
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
    annotate: list[str],
) -> None:
    assert run([*arguments, *annotate]) == 2
    message, *commands = capsys.readouterr().err.splitlines()
    assert message.startswith("epsilometer: ")
    assert words in message
    assert len(commands) == bool(annotate)
    assert all(each.startswith("::error title=Epsilometer::") for each in commands)
    assert all(words in each for each in commands)


def test_nothing_is_annotated_unless_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert run(["estimate", "counts.csv", "--delta", "0.01", "--claim", "1"]) == 0
    assert "::" not in capsys.readouterr().err
    assert not (folder / "summary.md").exists()


def test_audit_with_variants(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = AUDIT.replace("noise = 0.02", "noise = 0.0")
    text = text.replace("[attack]", "output_perturbation = [0.02, 2.0]\n[attack]")
    (folder / "audit.toml").write_text(text)
    arguments = ["audit", "audit.toml", "--claim", "0.05", "--fail-on", "inconclusive"]
    arguments += ["--junit", "j.xml", "--badge", "b.svg", "--annotate", "github"]
    assert run(arguments) == 3
    cases = list(ElementTree.parse(folder / "j.xml").getroot().iter("testcase"))
    assert [case.get("classname") for case in cases] == ["epsilometer.0.02", "epsilometer.2.0"]
    badges = sorted(path.name for path in folder.glob("*.svg"))
    assert badges == ["b-variant-0.02.svg", "b-variant-2.0.svg"]
    assert capsys.readouterr().err.count(" file=audit.toml,title=") == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--junit", "x.html"], "x.html: expected a file name for --junit that ends in .xml"),
        (["--badge", "x.png"], "x.png: expected a file name for --badge that ends in .svg"),
        (["--junit", "none/x.xml"], "the folder for --junit does not exist"),
        (["--annotate", "gitlab"], "annotate"),
        (["--log", "wandb"], "log"),
    ],
)
def test_wrong_outputs_are_refused_before_any_work(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert run(["estimate", "counts.csv", "--delta", "0.01", *options]) == 2
    printed = capsys.readouterr()
    assert words in " ".join(printed.err.split())
    assert printed.out == ""
    assert sorted(os.listdir(folder)) == ["counts.csv"]


def test_only_files_of_earlier_runs_are_replaced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["estimate", "counts.csv", "--delta", "0.01", "--junit", "j.xml"]
    arguments += ["--badge", "b.svg"]
    assert run(arguments) == 0
    assert run(arguments) == 0
    for name in ("j.xml", "b.svg"):
        (folder / name).write_text("<svg>somebody's own</svg>")
        capsys.readouterr()
        assert run(arguments) == 2
        assert f"{name}: exists already" in " ".join(capsys.readouterr().err.split())
        assert "own" in (folder / name).read_text()
        assert run([*arguments, "--force"]) == 0
