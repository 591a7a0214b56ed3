"""``epsilometer selftest``: run a pipeline, shipped or your own, on null data."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer._text import paragraphs, plain
from epsilometer.cli import options, results
from epsilometer.cli.attack import choose_attack
from epsilometer.cli.delivery import REFUSED
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError
from epsilometer.inputs.loading import load_object, run_user_code, statistic_of

if TYPE_CHECKING:
    from epsilometer.checks.selftest import Data, Pipeline, SelfTest

PLACE = "{file}"
THRESHOLD_HINT = "Is a threshold selected on the same scores that it is evaluated on?"
POWER_HINT = "Passing says nothing about power: a pipeline that always returns 0 passes too."
RATES = (0.02, 0.1, 0.3, 0.5)
"""Target rates at which losses are attacked: dependence is visible at some more than at others."""
DEPENDENCE_HINT = (
    "Decisions of cross-fed models depend on each other, so bounds for independent trials are "
    "overconfident: estimate with `--likelihood correlated`, or train separate shadow models."
)
PATIENCE = 600.0
"""Seconds that a command may take per dataset of scores."""
LONGEST_LABEL = 46
"""Characters of a pipeline's name in the table."""
LONGEST_ERROR = 200
"""Characters at the end of a failed command's error output that are quoted."""


LIKELIHOOD_RATIO = "likelihood-ratio"
"""Default attack."""


@dataclass(frozen=True, kw_only=True)
class NullData:
    """The amount of null data, and the error probability of bounds."""

    runs: int = option("R", "Number of null datasets.", default=200)
    canaries: int = option("M", "Scores per dataset.", default=400)
    significance: float = options.SIGNIFICANCE
    delta: float = option("D", "Delta of the shipped bounds.", default=1e-5)
    seed: int = options.SEED

    def check(self) -> None:
        """Refuse too few: 20 runs can show one alarm in twenty; 4 canaries fill both sides."""
        from epsilometer.baselines.estimator import check_significance

        _validate.whole_number("runs", self.runs, least=20)
        _validate.whole_number("canaries", self.canaries, least=4)
        check_significance(self.significance)
        _validate.delta(self.delta)
        _validate.whole_number("seed", self.seed, least=0)


@dataclass(frozen=True, kw_only=True)
class LossesOptions:
    """How losses are attacked."""

    target_alpha: float | None = option(
        "A", "LOSSES: target false-positive rate of the attack. Default: several are tested."
    )
    statistic: str = option(
        "loss|logit|module:function", "LOSSES: statistic of the attack.", default="loss"
    )
    method: str | None = options.ATTACK_METHOD
    variant: str | None = options.STORE_VARIANT


@options.flat
def selftest(
    file: str | None = argument(
        "LOSSES",
        "Losses, or a store of `audit`: models without the point take both roles, and the attack and "
        "its bound are tested on them.",
        default=None,
    ),
    *,
    pipeline: str | None = option(
        "module:function",
        "Your function of member and non-member scores that returns a lower bound of epsilon.",
    ),
    command: str | None = option(
        "CMD",
        "Your command; {file} is replaced by a CSV of score and member, and it prints a lower bound of "
        "epsilon.",
    ),
    null: NullData,
    attacked: LossesOptions,
    as_json: bool = options.AS_JSON,
) -> int:
    """Test a pipeline on null data, where epsilon is 0.

    The exit code is 3 if it reports a positive epsilon too often.
    """
    null.check()
    if sum(given is not None for given in (file, pipeline, command)) > 1:
        raise InputError("expected one of LOSSES, --pipeline and --command, got several.")
    if file is not None:
        tests = _losses(file, null, attacked)
    elif pipeline is not None:
        tests = [_own(*_function(pipeline), null)]
    elif command is not None:
        tests = [_own(*_command(command), null)]
    else:
        return _shipped(null, as_json=as_json)
    hint = THRESHOLD_HINT if file is None else DEPENDENCE_HINT
    worst = max(tests, key=lambda test: test.alarms)
    _say(tests, as_json=as_json, last=f"{_verdict(worst, hint)} {POWER_HINT}")
    return REFUSED if any(test.broken for test in tests) else 0


def _own(bound: Pipeline, label: str, null: NullData) -> SelfTest:
    settings = asdict(null)
    del settings["delta"]  # which is for the shipped bounds
    with results.progress("null scores") as (_, advance):
        return em.checks.check_pipeline(bound, label=label, on_progress=advance, **settings)


def _function(pipeline: str) -> tuple[Pipeline, str]:
    function = load_object(pipeline, folder=Path(), place="--pipeline")
    if not callable(function):
        raise InputError(f"--pipeline: expected a function of scores, got {pipeline!r}.")
    return partial(run_user_code, f"--pipeline {pipeline}: the function failed", function), pipeline


def _command(command: str) -> tuple[Pipeline, str]:
    words = shlex.split(command)
    if not any(PLACE in word for word in words):
        raise InputError(f"--command: expected {PLACE} in place of the file of scores.")
    return partial(_printed, words), words[0]


