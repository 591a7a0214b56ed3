"""``epsilometer audit``: train, attack and estimate; can be interrupted and repeated to continue."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer._text import table_lines
from epsilometer.cli import options, outputs, results
from epsilometer.cli.delivery import DeliveryOptions, VerdictOptions, deliver
from epsilometer.cli.options import argument, flag, option
from epsilometer.errors import InputError

#: Between lines of progress where there is no terminal: few enough for a log.
SECONDS_BETWEEN_LINES = 30
#: Options that say how models are trained, by their names in Python.
HOW = ("executor", "workers", "accept_changed_code")


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """How models are trained; these options override the configuration."""

    panel: ClassVar[str] = "Training"

    executor: str | None = option(
        "serial|threads|processes|dask|dask://HOST:PORT", "Where models are trained."
    )
    workers: int | None = option("N", "Threads or processes. Default: one per core.")
    accept_changed_code: bool = options.CHANGED_CODE
    store: str | None = option(
        "PATH|none",
        "Keep losses in this file instead of the configuration's; `none`: for this run only, so that "
        "nothing is reused and no store is written.",
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
        if self.store == "":
            raise InputError("expected --store PATH or --store none, got an empty name.")


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
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> int:
    """Train models, attack them, and estimate epsilon.

    Interrupt it at any time; the same command continues. Repeated into its own --output, it replaces
    the result, and the report and figures written with it. Other existing files need --force. The
    table [estimate] has the assumptions; `estimate` on the result tries others without new models.
    """
    from epsilometer.auditing.auditing import of_file
    from epsilometer.auditing.config import DEFAULT, chosen_store

    if show_config:
        results.say(_files.load(config or DEFAULT))
        return 0
    deltas = () if delta is None else options.parse_deltas(delta)
    execution.check()
    claims.check(deltas)
    verdict.check()
    outputs.check_ending(delivery.report, outputs.PAGE_ENDINGS, option="--report")
    outputs.check_folder(delivery.output)
    given = {"level": claims.level, "claim": claims.stated(deltas)}
    given = {name: value for name, value in given.items() if value is not None}
    with redirect_stdout(sys.stderr):  # output of the user's code is not part of the answer
        settings = of_file(config, deltas, given, chosen_store(execution.store))
        settings = settings.executed(
            on_progress="bar" if sys.stderr.isatty() else lines_of_progress(),
            on_message=results.warn,
            **{name: getattr(execution, name) for name in HOW},
        )
        settings = settings.with_training_claim(results.warn)
    verdict.check_claim(settings.claim)
    question = verdict.question(delivery, level=settings.level)
    if execution.only_first:
        return _check(settings, question, as_json=delivery.as_json)
    delivery.check(lambda folder: _is_same(folder, settings))
    result = _audited(settings, question, execution)
    return deliver(result, delivery, verdict, file=config, audit=_hash(settings.plan.identity))


def lines_of_progress() -> Callable[[em.rows.Progress], None]:
    """Prints a line from time to time, with the time that is left: for a log."""
    from epsilometer.measurement.first_models import duration
    from epsilometer.measurement.run import models_done

    start = last = time.monotonic()

    def show(now: em.rows.Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            seconds = (last - start) / max(now.trained, 1)
            left = duration((now.total - now.done - now.failed) * seconds)
            results.warn(f"{models_done(now)[0]}, {left} left")

    return show


def _check(settings: em.rows.AuditConfig, question: em.judgement.Question, *, as_json: bool) -> int:
    """Train the first models; print how that went, and warnings on stderr."""
    from epsilometer.measurement.engine import check_training

    beyond = settings.beyond_reach(question)
    results.warn_all(beyond)
    how = {name: settings.how[name] for name in HOW if name in settings.how}
    with redirect_stdout(sys.stderr):
        trial = check_training(settings.plan, settings.store, **how)
    warnings = [*trial.warnings, *settings.warnings, *beyond]
    results.warn_all(warnings)
    for failure in trial.failures:
        where = trial.plan.sizes.named(failure.task)
        results.warn(f"warning: {where} failed, others did not: {failure.message}")
    sound = not (trial.warnings or trial.failures)
    start = "The training works." if sound else "The training ran, with warnings."
    store = str(settings.store) if isinstance(settings.store, Path) else None
    kept = "none" if store is None else _files.printable(store)
    text = "\n".join([start, *table_lines(trial.summary().cells()[1:]), f"store: {kept}"])
    place = {"store": store, "warnings": warnings}
    return results.answer(as_json, lambda: trial.described() | place, lambda: f"{text}\n")


def _audited(
    settings: em.rows.AuditConfig, question: em.judgement.Question, execution: ExecutionOptions
) -> em.Result:
    """Train, estimate and judge."""
    from epsilometer.auditing.running import run_audit, speak_to
    from epsilometer.auditing.stopping import goal_of

    width, proven = execution.until_width, execution.until_proven
    goal = goal_of(settings, question, until_width=width, until_proven=proven)
    with redirect_stdout(sys.stderr):
        result = run_audit(settings, question, goal=goal)
    speak_to(result, results.tell)
    return result


def _hash(identity: Any) -> str:
    """The audit, however many models it has: its population, algorithm, design and seed."""
    from epsilometer.measurement.plan import canonical

    return hashlib.sha256(canonical(identity).encode()).hexdigest()


def _is_same(folder: Path, settings: em.rows.AuditConfig) -> bool:
    """Whether a folder holds the result of this audit, maybe of fewer models.

    Raises :class:`StoreError` if the store belongs to another plan too: that error names the cause.
    """
    plan = settings.plan
    same = outputs.audit_of(folder) == _hash(plan.identity)
    if not same and isinstance(settings.store, Path) and settings.store.is_file():
        with em.stores.SqliteStore(settings.store, read_only=True) as store:
            store.check(plan, accept_changed_code=settings.how["accept_changed_code"])
    return same
