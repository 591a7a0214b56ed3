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

        with _progress("exact quadrature") as (report, _):
            return estimate_exact(counts, model, report=report)
    from epsilometer.inference.mcmc import estimate_mcmc

    with _progress("MCMC") as (report, advance):
        return estimate_mcmc(counts, model, settings, report=report, progress=advance)


@contextmanager
def _progress(title: str) -> Iterator[tuple[Report | None, Advance | None]]:
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
    sys.stderr.write(f"epsilometer: {printable(message)}\n")
    sys.stderr.flush()


def printable(text: object) -> str:
    """Text from a file or an argument as it may go to a terminal."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in str(text)
    )


def check_output(folder: Path) -> None:
    """Refuse a folder that cannot be made, before any work is done."""
    if folder.exists():
        if not folder.is_dir():
            raise InputError(f"{folder}: expected a folder for --output, got a file.")
        if not os.access(folder, os.W_OK):
            raise InputError(f"{folder}: the folder for --output cannot be written.")
        return
    parent = next(path for path in folder.absolute().parents if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{folder}: the folder for --output cannot be made.")


def write_results(posterior: Posterior, summary: dict[str, Any], folder: Path) -> None:
    """Write posterior, figures and summary, each file whole or not at all."""
    from epsilometer.report import figures

    folder.mkdir(parents=True, exist_ok=True)
    earlier = (folder / "posterior.nc").exists()
    posterior.save(folder / "posterior.nc")
    made = figures.figures(posterior, level=summary["epsilon"]["level"])
    for name, figure in made.items():
        _files.replace(folder / name, partial(figures.save_figure, figure))
    if earlier:
        for name in set(figures.FIGURE_NAMES) - set(made):
            # A figure of an earlier estimate would contradict this one.
            (folder / name).unlink(missing_ok=True)
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    _files.replace(folder / "summary.json", lambda path: path.write_text(text, encoding="utf-8"))


def distrust(posterior: Posterior, summary: dict[str, Any]) -> None:
    """Say loudly if a result did not reach its accuracy."""
    from epsilometer.report.summary import engine_sentence

    if not posterior.trustworthy:
        warn(f"do not quote this result: {engine_sentence(summary)}.")
    _doubt_counts_at_their_ends(posterior, summary["epsilon"]["level"])


def _doubt_counts_at_their_ends(posterior: Posterior, level: float) -> None:
    """Set the binomial answer beside a correlated one that rests on counts of 0 or N.

    The density of the normal approximation has no bound where a rate meets 0 or 1.  A few such counts do
    no harm; where most bases have one, they can pull epsilon up without limit.
    """
    from dataclasses import replace

    from epsilometer.inference.estimate import estimate
    from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial

    counts, model = posterior.counts, posterior.model
    if not isinstance(model.likelihood, CorrelatedNormal) or "epsilon" not in posterior.parameters:
        return
    at_ends = max(
        int(((errors == 0) | (errors == trials)).sum())
        for errors, trials in (
            (counts.false_positives, counts.trials_h0),
            (counts.false_negatives, counts.trials_h1),
        )
    )
    if 2 * at_ends <= len(counts):
        return
    binomial = estimate(counts, replace(model, likelihood=IndependentBinomial()))
    low, high = binomial.credible_interval("epsilon", level)
    warn(
        f"warning: {at_ends} of {len(counts)} bases have an error count of 0 or of all challenges, "
        "where the correlated likelihood has no bound and can put epsilon too high. With independent "
        f"counts (likelihood binomial) epsilon is {low:.2f} to {high:.2f} with probability {level:g}."
    )
