"""``epsilometer audit``: train, attack and estimate; can be interrupted and repeated to continue."""

from __future__ import annotations

import hashlib
import sys
import textwrap
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer.cli import checks, options, outputs, results, stores
from epsilometer.cli.delivery import (
    DeliveryOptions,
    VerdictOptions,
    gate_of,
    verdicts_of,
    warnings_about,
    write_and_print,
)
from epsilometer.cli.estimate import curve_of, profile_curve
from epsilometer.cli.gate_options import Gate
from epsilometer.cli.options import argument, flag, option
from epsilometer.cli.training import training_progress
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import CANARIES, CURVES, LOSSES, POINTS, read_summary

if TYPE_CHECKING:
    from epsilometer.auditing.designs import Pilot
    from epsilometer.auditing.stopping import Goal
    from epsilometer.auditing.tables import ExecutionTable
    from epsilometer.auditing.variants import Estimated
    from epsilometer.measurement.store import Failure
    from epsilometer.report.views import AnyResult

MOST_FAILURES = 10
"""Different error messages that are printed; `status` has them all."""
LONGEST_MESSAGE = 160
"""Characters of one error message."""


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """How models are trained; these options override the configuration."""

    executor: str | None = option(
        "serial|threads|processes|dask|dask://HOST:PORT", "Where models are trained."
    )
    workers: int | None = option("N", "Threads or processes. Default: one per core.")
    retries: int | None = option("N", "Number of retries of a failed model. Default: 2.")
    accept_changed_code: bool = options.CHANGED_CODE
    store: str | None = option(
        "PATH|none",
        "Keep losses in this file instead of the configuration's; `none`: for this run only, so that "
        "nothing is reused and no store is written.",
        "--store",
    )
    until_width: float | None = option(
        "W",
        "Stop as soon as the interval of epsilon is at most W wide; the configuration gives the largest "
        "number of challenge bases.",
    )

    until_proven: bool = flag(
        "Stop as soon as the claim is refuted; the configuration gives the largest number of bases.",
        "--until-proven",
    )

    only_first: bool = flag(
        "Train only the first few models, to test the training and estimate the time.",
        "--check",
    )

    def check(self) -> None:
        """Refuse invalid options before anything is read."""
        from epsilometer.measurement.executors import check_name

        if self.executor is not None:
            check_name(self.executor)
        if self.workers is not None:
            _validate.whole_number("workers", self.workers)
        if self.until_width is not None:
            _validate.positive("until_width", self.until_width)
            if self.until_proven:
                raise InputError(
                    "--until-width and --until-proven both stop the audit; choose one."
                )

    def goal(self, settings: em.rows.AuditConfig, error: float) -> Goal | None:
        """The goal at which the audit stops, if any."""
        from epsilometer.auditing.stopping import UntilProven, UntilWidth

        shared = settings.model is None  # canaries share a model, points of a pool all of them
        if shared and (self.until_width is not None or self.until_proven):
            raise InputError(
                "--until-width and --until-proven are for many models: proofs from canaries and pools "
                "are valid for one planned analysis, so fix the number of runs or models in advance."
            )
        if self.until_width is not None:
            return UntilWidth(wanted=self.until_width, level=settings.file.estimate.level)
        if not self.until_proven:
            return None
        if settings.claim is None:
            raise InputError("--until-proven needs a claimed epsilon: --claim.")
        delta = settings.file.estimate.delta
        return UntilProven(claim=settings.claim[0], delta=delta, error=error)

    def measure(self, plan: em.Plan, store: Path, execution: ExecutionTable) -> em.rows.Measurement:
        """Train the missing models, with a progress display."""
        # Output of the user's code is not part of the answer.
        with (
            training_progress() as show,
            redirect_stdout(sys.stderr),
            stores.opened(self.store, store) as opened,
        ):
            return em.measure(
                plan,
                opened,
                executor=self.executor or execution.executor,
                workers=self.workers or execution.workers,
                retries=execution.retries if self.retries is None else self.retries,
                accept_changed_code=self.accept_changed_code,
                on_progress=show,
                on_message=results.warn,
            )

    def try_out(
        self, plan: em.Plan, store: Path, execution: ExecutionTable
    ) -> em.rows.TrainingCheck:
        """Train the first models only."""
        with redirect_stdout(sys.stderr), stores.opened(self.store, store) as opened:
            return em.rows.check_training(
                plan,
                opened,
                executor=self.executor or execution.executor,
                workers=self.workers or execution.workers,
                accept_changed_code=self.accept_changed_code,
            )

    def train_pilot(self, pilot: Pilot) -> None:
        """Train the models that select the challenge points."""
        results.warn(
            f"pilot: {pilot.plan.sizes.models:,} models that select the challenge points"
            + ("" if self.store == stores.NONE else f", stored in {pilot.store.name}")
        )
        self.measure(pilot.plan, pilot.store, pilot.execution)

    def try_pilot(self, pilot: Pilot) -> None:
        """Train only the first model of a pilot."""
        trial = self.try_out(pilot.plan, pilot.store, pilot.execution)
        raise _PilotTriedError(trial, pilot.store)


