"""Findings as workflow commands of GitHub Actions, and as a Markdown summary of the job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from epsilometer import _files
from epsilometer._text import capital, estimate_text, probability_text
from epsilometer.report.gates.findings import NOT_CONVERGED, Finding, JudgedClaim, short

TOOL = "Epsilometer"


def github_commands(
    findings: Sequence[Finding], *, source: str | None, fail_on: str
) -> tuple[str, ...]:
    """One line per claim: ``::error``, ``::warning`` or ``::notice``, attached to the file ``source``.

    A verdict that ``--fail-on`` stops at is an error; any other FAIL, and INCONCLUSIVE, a warning.
    """
    lines = []
    for finding in findings:
        of = "" if finding.variant is None else f" [{finding.variant}]"
        claim = finding.claim
        if claim is not None:
            text = f"{capital(claim.title)}{of}. {claim.message}"
            kind = _kind(claim, fail_on)
            lines.append(_command(kind, f"{TOOL}: {claim.label}", text, source))
        else:
            lines.append(_command("notice", TOOL, f"{finding.sentence}{of}", source))
        if not finding.converged:
            text = f"The computation did not reach its accuracy; do not quote this result.{of}"
            lines.append(_command("error", f"{TOOL}: {NOT_CONVERGED}", text, source))
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
        lines += [f"| {name} | {_inline(value)} |" for name, value in _rows(finding)]
        claim = finding.claim
        if claim is not None:
            stops = ""
            if claim.stops(fail_on):
                stops = f" The job stops here (`--fail-on {_inline(fail_on)}`)."
            lines += ["", f"**{claim.label}**: {_inline(claim.title)}.{stops}", ""]
            lines += [f"- {_inline(reason)}" for reason in claim.reasons]
        lines.append("")
    return "\n".join(lines)


def _rows(finding: Finding) -> list[tuple[str, str]]:
    proven = finding.proven_text
    rows = [("delta", finding.at.removeprefix("delta = "))]
    rows.append(("proven", f"epsilon at least {proven}" if proven else "nothing"))
    if finding.estimate is not None:
        low, median, high = finding.estimate
        text = estimate_text(median, low, high)
        text += ", extrapolated beyond the data" if finding.extrapolated else ""
        rows.append((f"estimated, probability {finding.level:g}", text))
    if finding.doubt is not None:
        rows.append(("estimated", f"not to be quoted: {finding.doubt}"))
    claim = finding.claim
    if claim is not None and claim.probability_above is not None:
        name = "claimed curve" if claim.epsilon is None else f"claim {short(claim.epsilon)}"
        text = f"exceeded with probability {probability_text(claim.probability_above)}"
        rows.append((name, text))
    if not finding.converged:
        rows.append(("accuracy", "NOT reached: do not quote this result"))
    return rows


def _kind(claim: JudgedClaim, fail_on: str) -> str:
    if claim.stops(fail_on):
        return "error"
    return "notice" if claim.passed else "warning"


def _command(kind: str, title: str, text: str, source: str | None) -> str:
    properties = [f"title={_property(title)}"]
    if source is not None:
        properties.insert(0, f"file={_property(source)}")
    return f"::{kind} {','.join(properties)}::{_data(text)}"


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
