"""Verdicts and reports on the command line: exit codes, files, and results that do not fit together."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epsilometer.cli.main import run
from epsilometer.judgement.verdict import FAIL_ON
from epsilometer.report.figures.charts import COUNT_CHARTS
from tests.cli.shell import Shell
from tests.cli.small_audit import AUDIT

COUNTS = (
    "challenge_base,false_positives,trials_h0,false_negatives,trials_h1\n"
    "one,100,1000,120,1000\ntwo,60,1000,150,1000\n"
)
#: Claims that the counts above refute, speak against, leave open, and leave standing.
FAIL, JUDGED, INCONCLUSIVE, PASS = "1", "2.35", "2.9", "12"

PAGES = [
    "answer",
    "exceedance",
    "region",
    "marginals",
    "joint",
    "prior",
    "predictive",
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `estimate --output` leaves, with a claim that stands open."""
    folder = tmp_path_factory.mktemp("result")
    (folder / "counts.csv").write_text(COUNTS)
    target = folder / "out"
    arguments = ["estimate", str(folder / "counts.csv"), "--delta", "0.01", "--level", "0.8"]
    assert run([*arguments, "--claim", INCONCLUSIVE, "--output", str(target)]) == 0
    return target


def embedded(page: Path) -> dict[str, Any]:
    """The report's numbers, from the link by which they can be downloaded."""
    import base64

    text = page.read_text(encoding="utf-8")
    found = re.search(r'href="data:application/json;charset=utf-8;base64,([^"]+)"', text)
    assert found
    return dict(json.loads(base64.b64decode(found[1])))


# --- verdicts and exit codes ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "verdict", "stopped_by"),
    [
        (FAIL, "FAIL (proven)", ("proven", "conditional", "fail", "inconclusive")),
        (JUDGED, "FAIL (judged)", ("fail", "inconclusive")),
        (INCONCLUSIVE, "INCONCLUSIVE", ("inconclusive",)),
        (PASS, "PASS (judged)", ()),
    ],
)
def test_verdicts_and_their_exit_codes(
    counts: Path, result: Path, claim: str, verdict: str, stopped_by: tuple[str, ...], shell: Shell
) -> None:
    for gate in FAIL_ON:
        code = 3 if gate in stopped_by else 0
        out, err = shell("report", result, "--claim", claim, "--fail-on", gate, code=code)
        assert out.startswith(f"{verdict}: ")
        assert f"The claim: epsilon at most {claim} at delta = 0.01" in " ".join(out.split())
        # Nothing could refute the claim that passes.
        assert ("Not even perfect" in err) == (claim == PASS)
        assert len(err.splitlines()) == (claim == PASS)
    for command in (["estimate", counts, "--delta", "0.01"], ["report", result]):
        options = ["--claim", claim, "--fail-on", "inconclusive"]
        summary = shell.json(*command, *options, code=3 if stopped_by else 0)
        outcome, _, grounds = verdict.partition(" ")
        assert summary["verdict"]["outcome"] == outcome
        assert summary["verdict"]["grounds"] == (grounds.strip("()") or "open")
        assert summary["verdict"]["meaning"] == "; ".join(summary["verdict"]["reasons"])
        assert summary["proof"]["refuted"] is (verdict == "FAIL (proven)")


def test_thresholds_and_the_error_of_a_proof_are_options(result: Path, shell: Shell) -> None:
    usual = shell.json("report", result)
    assert (usual["verdict"]["outcome"], usual["proof"]["error"]) == ("INCONCLUSIVE", 0.05)
    options = ["--error", "0.001", "--pass-at-most", "0.98", "--fail-at-least", "0.99"]
    found = shell.json("report", result, *options)
    assert (found["verdict"]["outcome"], found["verdict"]["pass_at_most"]) == ("PASS", 0.98)
    assert found["proof"]["error"] == 0.001
    assert found["proof"]["at_least"] < usual["proof"]["at_least"]
    found = shell.json("report", result, "--fail-at-least", "0.06")
    assert found["verdict"]["outcome"] == "FAIL"


