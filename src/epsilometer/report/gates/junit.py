"""Findings as JUnit XML, which CI systems show next to the results of tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from epsilometer._text import probability_text
from epsilometer.judgement.verdict import Outcome
from epsilometer.report.gates.findings import NOT_CONVERGED, Finding

TOOL = "epsilometer"
ESTIMATE = "estimate"
"""Name of the test case of a result without a claim."""
ACCURACY = "the engine reached its accuracy"

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]|[\x7f-\x9f]")

Children = list[tuple[str, str, dict[str, str]]]
"""What is inside a test case: tag, text and attributes."""


def junit_xml(findings: Sequence[Finding], *, source: str, fail_on: str) -> str:
    """One test suite for the audit, and a test case for each claim of each variant.

    A verdict that ``--fail-on`` stops at is a failure. Any other FAIL, and INCONCLUSIVE, is skipped,
    with its reasons. A result that did not reach its accuracy is an error. Times are those of the
    estimates, without training; the first test case of a result has its time.
    """
    root = ElementTree.Element("testsuites")
    suite = _added(root, "testsuite", {"name": f"{TOOL}: {source}"})
    for finding in findings:
        where = ".".join(filter(None, (TOOL, finding.variant)))
        seconds = finding.seconds
        for name, children in _cases(finding, fail_on):
            case = _added(suite, "testcase", {"name": name, "classname": where})
            if seconds is not None:
                case.set("time", f"{seconds:.3f}")
                seconds = None  # once, so that times add up
            for tag, text, attributes in children:
                _added(case, tag, attributes).text = _legal(text) or None
    counts = {"tests": str(len(suite))}
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        counts[name] = str(len(suite.findall(f"testcase/{tag}")))
    root.attrib.update(counts)
    suite.attrib.update(counts)
    known = [finding.seconds for finding in findings if finding.seconds is not None]
    if known:
        suite.set("time", f"{sum(known):.3f}")
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _cases(finding: Finding, fail_on: str) -> list[tuple[str, Children]]:
    """Name and contents of each test case."""
    verdict, sentence, message = finding.verdict, finding.sentence, finding.message
    children: Children = []
    said = sentence
    if verdict is not None:
        said = f"{message} {sentence}"
        if verdict.stops(fail_on):
            children.append(("failure", sentence, {"message": message, "type": verdict.label}))
        elif verdict.outcome is not Outcome.PASS:
            failed = verdict.outcome is Outcome.FAIL
            more = f" Not a failure with --fail-on {fail_on}." if failed else ""
            children.append(("skipped", "", {"message": f"{message}{more}"}))
    if finding.above is not None:
        said += f"\nProbability that epsilon exceeds the claim: {probability_text(finding.above)}."
    cases = [(finding.title or ESTIMATE, [*children, ("system-out", said, {})])]
    if not finding.converged:
        why = {"message": f"{NOT_CONVERGED}: do not quote this result.", "type": NOT_CONVERGED}
        cases.append((ACCURACY, [("error", sentence, why)]))
    return cases


def _added(
    parent: ElementTree.Element, tag: str, attributes: dict[str, str]
) -> ElementTree.Element:
    legal = {name: _legal(value) for name, value in attributes.items()}
    return ElementTree.SubElement(parent, tag, legal)


def _legal(text: str) -> str:
    """Text that may be in an XML document; the library escapes the rest."""
    return _FORBIDDEN.sub("", text)
