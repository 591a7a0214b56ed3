"""``epsilometer plan``: the size of an audit that reaches a goal, by simulation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _validate
from epsilometer.cli import options, outputs, results
from epsilometer.cli.delivery import DEFAULT_ERROR, ThresholdOptions
from epsilometer.cli.options import flag, option
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import COUNT

if TYPE_CHECKING:
    from epsilometer.planning.goals import Cost, Goal
    from epsilometer.planning.scenarios import Scenario

PLAN, DESIGNS, FIGURE = "plan.json", "plan.csv", "plan.png"
MODELS, ONE_RUN = "models", "one-run"
CURVES = ("gaussian", "laplace")


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """The assumptions of the plan, or the pilot that they are estimated from."""

    epsilon: float | None = option("E", "The assumed true epsilon.")
    strength: float | None = option(
        "S", "The assumed strength of the attacks; canaries: default 1."
    )
    delta: float | None = options.DELTA
    likelihood: str | None = option(
        "correlated|binomial",
        "Likelihood of the planned audit. Default: correlated; with --shadows binomial.",
    )
    pilot: Path | None = option(
        "RESULT",
        "Instead of these: a small audit, as its result folder, posterior.nc, store, losses or counts "
        "(the last three with --delta).",
    )
    extend: bool = flag("Keep the pilot's bases and add others.", "--extend")

    def made(self, *, cross_fed: bool) -> tuple[em.CountModel, Scenario]:
        """The model and the assumed truth."""
        from epsilometer.model.from_words import model_of

        if self.pilot is not None:
            for name in ("epsilon", "strength"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name} is estimated from the pilot; leave it out.")
            posterior = _pilot(self.pilot, self.delta, self.likelihood)
            if not posterior.accurate:
                results.warn(
                    "warning: the pilot did not reach its accuracy, so the plan may not either."
                )
            return posterior.model, em.goals.PilotScenario(posterior=posterior, extend=self.extend)
        if self.epsilon is None or self.strength is None or self.delta is None:
            raise InputError(
                "expected --epsilon E, --strength S and --delta D, or a small audit as "
                "--pilot RESULT."
            )
        if self.extend:
            raise InputError("--extend is for --pilot RESULT: there is nothing to extend.")
        likelihood = self.likelihood or ("correlated" if cross_fed else "binomial")
        truth = em.goals.AssumedScenario(epsilon=self.epsilon, strength=self.strength)
        return model_of(self.delta, likelihood=likelihood), truth


def _pilot(path: Path, delta: float | None, likelihood: str | None) -> em.engines.CountPosterior:
    """The count model's posterior of a pilot: that of a result, or estimated from its data."""
    from epsilometer.inputs.source import LossOptions
    from epsilometer.model.from_words import likelihood_for, model_of

    source = results.source_of(str(path), LossOptions())
    recorded = None if source.recorded is None else source.recorded.of_kind(COUNT)
    if recorded is not None:
        for name, value in (("delta", delta), ("likelihood", likelihood)):
            if value is not None:
                raise InputError(f"--{name} is that of the pilot's result; leave it out.")
        posterior: em.engines.CountPosterior = recorded.posterior
        return posterior
    try:
        counts = source.data(COUNT)
    except InputError:
        raise InputError(
            f"{path}: expected counts, losses, a store or a result of the count model, got scores "
            "only: plans are simulated with the count model."
        ) from None
    if source.recorded is not None and delta is None:
        delta = source.recorded.delta
    options.need_delta(delta)
    assert delta is not None
    model = model_of(_validate.delta(delta), likelihood=likelihood or likelihood_for(counts))
    estimated: em.engines.CountPosterior = results.run_engine(counts, model, None)
    return estimated