@pytest.mark.slow
def test_a_result_that_must_not_be_quoted_has_no_verdict(
    counts: Path, tmp_path: Path, shell: Shell
) -> None:
    arguments = ["estimate", str(counts), "--delta", "0.01", "--claim", JUDGED, "--fail-on", "fail"]
    arguments += ["--engine", "mcmc", "--json"]
    page = tmp_path / "page.html"
    out, err = shell(*arguments, "--report", page, code=4)
    assert json.loads(out)["verdict"]["outcome"] == "INCONCLUSIVE"
    assert "warning: Do not quote this result" in err
    text = page.read_text(encoding="utf-8")
    assert "Do not quote this result: MCMC; NOT CONVERGED" in text
    assert '<p class="badge">INCONCLUSIVE</p>' in text
    # Who accepts the chains accepts their verdict.
    assert shell.json(*arguments, "--allow-unconverged", code=3)["verdict"]["grounds"] == "judged"
    # What is proven needs no chains.
    arguments[arguments.index(JUDGED)] = FAIL
    out, err = shell(*arguments, code=3)
    assert json.loads(out)["verdict"]["grounds"] == "proven"
    assert "warning: Do not quote this result" in err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--fail-on", "fail"], "--fail-on fail needs a claimed epsilon"),
        (
            ["--claim", "1", "--fail-on", "maybe"],
            "one of never, proven, conditional, fail",
        ),
        (["--claim", "1", "--error", "0"], "0 < error < 1"),
        (["--claim", "1", "--pass-at-most", "0.99"], "pass_at_most < fail_at_least"),
        (["--claim", "1", "--fail-at-least", "1.5"], "0 <= fail_at_least <= 1"),
        (["--claim", "-1"], "claim >= 0"),
    ],
)
def test_wishes_that_make_no_sense(
    counts: Path, options: list[str], expected: str, tmp_path: Path, shell: Shell
) -> None:
    assert expected in shell.refused("estimate", counts, "--delta", "0.01", *options)


def test_a_fail_on_without_a_claim_is_known_before_training(tmp_path: Path, shell: Shell) -> None:
    network = AUDIT.replace('"clipped-mean"', '"network"').replace('"directions"', '"digits"')
    network = network.replace("noise = 0.02, records = 50", "hidden = 4")
    (tmp_path / "audit.toml").write_text(network)
    assert "needs a claimed epsilon" in shell.refused(
        "audit", tmp_path / "audit.toml", "--fail-on", "fail"
    )
    assert not (tmp_path / "audit.db").exists()


# --- pages and figures ------------------------------------------------------------------------


def test_a_page_from_counts(counts: Path, tmp_path: Path, shell: Shell) -> None:
    page = tmp_path / "page.html"
    arguments = ["estimate", counts, "--delta", "0.01", "--claim", FAIL]
    assert f"Written to {page}" in shell.said(*arguments, "--report", page)
    assert '<p class="badge">FAIL (proven)</p>' in page.read_text(encoding="utf-8")
    assert [row["challenge_base"] for row in embedded(page)["bases"]] == ["one", "two"]


@pytest.mark.slow
def test_a_result_keeps_its_claim_and_level(result: Path, tmp_path: Path, shell: Shell) -> None:
    page = tmp_path / "page.html"
    assert shell.said("report", result, "-o", page).startswith("INCONCLUSIVE: ")
    found = embedded(page)
    assert found["claim"]["epsilon"] == float(INCONCLUSIVE)
    assert found["epsilon"]["level"] == 0.8
    written = json.loads((result / "summary.json").read_text())
    assert found["epsilon"] == written["epsilon"]
    again = ["-o", str(page), "--force"]
    assert run(["report", str(result), *again, "--claim", PASS, "--level", "0.5"]) == 0
    found = embedded(page)
    assert (found["claim"]["epsilon"], found["epsilon"]["level"]) == (float(PASS), 0.5)
    # The file alone has neither.
    assert run(["report", str(result / "posterior.nc"), *again]) == 0
    found = embedded(page)
    assert "claim" not in found
    assert found["epsilon"]["level"] == 0.9


@pytest.mark.slow
def test_the_page_of_an_audit_says_what_was_measured(tmp_path: Path, shell: Shell) -> None:
    first, again = tmp_path / "page.html", tmp_path / "again.html"
    (tmp_path / "audit.toml").write_text(AUDIT)
    result, figures = tmp_path / "result", tmp_path / "figures"
    outputs = ["--output", result, "--report", first, "--figures", figures]
    shell("audit", tmp_path / "audit.toml", *outputs)
    shell("report", result, "-o", again)
    pages = [first.read_text(encoding="utf-8"), again.read_text(encoding="utf-8")]
    # Written now or later from the folder, it is the same page.
    assert pages[0] == pages[1]
    summary = json.loads((result / "summary.json").read_text())
    for expected in (
        summary["plan"]["hash"],
        "differ in one record: with or without the challenge point",
        "The algorithm&#39;s own claim: epsilon at most ",
        "likelihood-ratio, statistic loss, target false-positive rate 0.1",
        "120 trained, 0 reused, 0 failed",
        'id="figure-curves"',
        'download="curves.csv"',
    ):
        assert expected in pages[0]
    assert {*PAGES, "curves"} <= set(COUNT_CHARTS)
    assert {path.name for path in figures.iterdir()} == {
        f"{name}.{form}" for name in (*PAGES, "curves", "proof") for form in ("png", "svg", "pdf")
    }


