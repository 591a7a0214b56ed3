"""``epsilometer estimate``: counts in, the posterior of epsilon out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer import _validate
from epsilometer.cli import batches, curve, deltas, reporting, results
from epsilometer.cli.dependence import (
    DependenceName,
    ScatterName,
    Spread,
    SpreadPriorScale,
    dependence_of,
)
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
    from epsilometer.model.joint import AuditModel

LIKELIHOODS = ("binomial", "correlated")
ENGINES = ("exact", "mcmc")
PRESETS = ("published",)


def estimate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Counts: CSV with the columns false_positives, trials_h0, false_negatives, "
            "trials_h1 and optionally challenge_base and group, or JSON; - reads standard input. "
            "Several files are batches. The first may be a posterior.nc, or the folder that "
            "--output wrote, to go on from: delta, likelihood and priors are then its own.",
        ),
    ],
    delta: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="The delta of (epsilon, delta)-DP, in [0, 1). Required. Several, D,D,... or a grid "
            "LOW:HIGH:COUNT, make a curve; its page is about the first.",
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(metavar="binomial|correlated", help="How counts arise; default binomial."),
    ] = None,
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
    dependence: DependenceName = None,
    scatter: ScatterName = None,
    spread: Spread = None,
    spread_prior_scale: SpreadPriorScale = None,
    level: Annotated[
        float, typer.Option(metavar="L", help="Probability of the credible intervals.")
    ] = 0.9,
    engine: Annotated[
        str | None,
        typer.Option(metavar="exact|mcmc", help="Quadrature, the default, or Markov chains."),
    ] = None,
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
    claim_curve: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Several deltas: judge an accountant's curve, delta,epsilon."
        ),
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
    check_model: Annotated[
        bool, typer.Option("--check-model", help="Set other assumptions beside the one made.")
    ] = False,
) -> int:
    """Estimate epsilon and the attack strength from error counts."""
    going_on = batches.starts_with_posterior(files)
    if delta is None and not going_on:
        raise InputError(
            "expected --delta D with 0 <= D < 1: a privacy parameter is never guessed."
        )
    several = () if delta is None else deltas.parse(delta)
    first_delta = several[0] if several else None
    _validate.level(level)
    if claim is not None:
        _validate.non_negative("claim", claim)
    _validate.one_of("likelihood", likelihood or LIKELIHOODS[0], LIKELIHOODS)
    _validate.one_of("engine", engine or ENGINES[0], ENGINES)
    chosen = {
        "num_auxiliary": num_auxiliary,
        "num_iterations": num_iterations,
        "num_chains": num_chains,
        "seed": seed,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    settings: McmcSettings | None = None
    model: AuditModel | None = None
    if going_on:
        data = batches.Batches.read(files)
        options = {"delta": first_delta, "likelihood": likelihood, "strength": strength}
        options |= {"epsilon_prior_scale": epsilon_prior_scale, "engine": engine, "preset": preset}
        options |= {"dependence": dependence, "scatter": scatter, "spread": spread}
        options |= {"spread_prior_scale": spread_prior_scale}
        model, engine = data.model_of(options), data.engine
    if engine == "mcmc":
        settings = data.settings(given) if going_on else _mcmc_settings(preset, given)
    elif preset is not None or given:
        option = "--" + next(iter(given), "preset").replace("_", "-")
        raise InputError(f"{option} is for --engine mcmc; the exact engine does not sample.")
    if model is None:
        assert first_delta is not None
        model = audit_model(first_delta, likelihood, strength, epsilon_prior_scale)
        depends = dependence_of(dependence, scatter, spread, spread_prior_scale)
        model = replace(model, dependence=depends)
    wishes = reporting.Wishes.checked(
        page=report,
        figures=figures,
        pass_at_most=pass_at_most,
        fail_at_least=fail_at_least,
        fail_on=fail_on,
        allow_unconverged=allow_unconverged,
    )
    single = {"--check-model": check_model, "--engine mcmc": engine == "mcmc"}
    single["going on from a posterior"] = going_on
    curve.check_fits(
        deltas=len(several),
        curve_options=["--claim-curve"] if claim_curve is not None else [],
        single_options=[name for name, given in single.items() if given],
    )
    wishes.check_claim(claim if claim_curve is None else 0.0)
    if output is not None:
        results.check_output(output)
    if not going_on:
        data = batches.Batches.read(files)
    data.check_output(output)
    if len(several) > 1:
        asked = curve.CurveWishes(
            level=level,
            claim=claim,
            claim_curve=claim_curve,
            as_json=as_json,
            output=output,
            wishes=wishes,
        )
        return curve.run(data.all_counts(), model, several, asked)
    posterior = data.estimate(model, settings)
    return _deliver(
        posterior,
        level=level,
        claim=claim,
        as_json=as_json,
        output=output,
        wishes=wishes,
        check_model=check_model,
    )


def audit_model(
    delta: float, likelihood: str | None, strength: float | None, epsilon_prior_scale: float | None
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


def _deliver(
    posterior: Posterior,
    *,
    level: float,
    claim: float | None,
    as_json: bool,
    output: Path | None,
    wishes: reporting.Wishes,
    check_model: bool = False,
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
    if check_model:
        summary["model_comparison"] = _compared(posterior, level)
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
        text += _about_models(summary) + reporting.written_to(written)
    results.say(text)
    results.distrust(posterior, summary)
    if failure is not None:
        raise failure
    return wishes.exit_code(posterior.trustworthy, [summary])


def _compared(posterior: Posterior, level: float) -> dict[str, Any]:
    from epsilometer.inference.model_comparison import compare_models
    from epsilometer.report.model_table import comparison_data

    with results.progress("other assumptions") as (report, _):
        return comparison_data(compare_models(posterior, report=report), level=level)


def _about_models(summary: dict[str, Any]) -> str:
    if "model_comparison" not in summary:
        return ""
    from epsilometer.report.model_table import models_text

    return "\n" + models_text(summary["model_comparison"])
