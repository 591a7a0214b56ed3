"""A result for machines that gate a pipeline: JUnit XML, annotations and the summary of a job.

Each is a pure function of findings: the estimate, the proven bound and the verdict on the claim.  How
they are written is up to `cli`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from epsilometer import _files
from epsilometer._text import capital, estimate_text, probability_text
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import Outcome, Verdict
from epsilometer.proofs.proof import rounded_down

#: Label of a result that did not reach its accuracy and has no proven verdict.
NOT_CONVERGED = "NOT CONVERGED"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result.

    Attributes
    ----------
    variant
        Of an audit with several variants, the name of this one.
    delta
        The delta of the estimate and of the proven bound.
    estimate
        Lower end, median and upper end of the credible interval; None if it is not to be quoted.
    doubt
        Why the estimate is not to be quoted, if so: flawed data, or data that refute the posterior.
    proven
        The proven lower bound; None if nothing could be proven.
    accepted
        Whether the engine reached its accuracy, or the user accepted that it did not.
    verdict
        The verdict; None without a claim.
    seconds
        Time of the estimation, without training; None if it is not known.
    extrapolated
        Whether the estimate at this delta is extrapolated beyond the data.
    """

    variant: str | None
    delta: float
    level: float
    estimate: tuple[float, float, float] | None
    proven: float | None
    accepted: bool
    verdict: Verdict | None = None
    doubt: str | None = None
    seconds: float | None = None
    extrapolated: bool = False

    @property
    def where(self) -> str:
        """The deltas of the claim, or else the delta of the estimate."""
        deltas = [row.delta for row in self.verdict.by_delta] if self.verdict else []
        if len(deltas) > 1:
            return f"{len(deltas)} deltas from {short(min(deltas))} to {short(max(deltas))}"
        return f"delta = {short(deltas[0] if deltas else self.delta)}"

    @property
    def claimed(self) -> float | None:
        """The claimed epsilon; None if it differs between deltas, or if nothing is promised."""
        claims = {row.claim for row in self.verdict.by_delta} if self.verdict else set()
        return claims.pop() if len(claims) == 1 else None

    @property
    def above(self) -> float | None:
        """Probability that epsilon exceeds the claim; None if nothing is claimed."""
        verdict = self.verdict
        return verdict.probability_above if verdict is not None and verdict.by_delta else None

    @property
    def title(self) -> str:
        """The claim in one line; empty without one."""
        if self.verdict is None:
            return ""
        if self.verdict.outcome is Outcome.NO_PROMISE:
            return f"a finite epsilon at {self.where}"
        claimed = self.claimed
        most = "claimed epsilon" if claimed is None else f"epsilon at most {short(claimed)}"
        return f"{most} at {self.where}"

    @property
    def message(self) -> str:
        """The verdict with its reasons; empty without a claim."""
        return "" if self.verdict is None else f"{self.verdict.label}: {self.verdict.meaning}."

    @property
    def proven_text(self) -> str | None:
        """The proven bound, rounded down; None if it is not above 0."""
        return rounded_down(self.proven) if self.proven is not None and self.proven > 0 else None

    @property
    def estimate_text(self) -> str:
        """The median with its interval."""
        if self.estimate is None:
            return ""
        low, median, high = self.estimate
        said = estimate_text(median, low, high, self.level)
        return f"{said}, extrapolated beyond the data" if self.extrapolated else said

    @property
    def sentence(self) -> str:
        """The result without its claim, in one sentence."""
        bound = self.proven_text
        said = f"epsilon is proven to be at least {bound}" if bound else "no epsilon is proven"
        if self.estimate is not None:
            said += f"; estimated {self.estimate_text}"
        doubt = "" if self.doubt is None else f" No estimate: {self.doubt}"
        return f"At delta = {short(self.delta)}, {said}.{doubt}"

    @property
    def converged(self) -> bool:
        """Whether the result may be quoted: what is proven or stated needs no engine."""
        return self.accepted or (self.verdict is not None and self.verdict.grounds.without_engine)


def short(number: float) -> str:
    """A number as people write it: ``1e-5``, not ``1e-05``.

    Examples
    --------
    >>> short(1e-5), short(4.0), short(0.01)
    ('1e-5', '4', '0.01')
    """
    digits, e, exponent = f"{number:g}".partition("e")
    return f"{digits}e{int(exponent)}" if e else digits


def finding_of(result: Result) -> Finding:
    """The finding of a result."""
    posterior, doubt = result.posterior, next(iter(result.flaws), result.contradiction)
    low, high = posterior.credible_interval("epsilon", result.level)
    estimate = float(low), float(posterior.median("epsilon")), float(high)
    return Finding(
        variant=result.origin.variant,
        delta=result.delta,
        level=result.level,
        estimate=estimate if doubt is None else None,
        doubt=doubt,
        proven=None if result.proof is None else result.proof.at_least,
        accepted=result.accurate or result.question.accept_untrusted,
        verdict=result.verdict,
        seconds=posterior.provenance.seconds or None,
        extrapolated=bool(getattr(posterior, "extrapolated", False)),
    )


# --- JUnit XML, which CI systems show next to the results of tests ------------------------------

#: Name of the test case of a result without a claim.
ESTIMATE = "estimate"
ACCURACY = "the engine reached its accuracy"

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]|[\x7f-\x9f]")

#: What is inside a test case: tag, text and attributes.
Children = list[tuple[str, str, dict[str, str]]]


def junit_xml(findings: Sequence[Finding], *, source: str, fail_on: str) -> str:
    """One test suite for the audit, and a test case for each claim of each variant.

    A verdict that ``--fail-on`` stops at is a failure. Any other FAIL, and INCONCLUSIVE, is skipped,
    with its reasons. A result that did not reach its accuracy is an error. Times are those of the
    estimates, without training; the first test case of a result has its time.
    """
    root = ElementTree.Element("testsuites")
    suite = _added(root, "testsuite", {"name": f"epsilometer: {source}"})
    for finding in findings:
        where = ".".join(filter(None, ("epsilometer", finding.variant)))
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


# --- workflow commands of GitHub Actions, and a Markdown summary of the job ---------------------

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
    bound = f"epsilon at least {proven}" if proven else "nothing"
    rows = {"delta": short(finding.delta), "proven": bound}
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


#: What Markdown or HTML could read as more than text: punctuation, and dots inside a host name.
_MARKUP = re.compile(r"[^\w\s.,;()=%]|_|(?<!\d)\.(?=\w)|\.(?=[^\W\d])")


def _inline(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    spelt = _files.printable(" ".join(text.split()))
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", spelt)
