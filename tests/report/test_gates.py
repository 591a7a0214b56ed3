"""JUnit XML and annotations as functions of findings, also with hostile text."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from epsilometer.judgement.verdict import FAIL_ON, Grounds, JudgedDelta, Outcome, Verdict
from epsilometer.report.gates import Finding, github_commands, job_summary, junit_xml, short

CONDITIONAL = "FAIL (proven if the noise is independent)"
LABELS = (
    *("NO PROMISE", "FAIL (proven)", CONDITIONAL, "FAIL (judged)"),
    *("INCONCLUSIVE", "PASS (judged)"),
)
HOSTILE = "x\x00\ud800\x1b[31m\u202e\n::error::gotcha\r\n]]> & <script>alert('1')</script>\ufffe\"|`*_[a](http://b.c)"


def claim(
    label: str = "PASS (judged)",
    reasons: tuple[str, ...] = ("the first reason", "the second, at 5 %"),
    claims: dict[float, float] | None = None,
) -> Verdict:
    outcome, _, grounds = label.removesuffix(")").partition(" (")
    nothing = outcome == "NO PROMISE"
    rows = {} if nothing else claims or {1e-5: 4.0}
    judged = (
        JudgedDelta(delta=delta, claim=each, probability_above=0.02) for delta, each in rows.items()
    )
    return Verdict(
        outcome=Outcome(outcome),
        grounds=Grounds(grounds or ("stated" if nothing else "open")),
        reasons=reasons,
        claim=4.0,
        probability_above=0.02,
        prior_probability_above=0.5,
        by_delta=tuple(judged),
    )


def finding(judged: Verdict | None = None, **changed: object) -> Finding:
    made = Finding(
        variant=None,
        delta=1e-5,
        level=0.9,
        estimate=(2.69, 2.93, 3.53),
        proven=2.419,
        accepted=True,
        verdict=judged,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


SEVERAL = {1e-6: 4.0, 1e-3: 2.0, 0.1: 1.0}


# --- findings ---------------------------------------------------------------------------------


def test_numbers_are_short_and_bounds_rounded_down() -> None:
    assert [short(each) for each in (1e-5, 0.01, 4.0, 0.0)] == ["1e-5", "0.01", "4", "0"]
    assert finding().proven_text == "2.41"
    assert finding(proven=0.0).proven_text is None
    assert finding().sentence == (
        "At delta = 1e-5, epsilon is proven to be at least 2.41; "
        "estimated 2.93 (2.69 to 3.53 with probability 0.9)."
    )


def test_a_proof_needs_no_accuracy() -> None:
    assert not finding(claim("INCONCLUSIVE"), accepted=False).converged
    assert finding(claim("FAIL (proven)"), accepted=False).converged
    assert finding(claim(CONDITIONAL), accepted=False).converged


# --- JUnit ------------------------------------------------------------------------------------

STOPS = dict(zip(FAIL_ON, (LABELS[:end] for end in range(1, 6)), strict=True))


@pytest.mark.parametrize("fail_on", STOPS)
@pytest.mark.parametrize("label", LABELS)
def test_junit_fails_where_the_command_does(label: str, fail_on: str) -> None:
    text = junit_xml([finding(claim(label))], source="audit.toml", fail_on=fail_on)
    (suite,) = ElementTree.fromstring(text.encode())
    (case,) = suite
    what = "a finite epsilon" if label == LABELS[0] else "epsilon at most 4"
    assert case.get("name") == f"{what} at delta = 1e-5"
    failures, skips = case.findall("failure"), case.findall("skipped")
    assert len(failures) == (label in STOPS[fail_on])
    assert len(skips) == (label not in STOPS[fail_on] and label != LABELS[5])
    counted = [int(suite.get(name) or 0) for name in ("tests", "failures", "errors", "skipped")]
    assert counted == [1, len(failures), 0, len(skips)]
    for each in (*failures, *skips):
        assert "the first reason; the second, at 5 %" in str(each.get("message"))


def test_junit_has_times_only_where_they_are_known() -> None:
    known = finding(claim(), variant="a", seconds=1.25)
    found = [known, finding(claim(), variant="b"), finding(claim(), variant="c", seconds=2.0)]
    (suite,) = ElementTree.fromstring(junit_xml(found, source="x", fail_on="never").encode())
    assert [case.get("time") for case in suite] == ["1.250", None, "2.000"]
    assert suite.get("time") == "3.250"
    (suite,) = ElementTree.fromstring(junit_xml(found[1:2], source="x", fail_on="never").encode())
    assert suite.get("time") is None


def test_junit_has_a_case_for_each_claim_of_each_variant() -> None:
    over = claim("INCONCLUSIVE", claims=SEVERAL)
    found = [
        finding(over, variant="0.1"),
        finding(variant="0.2"),
        finding(claim("INCONCLUSIVE"), variant="0.3", accepted=False),
    ]
    root = ElementTree.fromstring(junit_xml(found, source="audit.toml", fail_on="fail").encode())
    cases = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert cases == [
        ("epsilometer.0.1", "claimed epsilon at 3 deltas from 1e-6 to 0.1"),
        ("epsilometer.0.2", "estimate"),
        ("epsilometer.0.3", "epsilon at most 4 at delta = 1e-5"),
        ("epsilometer.0.3", "the engine reached its accuracy"),
    ]
    assert root.get("errors") == "1"
    assert root.get("skipped") == "2"


def test_junit_is_valid_whatever_the_names_are() -> None:
    found = finding(claim("FAIL (judged)", reasons=(HOSTILE,)), variant=HOSTILE)
    text = junit_xml([found], source=HOSTILE, fail_on="fail")
    root = ElementTree.fromstring(text.encode())
    (case,) = root.iter("testcase")
    assert "<script>alert('1')</script>" in str(case.get("classname"))
    assert "<script>" not in text
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\ud800-\udfff]", text)


# --- annotations ------------------------------------------------------------------------------


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as the runner reads it."""
    found = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line)
    assert found, line

    def plain(text: str) -> str:
        for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ",")):
            text = text.replace(code, character)
        return text.replace("%25", "%")

    pairs = (part.partition("=") for part in found[2].split(","))
    return found[1], {name: plain(value) for name, _, value in pairs}, plain(found[3])


