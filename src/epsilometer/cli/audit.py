"""``epsilometer audit``: trains, attacks, estimates; can be stopped and started again at any moment."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer import _files, _validate
from epsilometer.cli import looking, reporting, results
from epsilometer.cli.options import (
    AllowUnconverged,
    AsJson,
    FailAtLeast,
    FailOn,
    FiguresFolder,
    PassAtMost,
    ReportFile,
)

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.result import AttackResult
    from epsilometer.cli.audit_config import AuditConfig
    from epsilometer.inference.posterior import Posterior
    from epsilometer.measurement.engine import Measurement, Progress
    from epsilometer.measurement.plan import Plan
    from epsilometer.measurement.store import Failure

SECONDS_BETWEEN_LINES = 30
MOST_FAILURES = 10
LONGEST_MESSAGE = 160


def audit(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            help="The audit, as a TOML file; a network on handwritten digits unless given.",
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="serial|threads|processes|dask|dask://HOST:PORT", help="Who trains the models."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Threads or processes; one a processor if unset."),
    ] = None,
    retries: Annotated[
        int | None, typer.Option(metavar="N", help="How often a failed model is tried again.")
    ] = None,
    accept_changed_code: Annotated[
        bool,
        typer.Option(
            "--accept-changed-code",
            help="Go on with a store although the algorithm's source file has changed.",
        ),
    ] = False,
    until_width: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            help="Stop as soon as the interval of epsilon is at most W wide; the configuration's "
            "challenge bases are then the most.",
        ),
    ] = None,
    show_config: Annotated[
        bool,
        typer.Option("--show-config", help="Print the configuration and audit nothing."),
    ] = False,
    allow_unconverged: AllowUnconverged = False,
    as_json: AsJson = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write losses.csv, counts.csv, summary.json, posterior.nc and figures there.",
        ),
    ] = None,
    report: ReportFile = None,
    figures: FiguresFolder = None,
    pass_at_most: PassAtMost = 0.05,
    fail_at_least: FailAtLeast = 0.95,
    fail_on: FailOn = "never",
) -> int:
    """Train the models an audit needs, attack them, and estimate epsilon."""
    from epsilometer.cli import audit_config
    from epsilometer.measurement.engine import measure
    from epsilometer.measurement.executors import check_name

    if show_config:
        results.say(_files.load(config or audit_config.DEFAULT))
        return 0
    if executor is not None:
        check_name(executor)
    if workers is not None:
        _validate.whole_number("workers", workers)
    if until_width is not None:
        _validate.positive("until_width", until_width)
    if output is not None:
        results.check_output(output)
    wishes = reporting.Wishes.checked(
        page=report,
        figures=figures,
        pass_at_most=pass_at_most,
        fail_at_least=fail_at_least,
        fail_on=fail_on,
        allow_unconverged=allow_unconverged,
    )
    # What the user's code prints is not the program's answer.
    with redirect_stdout(sys.stderr):
        settings = audit_config.read_audit(
            config or audit_config.DEFAULT, folder=None if config else Path.cwd()
        )
    wishes.check_claim(None if settings.claim is None else settings.claim.epsilon)
    execution = settings.file.execution

    def measured(plan: Plan) -> Measurement:
        with _progress() as show, redirect_stdout(sys.stderr):
            return measure(
                plan,
                settings.store,
                executor=executor or execution.executor,
                workers=workers or execution.workers,
                retries=execution.retries if retries is None else retries,
                accept_changed_code=accept_changed_code,
                progress=show,
            )

    def concluded(now: AuditConfig, measurement: Measurement) -> list[looking.Concluded]:
        return [
            _conclude(now, measurement, variant, losses, wishes)
            for variant, losses in measurement.losses.items()
        ]

    stopping: looking.Stopping | None = None
    if until_width is None:
        measurement = measured(settings.plan)
        _report_failures(measurement)
        found = concluded(settings, measurement)
    else:
        settings, measurement, found, stopping = looking.measure_until(
            settings, until_width, measured, concluded
        )
        _report_failures(measurement)
    written = [] if output is None else [output]
    for variant, (posterior, summary, result, losses) in zip(
        measurement.losses, found, strict=True
    ):
        suffix = f"variant-{variant}" if measurement.shares_models else ""
        if output is not None:
            _write(output / suffix, posterior, summary, result, losses, settings)
        origin = reporting.origin_of(summary, result.sweep())
        written += wishes.write(posterior, summary, origin, suffix=f"-{suffix}" if suffix else "")
    summaries = [summary for _, summary, _, _ in found]
    _print(measurement, summaries, stopping, as_json=as_json, written=written)
    for posterior, summary, result, _ in found:
        for warning in result.warnings(settings.file.attack.target_alpha):
            results.warn(f"warning: {warning}")
        results.distrust(posterior, summary)
    trusted = all(posterior.trustworthy for posterior, *_ in found)
    return wishes.exit_code(trusted, summaries)


def _conclude(
    settings: AuditConfig,
    measurement: Measurement,
    variant: str,
    losses: Losses,
    wishes: reporting.Wishes,
) -> looking.Concluded:
    """Attack and estimate one variant."""
    from epsilometer.cli.attack import describe
    from epsilometer.report.summary import summarise

    target, wanted = settings.file.attack.target_alpha, settings.file.estimate
    result = settings.plan.design.attack(losses, settings.attack, statistic=settings.statistic)
    counts = result.counts(target)
    settings.model.check(counts)
    posterior = results.run_engine(counts, settings.model, None)
    claim = settings.claim
    summary = summarise(
        posterior,
        level=wanted.level,
        claim=None if claim is None else claim.epsilon,
        thresholds=wishes.thresholds,
        accept_untrusted=wishes.allow_unconverged,
    )
    if claim is not None:
        summary["claim"]["source"] = claim.source
    plan = settings.plan
    summary |= {
        "counts": describe(result, target),
        "models_trained": measurement.trained,
        "models_reused": measurement.reused,
        "models_failed": [failure.described() for failure in measurement.failures],
        "plan": {
            "hash": plan.content_hash,
            "population": plan.population.name,
            "adjacency": settings.file.audit.adjacency,
            "design": plan.design.identity()["name"],
            "dataset_size": plan.dataset_size,
            "seed": plan.seed,
        },
    }
    if measurement.shares_models:
        summary["variant"] = variant
        summary["shares_models_with"] = [name for name in measurement.losses if name != variant]
    return posterior, summary, result, losses


def _write(
    folder: Path,
    posterior: Posterior,
    summary: dict[str, Any],
    result: AttackResult,
    losses: Losses,
    settings: AuditConfig,
) -> None:
    from epsilometer.attacks import curves_files
    from epsilometer.model import counts_files

    results.write_results(posterior, summary, folder)
    losses.write(folder / "losses.csv")
    counts_files.write(result.counts(settings.file.attack.target_alpha), folder / "counts.csv")
    curves_files.write(result.sweep(), folder / "curves.csv")


def _print(
    measurement: Measurement,
    summaries: list[dict[str, Any]],
    stopping: looking.Stopping | None,
    *,
    as_json: bool,
    written: list[Path],
) -> None:
    from epsilometer.report.summary import summary_text

    if as_json:
        answer = summaries[0]
        if measurement.shares_models:
            answer = {
                "variants": summaries,
                "models_trained": measurement.trained,
                "models_reused": measurement.reused,
            }
        results.say(json.dumps(answer, allow_nan=False) + "\n")
        return
    text = (
        f"{measurement.trained:,} models trained now, {measurement.reused:,} reused, "
        f"{len(measurement.failures):,} failed.\n"
    )
    for summary in summaries:
        text += "\n"
        if measurement.shares_models:
            text += (
                f"Variant {_files.printable(summary['variant'])} (made from the same trained "
                "models as the others,\nso its estimate is not independent of theirs)\n\n"
            )
        text += summary_text(summary)
    if stopping is not None:
        text += "\n" + textwrap.fill(stopping.sentence, 80) + "\n"
    text += reporting.written_to(written)
    results.say(text)


def _report_failures(measurement: Measurement) -> None:
    failures = measurement.failures
    said: dict[str, list[Failure]] = {}
    for failure in failures:
        said.setdefault(failure.message, []).append(failure)
    for message, alike in list(said.items())[:MOST_FAILURES]:
        first = alike[0]
        others = f" (and {len(alike) - 1} more alike)" if len(alike) > 1 else ""
        results.warn(
            f"warning: {first.task}{others} failed {first.attempts} times and is left out: "
            f"{textwrap.shorten(message, LONGEST_MESSAGE)}"
        )
    if failures:
        results.warn(
            f"warning: {len(failures)} models are missing from the counts; if failing depends on the "
            "challenge point, the estimate is biased. `status` names them all."
        )


# --- progress ---------------------------------------------------------------------------------


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal, a line now and then elsewhere."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("training"),
        rich_progress.BarColumn(bar_width=20),
        rich_progress.TextColumn("{task.fields[text]}"),
    )
    shown = rich_progress.Progress(*columns, console=Console(stderr=True), transient=True)
    with shown as display:
        bar = display.add_task("training", total=None, text="starting")
        start = time.monotonic()

        def show(now: Progress) -> None:
            text = progress_text(now, time.monotonic() - start)
            display.update(bar, completed=now.done, total=now.total, text=text)

        yield show


def _lines() -> Callable[[Progress], None]:
    start = last = time.monotonic()

    def show(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            results.warn(progress_text(now, last - start))

    return show


def progress_text(now: Progress, seconds: float) -> str:
    """Models done, rate and time left."""
    text = f"{now.done:,} of {now.total:,} models"
    if now.failed:
        text += f", {now.failed:,} failed"
    rate = now.trained / seconds if seconds > 0 else 0.0
    if rate <= 0:
        return text
    left = (now.total - now.done - now.failed) / rate
    return f"{text}, {_rate(rate)}, {_duration(left)} left"


def _rate(rate: float) -> str:
    return f"{rate:.3g} a second" if rate >= 0.1 else f"{60 * rate:.3g} a minute"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
