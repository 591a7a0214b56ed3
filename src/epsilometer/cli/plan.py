"""``epsilometer plan``: the size of an audit that reaches its goals, by simulation."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer.cli import options, outputs, results
from epsilometer.cli.delivery import ThresholdOptions
from epsilometer.cli.options import flag, option
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import COUNT, CURVE

if TYPE_CHECKING:
    from epsilometer.planning.designs import Design
    from epsilometer.planning.goals import Goal, Scenario

PLAN, SIZES, FIGURE = "plan.json", "plan.csv", "plan.png"
CURVES = ("gaussian", "laplace")


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """The assumed truth, or the pilot that it is estimated from; and what the audit assumes."""

    epsilon: float | None = option("E", "The assumed true epsilon.")
    strength: float | None = option("S", "The assumed mean strength of the attacks. Default: 1.")
    delta: float | None = options.DELTA
    curve: str | None = option(
        "|".join(CURVES), "The assumed true trade-off curve. Default: gaussian."
    )
    pilot: Path | None = option(
        "RESULT",
        "Instead of these: a small audit, as its result folder, posterior.nc, store, losses, scores or "
        "counts (all but the first two with --delta).",
    )
    extend: bool = flag("Keep the pilot's bases and add others.", "--extend")
    model: str | None = option(
        f"{CURVE}|{COUNT}", "The audit's model. Default: curve, or that of the pilot."
    )
    family: str | None = option(
        "average|gaussian|laplace|response", "The family that the audit assumes. Default: average."
    )
    mixing: str | None = option("free|none|Q", "The mixing that the audit assumes. Default: free.")
    known_strength: bool = flag("The audit assumes the true strength.", "--known-strength")
    likelihood: str | None = option(
        "correlated|binomial", "Likelihood of counts; implies --model count. Default: binomial."
    )

    def made(self) -> tuple[em.CountModel | em.CurveModel, Scenario]:
        """The model and the assumed truth."""
        from epsilometer.model.families import Gaussian, Laplace
        from epsilometer.model.models import curve_model_of, model_of

        if self.model is not None:
            _validate.one_of("model", self.model, (CURVE, COUNT))
        if self.pilot is not None:
            for name in ("epsilon", "strength", "curve", "family", "mixing"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name} is that of the pilot; leave it out.")
            posterior = self._pilot(self.pilot)
            if not posterior.accurate:
                results.warn(
                    "warning: the pilot did not reach its accuracy, so the plan may not either."
                )
            return posterior.model, em.goals.PilotScenario(posterior=posterior, extend=self.extend)
        if self.epsilon is None or self.delta is None:
            raise InputError(
                "expected --epsilon E and --delta D, or a small audit as --pilot RESULT."
            )
        if self.extend:
            raise InputError("--extend is for --pilot RESULT: there is nothing to extend.")
        strength = 1.0 if self.strength is None else self.strength
        if self.counted:
            count_model = model_of(self.delta, likelihood=self.likelihood)
            return count_model, em.goals.AssumedScenario(epsilon=self.epsilon, strength=strength)
        name = _validate.one_of("curve", self.curve or CURVES[0], CURVES)
        curve = Gaussian() if name == CURVES[0] else Laplace()
        truth = em.goals.AssumedCurve(epsilon=self.epsilon, family=curve, strength=strength)
        known = strength if self.known_strength else None
        words = {"family": self.family, "mixing": self.mixing, "strength": known}
        return curve_model_of(self.delta, **words), truth  # type: ignore[arg-type]

    @property
    def counted(self) -> bool:
        """Whether the count model was chosen."""
        return self.model == COUNT or self.likelihood is not None

    def _pilot(self, path: Path) -> Any:
        """The posterior of a pilot: that of a result, or estimated from its data."""
        from epsilometer.model.models import model_of

        source = results.source_of(str(path))
        kind = COUNT if self.counted else self.model or source.kind
        answer = source.answer(kind)
        if answer is not None:
            for name in ("delta", "likelihood"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name} is that of the pilot's result; leave it out.")
            return answer.posterior
        delta = options.need_delta(self.delta, source.result)
        if self.likelihood is None:
            return em.estimate(source, kind, delta=delta)
        return em.estimate(source, model_of(delta, likelihood=self.likelihood))


@dataclass(frozen=True, kw_only=True)
class GoalOptions:
    """The goals of the audit."""

    width: float | None = option("W", "Goal: an interval of epsilon at most W wide.")
    claim: float | None = option("C", "Goal: the right verdict on the claim epsilon <= C.")
    prove: float | None = option("L", "Goal: a proof that epsilon is at least L.")

    def made(self, sides: ThresholdOptions) -> list[Goal]:
        """The goals that were given."""
        goals: list[Goal] = []
        if self.width is not None:
            goals.append(em.goals.IntervalWidth(at_most=self.width))
        if self.claim is not None:
            goals.append(em.goals.DecidedClaim(claim=self.claim, thresholds=sides.thresholds()))
        if self.prove is not None:
            goals.append(em.goals.ProvenEpsilon(at_least=self.prove))
        if not goals:
            raise InputError("expected a goal: --width W, --claim C, --prove L, or several.")
        return goals


@dataclass(frozen=True, kw_only=True)
class DesignOptions:
    """The largest sizes of each design."""

    most_bases: int | None = option("N", "many: most challenge bases. Default: 150.")
    most_challenges: int | None = option("N", "many: most challenges per base. Default: 2,000.")
    shadows: int | None = options.SHADOWS
    most_canaries: int | None = option("N", "one-run: most canaries in total. Default: 20,000.")
    runs: int | None = option("R", "one-run: training runs that share the canaries. Default: 1.")
    dataset_size: int | None = option("N", "one-run: records per run, to compute their share.")
    most_models: int | None = option("N", "pool: most models. Default: 1,000.")
    most_points: int | None = option("N", "pool: most points that are evaluated. Default: 100.")
    first_stage: float | None = option(
        "SHARE", "pool: models that only train the attack. Default: 0.5."
    )

    def made(self, name: str) -> Design:
        """The design of that name."""
        from epsilometer.planning.designs import DESIGNS

        kind = DESIGNS[_validate.one_of("design", name, DESIGNS)]
        settings = {}
        for option_name, value in options.given(self).items():
            word = "most" if option_name == "most_canaries" else option_name
            if word not in kind.__dataclass_fields__:
                shown = option_name.replace("_", "-")
                raise InputError(f"--{shown} is for another design than {name}; leave it out.")
            settings[word] = value
        return kind(**settings)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The effort of the search, with the names of Python."""

    probability: float | None = option("P", "Probability of reaching the goals. Default: 0.8.")
    level: float | None = options.LEVEL
    error: float | None = option("P", "Error probability of the proof. Default: 0.05.")
    models_per_second: float | None = option("R", "Training speed, to compute hours.")
    thorough: bool = flag(
        "Simulate 100 audits of the recommended size, and more sizes: minutes. Default: about half a "
        "minute, with 20.",
        "--thorough",
    )
    simulations: int | None = option("N", "Simulated audits of a recommended size.")
    seed: int = options.SEED
    workers: int | None = option("N", "Number of processes. Default: one per core.")