def _printed(words: list[str], members: Any, others: Any) -> float:
    """The output of the command for a file of these scores."""
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
        errors = " ".join(done.stderr.split())[-LONGEST_ERROR:]
        raise InputError(f"--command: {words[0]} ended with {done.returncode} ({errors}).")
    got = _files.shown(done.stdout)
    refusal = f"--command: expected a number on standard output, got {got}."
    return options.number(done.stdout.strip(), refusal)


def _tested(
    title: str, null: NullData, drawn: Iterable[Data], bounds: Callable[[Data], dict[str, float]]
) -> list[SelfTest]:
    from epsilometer.checks.selftest import count_alarms

    with results.progress(title) as (_, advance):
        return count_alarms(drawn, null.runs, bounds, null.significance, advance)


def _losses(file: str, null: NullData, attacked: LossesOptions) -> list[SelfTest]:
    """One test per target rate; each run divides the same losses again."""
    import numpy as np

    from epsilometer.checks.selftest import null_losses

    losses, design = results.losses_of(file, attacked.variant)
    if design.canaries or not design.models(1):
        raise InputError(f"{file}: selftest needs losses of many models, got canaries or a pool.")
    given = attacked.target_alpha
    rates: tuple[float, ...] = RATES
    if given is not None:
        rates = (_validate.open_unit_interval("target_alpha", given),)
    attack = choose_attack(attacked.method or LIKELIHOOD_RATIO)
    statistic = statistic_of(attacked.statistic, folder=Path(), place="--statistic")

    def bounds(dealt: em.Losses) -> dict[str, float]:
        design = em.CrossFed(replicates=int(dealt.replicate.max()) + 1)
        result = design.attack(dealt, attack, statistic=statistic)
        return {
            f"{attack.name} on {attacked.statistic} at {rate:g}": em.baselines.best_base(
                em.baselines.ClopperPearson(), result.counts(rate), null.delta, null.significance
            )
            for rate in rates
        }

    streams = (np.random.default_rng([null.seed, run]) for run in range(null.runs))
    drawn = (null_losses(losses, rng) for rng in streams)
    return _tested("null losses", null, drawn, bounds)


def _shipped(null: NullData, *, as_json: bool) -> int:
    from epsilometer.baselines.catalogue import FROM_SCORES
    from epsilometer.baselines.estimator import Kind
    from epsilometer.checks.selftest import CONTROLS, null_scores

    estimators = [*(e for e in FROM_SCORES if e.kind is not Kind.POINT), CONTROLS[-1]]
    if null.delta == 0:
        estimators = [estimator for estimator in estimators if not estimator.gaussian]

    def bounds(scores: tuple[Any, Any]) -> dict[str, float]:
        auditor = em.baselines.CanaryScoreAuditor(*scores)
        return {e.label: e.lower(auditor, null.delta, null.significance) for e in estimators}

    drawn = null_scores(null.runs, null.canaries, seed=null.seed)
    tests = _tested("null scores", null, drawn, bounds)
    broken = [test.label for test in tests[:-1] if test.broken]
    caught = tests[-1].broken
    last = (
        "All bounds have error rates within their stated levels on null scores; the negative control is "
        "detected."
    )
    if not caught:
        last = "The negative control was not detected: too few runs or canaries for a conclusion."
    if broken:
        last = f"BROKEN: {'; '.join(broken)}."
    _say(tests, as_json=as_json, last=last)
    return REFUSED if broken or not caught else 0


def _verdict(test: SelfTest, hint: str) -> str:
    promised = f"{100 * test.significance:g}\u00a0%"
    seen = f"{100 * test.alarms / test.runs:.1f}\u00a0%"
    if test.broken:
        return (
            f"BROKEN: it reports a positive epsilon in {test.alarms} of {test.runs} null datasets; a "
            f"valid bound does so in at most {promised}. {hint}"
        )
    if test.alarms > test.significance * test.runs:
        return (
            f"SUSPECT: false alarms in {seen} of the runs, more than {promised}, but within chance; use "
            "more --runs."
        )
    return (
        f"Error rate within its stated level: false alarms in {seen} of {test.runs} runs, at most "
        f"{promised} allowed."
    )


def _say(tests: list[SelfTest], *, as_json: bool, last: str) -> None:
    if as_json:
        data = [{"pipeline": test.label, **asdict(test), "broken": test.broken} for test in tests]
        for row in data:
            del row["label"]
        results.say_json({"tests": plain(data), "verdict": last})
        return
    lines = [
        "Null data: scores do not depend on membership, so epsilon is 0.",
        "",
        f"{'':{LONGEST_LABEL}}{'false alarms':>14}{'largest':>10}",
    ]
    for test in tests:
        share = f"{100 * test.alarms / test.runs:.1f} %"
        mark = "  BROKEN" if test.broken else ""
        name = _files.printable(test.label)[:LONGEST_LABEL]
        lines.append(f"{name:{LONGEST_LABEL}}{share:>14}{test.largest:>10.3f}{mark}")
    results.say("\n".join([*lines, "", paragraphs([last])]))
