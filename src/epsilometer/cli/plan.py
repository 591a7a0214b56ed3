"""``epsilometer plan``: how many bases and challenges an audit needs, found by simulating audits."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer.audit.recorded import POSTERIOR, PUBLISHED
from epsilometer.cli import options, results
from epsilometer.cli.delivery import ThresholdOptions
from epsilometer.cli.options import flag, option
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.planning.goals import Cost, Goal
    from epsilometer.planning.scenarios import Scenario

PLAN, DESIGNS, FIGURE = "plan.json", "plan.csv", "plan.png"


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """What is assumed of the audit that is planned, or the pilot that tells it."""

    epsilon: float | None = option("E", "The epsilon that is assumed to be true.")
    strength: float | None = option("S", "The strength of the attacks, assumed.")
    delta: float | None = options.DELTA
    likelihood: str | None = option(
        "correlated|binomial|correlated-binomial", "Cross-fed models, or with --shadows."
    )
    pilot: Path | None = option(
        "RESULT",
        "Instead of these four: what `--output` of a small audit wrote, or a posterior.nc.",
    )
    extend: bool = flag("Keep the pilot's bases and add others to them.", "--extend")

    def made(self, *, cross_fed: bool) -> tuple[em.AuditModel, Scenario]:
        """The model, and what is true under it."""
        from epsilometer.audit.assumptions import model_of

        if self.pilot is not None:
            for name in ("likelihood", "epsilon", "strength", "delta"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name} comes from the pilot; leave it out.")
            posterior = _pilot(self.pilot)
            if not posterior.trustworthy:
                results.warn(
                    "warning: the pilot did not reach its accuracy, and neither may the plan."
                )
            return posterior.model, em.FromPilot(posterior=posterior, extend=self.extend)
        if self.epsilon is None or self.strength is None or self.delta is None:
            raise InputError(
                "expected --epsilon E, --strength S and --delta D, or a small audit as "
                "--pilot RESULT."
            )
        if self.extend:
            raise InputError("--extend is for --pilot RESULT: there is nothing to extend.")
        likelihood = self.likelihood or ("correlated" if cross_fed else "binomial")
        truth = em.Assumed(epsilon=self.epsilon, strength=self.strength)
        return model_of(self.delta, likelihood=likelihood), truth


def _pilot(path: Path) -> em.Posterior:
    """A posterior of the published model, which plans are made with."""
    folder = path.is_dir()
    beside = folder and (path / PUBLISHED).exists()
    found: Any = em.load(path / (PUBLISHED if beside else POSTERIOR) if folder else path)
    if not hasattr(found, "counts"):
        raise InputError(
            f"{path}: expected a posterior from counts, got one of the whole curve; plans are made "
            "with the published model: `estimate --model published`."
        )
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class GoalOptions:
    """What the audit is to reach."""

    width: float | None = option("W", "The interval of epsilon is to be at most W wide.")
    claim: float | None = option("C", "PASS or FAIL is to be reached on the claim epsilon <= C.")

    def made(self, sides: ThresholdOptions) -> list[Goal]:
        goals: list[Goal] = []
        if self.width is not None:
            goals.append(em.Width(at_most=self.width))
        if self.claim is not None:
            goals.append(em.Settled(claim=self.claim, thresholds=sides.thresholds))
        if not goals:
            raise InputError("expected --width W, --claim C or both: what the audit is to reach.")
        return goals


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Where designs are looked for, and how long; in the words of ``plan_audit``."""

    probability: float = option("P", "With what probability.", default=0.8)
    models_per_second: float | None = option("R", "Speed of training, to tell the hours.")
    most_bases: int = option("N", "Challenge bases at most.", default=150)
    most_challenges: int = option("N", "Challenges a base at most.", default=2000)
    simulations: int = option("N", "Simulated audits of a recommended design.", default=100)
    seed: int = options.SEED


@options.flat
def plan(
    *,
    scenario: ScenarioOptions,
    goals: GoalOptions,
    search: SearchOptions,
    level: float | None = options.LEVEL,
    shadows: int | None = options.SHADOWS,
    workers: int | None = options.PROCESSES,
    sides: ThresholdOptions,
    as_json: bool = options.AS_JSON,
    output: Path | None = option("DIR", f"Write {PLAN}, {DESIGNS} and {FIGURE} there."),
) -> int:
    """Tell how large an audit must be, and at what cost, before anything is trained."""
    from epsilometer.planning.wording import described

    wanted = goals.made(sides)
    cost: Cost = em.CrossFedModels()
    if shadows is not None:
        cost = em.SeparateShadows(shadows_h0=shadows, shadows_h1=shadows)
    model, truth = scenario.made(cross_fed=shadows is None)
    results.check_output(output)
    with results.progress("simulated audits") as (report, _):
        found = em.plan_audit(
            model,
            truth,
            *wanted,
            level=options.DEFAULT_LEVEL if level is None else level,
            cost=cost,
            workers=(os.cpu_count() or 1) if workers is None else workers,
            progress=None if report is None else lambda done: report(f"{done:,} done"),
            report=results.warn,
            **vars(search),
        )
    written = [] if output is None else _write(found, output)
    return results.answer(as_json, lambda: described(found), lambda: _text(found, written))


def _write(found: em.AuditPlan, folder: Path) -> list[Path]:
    from epsilometer.planning.wording import described, designs_csv
    from epsilometer.report.figures.plan import draw_plan

    texts = {
        PLAN: json.dumps(described(found), indent=1, allow_nan=False) + "\n",
        DESIGNS: designs_csv(found.designs),
    }
    figures = {FIGURE: draw_plan(found)} if found.designs else {}
    results.write_files(folder, texts, figures)
    if not figures:  # a figure of an earlier plan would contradict this one
        (folder / FIGURE).unlink(missing_ok=True)
    return [folder / name for name in (*texts, *figures)]


def _text(found: em.AuditPlan, written: list[Path]) -> str:
    from epsilometer.planning.wording import help_sentences, recommendation, table
    from epsilometer.report.text import paragraphs

    text = paragraphs([recommendation(found), *help_sentences(found)])
    if found.designs:
        text += "\n" + table(found)
    return text + results.written_to(written)
