"""``epsilometer plan``: how many bases and challenges an audit needs, found by simulating audits."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer import _files, _validate
from epsilometer.cli import results
from epsilometer.cli.options import AsJson, FailAtLeast, PassAtMost
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.model.joint import AuditModel
    from epsilometer.planning.goals import Cost, Goal
    from epsilometer.planning.plan import AuditPlan
    from epsilometer.planning.scenarios import Scenario

LIKELIHOODS = ("correlated", "binomial")
PLAN, DESIGNS, FIGURE = "plan.json", "plan.csv", "plan.png"
COLUMNS = 80


def plan(
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="The epsilon that is assumed to be true.")
    ] = None,
    strength: Annotated[
        float | None, typer.Option(metavar="S", help="The strength of the attacks, assumed.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(metavar="D", help="The delta of (epsilon, delta)-DP.")
    ] = None,
    pilot: Annotated[
        Path | None,
        typer.Option(
            metavar="RESULT",
            help="Instead of these three: what `--output` of a small audit wrote, or a posterior.nc.",
        ),
    ] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Keep the pilot's bases and add others to them.")
    ] = False,
    width: Annotated[
        float | None,
        typer.Option(metavar="W", help="The interval of epsilon is to be at most W wide."),
    ] = None,
    claim: Annotated[
        float | None,
        typer.Option(metavar="C", help="PASS or FAIL is to be reached on the claim epsilon <= C."),
    ] = None,
    probability: Annotated[float, typer.Option(metavar="P", help="With what probability.")] = 0.8,
    level: Annotated[
        float, typer.Option(metavar="L", help="Probability of the credible interval.")
    ] = 0.9,
    likelihood: Annotated[
        str | None,
        typer.Option(metavar="correlated|binomial", help="Cross-fed models, or with --shadows."),
    ] = None,
    shadows: Annotated[
        int | None,
        typer.Option(metavar="M", help="Shadow models of each challenge; cross-feeding if unset."),
    ] = None,
    models_per_second: Annotated[
        float | None, typer.Option(metavar="R", help="Speed of training, to tell the hours.")
    ] = None,
    most_bases: Annotated[int, typer.Option(metavar="N", help="Challenge bases at most.")] = 150,
    most_challenges: Annotated[
        int, typer.Option(metavar="N", help="Challenges a base at most.")
    ] = 2000,
    simulations: Annotated[
        int, typer.Option(metavar="N", help="Simulated audits of a recommended design.")
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same plan.")] = 1,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; default one for each core.")
    ] = None,
    pass_at_most: PassAtMost = 0.05,
    fail_at_least: FailAtLeast = 0.95,
    as_json: AsJson = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"Write {PLAN}, {DESIGNS} and {FIGURE} there."),
    ] = None,
) -> int:
    """Tell how large an audit must be, and at what cost, before anything is trained."""
    from epsilometer.inference.verdict import Thresholds
    from epsilometer.planning.goals import CrossFedModels, SeparateShadows, Settled, Width
    from epsilometer.planning.plan import plan_audit
    from epsilometer.planning.wording import described

    goals: list[Goal] = []
    if width is not None:
        goals.append(Width(at_most=width))
    if claim is not None:
        thresholds = Thresholds(pass_at_most=pass_at_most, fail_at_least=fail_at_least)
        goals.append(Settled(claim=claim, thresholds=thresholds))
    if not goals:
        raise InputError("expected --width W, --claim C or both: what the audit is to reach.")
    cost: Cost = CrossFedModels()
    if shadows is not None:
        cost = SeparateShadows(shadows_h0=shadows, shadows_h1=shadows)
    if likelihood is None and pilot is None:
        likelihood = "correlated" if shadows is None else "binomial"
    if pilot is None:
        model, scenario = _assumed(epsilon, strength, delta, likelihood, extend=extend)
    else:
        given = {"epsilon": epsilon, "strength": strength, "delta": delta}
        model, scenario = _piloted(pilot, {"likelihood": likelihood, **given}, extend=extend)
    processes = (os.cpu_count() or 1) if workers is None else workers
    if output is not None:
        results.check_output(output)
    with results.progress("simulated audits") as (report, _):
        found = plan_audit(
            model,
            scenario,
            *goals,
            probability=probability,
            level=level,
            cost=cost,
            models_per_second=models_per_second,
            most_bases=most_bases,
            most_challenges=most_challenges,
            simulations=simulations,
            seed=seed,
            workers=processes,
            progress=None if report is None else lambda done: report(f"{done:,} done"),
        )
    written = [] if output is None else _write(found, output)
    if as_json:
        results.say(json.dumps(described(found), allow_nan=False) + "\n")
    else:
        results.say(_text(found, written))
    return 0


def _assumed(
    epsilon: float | None,
    strength: float | None,
    delta: float | None,
    likelihood: str | None,
    *,
    extend: bool,
) -> tuple[AuditModel, Scenario]:
    from epsilometer.cli.estimate import audit_model
    from epsilometer.planning.scenarios import Assumed

    if epsilon is None or strength is None or delta is None:
        raise InputError(
            "expected --epsilon E, --strength S and --delta D, or a small audit as --pilot RESULT."
        )
    if extend:
        raise InputError("--extend is for --pilot RESULT: there is nothing to extend.")
    _validate.one_of("likelihood", likelihood, LIKELIHOODS)
    model = audit_model(delta, likelihood, None, None)
    return model, Assumed(epsilon=epsilon, strength=strength)


def _piloted(
    pilot: Path, given: dict[str, float | str | None], *, extend: bool
) -> tuple[AuditModel, Scenario]:
    from epsilometer.inference.storage import load
    from epsilometer.planning.scenarios import FromPilot

    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name} comes from the pilot; leave it out.")
    posterior = load(pilot / "posterior.nc" if pilot.is_dir() else pilot)
    if not posterior.trustworthy:
        results.warn("warning: the pilot did not reach its accuracy, and neither may the plan.")
    return posterior.model, FromPilot(posterior=posterior, extend=extend)


def _write(found: AuditPlan, folder: Path) -> list[Path]:
    from epsilometer.planning.wording import described, designs_csv
    from epsilometer.report.figures.chart import save_figure
    from epsilometer.report.figures.plan import PlanChart

    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        PLAN: json.dumps(described(found), indent=1, allow_nan=False) + "\n",
        DESIGNS: designs_csv(found.designs),
    }
    written = []
    for name, text in texts.items():

        def write(path: Path, text: str = text) -> object:
            return path.write_text(text, encoding="utf-8")

        _files.replace(folder / name, write)
        written.append(folder / name)
    if found.designs:
        figure = PlanChart.of(found).draw()
        _files.replace(folder / FIGURE, lambda path: save_figure(figure, path))
        written.append(folder / FIGURE)
    else:  # a figure of an earlier plan would contradict this one
        (folder / FIGURE).unlink(missing_ok=True)
    return written


def _text(found: AuditPlan, written: list[Path]) -> str:
    from epsilometer.cli.reporting import written_to
    from epsilometer.planning.wording import help_sentences, recommendation, table

    lines = textwrap.wrap(recommendation(found), COLUMNS)
    for sentence in help_sentences(found):
        lines += textwrap.wrap(sentence, COLUMNS)
    text = "\n".join(lines) + "\n"
    if found.designs:
        text += "\n" + table(found)
    return text + written_to(written)
