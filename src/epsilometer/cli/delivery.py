"""Where a result goes: what is printed and written, what is warned of, and the exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _validate
from epsilometer.cli import options, results
from epsilometer.cli.options import flag, option
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.inference.claimed_curve import JudgedCurve
    from epsilometer.inference.result import Result

REFUSED = 3
NOT_CONVERGED = 4
FAIL_ON = {"never": (), "fail": ("FAIL",), "inconclusive": ("FAIL", "INCONCLUSIVE")}
"""At which verdicts the exit code is 3."""

POSTERIOR, SUMMARY, CURVES = "posterior.nc", "summary.json", "curves.csv"
"""Files of a result that other commands read."""


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """Where the verdict takes sides."""

    pass_at_most: float = option(
        "P", "PASS if epsilon exceeds the claim with probability at most P.", default=0.05
    )
    fail_at_least: float = option(
        "P", "FAIL if epsilon exceeds the claim with probability at least P.", default=0.95
    )

    @property
    def thresholds(self) -> em.Thresholds:
        return em.Thresholds(pass_at_most=self.pass_at_most, fail_at_least=self.fail_at_least)


@dataclass(frozen=True, kw_only=True)
class VerdictOptions(ThresholdOptions):
    """The verdict, and the exit code that it leads to."""

    fail_on: str = option(
        "never|fail|inconclusive",
        "Exit with 3 if the verdict is FAIL; with `inconclusive` also if it is that.",
        default="never",
    )
    allow_unconverged: bool = flag("Accept a result that did not converge.", "--allow-unconverged")

    def check(self) -> None:
        """Refuse what makes no sense before any work is done."""
        _validate.one_of("fail_on", self.fail_on, FAIL_ON)
        _ = self.thresholds

    def check_claim(self, claim: object) -> None:
        """Refuse to wait for a verdict that cannot come."""
        if claim is None and self.fail_on != "never":
            raise InputError(f"--fail-on {self.fail_on} needs a claimed epsilon to judge.")

    def result(
        self,
        posterior: em.Posterior,
        level: float,
        claim: float | None,
        delivery: DeliveryOptions,
        *,
        source: str | None = None,
        **context: Any,
    ) -> Result:
        """What the options ask of a posterior; ``context`` is its origin and its curve over delta."""
        from epsilometer.inference.result import OtherModels, Question, Result

        asked = Question(
            level=level,
            claim=claim,
            claim_source=source,
            thresholds=self.thresholds,
            accept_untrusted=self.allow_unconverged,
            other_models=OtherModels.FULL if delivery.check_model else OtherModels.QUICK,
        )
        return Result(posterior=posterior, asked=asked, report=results.tell, **context)

    def exit_code(self, trustworthy: bool, outcomes: Sequence[em.Outcome]) -> int:
        """4 before 3: a result that must not be quoted has no verdict."""
        if not trustworthy and not self.allow_unconverged:
            return NOT_CONVERGED
        return REFUSED if any(str(each) in FAIL_ON[self.fail_on] for each in outcomes) else 0


@dataclass(frozen=True, kw_only=True)
class DeliveryOptions:
    """What is printed and written."""

    as_json: bool = options.AS_JSON
    output: Path | None = option(
        "DIR",
        "Write summary.json, posterior.nc and figures there; `audit` also losses.csv, counts.csv "
        "and curves.csv; several deltas curve.csv, curve.json and curve.png.",
    )
    report: Path | None = option("FILE", "Write a page, HTML, that stands alone.", "--report")
    figures: Path | None = options.FIGURES
    check_model: bool = options.CHECK_MODEL

    def check(self) -> None:
        """Refuse what cannot be written, before any work is done."""
        page = self.report
        if page is not None:
            from epsilometer.report.page import check_extras

            check_extras()
            folder = page.absolute().parent
            if page.is_dir():
                raise InputError(f"{page}: expected a file for the report, got a folder.")
            if not folder.is_dir() or not os.access(folder, os.W_OK):
                raise InputError(f"{page}: the report's folder is missing or cannot be written.")
        results.check_output(self.figures, option="--figures")
        results.check_output(self.output)

    @property
    def shows_all(self) -> bool:
        """Whether a page or printed figures are to be written."""
        return self.report is not None or self.figures is not None

    def write(self, result: Result, *, suffix: str = "") -> list[Path]:
        """Write the folder, the page and the figures; ``suffix`` tells variants of one audit apart."""
        written = []
        if self.output is not None:
            write_result(result, self.output / suffix.lstrip("-"))
            written.append(self.output)
        if not self.shows_all:
            return written
        from epsilometer.report import evidence, page

        shown = evidence.charts(result)
        if self.report is not None:
            written.append(self.report.with_stem(f"{self.report.stem}{suffix}"))
            page.write_page(result, written[-1], shown)
        if self.figures is not None:
            written.append(self.figures / suffix.lstrip("-"))
            page.write_figures(shown, written[-1])
        return written


def write_result(result: Result, folder: Path) -> None:
    """Write posterior, figures and summary, and the curve over delta if there is one."""
    from epsilometer.report import evidence
    from epsilometer.report.figures.chains import chain_charts
    from epsilometer.report.summary import result_data

    folder.mkdir(parents=True, exist_ok=True)
    earlier = (folder / POSTERIOR).exists()
    result.posterior.save(folder / POSTERIOR)
    made = evidence.posterior_charts(result.posterior, level=result.level)
    made += chain_charts(result.posterior)
    if earlier:
        for name in set(evidence.CHART_NAMES) - {chart.name for chart in made}:
            # A figure of an earlier estimate would contradict this one.
            (folder / f"{name}.png").unlink(missing_ok=True)
    text = json.dumps(result_data(result), indent=2, allow_nan=False) + "\n"
    figures = {f"{chart.name}.png": chart.draw() for chart in made}
    results.write_files(folder, {}, figures)
    results.write_files(folder, {SUMMARY: text}, {})
    if result.over_delta is not None:
        write_curve(result.over_delta, folder)


def write_curve(curve: JudgedCurve, folder: Path) -> None:
    """Write a curve over delta as CSV, JSON and a figure."""
    from epsilometer.report.delta_table import curve_csv, curve_data
    from epsilometer.report.figures.delta_curve import delta_curve_chart

    texts = {
        "curve.csv": curve_csv(curve),
        "curve.json": json.dumps(curve_data(curve), indent=2) + "\n",
    }
    results.write_files(folder, texts, {"curve.png": delta_curve_chart(curve).draw()})


def hand_over(
    as_json: bool,
    printed: Callable[[], Any],
    *,
    write: Callable[[], list[Path]],
    warnings: Callable[[], list[str]],
) -> None:
    """Write, print and warn; a folder that cannot be written does not lose what is printed."""
    failure: OSError | None = None
    written: list[Path] = []
    with results.progress("report"):
        try:
            written = write()
        except OSError as error:
            failure = error
        shown, lines = printed(), warnings()
    results.answer(as_json, lambda: shown, lambda: shown + results.written_to(written))
    for line in lines:
        results.warn(line)
    if failure is not None:
        raise failure


def deliver(result: Result, delivery: DeliveryOptions, verdict: VerdictOptions) -> int:
    """Write and print a result."""
    from epsilometer.report.summary import result_data, result_text

    hand_over(
        delivery.as_json,
        lambda: result_data(result) if delivery.as_json else result_text(result),
        write=lambda: delivery.write(result),
        warnings=lambda: doubts_of(result),
    )
    return verdict.exit_code(result.trustworthy, outcomes_of(result))


def doubts_of(result: Result) -> list[str]:
    """What is warned of on stderr, loudest first."""
    from epsilometer.report.delta_table import curve_notes

    found = []
    if not result.posterior.trustworthy:
        found.append(f"do not quote this result: {result.posterior.engine_words}.")
    over = result.over_delta
    if over is not None and not over.curve.trustworthy:
        found.append(curve_notes(over)[0])
    return found + [f"warning: {sentence}" for sentence in result.doubts]


def outcomes_of(result: Result) -> list[em.Outcome]:
    """The verdicts in a result: that at its own delta, and that over several."""
    over = None if result.over_delta is None else result.over_delta.verdict
    return [each.outcome for each in (result.verdict, over) if each is not None]
