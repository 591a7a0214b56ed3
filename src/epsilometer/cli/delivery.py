"""Output of a result: printed text, written files, warnings and the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import flag, option
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.report.gates import Finding

REFUSED = 3
NOT_CONVERGED = 4
#: What an earlier run has left in a file of JUnit XML.
MARK = b'<testsuite name="epsilometer: '


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """The thresholds of the verdict."""

    pass_at_most: float | None = option(
        "P", "PASS if epsilon exceeds the claim with probability at most P. Default: 0.05."
    )
    fail_at_least: float | None = option(
        "P", "FAIL if epsilon exceeds the claim with probability at least P. Default: 0.95."
    )

    def thresholds(self, known: em.judgement.Thresholds | None = None) -> em.judgement.Thresholds:
        """The thresholds, by default those that are known, or those of the verdict."""
        names = ("pass_at_most", "fail_at_least")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(known or em.judgement.Thresholds(), **given)


@dataclass(frozen=True, kw_only=True)
class VerdictOptions(ThresholdOptions):
    """The verdict, and its exit code."""

    panel: ClassVar[str] = "Claim and verdict"

    fail_on: str = option(
        "never|proven|conditional|fail|inconclusive",
        "Exit with code 3 if the verdict is FAIL (proven); `conditional`: also for FAIL (proven if the "
        "noise is independent); `fail`: for any FAIL; `inconclusive`: also for INCONCLUSIVE. NO PROMISE "
        "always exits with code 3.",
        default="never",
    )
    error: float | None = option("P", "Error probability of proofs. Default: 0.05.")
    shared_models: bool = flag(
        "Bases share models: proofs average over bases instead of multiplying.",
        "--shared-models",
    )
    allow_unconverged: bool = flag(
        "Accept a result that did not reach its accuracy.", "--allow-unconverged"
    )

    def check(self) -> None:
        """Refuse invalid options before any work is done."""
        from epsilometer.judgement.verdict import FAIL_ON

        _validate.one_of("fail_on", self.fail_on, FAIL_ON)
        if self.error is not None:
            _validate.open_unit_interval("error", self.error)
        self.thresholds()

    def check_claim(self, claim: object) -> None:
        """Refuse --fail-on without a claim."""
        if claim is None and self.fail_on != "never":
            raise InputError(f"--fail-on {self.fail_on} needs a claimed epsilon to judge.")

    def question(
        self, delivery: DeliveryOptions, known: Mapping[str, Any] | None = None, **asked: Any
    ) -> em.judgement.Question:
        """The question of these options; ``known`` is that of a result, their default."""
        from epsilometer.judgement.question import OtherModels, Question

        question = dict(known or {})
        if asked.get("claim") is not None:
            question.pop("claim_source", None)
        asked |= {"error": self.error, "independent": False if self.shared_models else None}
        question |= {name: value for name, value in asked.items() if value is not None}
        question["thresholds"] = self.thresholds(question.get("thresholds"))
        question["accept_untrusted"] = self.allow_unconverged
        question["other_models"] = OtherModels.FULL if delivery.check_model else OtherModels.QUICK
        return Question(**question)

    def exit_code(self, judged: Sequence[em.Result]) -> int:
        """4 goes before a judged 3: an inaccurate result has no verdict, unless it is proven."""
        verdicts = [result.verdict for result in judged if result.verdict is not None]
        stopped = [verdict for verdict in verdicts if verdict.stops(self.fail_on)]
        if any(verdict.grounds.without_engine for verdict in stopped):
            return REFUSED
        if not self.allow_unconverged and not all(result.accurate for result in judged):
            return NOT_CONVERGED
        return REFUSED if stopped else 0


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Where else a verdict is reported, for a pipeline."""

    junit: Path | None = option("FILE", "Write the verdict as JUnit XML: a test case per claim.")
    annotate: str | None = option(
        "github",
        "Print annotations for GitHub Actions on standard error, and add a summary to the job.",
    )

    def check_gates(self, *, force: bool) -> None:
        """Refuse outputs that cannot be written, before any work is done."""
        if self.annotate is not None:
            _validate.one_of("annotate", self.annotate, ("github",))
        path, own = self.junit, set()
        # Every run of a pipeline writes it again; a file of anything else is kept.
        if path is not None and path.is_file() and MARK in _files.read_bytes(path, 1000):
            own = {path.resolve()}
        outputs.check_file(path, (".xml",), option="--junit", force=force, own=own)

    def announce(self, findings: Sequence[Finding], source: Path | None, fail_on: str) -> None:
        """Print annotations for GitHub, and add to the summary of the job."""
        from epsilometer.report.gates import github_commands, job_summary

        if self.annotate is None:
            return
        shown = _in_workspace(source)
        lines = github_commands(findings, source=shown, fail_on=fail_on)
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
        target = os.environ.get("GITHUB_STEP_SUMMARY")
        if target:
            text = job_summary(findings, source=shown, fail_on=fail_on)
            with Path(target).open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")


