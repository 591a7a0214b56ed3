"""Options that hand a verdict to a pipeline: JUnit XML, a badge, annotations, a tracked run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer.cli import outputs
from epsilometer.cli.options import option

if TYPE_CHECKING:
    from epsilometer.report.gates.findings import Finding

ANNOTATED = ("github",)
LOGS = ("mlflow",)
WRITTEN = {
    "junit": (".xml", '<testsuite name="epsilometer: '),
    "badge": (".svg", 'class="epsilometer-badge"'),
}
"""By option: the ending of the file, and what an earlier run has left in it."""


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Where else a verdict is reported."""

    junit: Path | None = option(
        "FILE", "Write the verdict as JUnit XML: a test case per claim.", "--junit"
    )
    badge: Path | None = option(
        "FILE", "Write an SVG badge with the claim and its verdict, or the proven bound.", "--badge"
    )
    annotate: str | None = option(
        "github",
        "Print annotations for GitHub Actions on standard error, and add a summary to the job.",
        "--annotate",
    )
    log: str | None = option(
        "mlflow", "Log parameters, metrics, verdict, report and summary as an MLflow run.", "--log"
    )

    def check_gates(self, *, force: bool) -> None:
        """Refuse outputs that cannot be written, before any work is done."""
        if self.annotate is not None:
            _validate.one_of("annotate", self.annotate, ANNOTATED)
        if self.log is not None:
            from epsilometer.report.gates.tracking import mlflow

            _validate.one_of("log", self.log, LOGS)
            mlflow()
        for name, (ending, mark) in WRITTEN.items():
            path: Path | None = getattr(self, name)
            # Every run of a pipeline writes these again; files of anything else are kept.
            own_paths = {path.resolve()} if path is not None and _has(path, mark) else set()
            outputs.check_file(path, (ending,), option=f"--{name}", force=force, own=own_paths)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Findings, and where the options want them.

    Parameters
    ----------
    source
        The file that was audited or estimated; None for the default audit.
    """

    options: GateOptions
    source: Path | None
    fail_on: str
    findings: Sequence[Finding]

    def write(self) -> list[Path]:
        """Write JUnit XML and badges, and return their paths."""
        from epsilometer.report.gates.badge import badge_svg
        from epsilometer.report.gates.junit import junit_xml

        texts: dict[Path, str] = {}
        junit, badge = self.options.junit, self.options.badge
        if junit is not None:
            name = "default audit" if self.source is None else self.source.name
            texts[junit] = junit_xml(self.findings, source=name, fail_on=self.fail_on)
        if badge is not None:
            texts |= {_of_variant(badge, each): badge_svg(each) for each in self.findings}
        for path, text in texts.items():
            _files.write_text(path, text)
        return list(texts)

    def announce(self, judged: Sequence[em.Result], report: Path | None) -> None:
        """Print annotations, add to the summary of the job, and log runs with their pages."""
        if self.options.annotate is not None:
            self._annotate()
        if self.options.log is None:
            return
        from epsilometer.report.gates.tracking import log_to_mlflow, run_of

        for finding, result in zip(self.findings, judged, strict=True):
            run = run_of(finding, source=None if self.source is None else self.source.name)
            page = [] if report is None else [_of_variant(report, finding)]
            log_to_mlflow(run, result.to_dict(), page)

    def _annotate(self) -> None:
        from epsilometer.report.gates.annotations import github_commands, job_summary

        shown = _in_workspace(self.source)
        lines = github_commands(self.findings, source=shown, fail_on=self.fail_on)
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
        target = os.environ.get("GITHUB_STEP_SUMMARY")
        if target:
            text = job_summary(self.findings, source=shown, fail_on=self.fail_on)
            with Path(target).open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")


def _has(path: Path, mark: str) -> bool:
    """Whether a file holds the mark near its start."""
    return path.is_file() and mark.encode() in _files.read_bytes(path, 1000)


def _of_variant(path: Path, finding: Finding) -> Path:
    """The path with the name of the variant in it, as `--report` has it."""
    suffix = "" if finding.variant is None else f"-variant-{finding.variant}"
    return path.with_stem(f"{path.stem}{suffix}")


def _in_workspace(source: Path | None) -> str | None:
    """The file as GitHub names it: relative to the workspace, else to the current folder."""
    if source is None or not source.is_file():
        return None
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    path = source.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else source.as_posix()
