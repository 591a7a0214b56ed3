"""What commands that estimate have in common: folders, progress, and handing over the result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.inference.mcmc import McmcSettings
    from epsilometer.inference.posterior import Posterior
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel

Report = Callable[[str], None]
Advance = Callable[[int, int], None]


def run_engine(counts: AttackCounts, model: AuditModel, settings: McmcSettings | None) -> Posterior:
    """Estimate with the exact engine, or with the sampler if it has settings; shows progress."""
    if settings is None:
        from epsilometer.inference.exact import estimate_exact

        with progress("exact quadrature") as (report, _):
            return estimate_exact(counts, model, report=report)
    from epsilometer.inference.mcmc import estimate_mcmc

    with progress("MCMC") as (report, advance):
        return estimate_mcmc(counts, model, settings, report=report, progress=advance)


@contextmanager
def progress(title: str) -> Iterator[tuple[Report | None, Advance | None]]:
    """A progress display on stderr, if somebody is there to see it."""
    if not sys.stderr.isatty():
        yield None, None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(title, total=None, count="")

        def report(line: str) -> None:
            display.update(task, description=f"{title}: {line}")

        def advance(done: int, total: int) -> None:
            display.update(
                task, completed=done, total=total, count=f"{done:,} of {total:,} iterations"
            )

        yield report, advance


def say(text: str) -> None:
    """Write to stdout at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def warn(message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"epsilometer: {_files.printable(message)}\n")
    sys.stderr.flush()


def check_output(folder: Path, *, option: str = "--output") -> None:
    """Refuse a folder that cannot be made, before any work is done."""
    if folder.exists():
        if not folder.is_dir():
            raise InputError(f"{folder}: expected a folder for {option}, got a file.")
        if not os.access(folder, os.W_OK):
            raise InputError(f"{folder}: the folder for {option} cannot be written.")
        return
    parent = next(path for path in folder.absolute().parents if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{folder}: the folder for {option} cannot be made.")


def write_results(posterior: Posterior, summary: dict[str, Any], folder: Path) -> None:
    """Write posterior, figures and summary, each file whole or not at all."""
    from epsilometer.report import evidence
    from epsilometer.report.figures.chart import save_figure

    folder.mkdir(parents=True, exist_ok=True)
    earlier = (folder / "posterior.nc").exists()
    posterior.save(folder / "posterior.nc")
    made = evidence.posterior_charts(posterior, level=summary["epsilon"]["level"])
    made += evidence.chain_charts(posterior)
    for chart in made:
        _files.replace(folder / f"{chart.name}.png", partial(save_figure, chart.draw()))
    if earlier:
        for name in set(evidence.CHART_NAMES) - {chart.name for chart in made}:
            # A figure of an earlier estimate would contradict this one.
            (folder / f"{name}.png").unlink(missing_ok=True)
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    _files.replace(folder / "summary.json", lambda path: path.write_text(text, encoding="utf-8"))


def distrust(posterior: Posterior, summary: dict[str, Any]) -> None:
    """Say loudly if a result did not reach its accuracy."""
    from epsilometer.inference.doubts import counts_at_their_ends, repeated_bases
    from epsilometer.report.summary import engine_sentence

    if not posterior.trustworthy:
        warn(f"do not quote this result: {engine_sentence(summary)}.")
    doubt = counts_at_their_ends(posterior, level=summary["epsilon"]["level"])
    if doubt is not None:
        warn(f"warning: {doubt.sentence}")
    repeated = repeated_bases(posterior.counts)
    if repeated is not None:
        warn(f"warning: {repeated.sentence}")
