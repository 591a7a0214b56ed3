"""Findings as JUnit XML, which CI systems show next to the results of tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from epsilometer._text import probability_text
from epsilometer.report.gates.findings import NOT_CONVERGED, Finding, JudgedClaim

TOOL = "epsilometer"
ESTIMATE = "estimate"
"""Name of the test case of a result without a claim."""
ACCURACY = "the engine reached its accuracy"

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]|[\x7f-\x9f]")
"""Characters that XML 1.0 does not allow, and control characters that it discourages."""


def junit_xml(findings: Sequence[Finding], *, source: str, fail_on: str) -> str:
    """One test suite for the audit, and a test case for each claim of each variant.

    A verdict that ``--fail-on`` stops at is a failure. Any other FAIL, and INCONCLUSIVE, is skipped,
    with its reasons. A result that did not reach its accuracy is an error. Times are those of the
    estimates, without training; the first test case of a result has its time.
    """
    suite = ElementTree.Element("testsuite", name=_legal(f"{TOOL}: {source}"))
    for finding in findings:
        where = TOOL if finding.variant is None else f"{TOOL}.{finding.variant}"
        before = len(suite)
        for case in _cases(finding, fail_on):
            case.set("classname", _legal(where))
            if finding.seconds is not None and len(suite) == before:
                case.set("time", f"{finding.seconds:.3f}")  # once, so that times add up
            suite.append(case)
    counts = {
        "tests": len(suite),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    for name, count in counts.items():
        suite.set(name, str(count))
    known = [finding.seconds for finding in findings if finding.seconds is not None]
    if known:
        suite.set("time", f"{sum(known):.3f}")
    root = ElementTree.Element("testsuites", {name: str(count) for name, count in counts.items()})
    root.append(suite)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _cases(finding: Finding, fail_on: str) -> list[ElementTree.Element]:
    if finding.claim is not None:
        cases = [_claim_case(finding, finding.claim, fail_on)]
    else:
        cases = [_case(ESTIMATE)]
        _add(cases[-1], "system-out", finding.sentence)
    if not finding.converged:
        cases.append(_case(ACCURACY))
        message = f"{NOT_CONVERGED}: do not quote this result."
        _add(cases[-1], "error", finding.sentence, message=message, type=NOT_CONVERGED)
    return cases


def _claim_case(finding: Finding, claim: JudgedClaim, fail_on: str) -> ElementTree.Element:
    case = _case(claim.title)
    text = f"{claim.message} {finding.sentence}"
    if claim.stops(fail_on):
        _add(case, "failure", finding.sentence, message=claim.message, type=claim.label)
    elif not claim.passed:
        message = claim.message
        if claim.failed:
            message = f"{message} Not a failure with --fail-on {fail_on}."
        _add(case, "skipped", None, message=message)
    if claim.probability_above is not None:
        above = probability_text(claim.probability_above)
        text += f"\nProbability that epsilon exceeds the claim: {above}."
    _add(case, "system-out", text)
    return case


def _case(name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", name=_legal(name))


def _add(parent: ElementTree.Element, tag: str, text: str | None, **attributes: str) -> None:
    legal = {name: _legal(value) for name, value in attributes.items()}
    ElementTree.SubElement(parent, tag, legal).text = None if text is None else _legal(text)


def _legal(text: str) -> str:
    """Text that may be in an XML document; the library escapes the rest."""
    return _FORBIDDEN.sub("", text)
