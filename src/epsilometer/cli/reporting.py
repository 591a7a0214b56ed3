"""Verdicts and reports on the command line: what the options mean, and the exit code they lead to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files, _validate
from epsilometer.cli import results
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.result import ErrorCurves
    from epsilometer.inference.posterior import Posterior
    from epsilometer.inference.verdict import Thresholds
    from epsilometer.report.delta_table import CurveTable
    from epsilometer.report.evidence import Origin

REFUSED = 3
NOT_CONVERGED = 4
FAIL_ON = ("never", "fail", "inconclusive")


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a command was asked for, checked before any work is done.

    Attributes
    ----------
    page, figures
        Where the page and the printed figures go.
    fail_on
        At which verdicts the exit code is 3.
    """

    page: Path | None
    figures: Path | None
    thresholds: Thresholds
    fail_on: str
    allow_unconverged: bool

    @classmethod
    def checked(
        cls,
        *,
        page: Path | None,
        figures: Path | None,
        pass_at_most: float,
        fail_at_least: float,
        fail_on: str,
        allow_unconverged: bool,
    ) -> Wishes:
        """The wishes, or an error that names the one which cannot be met."""
        from epsilometer.inference.verdict import Thresholds

        _validate.one_of("fail_on", fail_on, FAIL_ON)
        if page is not None:
            from epsilometer.report.page import check_extras

            check_extras()
            folder = page.absolute().parent
            if page.is_dir():
                raise InputError(f"{page}: expected a file for the report, got a folder.")
            if not folder.is_dir() or not os.access(folder, os.W_OK):
                raise InputError(f"{page}: the report's folder is missing or cannot be written.")
        if figures is not None:
            results.check_output(figures, option="--figures")
        return cls(
            page=page,
            figures=figures,
            thresholds=Thresholds(pass_at_most=pass_at_most, fail_at_least=fail_at_least),
            fail_on=fail_on,
            allow_unconverged=allow_unconverged,
        )

    def check_claim(self, claim: float | None) -> None:
        """Refuse to wait for a verdict that cannot come."""
        if claim is None and self.fail_on != "never":
            raise InputError(f"--fail-on {self.fail_on} needs a claimed epsilon to judge.")

    @property
    def wanted(self) -> bool:
        """Whether a page or printed figures are to be written."""
        return self.page is not None or self.figures is not None

    def write(
        self,
        posterior: Posterior,
        summary: dict[str, Any],
        origin: Origin,
        *,
        suffix: str = "",
        table: CurveTable | None = None,
    ) -> list[Path]:
        """Write what was asked for; ``suffix`` tells variants of one audit apart."""
        if not self.wanted:
            return []
        from epsilometer.report import page
        from epsilometer.report.evidence import gather

        claim = summary.get("claim")
        with results.progress("report") as (report, _):
            evidence = gather(
                posterior,
                level=summary["epsilon"]["level"],
                claim=None if claim is None else claim["epsilon"],
                thresholds=self.thresholds,
                origin=origin,
                accept_untrusted=self.allow_unconverged,
                over_delta=table,
                report=report,
            )
            written = []
            if self.page is not None:
                target = self.page.with_stem(f"{self.page.stem}{suffix}")
                page.write_page(evidence, target)
                written.append(target)
            if self.figures is not None:
                folder = self.figures / suffix.lstrip("-") if suffix else self.figures
                page.write_figures(evidence, folder)
                written.append(folder)
        return written

    def exit_code(self, trustworthy: bool, summaries: list[dict[str, Any]]) -> int:
        """4 before 3: a result that must not be quoted has no verdict."""
        if not trustworthy and not self.allow_unconverged:
            return NOT_CONVERGED
        refused = {"never": (), "fail": ("FAIL",), "inconclusive": ("FAIL", "INCONCLUSIVE")}
        outcomes = [summary["verdict"]["outcome"] for summary in summaries if "verdict" in summary]
        return REFUSED if any(each in refused[self.fail_on] for each in outcomes) else 0


def written_to(paths: list[Path]) -> str:
    """The closing line of a command that wrote something."""
    if not paths:
        return ""
    return f"\nWritten to {', '.join(_files.printable(path) for path in paths)}\n"


def origin_of(summary: dict[str, Any], curves: ErrorCurves | None) -> Origin:
    """What the summary of an audit says of where its counts came from."""
    from epsilometer.report.evidence import Origin

    attack = summary.get("counts") or {}
    models = {}
    if "models_trained" in summary:
        models = {
            "trained": int(summary["models_trained"]),
            "reused": int(summary["models_reused"]),
            "failed": len(summary["models_failed"]),
        }
    return Origin(
        plan=summary.get("plan") or {},
        attack={key: attack[key] for key in ("attack", "statistic", "target_alpha") if attack},
        models=models,
        warnings=tuple(attack.get("warnings", ())),
        curves=curves,
        claim_source=(summary.get("claim") or {}).get("source"),
        variant=summary.get("variant"),
    )