@options.flat
def plan(
    *,
    design: str = option(
        "many|one-run|pool",
        "Models with and without each challenge point, canaries of one training run, or a pool of "
        "models that share points.",
        default="many",
    ),
    scenario: ScenarioOptions,
    goals: GoalOptions,
    sizes: DesignOptions,
    search: SearchOptions,
    sides: ThresholdOptions,
    as_json: bool = options.AS_JSON,
    output: Path | None = option("DIR", f"Write {PLAN}, {SIZES} and {FIGURE} to this folder."),
    force: bool = outputs.FORCE,
) -> int:
    """Plan the size of an audit before training anything.

    Simulated audits report what audits report. By default a quick search of about half a minute, which
    states its precision; --thorough takes minutes.
    """
    from epsilometer.planning import wording

    wanted, chosen = goals.made(sides), sizes.made(design)
    outputs.check_folder(output, force=force, same=lambda _: False)
    model, truth = scenario.made()
    settings = {"workers": os.cpu_count() or 1} | options.given(search)
    with results.counting("simulated audits") as on_progress:
        found = em.plan(
            model,
            truth,
            *wanted,
            design=chosen,
            on_progress=on_progress,
            on_message=results.warn,
            **settings,
        )
    written = [] if output is None else _write(found, output)
    return results.answer(as_json, lambda: wording.described(found), lambda: _text(found, written))


def _text(found: em.goals.AuditPlan, written: list[Path]) -> str:
    """Text for a terminal."""
    from epsilometer._text import paragraphs, table_lines
    from epsilometer.planning import wording

    text = paragraphs([wording.recommendation(found), *wording.help_sentences(found)])
    if found.designs:
        text += "\n" + "\n".join(table_lines(wording.table_rows(found))) + "\n"
    return text + results.written_to(written)


def _write(found: em.goals.AuditPlan, folder: Path) -> list[Path]:
    """Write the files of a plan to a folder."""
    from epsilometer.planning import wording

    written = [folder / PLAN, folder / SIZES]
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(wording.described(found), indent=1, allow_nan=False)
    _files.write_text(folder / PLAN, f"{text}\n")
    _files.write_text(folder / SIZES, wording.designs_csv(found))
    # A figure of an earlier plan would contradict this one.
    (folder / FIGURE).unlink(missing_ok=True)
    if found.designs:
        outputs.write_figure(found.plot(), folder / FIGURE)
        written.append(folder / FIGURE)
    return written
