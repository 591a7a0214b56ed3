"""Output of a result: printed text, written files, warnings and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer.cli import options, outputs, results
from epsilometer.cli.gate_options import Gate, GateOptions
from epsilometer.cli.options import flag, option
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import LEAKS, POSTERIOR, PUBLISHED, SUMMARY, WHOLE_CURVE

if TYPE_CHECKING:
    from epsilometer.inputs.recorded import Recorded
    from epsilometer.judgement.claimed_curve import CurveVerdict, JudgedCurve
    from epsilometer.judgement.curve_result import ProfileResult
    from epsilometer.judgement.result import Question, Result
    from epsilometer.judgement.verdict import Verdict
    from epsilometer.report.views import AnyResult

    AnyVerdict = Verdict | CurveVerdict

DEFAULT_ERROR = 0.05
"""Default error probability of proofs."""

REFUSED = 3
NOT_CONVERGED = 4


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """The thresholds of the verdict."""

    pass_at_most: float | None = option(
        "P", "PASS if epsilon exceeds the claim with probability at most P. Default: 0.05."
    )
    fail_at_least: float | None = option(
        "P", "FAIL if epsilon exceeds the claim with probability at least P. Default: 0.95."
    )

    @property
    def thresholds(self) -> em.judgement.Thresholds:
        given = {"pass_at_most": self.pass_at_most, "fail_at_least": self.fail_at_least}
        return em.judgement.Thresholds(
            **{name: value for name, value in given.items() if value is not None}
        )


@dataclass(frozen=True, kw_only=True)
class VerdictOptions(ThresholdOptions):
    """The verdict, and its exit code."""

    fail_on: str = option(
        "never|proven|fail|inconclusive",
        "Exit with code 3 if the verdict is FAIL (proven); `fail`: for any FAIL; `inconclusive`: also "
        "for INCONCLUSIVE.",
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

        _validate.one_of("fail_on", self.fail_on, ("never", *FAIL_ON))
        _validate.open_unit_interval("error", self.chosen_error)
        _ = self.thresholds

    @property
    def chosen_error(self) -> float:
        """The error probability of proofs, or its default."""
        return DEFAULT_ERROR if self.error is None else self.error

    def as_recorded(self, asked: dict[str, Any]) -> VerdictOptions:
        """These options, with those of a recorded result as defaults."""
        numbers = {
            name: asked[name]
            for name in ("error", "pass_at_most", "fail_at_least")
            if name in asked and getattr(self, name) is None
        }
        shared = self.shared_models or asked.get("shared_models", False)
        return replace(self, **numbers, shared_models=shared)

    def check_claim(self, claim: object) -> None:
        """Refuse --fail-on without a claim."""
        if claim is None and self.fail_on != "never":
            raise InputError(f"--fail-on {self.fail_on} needs a claimed epsilon to judge.")

    def result(
        self,
        posterior: em.engines.CountPosterior,
        level: float,
        claim: float | None,
        delivery: DeliveryOptions,
        *,
        source: str | None = None,
        **context: Any,
    ) -> Result:
        """The judged result of a posterior; ``context`` is its origin and its curve over delta."""
        from epsilometer.judgement.result import Result

        asked = self._question(level, claim, delivery, source)
        return Result(posterior=posterior, question=asked, report=results.tell, **context)

    def profile_result(
        self,
        posterior: em.engines.CurvePosterior,
        level: float,
        claim: float | None,
        delivery: DeliveryOptions,
        *,
        source: str | None = None,
        **context: Any,
    ) -> ProfileResult:
        """The judged result of a whole-curve posterior."""
        from epsilometer.judgement.curve_result import ProfileResult

        asked = self._question(level, claim, delivery, source)
        return ProfileResult(posterior=posterior, question=asked, report=results.tell, **context)

    def recorded_result(
        self,
        recorded: Recorded,
        level: float,
        claim: float | None,
        delivery: DeliveryOptions,
        *,
        source: str | None = None,
    ) -> AnyResult:
        """A recorded result, judged, with its origin and its published model."""
        from epsilometer.inputs.sources import scores_of_result

        asked = (level, claim, delivery)
        context: dict[str, Any] = {"source": source, "origin": recorded.origin}
        scores, chosen = scores_of_result(recorded), self.as_recorded(recorded.asked)
        if recorded.kind != WHOLE_CURVE:
            return chosen.result(recorded.posterior, *asked, scores=scores, **context)
        published = None
        if recorded.published is not None:
            published = chosen.result(recorded.published, *asked, scores=scores, **context)
        return chosen.profile_result(recorded.posterior, *asked, published=published, **context)

    def _question(
        self, level: float, claim: float | None, delivery: DeliveryOptions, source: str | None
    ) -> Question:
        from epsilometer.judgement.result import OtherModels, Question

        return Question(
            level=level,
            claim=claim,
            claim_source=source,
            thresholds=self.thresholds,
            accept_untrusted=self.allow_unconverged,
            other_models=OtherModels.FULL if delivery.check_model else OtherModels.QUICK,
            error=self.chosen_error,
            independent=not self.shared_models,
        )

    def exit_code(self, trustworthy: bool, verdicts: Sequence[AnyVerdict]) -> int:
        """4 takes precedence over 3: an inaccurate result has no verdict, unless it is proven."""
        from epsilometer.judgement.verdict import FAIL_ON

        refused = FAIL_ON.get(self.fail_on, ())
        if any(each.grounds == "proven" and each.label in refused for each in verdicts):
            return REFUSED
        if not trustworthy and not self.allow_unconverged:
            return NOT_CONVERGED
        return REFUSED if any(each.label in refused for each in verdicts) else 0


@dataclass(frozen=True, kw_only=True)
class DeliveryOptions(GateOptions):
    """What is printed and written."""

    report_option: ClassVar[str] = "--report"
    """The option that names the page."""

    as_json: bool = options.AS_JSON
    output: Path | None = option(
        "DIR",
        "Write summary.json, posterior.nc and figures to this folder; `audit` also losses.csv, "
        "counts.csv and curves.csv; several deltas curve.csv, curve.json and curve.png. A result of "
        "the same data is replaced; other files need --force.",
    )
    report: Path | None = option("FILE", "Write a self-contained HTML report.", "--report")
    figures: Path | None = options.FIGURES
    force: bool = outputs.FORCE
    check_model: bool = options.CHECK_MODEL

    def check(self, same: outputs.Same = outputs.never) -> None:
        """Refuse what cannot be written, and what would be overwritten, before any work is done.

        ``same`` tells whether a folder holds a result of the same audit or data, which may be replaced.
        """
        outputs.check_folder(self.output, force=self.force, same=same)
        own = outputs.own_files(self.output)
        outputs.check_file(
            self.report, outputs.PAGE_ENDINGS, option=self.report_option, force=self.force, own=own
        )

        def written_before(folder: Path) -> bool:
            return all(each.resolve() in own for each in folder.rglob("*") if each.is_file())

        outputs.check_folder(
            self.figures, option="--figures", force=self.force, same=written_before
        )
        self.check_gates(force=self.force)

    @property
    def shows_all(self) -> bool:
        """Whether to write a page or figures."""
        return self.report is not None or self.figures is not None

    def pages(self, suffixes: Sequence[str] = ("",)) -> list[Path]:
        """The pages that are to be written, one for each variant."""
        page = self.report
        return [] if page is None else [page.with_stem(f"{page.stem}{each}") for each in suffixes]

    def remember(self, audit: str | None, suffixes: Sequence[str] = ("",), *, done: bool) -> None:
        """Note in the result folder what is written with it; see :mod:`epsilometer.cli.outputs`."""
        if self.output is None:
            return
        drawn = [] if self.figures is None or not done else sorted(self.figures.rglob("*.*"))
        paths = [path for path in (*self.pages(suffixes), *drawn) if path.is_file() or not done]
        outputs.remember(self.output, paths, audit=audit, done=done)

    def write(self, result: AnyResult, *, suffix: str = "") -> list[Path]:
        """Write the folder, the page and the figures; ``suffix`` tells variants of one audit apart."""
        written = []
        if self.output is not None:
            write_result(result, self.output / suffix.lstrip("-"))
            written.append(self.output)
        if not self.shows_all:
            return written
        from epsilometer.report import writing
        from epsilometer.report.views import views_of

        shown = views_of(result).charts(result)
        if self.report is not None:
            written += self.pages([suffix])
            writing.write_page(result, written[-1], shown)
        if self.figures is not None:
            written.append(self.figures / suffix.lstrip("-"))
            writing.write_figures(shown, written[-1])
        return written


def write_result(result: AnyResult, folder: Path) -> None:
    """Write posterior, figures and summary, and the curve over delta if there is one."""
    from epsilometer.report.figures.profile import PROFILE_CHART_NAMES
    from epsilometer.report.figures.published import CHART_NAMES
    from epsilometer.report.views import views_of

    views = views_of(result)
    folder.mkdir(parents=True, exist_ok=True)
    earlier = (folder / POSTERIOR).exists()
    result.posterior.save(folder / POSTERIOR)
    made = views.folder_charts(result)
    if earlier:
        names = {*CHART_NAMES, *PROFILE_CHART_NAMES}
        stale = [f"{name}.png" for name in names - {chart.name for chart in made}]
        for name in [*stale, LEAKS, PUBLISHED]:
            # Files of an earlier estimate would contradict this one.
            (folder / name).unlink(missing_ok=True)
    text = json.dumps(views.data(result), indent=2, allow_nan=False) + "\n"
    figures = {f"{chart.name}.png": chart.draw() for chart in made}
    results.write_files(folder, {}, figures)
    results.write_files(folder, {SUMMARY: text} | _profile_texts(result), {})
    published = getattr(result, "published", None)
    if published is not None:
        published.posterior.save(folder / PUBLISHED)
    if isinstance(result.over_delta, em.engines.JointDeltaCurve):
        _write_profile_curve(result, result.over_delta, folder)
    elif result.over_delta is not None:
        write_curve(result.over_delta, folder)


def _profile_texts(result: Any) -> dict[str, str]:
    """Tables of a whole-curve result only."""
    if not hasattr(result.posterior, "scores"):
        return {}
    from epsilometer.report.text.profile_summary import leaks_csv

    return {LEAKS: leaks_csv(result)}


def write_curve(curve: JudgedCurve, folder: Path) -> None:
    """Write a curve over delta as CSV, JSON and a figure."""
    from epsilometer.report.figures.delta_curve import delta_curve_chart
    from epsilometer.report.text.delta_table import curve_csv, curve_data

    _write_curve(folder, curve_csv(curve), curve_data(curve), delta_curve_chart(curve))


def _write_profile_curve(result: Any, curve: em.engines.JointDeltaCurve, folder: Path) -> None:
    """Write the curve of the whole-curve model."""
    from epsilometer.report.figures.profile import profile_delta_chart
    from epsilometer.report.text.profile_summary import profile_curve_csv, profile_curve_data

    chart = profile_delta_chart(result)
    data = profile_curve_data(curve, result.curve_verdict)
    _write_curve(folder, profile_curve_csv(curve), data, chart)


def _write_curve(folder: Path, rows: str, data: dict[str, Any], chart: Any) -> None:
    texts = {"curve.csv": rows, "curve.json": json.dumps(data, indent=2) + "\n"}
    results.write_files(folder, texts, {"curve.png": chart.draw()})


def write_and_print(
    as_json: bool,
    printed: Callable[[], Any],
    *,
    write: Callable[[], list[Path]],
    warnings: Callable[[], list[str]],
) -> None:
    """Write, print and warn; a folder that cannot be written does not prevent the printing."""
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


def gate_of(
    results: Sequence[AnyResult],
    delivery: DeliveryOptions,
    verdict: VerdictOptions,
    source: Path | None,
) -> Gate:
    """The gate that reports on some results of one file."""
    from epsilometer.report.gates.findings import finding_of
    from epsilometer.report.views import views_of

    accept = verdict.allow_unconverged
    return Gate(
        options=delivery,
        source=source,
        fail_on=verdict.fail_on,
        find=lambda: [finding_of(each, accept_untrusted=accept) for each in results],
        summarise=lambda: [views_of(each).data(each) for each in results],
        report=delivery.report,
    )


def deliver(
    result: AnyResult,
    delivery: DeliveryOptions,
    verdict: VerdictOptions,
    make_room: Callable[[], list[Path]] = list,
    *,
    file: Path | None = None,
) -> int:
    """Write and print a result; ``make_room`` moves earlier files away and returns their paths."""
    from epsilometer.report.views import views_of

    views, gate = views_of(result), gate_of([result], delivery, verdict, file)

    def write() -> list[Path]:
        kept = make_room()
        delivery.remember(None, done=False)
        written = delivery.write(result) + kept
        delivery.remember(None, done=True)
        return written + gate.write()

    write_and_print(
        delivery.as_json,
        lambda: views.data(result) if delivery.as_json else views.text(result),
        write=write,
        warnings=lambda: warnings_about(result),
    )
    gate.announce()
    return verdict.exit_code(result.trustworthy, verdicts_of(result))


def warnings_about(result: AnyResult) -> list[str]:
    """Warnings for stderr, the most serious first."""
    from epsilometer.report.text.delta_table import curve_notes

    found = []
    if not result.posterior.trustworthy:
        found.append(f"do not quote this result: {result.posterior.engine_description}.")
    if result.contradiction is not None:
        found.append(f"warning: {result.contradiction}")
    over = result.over_delta
    if (
        over is not None
        and not isinstance(over, em.engines.JointDeltaCurve)
        and not over.curve.trustworthy
    ):
        found.append(curve_notes(over)[0])
    return found + [f"warning: {_files.printable(sentence)}" for sentence in result.data_warnings]


def verdicts_of(result: AnyResult) -> list[AnyVerdict]:
    """The verdicts of a result: at its own delta, and over several."""
    over: Any = result.over_delta
    if over is not None:
        curve = isinstance(over, em.engines.JointDeltaCurve)
        over = getattr(result, "curve_verdict", None) if curve else over.verdict
    return [each for each in (result.verdict, over) if each is not None]