class _PilotTriedError(Exception):
    """Only the first models were to be trained, and the pilot has not selected challenge points yet."""

    def __init__(self, trial: em.rows.TrainingCheck, store: Path) -> None:
        super().__init__(store.name)
        self.trial, self.store = trial, store


@options.flat
def audit(
    config: Path | None = argument(
        "CONFIG",
        "The audit as a TOML file. Default: a small network on handwritten digits.",
        default=None,
    ),
    *,
    execution: ExecutionOptions,
    show_config: bool = flag("Print the configuration and exit.", "--show-config"),
    delta: str | None = options.DELTAS,
    curves: options.CurveOptions,
    priors: options.PriorOptions,
    engine: options.EngineOptions,
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> int:
    """Train models, attack them, and estimate epsilon.

    Interrupt it at any time; the same command continues. Repeated into its own --output, it replaces
    the result, and the report and figures written with it. Other existing files need --force. Options
    override the table [estimate] of the configuration.
    """
    from epsilometer.auditing import config as configurations

    file = config or configurations.DEFAULT
    if show_config:
        results.say(_files.load(file))
        return 0
    deltas = () if delta is None else options.parse_deltas(delta)
    execution.check()
    chains = engine.settings()
    kind = curves.chosen
    if kind is None and (priors.likelihood is not None or options.given(engine)):
        kind = "published"  # implied by options of the published model
    if kind == "published":
        curves.refuse("this is the published model")
    if chains is not None and len(deltas) > 1:
        options.refuse_deltas("--engine mcmc", "one delta", deltas)
    claims.check(deltas)
    verdict.check()
    outputs.check_ending(delivery.report, outputs.PAGE_ENDINGS, option="--report")
    outputs.check_folder(delivery.output)
    table = _estimate_table(deltas, kind, curves, priors, claims)
    question = VariantQuestion(deltas, None, verdict, delivery)
    with stores.chosen(execution.store) as store:
        try:
            with redirect_stdout(sys.stderr):
                settings = configurations.read_audit(
                    file,
                    folder=None if config else Path.cwd(),
                    estimate=table,
                    store=store,
                    on_message=results.warn,
                    train_pilot=execution.try_pilot
                    if execution.only_first
                    else execution.train_pilot,
                )
                if claims.claim_curve is None:
                    settings = settings.with_training_claim(results.warn)
        except _PilotTriedError as tried:
            kept = stores.kept(execution.store, tried.store)
            return checks.show(tried.trial, kept, (), as_json=delivery.as_json)
        over = claims.over(deltas, None if settings.claim is None else settings.claimed_at)
        if claims.claim_curve is not None and callable(over):
            settings = settings.claiming(over)
        return _run(settings, execution, question._replace(claim=over), chains, config)


def _run(
    settings: em.rows.AuditConfig,
    execution: ExecutionOptions,
    question: VariantQuestion,
    chains: em.engines.McmcSettings | None,
    config: Path | None,
) -> int:
    """Train, estimate and deliver an audit that has been read."""
    from epsilometer.auditing.variants import measure_until, origin_of

    verdict, delivery, how = question.verdict, question.delivery, settings.file.execution
    verdict.check_claim(question.claim)
    if execution.only_first:
        trial = execution.try_out(settings.plan, settings.store, how)
        kept = stores.kept(execution.store, settings.store)
        return checks.show(trial, kept, settings.warnings, as_json=delivery.as_json)
    delivery.check(lambda folder: _is_same(folder, settings, accept=execution.accept_changed_code))
    settings, measurement, found, stopping = measure_until(
        settings,
        execution.goal(settings, verdict.chosen_error),
        measure=lambda plan: execution.measure(plan, settings.store, how),
        estimate=lambda counts, model: results.run_engine(counts, model, chains),
        say=results.warn,
    )
    _report_failures(measurement, kept=execution.store != stores.NONE)
    concluded = [
        _concluded(each, settings, origin_of(settings, measurement, each, stopping), question)
        for each in found
    ]
    gate = gate_of(concluded, delivery, verdict, config)
    return _deliver(measurement, concluded, found, delivery, verdict, gate)


class VariantQuestion(NamedTuple):
    """The options that apply to every variant."""

    deltas: tuple[float, ...]
    claim: Any
    verdict: VerdictOptions
    delivery: DeliveryOptions


def _concluded(
    found: Estimated,
    settings: em.rows.AuditConfig,
    origin: em.judgement.Origin,
    question: VariantQuestion,
) -> AnyResult:
    """The result of a variant: of the whole curve and the published model, or of one of them."""
    level, several = settings.file.estimate.level, len(question.deltas) > 1
    epsilon, source = settings.claim or (None, None)
    result: Any = None
    if found.published is not None:
        posterior, over = found.published.posterior, None
        if found.profile is None and several:
            over = curve_of(
                posterior.counts,
                posterior.model,
                question.deltas,
                level=level,
                claim=question.claim,
                verdict=question.verdict,
                scores=found.scores,
            )
        result = question.verdict.result(
            posterior,
            level,
            epsilon,
            question.delivery,
            source=source,
            scores=found.scores,
            origin=origin,
            over_delta=over,
        )
    if found.profile is None:
        assert result is not None
        return result  # type: ignore[no-any-return]
    curve = (
        profile_curve(found.profile, question.deltas, level, question.claim) if several else None
    )
    return question.verdict.profile_result(
        found.profile,
        level,
        epsilon,
        question.delivery,
        source=source,
        published=result,
        origin=origin,
        over_delta=curve,
    )


def _estimate_table(
    deltas: tuple[float, ...],
    kind: str | None,
    curves: options.CurveOptions,
    priors: options.PriorOptions,
    claims: options.ClaimOptions,
) -> dict[str, Any]:
    """The options, in the words of the table [estimate]."""
    table = options.given(priors, claims, curves) | ({"delta": deltas[0]} if deltas else {})
    table.pop("claim_curve", None)
    table |= {} if kind is None else {"model": kind}
    if "strength" in table:
        table["strength"] = options.parse_strength(priors.strength)
    if "mixing" in table:
        table["mixing"] = _mixing(table["mixing"])
    return table


def _mixing(text: str) -> str | float:
    """A mixing as in the configuration: a word or a number."""
    from epsilometer.model.mixtures import mixing_of

    known: Any = mixing_of(text)
    return float(getattr(known, "rate", 0.0)) or str(known.name)


def _deliver(
    measurement: em.rows.Measurement,
    concluded: list[AnyResult],
    found: list[Estimated],
    delivery: DeliveryOptions,
    verdict: VerdictOptions,
    gate: Gate,
) -> int:
    """Write and print every variant."""
    variants = [result.origin.variant for result in concluded]
    suffixes = ["" if variant is None else f"-variant-{variant}" for variant in variants]
    audit = _identity(measurement.plan)

    def write() -> list[Path]:
        written: list[Path] = []
        delivery.remember(audit, suffixes, done=False)
        for result, each, suffix in zip(concluded, found, suffixes, strict=True):
            written += delivery.write(result, suffix=suffix)
            if delivery.output is not None:  # the data next to the estimate
                folder = delivery.output / suffix.lstrip("-")
                if each.published is None:
                    each.scores.write(folder / (CANARIES if each.scores.one_run else POINTS))
                    continue
                each.losses.write(folder / LOSSES)
                each.published.posterior.counts.write(folder / "counts.csv")
                result.origin.curves.write(folder / CURVES)
        delivery.remember(audit, suffixes, done=True)
        return list(dict.fromkeys(written + gate.write()))

    def warnings() -> list[str]:
        return [
            line
            for result in concluded
            for line in (
                *map("warning: {}".format, result.origin.warnings),
                *warnings_about(result),
            )
        ]

    write_and_print(
        delivery.as_json,
        lambda: _printed(measurement, concluded, as_json=delivery.as_json),
        write=write,
        warnings=warnings,
    )
    gate.announce()
    judged = [each for result in concluded for each in verdicts_of(result)]
    return verdict.exit_code(all(result.trustworthy for result in concluded), judged)


def _identity(plan: em.Plan) -> str:
    """The audit, however many models it has: its population, algorithm, design and seed."""
    from epsilometer.measurement.plan import canonical

    return hashlib.sha256(canonical(plan.identity).encode()).hexdigest()


def _is_same(folder: Path, settings: em.rows.AuditConfig, *, accept: bool) -> bool:
    """Whether a folder holds the result of this audit, maybe of fewer models.

    Raises :class:`StoreError` if the store belongs to another plan too: that error names the cause.
    """
    plan = settings.plan
    if (folder / outputs.OUTPUTS).exists():
        same = outputs.audit_of(folder) == _identity(plan)
    else:  # written by a version that did not note it
        known = read_summary(folder).get("plan", {})
        same = known.get("seed") == plan.seed and known.get("population") == plan.population.name
    if not same and settings.store.is_file():
        with em.stores.SqliteStore(settings.store, read_only=True) as store:
            store.check(plan, accept_changed_code=accept)
    return bool(same)


def _printed(measurement: em.rows.Measurement, concluded: list[AnyResult], *, as_json: bool) -> Any:
    """The output: an object for JSON, or text."""
    from epsilometer._text import counted, paragraphs
    from epsilometer.report.views import views_of

    if as_json:
        data = [views_of(result).data(result) for result in concluded]
        if not measurement.shares_models:
            return data[0]
        models = {"models_trained": measurement.trained, "models_reused": measurement.reused}
        return {"variants": data, **models}
    text = (
        f"{counted(measurement.trained, 'model')} trained now, {measurement.reused:,} reused, "
        f"{len(measurement.failures):,} failed.\n"
    )
    for result in concluded:
        text += "\n"
        if measurement.shares_models:
            text += (
                f"Variant {_files.printable(result.origin.variant)} (from the same trained "
                "models as the others,\nso the estimates are not independent)\n\n"
            )
        text += views_of(result).text(result)
    if concluded[0].origin.stopping:
        text += "\n" + paragraphs([concluded[0].origin.stopping["sentence"]])
    return text


def _report_failures(measurement: em.rows.Measurement, *, kept: bool) -> None:
    failures, sizes = measurement.failures, measurement.plan.sizes
    by_message: dict[str, list[Failure]] = {}
    for failure in failures:
        by_message.setdefault(failure.message, []).append(failure)
    for message, alike in list(by_message.items())[:MOST_FAILURES]:
        first = alike[0]
        others = f" (and {len(alike) - 1} more alike)" if len(alike) > 1 else ""
        results.warn(
            f"warning: {sizes.named(first.task)}{others} failed {first.attempts} times and is left out: "
            f"{textwrap.shorten(message, LONGEST_MESSAGE)}"
        )
    if failures:
        results.warn(
            f"warning: {len(failures)} models are missing; if failures depend on the training data, "
            "the estimate is biased and proofs may be invalid."
            + (" `status` lists them all." if kept else "")
        )