@pytest.mark.slow
def test_variants_have_a_page_each(tmp_path: Path, shell: Shell) -> None:
    noisy = AUDIT.replace("[attack]", "output_perturbation = [0.02, 0.5]\n[attack]")
    (tmp_path / "audit.toml").write_text(noisy)
    arguments = ["audit", str(tmp_path / "audit.toml"), "--output", str(tmp_path / "result")]
    shell(*arguments, "--report", tmp_path / "page.html")
    pages = sorted(path.name for path in tmp_path.glob("*.html"))
    assert pages == ["page-variant-0.02.html", "page-variant-0.5.html"]
    assert "variant 0.5" in (tmp_path / pages[1]).read_text(encoding="utf-8")
    err = shell.refused("report", tmp_path / "result")
    assert "choose one of variant-0.02, variant-0.5" in err
    assert run(["report", str(tmp_path / "result" / "variant-0.5")]) == 0


def test_report_without_a_file_only_judges(result: Path, shell: Shell) -> None:
    before = sorted(result.iterdir())
    assert "Written" not in shell.said("report", result)
    assert sorted(result.iterdir()) == before


# --- what can go wrong ------------------------------------------------------------------------


def test_results_that_are_none(tmp_path: Path, shell: Shell) -> None:
    assert "cannot be read" in shell.refused("report", tmp_path / "nowhere")
    assert "a folder with posterior.nc" in shell.refused("report", tmp_path)
    (tmp_path / "posterior.nc").write_text("no")
    assert "expected a NetCDF file" in shell.refused("report", tmp_path)


OTHER_MEDIAN: dict[str, Any] = {"epsilon": {"median": 0.1, "level": 0.9}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (OTHER_MEDIAN, "is of another result than posterior.nc"),
        ({"epsilon": {"median": "<b>", "level": 0.9}}, "epsilon.median"),
        ({"epsilon": None}, "epsilon"),
        ({"claim": {"epsilon": -1}}, "claim.epsilon"),
        ({"claim": {"epsilon": 1, "source": "<script>"}}, "claim.source"),
        ({"plan": {"hash": 7}}, "plan.hash"),
        ({"variant": "x" * 1000}, "variant"),
        ({"counts": {"target_alpha": 2.0, "statistic": "loss", "attack": "x"}}, "target_alpha"),
        *((text, "") for text in ("", "{", "[]", "[" * 100_000, '{"epsilon": NaN}')),
    ],
)
def test_a_damaged_summary(
    result: Path, tmp_path: Path, change: Any, expected: str, shell: Shell
) -> None:
    folder = Path(shutil.copytree(result, tmp_path / "damaged"))
    if not isinstance(change, str):
        change = json.dumps(json.loads((folder / "summary.json").read_text()) | change)
    (folder / "summary.json").write_text(change)
    err = shell.refused("report", folder)
    assert "summary.json" in err
    assert expected in err


def test_pages_that_cannot_be_written(counts: Path, tmp_path: Path, shell: Shell) -> None:
    arguments = ["estimate", str(counts), "--delta", "0.01", "--report"]
    (tmp_path / "folder.html").mkdir()
    assert "got a folder" in shell.refused(*arguments, tmp_path / "folder.html")
    missing = tmp_path / "nowhere" / "page.html"
    assert "does not exist or cannot be written" in shell.refused(*arguments, missing)
    (tmp_path / "file").write_text("")
    arguments[-1] = "--figures"
    assert "expected a folder for --figures" in shell.refused(*arguments, tmp_path / "file")


def test_estimating_does_not_load_what_the_page_needs(counts: Path) -> None:
    code = (
        "import sys; from epsilometer.cli.main import run; "
        f"run(['estimate', {str(counts)!r}, '--delta', '0.01', '--claim', '1', '--json']); "
        "print([m for m in ('jinja2', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
