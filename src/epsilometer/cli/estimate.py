"""``epsilometer estimate``: counts in, the posterior of epsilon out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer import _files, _validate
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.inference.mcmc import McmcSettings
    from epsilometer.inference.posterior import Posterior
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel

NOT_CONVERGED = 4
STDIN = "-"

LIKELIHOODS = ("binomial", "correlated")
ENGINES = ("exact", "mcmc")
PRESETS = ("published",)


def estimate(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Counts: CSV with the columns false_positives, trials_h0, false_negatives, "
            "trials_h1 and optionally challenge_base, or JSON; - reads standard input.",
        ),
    ],
    delta: Annotated[
        float | None,
        typer.Option(metavar="D", help="The delta of (epsilon, delta)-DP, in [0, 1). Required."),
    ] = None,
    likelihood: Annotated[
        str, typer.Option(metavar="binomial|correlated", help="How counts arise.")
    ] = "binomial",
    strength: Annotated[
        float | None,
        typer.Option(metavar="S", help="Hold the attack strength at S in [0, 1]."),
    ] = None,
    epsilon_prior_scale: Annotated[
        float | None,
        typer.Option(
            metavar="V", help="Standard deviation of epsilon's half-normal prior; default 10^0.5."
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(metavar="L", help="Probability of the credible intervals.")
    ] = 0.9,
    engine: Annotated[
        str, typer.Option(metavar="exact|mcmc", help="Quadrature, or Markov chains.")
    ] = "exact",
    preset: Annotated[
        str | None,
        typer.Option(metavar="published", help="mcmc: the sampler as the paper's authors ran it."),
    ] = None,
    num_auxiliary: Annotated[
        int | None, typer.Option(metavar="K", help="mcmc: auxiliary variables a base.")
    ] = None,
    num_iterations: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            help="mcmc: draws kept from each chain; with --preset published all iterations, "
            "of which the first tenth is discarded.",
        ),
    ] = None,
    num_chains: Annotated[
        int | None, typer.Option(metavar="C", help="mcmc: number of chains.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="mcmc: same seed, same draws.")
    ] = None,
    claim: Annotated[
        float | None,
        typer.Option(metavar="E", help="Report the probability that epsilon exceeds E."),
    ] = None,
    allow_unconverged: Annotated[
        bool, typer.Option("--allow-unconverged", help="Exit with 0 even if not converged.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of text.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write summary.json, posterior.nc and figures there."),
    ] = None,
) -> int:
    """Estimate epsilon and the attack strength from error counts."""
    if delta is None:
        raise InputError(
            "expected --delta D with 0 <= D < 1: a privacy parameter is never guessed."
        )
    _validate.delta(delta)
    _validate.level(level)
    if claim is not None:
        _validate.non_negative("claim", claim)
    _validate.one_of("likelihood", likelihood, LIKELIHOODS)
    _validate.one_of("engine", engine, ENGINES)
    chosen = {
        "num_auxiliary": num_auxiliary,
        "num_iterations": num_iterations,
        "num_chains": num_chains,
        "seed": seed,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    settings: McmcSettings | None = None
    if engine == "mcmc":
        settings = _mcmc_settings(preset, given)
    elif preset is not None or given:
        option = "--" + next(iter(given), "preset").replace("_", "-")
        raise InputError(f"{option} is for --engine mcmc; the exact engine does not sample.")
    model = _model(delta, likelihood, strength, epsilon_prior_scale)
    if output is not None:
        _check_output(output)
    counts = _read(file)
    model.likelihood.check(counts)
    posterior = _estimate(counts, model, settings)
    return _deliver(
        posterior,
        level=level,
        claim=claim,
        as_json=as_json,
        output=output,
        allow_unconverged=allow_unconverged,
    )


def _model(
    delta: float, likelihood: str, strength: float | None, epsilon_prior_scale: float | None
) -> AuditModel:
    from epsilometer.model.joint import AuditModel
    from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial
    from epsilometer.model.priors import DEFAULT_EPSILON_SCALE, Beta, Fixed, HalfNormal

    if strength is not None:
        _validate.unit_interval("strength", strength)
    scale = DEFAULT_EPSILON_SCALE if epsilon_prior_scale is None else epsilon_prior_scale
    return AuditModel(
        delta=delta,
        epsilon=HalfNormal(scale=_validate.positive("epsilon_prior_scale", scale)),
        strength=Beta() if strength is None else Fixed(value=strength),
        likelihood=CorrelatedNormal() if likelihood == "correlated" else IndependentBinomial(),
    )


def _mcmc_settings(preset: str | None, given: dict[str, int]) -> McmcSettings:
    from epsilometer.inference.mcmc import McmcSettings

    options: dict[str, Any] = dict(given)
    if preset is None:
        return McmcSettings(**options)
    _validate.one_of("preset", preset, PRESETS)
    if "num_iterations" in options:
        # The paper counts all iterations and discards the first tenth.
        total = _validate.whole_number("num_iterations", options["num_iterations"], least=10)
        options |= {"num_warmup": total // 10, "num_iterations": total - total // 10}
    return McmcSettings.published(**options)


def _read(file: str) -> AttackCounts:
    from epsilometer.model import counts_files

    if file == STDIN:
        data = sys.stdin.buffer.read(_files.LARGEST_FILE + 1)
        text = _files.decode(data, name="standard input")
        return counts_files.parse(text, name="standard input")
    return counts_files.read(file)


def _estimate(counts: AttackCounts, model: AuditModel, settings: McmcSettings | None) -> Posterior:
    if settings is None:
        from epsilometer.inference.exact import estimate_exact

        with _progress("exact quadrature") as (report, _):
            return estimate_exact(counts, model, report=report)
    from epsilometer.inference.mcmc import estimate_mcmc

    with _progress("MCMC") as (report, advance):
        return estimate_mcmc(counts, model, settings, report=report, progress=advance)


Report = Callable[[str], None]
Advance = Callable[[int, int], None]


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


# --- results ----------------------------------------------------------------------------------


def _deliver(
    posterior: Posterior,
    *,
    level: float,
    claim: float | None,
    as_json: bool,
    output: Path | None,
    allow_unconverged: bool,
) -> int:
    """Write and print the result; a folder that cannot be written does not lose the printed one."""
    from epsilometer.report.summary import engine_sentence, summarise, summary_text

    summary = summarise(posterior, level=level, claim=claim)
    failure: OSError | None = None
    if output is not None:
        try:
            _write(posterior, summary, output)
        except OSError as error:
            failure = error
    text = json.dumps(summary, allow_nan=False) + "\n" if as_json else summary_text(summary)
    if output is not None and failure is None and not as_json:
        text += f"\nWritten to {_printable(output)}\n"
    sys.stdout.write(text)
    sys.stdout.flush()
    if not posterior.trustworthy:
        sys.stderr.write(f"epsilometer: do not quote this result: {engine_sentence(summary)}.\n")
        sys.stderr.flush()
    if failure is not None:
        raise failure
    return 0 if posterior.trustworthy or allow_unconverged else NOT_CONVERGED


def _printable(path: Path) -> str:
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in str(path))


def _check_output(folder: Path) -> None:
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


def _write(posterior: Posterior, summary: dict[str, Any], folder: Path) -> None:
    """Write each file under a temporary name first, so that no file is ever half there."""
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
