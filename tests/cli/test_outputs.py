"""Outputs: wrong endings and existing files are refused before any work, and ``--force``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import epsilometer as em
from epsilometer.cli import outputs
from epsilometer.cli.main import run
from tests.cli.shell import Shell
from tests.cli.small_audit import AUDIT

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COUNTS = str(EXAMPLES / "counts.csv")
HALF_CURVE = AUDIT.replace('model = "count"\nlikelihood = "binomial"\n', "")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with audit.toml, its store, and the result and page that the audit wrote."""
    folder = tmp_path_factory.mktemp("audited")
    (folder / "audit.toml").write_text(HALF_CURVE)
    assert run(audit_in(folder)) == 0
    return folder


def audit_in(folder: Path) -> list[str]:
    """README's command: a result folder and a page."""
    file, result, page = (str(folder / name) for name in ("audit.toml", "result", "report.html"))
    return ["audit", file, "--output", result, "--report", page]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["estimate", COUNTS, "--delta", "0.01", "--report", "x.pdf"], "ends in .html or .htm"),
        (["estimate", COUNTS, "--delta", "0.01", "--report", "x"], "got no ending"),
        (["report", COUNTS, "--delta", "0.01", "--output", "x.html.txt"], "ends in .html or .htm"),
        (["estimate", COUNTS, "--delta", "0.01", "--output", "x.txt"], "expected a folder"),
        (["estimate", COUNTS, "--delta", "0.01", "--figures", "x.png"], "expected a folder"),
        (["audit", "--report", "x.docx"], "ends in .html or .htm"),
        (["audit", "--output", "x.json"], "expected a folder"),
        (["compare", COUNTS, "--delta", "0.01", "--figure", "x.docx"], ".png, .svg or .pdf"),
        (["plan", "--width", "1", "--output", "plan.csv"], "expected a folder"),
        (["attack", "losses.csv", "--output", "x.xlsx"], ".csv or .json"),
        (["attack", "losses.csv", "--curves", "x.json"], "ends in .csv"),
    ],
)
def test_wrong_endings_are_refused_before_any_work(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shell: Shell,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert expected in shell.refused(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_figures_and_tables_are_not_overwritten(
    audited: Path, tmp_path: Path, shell: Shell
) -> None:
    drawing = ["compare", COUNTS, "--delta", "0.01", "--figure", str(tmp_path / "x.png")]
    counting = ["attack", str(audited / "audit.db"), "--output", str(tmp_path / "counts.csv")]
    exporting = ["losses", "export", str(audited / "audit.db"), str(tmp_path / "losses.csv")]
    assert ".csv or .parquet" in shell.refused(*exporting[:-1], str(tmp_path / "x.xlsx"))
    for command in (drawing, counting, exporting):
        assert run(command) == 0
        Path(command[-1]).write_bytes(b"mine")
        said = shell.refused(*command)
        assert "exists already" in said
        assert "--force" in said
        assert Path(command[-1]).read_bytes() == b"mine"
        assert run([*command, "--force"]) == 0
        assert Path(command[-1]).read_bytes() != b"mine"


def test_a_device_is_no_file_to_lose() -> None:
    outputs.check_file(Path("/dev/null"), (".csv",), option="--output", force=False)


@pytest.mark.slow
def test_a_result_is_replaced_by_one_from_the_same_data_only(tmp_path: Path, shell: Shell) -> None:
    folder = str(tmp_path / "result")
    assert run(["estimate", COUNTS, "--delta", "0.01", "--output", folder]) == 0
    assert run(["estimate", COUNTS, "--delta", "0.1", "--output", folder]) == 0
    assert em.load(tmp_path / "result" / "posterior.nc").model.delta == 0.1
    other = str(tmp_path / "other.csv")
    em.AttackCounts.read(COUNTS).take([0, 1]).write(other)
    command = ["estimate", other, "--delta", "0.01", "--output", folder]
    said = shell.refused(*command)
    assert "not of the same data" in said
    assert "--force" in said
    assert len(em.load(tmp_path / "result" / "posterior.nc").counts) == 10
    assert run([*command, "--force"]) == 0
    assert len(em.load(tmp_path / "result" / "posterior.nc").counts) == 2


def test_a_folder_with_other_files_is_refused(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for option in ("--output", "--figures"):
        command = ["estimate", COUNTS, "--delta", "0.01", option, str(tmp_path)]
        said = shell.refused(*command)
        assert "not empty" in said
        assert "--force" in said


@pytest.mark.slow
def test_an_audit_may_be_repeated_into_its_own_outputs(audited: Path, shell: Shell) -> None:
    before = (audited / "report.html").stat().st_mtime_ns
    assert run(audit_in(audited)) == 0
    assert (audited / "report.html").stat().st_mtime_ns > before
    # It may also grow.
    longer = HALF_CURVE.replace("replicates = 20", "replicates = 22")
    (audited / "audit.toml").write_text(longer)
    assert run(audit_in(audited)) == 0
    assert outputs.own_files(audited / "result") == {(audited / "report.html").resolve()}


def test_other_audits_and_files_are_left_alone(audited: Path, tmp_path: Path, shell: Shell) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(audited, folder)
    (folder / "report.html").write_text("a page of somebody else")
    assert "report.html: exists already" in shell.refused(*audit_in(folder))
    (folder / "report.html").unlink()
    (folder / "audit.toml").write_text(HALF_CURVE.replace("noise = 0.02", "noise = 0.03"))
    (folder / "audit.db").unlink()
    assert "not of the same data" in shell.refused(*audit_in(folder))
    assert not (folder / "audit.db").exists()  # nothing was trained for it
    assert run([*audit_in(folder), "--force"]) == 0


def test_an_audit_is_updated_with_losses(audited: Path, tmp_path: Path) -> None:
    """They are scored as the audit scored its own."""
    result, after = audited / "result", tmp_path / "after"
    losses = em.Losses.read(result / "losses.csv")
    (tmp_path / "more.csv").write_text(re.sub(r"\n(?=\d)", "\nother-", losses.to_csv()))
    command = ["estimate", str(result / "posterior.nc"), str(tmp_path / "more.csv")]
    assert run([*command, "--output", str(after)]) == 0
    old, new = (em.load(each / "posterior.nc").scores for each in (result, after))
    assert sorted(base.auc() for base in new.bases) == sorted(
        [base.auc() for base in old.bases] * 2
    )
    assert not (after / "losses.csv").exists()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "[1", '{"audit": 3, "files": 4}', '{"files": {"../x": "y"}}', "\0", "[" * 9999],
)
def test_notes_of_a_folder_are_untrusted(text: str, tmp_path: Path) -> None:
    (tmp_path / outputs.OUTPUTS).write_text(text)
    assert outputs.audit_of(tmp_path) is None
    assert outputs.own_files(tmp_path) == set()
