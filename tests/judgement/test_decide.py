"""The rule of verdicts: proven, judged or open, with the same text everywhere."""

from __future__ import annotations

import math

import numpy as np

import epsilometer as em
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.objections import Bound, bound_reasons, prior_reasons, valid_bounds
from epsilometer.judgement.question import Question
from epsilometer.judgement.verdict import (
    NO_PROOF,
    Outcome,
    Thresholds,
)
from studies.draws import draw_counts
from studies.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    RandomisedResponse,
)
from tests.drawn import error_counts


def test_reasons_of_objections() -> None:
    thresholds = Thresholds()
    assert list(bound_reasons([Bound("a scan", 2.0)], 1.0, Outcome.PASS)) == [
        "a scan is 2.00, above the claim"
    ]
    assert not list(bound_reasons([Bound("a scan", 2.0)], 1.0, Outcome.FAIL))
    assert not list(bound_reasons([Bound("a scan", 0.5)], 1.0, Outcome.PASS))
    assert not list(prior_reasons({0.5: 0.01, 2.0: 0.04}.__getitem__, Outcome.PASS, thresholds))
    (reason,) = prior_reasons({0.5: 0.01, 2.0: 0.3}.__getitem__, Outcome.PASS, thresholds)
    assert "multiplied by 2" in reason

    def contradicted(factor: float) -> float:
        raise em.errors.ContradictionError(f"{factor}")

    (reason,) = prior_reasons(contradicted, Outcome.PASS, thresholds)
    assert "no other prior" in reason


# --- on data whose truth is known -------------------------------------------------------------


def counts_of(
    mechanism: object, rate: float, bases: int, trials: int, seed: int
) -> em.AttackCounts:
    x, y = draw_counts(
        mechanism,  # type: ignore[arg-type]
        rate,
        power=1.0,
        trials=trials,
        shape=(1, bases),
        rng=np.random.default_rng(seed),
    )
    return error_counts(x[0], y[0], trials)


def test_randomised_response_at_its_own_epsilon_never_fails() -> None:
    """Ten bases of 300, attacked optimally: the posterior alone would fail nearly all of them."""
    lie = 1 / (1 + math.e)
    leanings = []
    for seed in range(5):
        counts = counts_of(RandomisedResponse(1.0), lie, 10, 300, seed)
        verdict = em.judge(em.estimate(counts, em.CountModel(delta=1e-5)), 1.0)
        leanings.append(verdict.leaning)
        assert verdict.outcome is not Outcome.FAIL, (seed, verdict.reasons)
    assert leanings.count(Outcome.FAIL) > 2


def test_a_gaussian_mechanism_does_not_pass_three() -> None:
    """Its epsilon is 4.38, but one operating point of its curve looks like 1.4."""
    for seed, (bases, trials) in enumerate([(20, 100), (10, 300), (5, 100)]):
        counts = counts_of(GaussianMechanism(1.0), 0.1, bases, trials, seed)
        verdict = em.judge(em.estimate(counts, em.CountModel(delta=1e-5)), 3.0)
        assert verdict.outcome is not Outcome.PASS, verdict.reasons


def leaky_and_quiet() -> em.Scores:
    """One leaking base among many that leak nothing."""
    rng = np.random.default_rng(3)
    shifts = [2.5] + [0.0] * 7
    return em.Scores(
        without=[rng.normal(size=100) for _ in shifts],
        with_point=[rng.normal(size=100) + shift for shift in shifts],
    )


def test_a_contradiction_is_said_first() -> None:
    """Counts near the diagonal have a posterior near 0; scores of the same models prove more."""
    scores = leaky_and_quiet()
    counts = error_counts([10] * 8, [90] * 8, 100)
    posterior = em.estimate(counts, em.CountModel(delta=1e-3))
    result = result_of(posterior, Question(claim=3.0), scores=scores)
    assert result.contradiction is not None
    assert result.proof is not None
    assert posterior.probability_above("epsilon", result.proof.at_least) < 0.95
    assert result.warnings[0] == result.contradiction
    assert result.to_dict()["contradiction"] == result.contradiction
    assert result.verdict is not None
    assert result.verdict.outcome is Outcome.INCONCLUSIVE
    assert "what the same data prove" in result.verdict.meaning
    # Control: the counts alone contradict nothing.
    assert result_of(posterior, Question(claim=3.0)).contradiction is None


def test_weak_attacks_are_named_in_a_pass() -> None:
    rng = np.random.default_rng(5)
    scores = em.Scores(
        without=[rng.normal(size=100) for _ in range(5)],
        with_point=[rng.normal(size=100) for _ in range(5)],
    )
    model = em.CurveModel(
        delta=1e-5,
        epsilon=em.priors.HalfNormal(scale=0.5),
        families=(em.families.Gaussian(),),
        mixing=em.families.NoMixing(),
    )
    verdict = em.judge(em.estimate(scores, model), 3.0)
    assert verdict.label == "PASS (judged)"
    assert NO_PROOF in verdict.reasons
    assert "the attacks were weak" in verdict.meaning


def test_valid_bounds_hold_at_their_error() -> None:
    """Bounds shown with the proof, on a mechanism of known epsilon."""
    above = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mechanism = LaplaceMechanism(1.0)
        scores = em.Scores(
            without=[mechanism.scores(np.zeros(80, dtype=bool), rng) for _ in range(3)],
            with_point=[mechanism.scores(np.ones(80, dtype=bool), rng) for _ in range(3)],
        )
        above += any(bound.epsilon > 1 for bound in valid_bounds(scores, 1e-5, 0.05))
    assert above <= 9  # of 60 at 5 %: more has probability below 1e-3