@dataclass(frozen=True, kw_only=True)
class GoalOptions:
    """The goals of the audit."""

    width: float | None = option("W", "Goal: an interval of epsilon at most W wide.")
    claim: float | None = option("C", "Goal: PASS or FAIL for the claim epsilon <= C.")

    def made(self, sides: ThresholdOptions) -> list[Goal]:
        goals: list[Goal] = []
        if self.width is not None:
            goals.append(em.goals.IntervalWidth(at_most=self.width))
        if self.claim is not None:
            goals.append(em.goals.DecidedClaim(claim=self.claim, thresholds=sides.thresholds))
        if not goals:
            raise InputError("expected --width W, --claim C or both: the goal of the audit.")
        return goals


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The range of designs and the effort of the search."""

    probability: float = option("P", "Probability of reaching the goals.", default=0.8)
    models_per_second: float | None = option("R", "Training speed, to compute hours.")
    most_bases: int | None = option("N", "Most challenge bases; default: 150.")
    most_challenges: int | None = option("N", "Most challenges per base; default: 2,000.")
    thorough: bool = flag(
        "Simulate 100 audits of the recommended design, and alternatives: minutes. Default: a quick "
        "search of about half a minute, with at most 20, that states its precision.",
        "--thorough",
    )
    simulations: int | None = option(
        "N",
        "Simulated audits of a recommended design; implies --thorough. Default: 100, of canaries 16 "
        "or fewer.",
    )
    seed: int = options.SEED

    @property
    def settings(self) -> dict[str, Any]:
        """The options that were given, in the words of ``plan_audit`` and ``plan_one_run``."""
        chosen = options.given(self)
        del chosen["thorough"]
        return chosen


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Shadow models per challenge, and processes for the simulations."""

    shadows: int | None = options.SHADOWS
    workers: int | None = options.PROCESSES


@dataclass(frozen=True, kw_only=True)
class CanaryOptions:
    """Canaries of one training run or a few: ``--design one-run``."""

    runs: int | None = option("R", "one-run: training runs that share the canaries. Default: 1.")
    dataset_size: int | None = option(
        "N", "one-run: records per run, to compute the share of canaries."
    )
    most_canaries: int | None = option("N", "one-run: most canaries in total. Default: 1,000,000.")
    curve: str | None = option(
        "|".join(CURVES), "one-run: the assumed true trade-off curve. Default: gaussian."
    )
    family: str | None = option(
        "average|gaussian|laplace|response",
        "one-run: the family that the audit assumes, as in `estimate`. Default: average.",
    )
    mixing: str | None = option(
        "free|none|Q", "one-run: the mixing that the audit assumes. Default: free."
    )
    known_strength: bool | None = option(
        None, "one-run: the audit assumes the true strength.", "--known-strength", "--strength-told"
    )
    error: float | None = option("P", "one-run: error probability of the proof. Default: 0.05.")


@dataclass(frozen=True, kw_only=True)
class PlanOutput:
    """What is printed and written."""

    as_json: bool = options.AS_JSON
    output: Path | None = option("DIR", f"Write {PLAN}, {DESIGNS} and {FIGURE} to this folder.")
    force: bool = outputs.FORCE


@dataclass(frozen=True, kw_only=True)
class Views:
    """Text, JSON and files of a plan of either design."""

    plan: Any
    words: Any
    figure: Callable[[Any], Any] | None = None

    def text(self, written: list[Path]) -> str:
        """Text for a terminal."""
        from epsilometer._text import paragraphs, table_lines

        words, plan = self.words, self.plan
        text = paragraphs([words.recommendation(plan), *words.help_sentences(plan)])
        if plan.designs:
            text += "\n" + "\n".join(table_lines(words.table_rows(plan))) + "\n"
        return text + results.written_to(written)

    def write(self, folder: Path) -> list[Path]:
        """Write the files of a plan to a folder."""
        words, plan = self.words, self.plan
        texts = {
            PLAN: json.dumps(words.described(plan), indent=1, allow_nan=False) + "\n",
            DESIGNS: words.designs_csv(plan.designs),
        }
        figures = {FIGURE: self.figure(plan)} if plan.designs and self.figure else {}
        results.write_files(folder, texts, figures)
        if not figures:  # a figure of an earlier plan would contradict this one
            (folder / FIGURE).unlink(missing_ok=True)
        return [folder / name for name in (*texts, *figures)]


