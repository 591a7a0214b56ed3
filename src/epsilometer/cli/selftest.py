"""``epsilometer selftest``: run a pipeline, shipped or your own, on null data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer._text import paragraphs, plain, table_lines
from epsilometer.cli import options, results
from epsilometer.cli.attack import choose_attack
from epsilometer.cli.delivery import REFUSED
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError
from epsilometer.inputs.loading import load_object, run_user_code, statistic_of

if TYPE_CHECKING:
    from epsilometer.checks.selftest import SelfTest

Bounds = Callable[[Any], dict[str, float]]
"""Lower bounds of epsilon by the name of the pipeline, for one null dataset."""

THRESHOLD_HINT = "Is a threshold selected on the same scores that it is evaluated on?"
POWER_HINT = "Passing says nothing about power: a pipeline that always returns 0 passes too."
RATES = (0.02, 0.1, 0.3, 0.5)
"""Target rates at which losses are attacked: dependence is visible at some more than at others."""
DEPENDENCE_HINT = (
    "Decisions of cross-fed models depend on each other, so bounds for independent trials are "
    "overconfident: estimate with `--likelihood correlated`, or train separate shadow models."
)
LONGEST_LABEL = 46
"""Characters of a pipeline's name in the table."""


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
    null: NullData,
    statistic: str = option(
        "loss|logit|module:function", "LOSSES: statistic of the attack.", default="loss"
    ),
    method: str | None = options.ATTACK_METHOD,
    variant: str | None = options.STORE_VARIANT,
    as_json: bool = options.AS_JSON,
) -> int:
    """Test a pipeline on null data, where epsilon is 0.

    The exit code is 3 if it reports a positive epsilon too often.
    """
    from epsilometer.checks.selftest import null_scores

    null.check()
    if file is not None and pipeline is not None:
        raise InputError("expected LOSSES or --pipeline, got both.")
    if file is not None:
        tests = _tested(null, *_null_losses(file, variant, statistic, method, null))
        return _report(tests, DEPENDENCE_HINT, as_json=as_json)
    scores = null_scores(null.runs, null.canaries, seed=null.seed)
    if pipeline is not None:
        tests = _tested(null, scores, _function(pipeline))
        return _report(tests, THRESHOLD_HINT, as_json=as_json)
    return _report_shipped(_tested(null, scores, _shipped(null)), as_json=as_json)


def _tested(null: NullData, drawn: Iterable[Any], bounds: Bounds) -> list[SelfTest]:
    from epsilometer.checks.selftest import count_alarms

    with results.progress("null data", unit=" datasets") as (_, advance):
        return count_alarms(drawn, null.runs, bounds, null.significance, advance)


def _function(pipeline: str) -> Bounds:
    from epsilometer.checks.selftest import number_of

    function = load_object(pipeline, folder=Path(), place="--pipeline")
    if not callable(function):
        raise InputError(f"--pipeline: expected a function of scores, got {pipeline!r}.")
    run = partial(run_user_code, f"--pipeline {pipeline}: the function failed", function)
    return lambda scores: {pipeline: number_of(run(*scores), pipeline)}


def _null_losses(
    file: str, variant: str | None, statistic: str, method: str | None, null: NullData
) -> tuple[Iterable[em.Losses], Bounds]:
    """Each run divides the same losses again; a bound for each target rate of the attack."""
    import numpy as np

    from epsilometer.checks.selftest import null_losses

    losses, design = results.losses_of(file, variant)
    if design.canaries or not design.models(1):
        raise InputError(f"{file}: selftest needs losses of many models, got canaries or a pool.")
    attack = choose_attack(method or "likelihood-ratio")
    function = statistic_of(statistic, folder=Path(), place="--statistic")
    best_bound = partial(em.baselines.best_base, em.baselines.ClopperPearson())

    def bounds(dealt: em.Losses) -> dict[str, float]:
        many = em.CrossFed(replicates=int(dealt.replicate.max()) + 1)
        result = many.attack(dealt, attack, statistic=function)
        return {
            f"{attack.name} on {statistic} at {rate:g}": best_bound(
                result.counts(rate), null.delta, null.significance
            )
            for rate in RATES
        }

    streams = (np.random.default_rng([null.seed, run]) for run in range(null.runs))
    return (null_losses(losses, rng) for rng in streams), bounds


def _shipped(null: NullData) -> Bounds:
    """Every built-in bound, and a control that must be detected."""
    from epsilometer.baselines.catalogue import FROM_SCORES
    from epsilometer.baselines.estimator import Kind
    from epsilometer.checks.selftest import CONTROLS

    estimators = [*(e for e in FROM_SCORES if e.kind is not Kind.POINT), CONTROLS[-1]]
    if null.delta == 0:
        estimators = [estimator for estimator in estimators if not estimator.gaussian]

    def bounds(scores: tuple[Any, Any]) -> dict[str, float]:
        auditor = em.baselines.CanaryScoreAuditor(*scores)
        return {e.label: e.lower(auditor, null.delta, null.significance) for e in estimators}

    return bounds


def _report_shipped(tests: list[SelfTest], *, as_json: bool) -> int:
    *own, control = tests
    broken = [test.label for test in own if test.broken]
    last = (
        "All bounds have error rates within their stated levels on null scores; the negative control is "
        "detected."
    )
    if not control.broken:
        last = "The negative control was not detected: too few runs or canaries for a conclusion."
    if broken:
        last = f"BROKEN: {'; '.join(broken)}."
    _say(tests, last, as_json=as_json)
    return REFUSED if broken or not control.broken else 0


def _report(tests: list[SelfTest], hint: str, *, as_json: bool) -> int:
    worst = max(tests, key=lambda test: test.alarms)
    promised = f"{100 * worst.significance:g}\u00a0%"
    seen = f"false alarms in {worst.alarms} of {worst.runs} runs, at most {promised} allowed"
    said = f"Error rate within its stated level: {seen}."
    if worst.broken:
        said = f"BROKEN: {seen}. {hint}"
    elif worst.alarms > worst.significance * worst.runs:
        said = f"SUSPECT: {seen}, but within chance; use more --runs."
    _say(tests, f"{said} {POWER_HINT}", as_json=as_json)
    return REFUSED if worst.broken else 0


def _say(tests: list[SelfTest], last: str, *, as_json: bool) -> None:
    if as_json:
        data = [{"pipeline": test.label, **asdict(test), "broken": test.broken} for test in tests]
        for row in data:
            del row["label"]
        results.say_json({"tests": plain(data), "verdict": last})
        return
    rows = [("null data: epsilon is 0", "false alarms", "largest", "")]
    for test in tests:
        name = _files.printable(test.label)[:LONGEST_LABEL]
        share, mark = f"{100 * test.alarms / test.runs:.1f} %", "BROKEN" * test.broken
        rows.append((name, share, f"{test.largest:.3f}", mark))
    results.say("\n".join([*table_lines(rows), "", paragraphs([last])]))
