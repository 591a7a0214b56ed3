"""Every result has one sentence that says what to do next."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

import epsilometer as em
from epsilometer.judgement import next_step as steps
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.model.models import CurveModel
from tests.report.count_results import counts, exact, gather, sampled
from tests.report.curve_results import bare, gaussian, posterior
from tests.report.curve_results import judged as judged_result


@cache
def plain() -> CurveResult:
    """At a delta where the scores show the rates that determine epsilon."""
    scores = gaussian([1.5, 0.2, 0.8], 40)
    return judged_result(posterior(scores, CurveModel(delta=0.1)))


def judged(claim: float) -> CurveResult:
    return replace(plain(), question=Question(claim=claim))


def many_models() -> CurveResult:
    """Little is left to learn of each base."""
    scores = gaussian([1.0] * 2, 1500)
    return judged_result(posterior(scores, CurveModel(delta=1e-2)))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (plain, f"{steps.STATE_A_CLAIM}; to narrow the interval first, train more models per base"),
        (bare, f"{steps.STATE_A_CLAIM}; before you quote the estimate, "),
        (lambda: gather(exact(), compare=False), f"{steps.STATE_A_CLAIM}."),
        (lambda: judged(0.05), steps.FIX),
        (lambda: judged(2.0), "To settle this, train more models per base (320 instead of 80)"),
        (lambda: judged(50.0), steps.STRONGER),
        (lambda: replace(bare(), question=Question(claim=50.0)), "Before you report this as"),
        (lambda: gather(exact(), claim=0.2, compare=False), f"{steps.FIX}."),
        (lambda: gather(sampled(scale=0.0), claim=1.5, compare=False), "Run the sampler for longer"),
        (lambda: gather(sampled(scale=0.0), claim=0.7, compare=False), f"{steps.FIX}."),
        (lambda: gather(sampled(scale=0.0), compare=False), "Run the sampler for longer"),
    ],
    ids=["none, wide", "none, extrapolated", "none, counts", "fail", "open", "weak",
         "extrapolated", "proven", "not converged", "not converged, proven", "not converged, no claim"],
)  # fmt: skip
def test_the_next_step(make: Callable[[], Result], expected: str) -> None:
    said = make().next_step
    assert said.startswith(expected)
    # Delta is part of the claim: it is never to be raised.
    assert not re.search("use a delta|(larger|higher) delta|delta of at least", said)
    # One sentence.
    assert said.endswith(".")
    assert ". " not in said


SHORT_TAILS = (em.families.Laplace(), em.families.RandomizedResponse())


def test_where_epsilon_is_extrapolated_a_feasible_number_of_models_is_named() -> None:
    scores = gaussian([2.0, 1.5], 20)
    result = judged_result(posterior(scores, CurveModel(delta=1e-5, families=SHORT_TAILS)))
    found = result.posterior
    assert found.extrapolated
    enough = [each for each in steps.FEASIBLE if found.delta_at_rate(1 / (20 * each)) <= 1e-5]
    assert enough
    said = result.next_step
    assert f"train more models per base ({40 * enough[0]:,} instead of 40)" in said
    # A family cannot be avoided where ten times as many would not be enough.
    assert bare().posterior.delta_at_rate(1 / 400) > bare().model.delta
    said = bare().next_step
    assert "rely on the proven bound, or fix the family of curves, if you can justify one" in said
    assert "instead of" not in said


def test_more_models_are_not_advised_where_they_would_not_help() -> None:
    said = many_models().next_step
    assert said == f"{steps.STATE_A_CLAIM}." or "use stronger attacks or more bases" in said


def test_an_open_verdict_of_counts_names_what_would_settle_it() -> None:
    result = gather(exact(counts([40] * 6, [30, 45, 52, 60, 35, 48], 100)), compare=False)
    claim = float(result.posterior.quantile("epsilon", 0.6))
    open_one = gather(result.posterior, claim=claim, compare=False)
    assert open_one.verdict is not None
    assert open_one.verdict.outcome is em.judgement.Outcome.INCONCLUSIVE
    misfit = any(item.surprising for item in open_one.predictive.statistics)
    assert open_one.next_step == (steps.OTHER_MODEL if misfit else steps.PLAN)