@options.flat
def plan(
    *,
    design: str = option(
        f"{MODELS}|{ONE_RUN}",
        "Models trained with and without each challenge point, or canaries of one training run.",
        default=MODELS,
    ),
    scenario: ScenarioOptions,
    goals: GoalOptions,
    search: SearchOptions,
    canaries: CanaryOptions,
    level: float | None = options.LEVEL,
    training: TrainingOptions,
    sides: ThresholdOptions,
    delivery: PlanOutput,
) -> int:
    """Plan the size of an audit before training anything.

    By default a quick search of about half a minute; its answer states its precision. --thorough takes
    minutes and compares alternatives.
    """
    chosen = _validate.one_of("design", design, (MODELS, ONE_RUN))
    wanted = goals.made(sides)
    outputs.check_folder(delivery.output, force=delivery.force, same=outputs.never)
    level = options.DEFAULT_LEVEL if level is None else level
    if chosen == ONE_RUN:
        _refuse(scenario, search, training)
        views = _one_run(scenario, wanted, search, canaries, level)
    else:
        for name in options.given(canaries):
            raise InputError(f"--{name.replace('_', '-')} is for --design {ONE_RUN}.")
        views = _models(scenario, wanted, search, training, level)
    written = [] if delivery.output is None else views.write(delivery.output)
    return results.answer(
        delivery.as_json, lambda: views.words.described(views.plan), lambda: views.text(written)
    )


def _refuse(scenario: ScenarioOptions, search: SearchOptions, training: TrainingOptions) -> None:
    """Refuse options that do not apply to canaries."""
    chosen = options.given(scenario, search, training)
    wrong = ("pilot", "likelihood", "shadows", "workers", "models_per_second")
    for name in (*wrong, "most_bases", "most_challenges", "thorough"):
        if chosen.get(name):
            raise InputError(
                f"--{name.replace('_', '-')} is for --design {MODELS}, not for canaries of one run."
            )
    if scenario.extend:
        raise InputError(f"--extend is for --design {MODELS} with --pilot RESULT.")


def _one_run(
    scenario: ScenarioOptions,
    goals: list[Goal],
    search: SearchOptions,
    canaries: CanaryOptions,
    level: float,
) -> Views:
    from epsilometer.model.families import FAMILIES
    from epsilometer.model.from_words import curve_model_of
    from epsilometer.planning import one_run_wording

    if scenario.epsilon is None or scenario.delta is None:
        raise InputError("expected --epsilon E and --delta D: the assumed truth.")
    strength = 1.0 if scenario.strength is None else scenario.strength
    curve = _validate.one_of("curve", canaries.curve or CURVES[0], CURVES)
    truth = em.goals.AssumedCurve(
        epsilon=scenario.epsilon, family=FAMILIES[curve], strength=strength
    )
    model = curve_model_of(scenario.delta, family=canaries.family, mixing=canaries.mixing)
    if canaries.known_strength:
        model = replace(model, strength=em.families.FixedStrength(value=strength))
    sizes = {"runs": "runs", "dataset_size": "dataset_size", "most_canaries": "most"}
    chosen = options.given(canaries)
    how = em.goals.OneRunCanaries(**{sizes[name]: chosen[name] for name in sizes if name in chosen})
    with results.counting("simulated audits") as on_progress:
        plan = em.plan(
            model,
            truth,
            *goals,
            design=how,
            level=level,
            error=DEFAULT_ERROR if canaries.error is None else canaries.error,
            on_progress=on_progress,
            on_message=results.warn,
            **search.settings,
        )
    return Views(plan=plan, words=one_run_wording)


def _models(
    scenario: ScenarioOptions,
    goals: list[Goal],
    search: SearchOptions,
    training: TrainingOptions,
    level: float,
) -> Views:
    from epsilometer.planning import wording
    from epsilometer.report.figures.plan import draw_plan

    cost: Cost = em.goals.CrossFedModels()
    shadows, workers = training.shadows, training.workers
    if shadows is not None:
        cost = em.goals.SeparateShadows(shadows_h0=shadows, shadows_h1=shadows)
    model, truth = scenario.made(cross_fed=shadows is None)
    with results.counting("simulated audits") as on_progress:
        plan = em.plan(
            model,
            truth,
            *goals,
            level=level,
            cost=cost,
            workers=(os.cpu_count() or 1) if workers is None else workers,
            on_progress=on_progress,
            on_message=results.warn,
            quick=not search.thorough and search.simulations is None,
            **search.settings,
        )
    return Views(plan=plan, words=wording, figure=draw_plan)
