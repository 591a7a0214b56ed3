"""Small results of the curve model for the tests of reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import epsilometer as em
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.origin import Origin
from epsilometer.judgement.question import Question
from epsilometer.model.models import CurveModel
from epsilometer.model.scores import Scores
from tests.drawn import error_counts
from tests.report.browser import HACK, HOSTILE

#: What reports show does not depend on how exact it is.
SETTINGS = em.engines.CurveSettings(tolerance=0.1)

#: One family, no mixture and a known strength, for many bases.
SIMPLE = CurveModel(
    delta=1e-2,
    families=(em.families.Gaussian(),),
    mixing=em.families.NoMixing(),
    strength=em.families.FixedStrength(value=1.0),
)


def gaussian(
    shifts: Sequence[float], size: int, *, names: Sequence[str] | None = None, seed: int = 1
) -> Scores:
    """Scores of Gaussian mechanisms, a base for each shift."""
    rng = np.random.default_rng(seed)
    return Scores(
        without=[rng.standard_normal(size) for _ in shifts],
        with_point=[shift + rng.standard_normal(size) for shift in shifts],
        names=names,
    )


def canaries(shift: float, size: int, *, seed: int = 1) -> Scores:
    """Canaries of one run whose noise is taken to be independent and normal."""
    rng = np.random.default_rng(seed)
    coins = rng.random(size) < 0.5
    scores = shift * coins + rng.standard_normal(size)
    return Scores.of_canaries(scores[coins], scores[~coins]).assuming_independent_noise()


def posterior(scores: Scores | em.AttackCounts, model: CurveModel) -> CurvePosterior:
    return SETTINGS.estimate(scores, model)


def judged(posterior: CurvePosterior, **context: Any) -> CurveResult:
    """The result of a posterior: ``question``, ``origin`` and ``beside`` as in ``result_of``."""
    result = result_of(posterior, context.pop("question", None), **context)
    assert isinstance(result, CurveResult)
    return result


@cache
def bare() -> CurveResult:
    """No claim, no curve, nothing known of where the scores came from."""
    found = posterior(gaussian([1.5, 0.2, 0.8], 40), CurveModel(delta=1e-3))
    return judged(found)


@cache
def full() -> CurveResult:
    """All there can be: a claim, a curve with claims, the count model's answer, an origin."""
    found = bare().posterior
    counts = error_counts([4, 4, 4], [30, 31, 33], 40)
    origin = Origin(
        plan={"population": "directions", "adjacency": "include", "hash": "abc123"},
        attack={"attack": "threshold", "statistic": "loss", "target_alpha": 0.1},
        models={"trained": 240, "reused": 0, "failed": 0},
    )
    question = Question(claim=0.5, claim_source="algorithm", deltas=(1e-6, 1e-3, 0.5))
    beside = em.estimate(counts, em.CountModel(delta=1e-3))
    return judged(found, question=question, origin=origin, beside=lambda: beside)


@cache
def null() -> CurveResult:
    """Scores that say nothing, and a prior that thinks so."""
    model = CurveModel(delta=1e-3, no_leak=0.5)
    return judged(posterior(gaussian([0.0, 0.0], 40), model))


@cache
def counted() -> CurveResult:
    """Counts at one threshold."""
    counts = error_counts([10, 30], [40, 30], 100)
    return judged(posterior(counts, CurveModel(delta=1e-3)))


@cache
def hostile() -> CurveResult:
    """Nothing in it is trusted: names of bases and of the plan, and warnings."""
    shifts = np.linspace(1.5, 0, len(HOSTILE)).tolist()
    origin = Origin(
        plan={"population": f"<img src=x onerror={HACK}>", "design": "{{ 7*7 }}", "hash": "&lt;"},
        attack={"attack": "<b>bold</b>", "statistic": "%{x}"},
        variant=f"</script><script>{HACK}</script>",
        warnings=(f"<script>{HACK}</script>", "a <b>bold</b> \u202ewarning"),
    )
    scores = gaussian(shifts, 20, names=list(HOSTILE))
    return judged(posterior(scores, SIMPLE), question=Question(claim=1.0), origin=origin)


@cache
def many(bases: int) -> CurveResult:
    """More bases than have room."""
    scores = gaussian(np.linspace(2, 0, bases).tolist(), 12)
    return judged(posterior(scores, SIMPLE))
