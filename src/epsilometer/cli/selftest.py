"""``epsilometer selftest``: null data through a pipeline, the shipped ones or the user's own."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer import _files, _validate
from epsilometer.cli import results
from epsilometer.cli.attack import METHODS, choose_attack, choose_statistic, read_losses
from epsilometer.cli.loading import call_function, load_object
from epsilometer.cli.options import AsJson
from epsilometer.cli.reporting import REFUSED
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from epsilometer.attacks.losses import Losses
    from epsilometer.calibration.selftest import SelfTest

PLACE = "{file}"
THRESHOLD_HINT = "Is a threshold chosen on the same scores that it is judged on?"
POWER_HINT = "Silence on null data is not strength: what always answers 0 passes too."
RATES = (0.02, 0.1, 0.3, 0.5)
"""Target rates at which losses are attacked: dependence shows at some more than at others."""
DEPENDENCE_HINT = (
    "Decisions of cross-fed models depend on each other, so bounds for independent trials are too "
    "sure: estimate with `--likelihood correlated`, or give each challenge shadow models of its own."
)
PATIENCE = 600.0
"""Seconds that a command may take for one set of scores."""


def selftest(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="LOSSES",
            help="Losses, or a store of `audit`: models without the point play both parts, and the "
            "attack and its bound are tried on them.",
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            metavar="module:function",
            help="Your function of the scores of members and of others that returns a lower bound "
            "of epsilon.",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Your command; {file} stands for a CSV of score and member, and it prints a lower "
            "bound of epsilon.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(metavar="R", help="Sets of null data.")] = 200,
    canaries: Annotated[int, typer.Option(metavar="M", help="Scores in a set.")] = 400,
    significance: Annotated[
        float, typer.Option(metavar="A", help="Probability with which bounds may err.")
    ] = 0.05,
    delta: Annotated[
        float, typer.Option(metavar="D", help="For the shipped bounds; null data are private at 0.")
    ] = 1e-5,
    target_alpha: Annotated[
        float | None,
        typer.Option(
            metavar="A",
            help="LOSSES: the attack's target false-positive rate; several are tried unless given.",
        ),
    ] = None,
    statistic: Annotated[
        str, typer.Option(metavar="loss|logit|module:function", help="LOSSES: what it looks at.")
    ] = "loss",
    method: Annotated[str, typer.Option(metavar=METHODS, help="LOSSES: how it decides.")] = (
        "likelihood-ratio"
    ),
    variant: Annotated[
        str | None, typer.Option(metavar="V", help="LOSSES: which variant of a store.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same null data.")] = 1,
    as_json: AsJson = False,
) -> int:
    """Feed data without any membership to a pipeline; finding epsilon there, it is broken."""
    from epsilometer.baselines.estimator import check_significance

    _validate.whole_number("runs", runs, least=20)
    _validate.whole_number("canaries", canaries, least=4)
    check_significance(significance)
    _validate.delta(delta)
    _validate.whole_number("seed", seed, least=0)
    if sum(given is not None for given in (file, pipeline, command)) > 1:
        raise InputError("expected one of LOSSES, --pipeline and --command, got several.")
    if file is not None:
        losses = read_losses(file, variant)
        rates = RATES if target_alpha is None else (target_alpha,)
        found = _losses(losses, runs, significance, delta, rates, statistic, method, seed)
    elif pipeline is not None or command is not None:
        found = [_own(pipeline, command, runs, canaries, significance, seed)]
    else:
        return _shipped(runs, canaries, significance, delta, seed, as_json=as_json)
    broken = any(test.broken for test in found)
    hint = THRESHOLD_HINT if file is None else DEPENDENCE_HINT
    worst = max(found, key=lambda test: test.alarms)
    _say(found, as_json=as_json, last=f"{_verdict(worst, hint)} {POWER_HINT}")
    return REFUSED if broken else 0


def _own(
    pipeline: str | None,
    command: str | None,
    runs: int,
    canaries: int,
    significance: float,
    seed: int,
) -> SelfTest:
    from epsilometer.calibration.selftest import check_pipeline

    if pipeline is not None:
        function = load_object(pipeline, folder=Path(), place="--pipeline")
        if not callable(function):
            raise InputError(f"--pipeline: expected a function of scores, got {pipeline!r}.")
        label = pipeline

        def bound(members: NDArray, others: NDArray) -> float:  # type: ignore[type-arg]
            return call_function(function, members, others, place=f"--pipeline {label}")  # type: ignore[no-any-return]
    else:
        assert command is not None
        words = shlex.split(command)
        if not any(PLACE in word for word in words):
            raise InputError(f"--command: expected {PLACE} where the scores' file goes.")
        label = words[0]

        def bound(members: NDArray, others: NDArray) -> float:  # type: ignore[type-arg]
            return _printed(words, members, others)

    with results.progress("null scores") as (_, advance):
        return check_pipeline(
            bound,
            label=label,
            runs=runs,
            canaries=canaries,
            significance=significance,
            seed=seed,
            progress=advance,
        )


def _printed(words: list[str], members: NDArray, others: NDArray) -> float:  # type: ignore[type-arg]
    """What the command prints for a file of these scores."""
    rows = [[float(score), 1] for score in members] + [[float(score), 0] for score in others]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        path.write_text(_files.csv_text(["score", "member"], rows), encoding="utf-8")
        filled = [word.replace(PLACE, str(path)) for word in words]
        try:
            done = subprocess.run(
                filled, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"--command: {words[0]} cannot be run ({error}).") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[-200:]
        raise InputError(f"--command: {words[0]} ended with {done.returncode} ({said}).")
    try:
        return float(done.stdout.strip())
    except ValueError:
        raise InputError(
            f"--command: expected a number on standard output, got {_files.shown(done.stdout)}."
        ) from None


def _losses(
    losses: Losses,
    runs: int,
    significance: float,
    delta: float,
    rates: tuple[float, ...],
    statistic: str,
    method: str,
    seed: int,
) -> list[SelfTest]:
    """One test for each target rate; the runs deal the same losses anew."""
    import numpy as np

    from epsilometer.attacks.result import target_rate
    from epsilometer.baselines.bases import best_base
    from epsilometer.baselines.intervals import ClopperPearson
    from epsilometer.calibration.selftest import null_losses, summed
    from epsilometer.measurement.designs import MeasureMIAFast

    for rate in rates:
        target_rate(rate)
    attack = choose_attack(method)
    looked_at = choose_statistic(statistic, folder=Path(), place="--statistic")
    bounds: dict[float, list[float]] = {rate: [] for rate in rates}
    with results.progress("null losses") as (_, advance):
        for run in range(runs):
            null = null_losses(losses, np.random.default_rng([seed, run]))
            design = MeasureMIAFast(replicates=int(null.replicate.max()) + 1)
            attacked = design.attack(null, attack, statistic=looked_at)
            for rate, found in bounds.items():
                counts = attacked.counts(rate)
                found.append(best_base(ClopperPearson(), counts, delta, significance))
            if advance is not None:
                advance(run + 1, runs)
    return [
        summed(f"{method} on {statistic} at {rate:g}", found, significance)
        for rate, found in bounds.items()
    ]


def _shipped(
    runs: int, canaries: int, significance: float, delta: float, seed: int, *, as_json: bool
) -> int:
    from epsilometer.baselines.catalogue import FROM_SCORES
    from epsilometer.baselines.estimator import Kind
    from epsilometer.baselines.scores import CanaryScoreAuditor
    from epsilometer.calibration.controls import CONTROLS
    from epsilometer.calibration.selftest import null_scores, summed

    bounds = [e for e in FROM_SCORES if e.kind is not Kind.POINT]
    estimators = [*bounds, CONTROLS[-1]]
    if delta == 0:
        estimators = [estimator for estimator in estimators if not estimator.gaussian]
    found: dict[str, list[float]] = {estimator.label: [] for estimator in estimators}
    with results.progress("null scores") as (_, advance):
        for run, (members, others) in enumerate(null_scores(runs, canaries, seed=seed)):
            auditor = CanaryScoreAuditor(members, others)
            for estimator in estimators:
                found[estimator.label].append(estimator.lower(auditor, delta, significance))
            if advance is not None:
                advance(run + 1, runs)
    tests = [summed(label, values, significance) for label, values in found.items()]
    broken = [test.label for test in tests[:-1] if test.broken]
    if broken:
        last = f"BROKEN: {'; '.join(broken)}."
    elif not tests[-1].broken:
        last = "The control was not caught: too few runs or canaries to tell right from wrong."
    else:
        last = (
            "All bounds keep their word on null scores; the control, wrong on purpose, is caught."
        )
    _say(tests, as_json=as_json, last=last)
    return REFUSED if broken or not tests[-1].broken else 0


def _verdict(test: SelfTest, hint: str) -> str:
    promised = f"{100 * test.significance:g}\u00a0%"
    seen = f"{100 * test.alarms / test.runs:.1f}\u00a0%"
    if test.broken:
        return (
            f"BROKEN: it finds epsilon where there is none, in {test.alarms} of {test.runs} runs; "
            f"a bound that may err in {promised} does not. {hint}"
        )
    if test.alarms > test.significance * test.runs:
        return (
            f"SUSPECT: false alarms in {seen} of the runs, more than {promised}, but chance might do "
            "that; more --runs would tell."
        )
    return f"It keeps its word: false alarms in {seen} of {test.runs} runs, at most {promised} allowed."


def _say(tests: list[SelfTest], *, as_json: bool, last: str) -> None:
    if as_json:
        data = [
            {
                "pipeline": test.label,
                "runs": test.runs,
                "alarms": test.alarms,
                "largest": test.largest,
                "significance": test.significance,
                "broken": test.broken,
            }
            for test in tests
        ]
        results.say(json.dumps({"tests": data, "verdict": last}) + "\n")
        return
    lines = [
        "Null data: no membership in them, the true epsilon is 0.",
        "",
        f"{'':46}{'false alarms':>14}{'largest':>10}",
    ]
    for test in tests:
        share = f"{100 * test.alarms / test.runs:.1f} %"
        mark = "  BROKEN" if test.broken else ""
        name = _files.printable(test.label)[:46]
        lines.append(f"{name:46}{share:>14}{test.largest:>10.3f}{mark}")
    results.say("\n".join([*lines, "", *textwrap.wrap(last, 80)]) + "\n")
