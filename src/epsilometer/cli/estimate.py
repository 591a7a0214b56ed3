"""``epsilometer estimate``: counts in, the posterior of epsilon out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer import _files, _validate
from epsilometer.cli import reporting, results
from epsilometer.cli.options import (
    AllowUnconverged,
    AsJson,
    FailAtLeast,
    FailOn,
    FiguresFolder,
    PassAtMost,
    ReportFile,
)
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.inference.mcmc import McmcSettings
    from epsilometer.inference.posterior import Posterior
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel

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
        typer.Option(metavar="E", help="Judge the claim that epsilon is at most E."),
    ] = None,
    pass_at_most: PassAtMost = 0.05,
    fail_at_least: FailAtLeast = 0.95,
    fail_on: FailOn = "never",
    allow_unconverged: AllowUnconverged = False,
    as_json: AsJson = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write summary.json, posterior.nc and figures there."),
    ] = None,
    report: ReportFile = None,
    figures: FiguresFolder = None,
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
    model = audit_model(delta, likelihood, strength, epsilon_prior_scale)
    wishes = reporting.Wishes.checked(
        page=report,
        figures=figures,
        pass_at_most=pass_at_most,
        fail_at_least=fail_at_least,
        fail_on=fail_on,
        allow_unconverged=allow_unconverged,
    )
    wishes.check_claim(claim)
    if output is not None:
        results.check_output(output)
    counts = _read(file)
    model.check(counts)
    posterior = results.run_engine(counts, model, settings)
    return _deliver(
        posterior,
        level=level,
        claim=claim,
        as_json=as_json,
        output=output,
        wishes=wishes,
    )


def audit_model(
    delta: float, likelihood: str, strength: float | None, epsilon_prior_scale: float | None
) -> AuditModel:
    """The model that the options describe."""
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


def _deliver(
    posterior: Posterior,
    *,
    level: float,
    claim: float | None,
    as_json: bool,
    output: Path | None,
    wishes: reporting.Wishes,
) -> int:
    """Write and print the result; a folder that cannot be written does not lose the printed one."""
    from epsilometer.report.summary import summarise, summary_text

    summary = summarise(
        posterior,
        level=level,
        claim=claim,
        thresholds=wishes.thresholds,
        accept_untrusted=wishes.allow_unconverged,
    )
    failure: OSError | None = None
    written: list[Path] = []
    try:
        if output is not None:
            results.write_results(posterior, summary, output)
            written.append(output)
        written += wishes.write(posterior, summary, reporting.origin_of(summary, None))
    except OSError as error:
        failure = error
    text = json.dumps(summary, allow_nan=False) + "\n" if as_json else summary_text(summary)
    if not as_json:
        text += reporting.written_to(written)
    results.say(text)
    results.distrust(posterior, summary)
    if failure is not None:
        raise failure
    return wishes.exit_code(posterior.trustworthy, [summary])