@dataclass(frozen=True, kw_only=True)
class DeliveryOptions(GateOptions):
    """What is printed and written."""

    panel: ClassVar[str] = "Output"

    #: The option that names the page.
    report_option: ClassVar[str] = "--report"

    as_json: bool = options.AS_JSON
    output: Path | None = option(
        "DIR",
        "Write summary.json, posterior.nc and figures to this folder; `audit` also losses.csv, "
        "counts.csv and curves.csv; several deltas curve.csv, curve.json and curve.png. A result of "
        "the same data is replaced; other files need --force.",
    )
    report: Path | None = option("FILE", "Write a self-contained HTML report.")
    details: bool = flag(
        "Print everything: all parameters, bases, facts and warnings, not only the first screen.",
        "--details",
    )
    figures: Path | None = option("DIR", "Write every figure as PNG, SVG and PDF.")
    force: bool = outputs.FORCE
    check_model: bool = flag("Compare alternative models.", "--check-model")

    def check(self, same: outputs.Same | None = None) -> None:
        """Refuse what cannot be written, and what would be overwritten, before any work is done.

        ``same`` tells whether a folder holds a result of the same audit or data, which may be replaced.
        """
        force, own = self.force, outputs.own_files(self.output)
        outputs.check_folder(self.output, force=force, same=same)
        page: Any = {"option": self.report_option, "force": force, "own": own}
        outputs.check_file(self.report, outputs.PAGE_ENDINGS, **page)

        def written_before(folder: Path) -> bool:
            return all(path.resolve() in own for path in folder.rglob("*") if path.is_file())

        outputs.check_folder(self.figures, option="--figures", force=force, same=written_before)
        self.check_gates(force=force)

    def write(self, result: em.Result, audit: str | None) -> list[Path]:
        """Write the folder, the page and the figures; the folder notes what is written with it."""
        from epsilometer.report import writing

        folder, page = self.output, self.report
        written = [] if page is None else writing.page_paths(result, page)
        beside = list(written)
        if folder is not None:
            outputs.remember(folder, beside, audit=audit, done=False)
            writing.write_result(result, folder)
            written.insert(0, folder)
        if page is not None:
            writing.write_page(result, page)
        if self.figures is not None:
            written += writing.write_figures(result, self.figures)
            beside += sorted(path for path in self.figures.rglob("*.*") if path.is_file())
        if folder is not None:
            outputs.remember(folder, beside, audit=audit, done=True)
        return written


def deliver(
    result: em.Result,
    delivery: DeliveryOptions,
    verdict: VerdictOptions,
    *,
    file: Path | None,
    audit: str | None = None,
) -> int:
    """Write and print a result, or all its variants, and return the exit code.

    ``audit`` is the identity of an audit, of which it is told how many models it trained.
    """
    from epsilometer.report.gates import finding_of, junit_xml

    judged = list(result.variants.values()) or [result]
    failure: OSError | None = None
    written: list[Path] = []
    with results.progress("report"):
        findings = [finding_of(each) for each in judged]
        try:
            written = delivery.write(result, audit)
            if delivery.junit is not None:
                name = "default audit" if file is None else file.name
                text = junit_xml(findings, source=name, fail_on=verdict.fail_on)
                _files.write_text(delivery.junit, text)
                written.append(delivery.junit)
        except OSError as error:  # does not prevent the printing
            failure = error
        trained = audit is not None
        shown = _data(result) if delivery.as_json else _text(judged, delivery, trained=trained)
        warnings = [warning for variant in judged for warning in variant.warnings]
    results.answer(delivery.as_json, lambda: shown, lambda: shown + results.written_to(written))
    if delivery.as_json or not sys.stdout.isatty():  # a screen has them already
        results.warn_all(warnings)
    if failure is not None:
        raise failure
    delivery.announce(findings, file, verdict.fail_on)
    return verdict.exit_code(judged)


def _data(result: em.Result) -> Any:
    """The output as an object for JSON."""
    if not result.variants:
        return result.to_dict()
    variants = [variant.to_dict() for variant in result.variants.values()]
    models = {f"models_{name}": result.origin.models[name] for name in ("trained", "reused")}
    return {"variants": variants, **models}


def _text(judged: Sequence[em.Result], delivery: DeliveryOptions, *, trained: bool) -> str:
    """The output as text."""
    from epsilometer._text import counted, paragraphs
    from epsilometer.report.text.summary import result_text

    parts, origin = [], judged[0].origin
    details = delivery.details or delivery.check_model  # which is asked for to be read
    if trained:
        models = origin.models
        parts.append(
            f"{counted(models['trained'], 'model')} trained now, {models['reused']:,} reused, "
            f"{models['failed']:,} failed.\n"
        )
    for result in judged:
        if result.origin.variant is not None:
            name = _files.printable(result.origin.variant)
            about = "from the same trained models as the others, so not independent of them"
            parts.append(paragraphs([f"Variant {name} ({about})"]))
        parts.append(result_text(result, details=details))
    if trained and origin.stopping:
        parts.append(paragraphs([origin.stopping["sentence"]]))
    return "\n".join(parts)


def _in_workspace(source: Path | None) -> str | None:
    """The file as GitHub names it: relative to the workspace, else to the current folder."""
    if source is None or not source.is_file():
        return None
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    path = source.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else source.as_posix()
