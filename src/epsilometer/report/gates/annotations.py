"""Findings as workflow commands of GitHub Actions, and as a Markdown summary of the job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from epsilometer import _files
from epsilometer._text import capital, probability_text
from epsilometer.judgement.verdict import Outcome
from epsilometer.report.gates.findings import NOT_CONVERGED, Finding, short

TOOL = "Epsilometer"
UNQUOTABLE = "The computation did not reach its accuracy; do not quote this result."


def github_commands(
    findings: Sequence[Finding], *, source: str | None, fail_on: str
) -> tuple[str, ...]:
    """One line per claim: ``::error``, ``::warning`` or ``::notice``, attached to the file ``source``.

    A verdict that ``--fail-on`` stops at is an error; any other FAIL, and INCONCLUSIVE, a warning.
    """
    lines = []
    for finding in findings:
        of = "" if finding.variant is None else f" [{finding.variant}]"
        verdict = finding.verdict
        if verdict is None:
            lines.append(_command("notice", TOOL, f"{finding.sentence}{of}", source))
        else:
            kind = "notice" if verdict.outcome is Outcome.PASS else "warning"
            kind = "error" if verdict.stops(fail_on) else kind
            text = f"{capital(finding.title)}{of}. {finding.message}"
            lines.append(_command(kind, f"{TOOL}: {verdict.label}", text, source))
        if not finding.converged:
            title = f"{TOOL}: {NOT_CONVERGED}"
            lines.append(_command("error", title, f"{UNQUOTABLE}{of}", source))
    return tuple(lines)


def error_command(message: str) -> str:
    """The line for a command that failed without a result."""
    return _command("error", TOOL, message, None)


def job_summary(findings: Sequence[Finding], *, source: str | None, fail_on: str) -> str:
    """A section of Markdown: a table per result, and the reasons of each verdict."""
    about = "" if source is None else f": {_inline(source)}"
    lines = [f"### {TOOL}{about}", ""]
    for finding in findings:
        if finding.variant is not None:
            lines += [f"#### Variant {_inline(finding.variant)}", ""]
        lines += ["| | |", "| --- | --- |"]
        lines += [f"| {name} | {_inline(value)} |" for name, value in _rows(finding).items()]
        verdict = finding.verdict
        if verdict is not None:
            stops = f" The job stops here (`--fail-on {_inline(fail_on)}`)."
            said = f"{_inline(finding.title)}.{stops if verdict.stops(fail_on) else ''}"
            lines += ["", f"**{verdict.label}**: {said}", ""]
            lines += [f"- {_inline(reason)}" for reason in verdict.reasons]
        lines.append("")
    return "\n".join(lines)


def _rows(finding: Finding) -> dict[str, str]:
    proven = finding.proven_text
    rows = {"delta": short(finding.delta)}
    rows["proven"] = f"epsilon at least {proven}" if proven else "nothing"
    if finding.estimate is not None:
        rows["estimated"] = finding.estimate_text
    elif finding.doubt is not None:
        rows["estimated"] = f"not to be quoted: {finding.doubt}"
    if finding.above is not None:
        name = "claimed curve" if finding.claimed is None else f"claim {short(finding.claimed)}"
        rows[name] = f"exceeded with probability {probability_text(finding.above)}"
    if not finding.converged:
        rows["accuracy"] = "NOT reached: do not quote this result"
    return rows


def _command(kind: str, title: str, text: str, source: str | None) -> str:
    file = "" if source is None else f"file={_property(source)},"
    return f"::{kind} {file}title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    """The message of a command: on one line, and no character of it is a command."""
    spelt = "".join(c if c in "\r\n" else _files.printable(c) for c in text)
    return spelt.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """A property of a command, which also ends at a colon or a comma."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_MARKUP = re.compile(r"[^\w\s.,;()=%]|_|(?<!\d)\.(?=\w)|\.(?=[^\W\d])")
"""What Markdown or HTML could read as more than text: punctuation, and dots inside a host name."""


def _inline(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    spelt = _files.printable(" ".join(text.split()))
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", spelt)