@pytest.mark.parametrize("fail_on", STOPS)
@pytest.mark.parametrize("label", LABELS)
def test_annotations_are_errors_where_the_command_fails(label: str, fail_on: str) -> None:
    (line,) = github_commands([finding(claim(label))], source="a,b:c%.toml", fail_on=fail_on)
    kind, properties, text = parsed(line)
    expected = "notice" if label == LABELS[5] else "warning"
    assert kind == ("error" if label in STOPS[fail_on] else expected)
    assert properties == {"file": "a,b:c%.toml", "title": f"Epsilometer: {label}"}
    what = "A finite epsilon" if label == LABELS[0] else "Epsilon at most 4"
    assert text == (f"{what} at delta = 1e-5. {label}: the first reason; the second, at 5 %.")


def test_annotations_without_a_claim_or_accuracy() -> None:
    lines = github_commands([finding(accepted=False, variant="v")], source=None, fail_on="never")
    assert [parsed(line)[0] for line in lines] == ["notice", "error"]
    assert "file" not in parsed(lines[0])[1]
    assert all("[v]" in line for line in lines)


def test_no_text_is_a_command_of_its_own() -> None:
    made = finding(claim("FAIL (judged)", reasons=(HOSTILE,)), variant=HOSTILE)
    for line in github_commands([made], source=HOSTILE, fail_on="fail"):
        assert len(line.splitlines()) == 1
        assert all(character.isprintable() for character in line)
        kind, properties, text = parsed(line)
        assert (kind, set(properties)) == ("error", {"file", "title"})
        assert "\n::error::gotcha" in text


def test_summary_of_the_job() -> None:
    text = job_summary([finding(claim("FAIL (proven)"))], source="audit.toml", fail_on="proven")
    shown = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert "<h3>Epsilometer: audit.toml</h3>" in shown
    assert "<td>epsilon at least 2.41</td>" in shown
    assert "<td>2.93 (2.69 to 3.53 with probability 0.9)</td>" in shown
    assert "<strong>FAIL (proven)</strong>: epsilon at most 4 at delta = 1e-5." in shown
    assert "<li>the second, at 5 %</li>" in shown
    assert "--fail-on proven" in shown


def test_summary_shows_hostile_text_as_text() -> None:
    made = finding(claim("FAIL (judged)", reasons=(HOSTILE,)), variant=HOSTILE)
    text = job_summary([made], source=HOSTILE, fail_on="fail")
    shown = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)
    assert "<script" not in shown
    assert "<a " not in shown
    assert "<em>" not in shown
    assert "&lt;script&gt;alert('1')&lt;/script&gt;" in shown.replace("&#x27;", "'")
    assert "http://" not in text  # nor would a site make a link of it
