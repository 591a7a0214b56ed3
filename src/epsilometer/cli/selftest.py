"""``epsilometer selftest``: run a pipeline, shipped or your own, on null data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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

#: Lower bounds of epsilon by the name of the pipeline, for one null dataset.
Bounds = Callable[[Any], dict[str, float]]

THRESHOLD_HINT = "Is a threshold selected on the same scores that it is evaluated on?"
POWER_HINT = "Passing says nothing about power: a pipeline that always returns 0 passes too."
#: Target rates at which losses are attacked: dependence is visible at some more than at others.
RATES = (0.02, 0.1, 0.3, 0.5)
DEPENDENCE_HINT = (
    "Decisions of cross-fed models depend on each other, so bounds for independent trials are "
    "overconfident: estimate with `--likelihood correlated`, or train separate shadow models."
)
#: Characters of a pipeline's name in the table.
LONGEST_LABEL = 46


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
    from epsilometer.checks.selftest import count_alarms, null_scores

    drawn: Iterable[Any]
    null.check()
    if file is not None and pipeline is not None:
        raise InputError("expected LOSSES or --pipeline, got both.")
    if file is not None:
        drawn, bounds = _null_losses(file, variant, statistic, method, null)
    else:
        drawn = null_scores(null.runs, null.canaries, seed=null.seed)
        bounds = _shipped(null) if pipeline is None else _function(pipeline)
    with results.progress("null data", unit=" datasets") as (_, advance):
        tests = count_alarms(drawn, null.runs, bounds, null.significance, advance)
    if file is None and pipeline is None:
        said, broken = _judged_shipped(tests)
    else:
        said, broken = _judged(tests, THRESHOLD_HINT if file is None else DEPENDENCE_HINT)
    results.answer(as_json, lambda: _described(tests, said), lambda: _text(tests, said))
    return REFUSED if broken else 0


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


def _judged_shipped(tests: list[SelfTest]) -> tuple[str, bool]:
    """What is said of the bounds that ship, and whether it is bad."""
    *own, control = tests
    broken = [test.label for test in own if test.broken]
    if broken:
        return f"BROKEN: {'; '.join(broken)}.", True
    if not control.broken:
        few = "The negative control was not detected: too few runs or canaries for a conclusion."
        return few, True
    return (
        "All bounds have error rates within their stated levels on null scores; the negative control is "
        "detected."
    ), False


def _judged(tests: list[SelfTest], hint: str) -> tuple[str, bool]:
    """What is said of a user's pipeline or losses, and whether it is bad."""
    worst = max(tests, key=lambda test: test.alarms)
    promised = f"{100 * worst.significance:g}\u00a0%"
    seen = f"false alarms in {worst.alarms} of {worst.runs} runs, at most {promised} allowed"
    said = f"Error rate within its stated level: {seen}."
    if worst.broken:
        said = f"BROKEN: {seen}. {hint}"
    elif worst.alarms > worst.significance * worst.runs:
        said = f"SUSPECT: {seen}, but within chance; use more --runs."
    return f"{said} {POWER_HINT}", worst.broken


def _described(tests: list[SelfTest], said: str) -> dict[str, Any]:
    data = [{"pipeline": test.label, **plain(test), "broken": test.broken} for test in tests]
    for row in data:
        del row["label"]
    return {"tests": data, "verdict": said}


def _text(tests: list[SelfTest], said: str) -> str:
    rows = [("null data: epsilon is 0", "false alarms", "largest", "")]
    for test in tests:
        name = _files.printable(test.label)[:LONGEST_LABEL]
        share, mark = f"{100 * test.alarms / test.runs:.1f} %", "BROKEN" * test.broken
        rows.append((name, share, f"{test.largest:.3f}", mark))
    return "\n".join([*table_lines(rows), "", paragraphs([said])])
