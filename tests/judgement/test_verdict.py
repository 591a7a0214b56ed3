"""The verdict on a claim: three outcomes, thresholds included, and none from a failed run.

Each verdict states its grounds: a proof, a judgement without objections, or neither.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epsilometer as em
from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.errors import InputError
from epsilometer.judgement.result import INACCURATE
from epsilometer.judgement.verdict import (
    FAIL_ON,
    NO_PROOF,
    Grounds,
    Outcome,
    Thresholds,
    Verdict,
    decide,
)
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Fixed, HalfNormal, Prior
from tests.drawn import error_counts, posterior_of_draws

#: They prove that epsilon is above 1.1 at delta = 0.01, and no more than 1.2.
COUNTS = error_counts([10, 30], [20, 30], 100, 80)

#: They prove nothing of note.
WEAK = AttackCounts(false_positives=[30], trials_h0=80, false_negatives=[28], trials_h1=80)

JUDGED_REASON = "the posterior lies {} the claim, and no check contradicts it"
NOT_RELIED_ON = "the posterior lies {} the claim, but that cannot be relied on"


def chains(epsilon: np.ndarray, *, epsilon_prior: Prior | None = None) -> SamplePosterior:
    """A posterior whose draws of epsilon are given, (chain, draw), from counts that prove nothing."""
    model = CountModel(delta=0.01, epsilon=epsilon_prior or HalfNormal(), strength=Fixed(value=0.5))
    return posterior_of_draws(WEAK, model, {"epsilon": epsilon})


def mixed(share_above: float, claim: float = 1.0) -> SamplePosterior:
    """Well mixed draws of which an exact number are above the claim, some of the others at it."""
    rng = np.random.default_rng(5)
    above = round(2000 * share_above)
    draws = np.concatenate([np.full(2000 - above, claim), claim + rng.random(above)])
    draws[: (2000 - above) // 2] -= 0.5 * rng.random((2000 - above) // 2)
    posterior = chains(rng.permutation(draws).reshape(2, 1000))
    assert posterior.trustworthy
    return posterior


def ruled(above: float, **changes: Any) -> Verdict:
    arguments: dict[str, Any] = {
        "claim": 1.0,
        "above": above,
        "before": 0.4,
        "refuted": None,
        "objections": lambda leaning: (),
    }
    return decide(**arguments | changes)


def unopposed(posterior: SamplePosterior, claim: float, **changes: Any) -> Verdict:
    """The verdict by the posterior alone: nothing is proven and there are no objections."""
    before = posterior.prior_probability_above(claim)
    untrusted = None if posterior.trustworthy else INACCURATE
    known = {"claim": claim, "before": before, "untrusted": untrusted}
    return ruled(posterior.probability_above("epsilon", claim), **known | changes)


# --- thresholds -------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_outcome_is_which_threshold_is_reached(first: float, second: float, found: float) -> None:
    low, high = sorted([first, second])
    if low == high:
        return
    thresholds = Thresholds(pass_at_most=low, fail_at_least=high)
    names = {(True, False): "PASS", (False, True): "FAIL", (False, False): "INCONCLUSIVE"}
    for probability in (found, low, high):
        outcome = thresholds.outcome(probability)
        assert str(outcome) == names[probability <= low, probability >= high]


def test_thresholds_at_certainty() -> None:
    strict = Thresholds(pass_at_most=0, fail_at_least=1)
    assert [str(strict.outcome(p)) for p in (0.0, 1e-300, 1 - 1e-16, 1.0)] == [
        "PASS", "INCONCLUSIVE", "INCONCLUSIVE", "FAIL",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0.5, 0.5, "pass_at_most < fail_at_least, got pass_at_most=0.5, fail_at_least=0.5"),
        (0.95, 0.05, "pass_at_most < fail_at_least, got pass_at_most=0.95, fail_at_least=0.05"),
        (-0.1, 0.9, "pass_at_most=-0.1"),
        (0.1, 1.1, "fail_at_least=1.1"),
        (math.nan, 0.9, "pass_at_most=nan"),
        (0.1, math.nan, "fail_at_least=nan"),
        (0.1, math.inf, "fail_at_least=inf"),
        ("0.1", 0.9, "pass_at_most='0.1'"),
        (0.1, None, "fail_at_least=None"),
        (False, True, "pass_at_most=False"),
    ],
)
def test_thresholds_are_probabilities_in_order(low: Any, high: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Thresholds(pass_at_most=low, fail_at_least=high)


# --- outcomes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "outcome"),
    [
        (0.0, "PASS"),
        (0.05, "PASS"),
        (0.051, "INCONCLUSIVE"),
        (0.5, "INCONCLUSIVE"),
        (0.949, "INCONCLUSIVE"),
        (0.95, "FAIL"),
        (1.0, "FAIL"),
    ],
)
def test_share_of_draws_above_the_claim_decides(share: float, outcome: str) -> None:
    posterior = mixed(share)
    verdict = unopposed(posterior, 1.0)
    assert verdict.probability_above == pytest.approx(share, abs=1e-15)
    assert (str(verdict.outcome), verdict.claim) == (outcome, 1.0)
    assert verdict.grounds is (Grounds.OPEN if outcome == "INCONCLUSIVE" else Grounds.JUDGED)
    assert verdict.thresholds == Thresholds(pass_at_most=0.05, fail_at_least=0.95)
    assert verdict.trustworthy
    # The draws are not those of the counts: other priors show it, and nothing is judged.
    judged = em.judge(posterior, 1.0)
    assert judged.outcome is Outcome.INCONCLUSIVE
    assert str(judged.leaning) == outcome
    assert judged.probability_above == verdict.probability_above
    assert ("the prior decides" in judged.meaning) is (outcome != "INCONCLUSIVE")


def test_claims_on_both_sides_of_an_exact_posterior() -> None:
    posterior = estimate_exact(COUNTS, CountModel(delta=0.01))
    at = [float(posterior.quantile("epsilon", p)) for p in (0.01, 0.06, 0.5, 0.94, 0.99)]
    verdicts = [em.judge(posterior, claim) for claim in at]
    assert [str(verdict.leaning) for verdict in verdicts] == [
        "FAIL", "INCONCLUSIVE", "INCONCLUSIVE", "INCONCLUSIVE", "PASS",
    ]  # fmt: skip
    # Quantiles are found by bisection on the same distribution function, to 1e-16.
    found = [verdict.probability_above for verdict in verdicts]
    np.testing.assert_allclose(found, [0.99, 0.94, 0.5, 0.06, 0.01], atol=1e-9)
    # Two attacks say little about how large epsilon may be: a wider prior would not pass.
    assert [verdict.label for verdict in verdicts] == ["FAIL (judged)", *["INCONCLUSIVE"] * 4]
    last = verdicts[-1]
    assert last.reasons[0] == NOT_RELIED_ON.format("below")
    assert len(last.reasons) == 2
    assert last.reasons[1].startswith(
        "too little data to decide, so the prior decides: with its scale multiplied by 2 the verdict "
        "would be INCONCL"
    )
    # Far enough above, every prior passes; below what is proven, no other prior is tried.
    assert em.judge(posterior, 12.0).label == "PASS (judged)"
    assert em.judge(posterior, 1.1).label == "FAIL (proven)"
    assert em.judge(posterior, 1.2).label == "FAIL (judged)"


@pytest.mark.parametrize("claim", [-0.1, math.nan, "1", None, True])
def test_claims_are_numbers_from_zero(claim: Any) -> None:
    with pytest.raises(InputError, match="claim"):
        em.judge(mixed(0.5), claim)


def test_claim_of_no_privacy_loss_at_all() -> None:
    verdict = em.judge(estimate_exact(COUNTS, CountModel(delta=0.01)), 0)
    assert (verdict.probability_above, verdict.prior_probability_above) == (1.0, 1.0)
    assert (verdict.outcome, verdict.grounds) == (Outcome.FAIL, Grounds.PROVEN)


# --- the rule ---------------------------------------------------------------------------------


def refuse(*_: object) -> tuple[str, ...]:
    raise AssertionError("nobody should ask")


@pytest.mark.parametrize("above", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("trusted", [True, False])
def test_a_proof_needs_no_posterior(above: float, trusted: bool) -> None:
    verdict = ruled(
        above,
        refuted="it is",
        untrusted=None if trusted else INACCURATE,
        objections=refuse,
        caveats=refuse,
    )
    assert (verdict.label, verdict.reasons) == ("FAIL (proven)", ("it is",))
    assert verdict.trustworthy is trusted
    # The leaning of the posterior alone is still available.
    assert verdict.leaning is Thresholds().outcome(above)
    assert not verdict.prior_alone


@pytest.mark.parametrize("above", [0.0, 0.5, 1.0])
def test_without_accuracy_or_a_side_there_are_no_objections(above: float) -> None:
    verdict = ruled(above, untrusted=INACCURATE, objections=refuse, caveats=refuse)
    assert (verdict.label, verdict.grounds) == ("INCONCLUSIVE", Grounds.OPEN)
    assert "did not reach its accuracy" in verdict.meaning
    both = ruled(0.5, objections=refuse, caveats=refuse)
    assert (both.label, both.grounds) == ("INCONCLUSIVE", Grounds.OPEN)
    assert both.reasons == ("the posterior lies on both sides of the claim",)


@pytest.mark.parametrize(
    ("above", "side", "word"), [(0.0, "below", Outcome.PASS), (1.0, "above", Outcome.FAIL)]
)
def test_one_objection_is_enough(above: float, side: str, word: Outcome) -> None:
    leanings = []

    def against(leaning: Outcome, reasons: tuple[str, ...]) -> tuple[str, ...]:
        leanings.append(leaning)
        return reasons

    def objections(*reasons: str) -> Callable[[Outcome], tuple[str, ...]]:
        return lambda leaning: against(leaning, reasons)

    for reasons in (("one",), ("one", "two")):
        verdict = ruled(above, objections=objections(*reasons), caveats=refuse)
        assert (verdict.label, verdict.grounds) == ("INCONCLUSIVE", Grounds.OPEN)
        assert verdict.reasons == (NOT_RELIED_ON.format(side), *reasons)
        assert verdict.leaning is word
        assert not verdict.prior_alone
    # Control: without objections the side is taken.
    verdict = ruled(above, objections=objections(), caveats=lambda: ("no more than that",))
    assert (verdict.outcome, verdict.grounds) == (word, Grounds.JUDGED)
    also = {
        Outcome.PASS: (NO_PROOF, "no more than that"),
        Outcome.FAIL: ("no proof refutes the claim",),
    }[word]
    assert verdict.reasons == (JUDGED_REASON.format(side), *also)
    assert verdict.meaning == "; ".join(verdict.reasons)
    assert leanings == [word] * 3


def test_the_prior_alone_is_named_only_where_a_judgement_is_its() -> None:
    assert ruled(1.0, before=0.96).prior_alone
    assert ruled(0.0, before=0.04).prior_alone
    assert not ruled(1.0, before=0.94).prior_alone
    assert not ruled(1.0, before=0.04).prior_alone
    assert not ruled(0.5, before=0.5).prior_alone
    assert not ruled(1.0, before=0.96, refuted="it is").prior_alone


@pytest.mark.parametrize(("claim", "outcome"), [(2.9, "FAIL"), (3.0, "PASS"), (3.1, "PASS")])
def test_a_fixed_epsilon_is_above_or_not(claim: float, outcome: str) -> None:
    posterior = estimate_exact(COUNTS, CountModel(delta=0.01, epsilon=Fixed(value=3.0)))
    verdict = em.judge(posterior, claim)
    assert str(verdict.leaning) == outcome
    assert verdict.probability_above == verdict.prior_probability_above == float(claim < 3)
    # An assumption is not a judgement: there is no other prior to try.
    assert (verdict.outcome, verdict.grounds) == (Outcome.INCONCLUSIVE, Grounds.OPEN)
    side = "above" if outcome == "FAIL" else "below"
    assert verdict.reasons == (
        NOT_RELIED_ON.format(side),
        "no other prior could be tried, so the prior may decide",
    )
    # What the counts prove does not need one.
    assert em.judge(posterior, 1.0).label == "FAIL (proven)"


# --- failed runs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "outcome", "label"),
    [(0.1, Outcome.FAIL, "FAIL (judged)"), (0.9, Outcome.PASS, "INCONCLUSIVE")],
)
def test_chains_that_never_moved_say_nothing(claim: float, outcome: Outcome, label: str) -> None:
    posterior = chains(np.full((2, 1000), 0.5))
    assert not posterior.trustworthy
    verdict = em.judge(posterior, claim)
    assert (verdict.outcome, verdict.grounds) == (Outcome.INCONCLUSIVE, Grounds.OPEN)
    assert not verdict.trustworthy
    assert "did not reach its accuracy" in verdict.meaning
    # The probability is still reported; only the side is not taken.
    assert verdict.probability_above == float(outcome is Outcome.FAIL)
    assert verdict.leaning is outcome
    assert replace(verdict, by_delta=()) == unopposed(posterior, claim)
    taken = unopposed(posterior, claim, untrusted=None)
    assert (taken.outcome, taken.grounds) == (outcome, Grounds.JUDGED)
    accepted = em.judge(posterior, claim, accept_untrusted=True)
    assert accepted.trustworthy
    assert "accuracy" not in accepted.meaning
    # If accepted, it must pass the checks like any other: other priors put half of epsilon above 0.9.
    assert accepted.label == label
    assert ("the prior decides" in accepted.meaning) is (label == "INCONCLUSIVE")


def test_exact_engine_that_missed_its_tolerance() -> None:
    settings = ExactSettings(tolerance=1e-300, most_levels=2)
    posterior = estimate_exact(COUNTS, CountModel(delta=0.01), settings)
    assert not posterior.trustworthy
    # Control: the same problem at its usual tolerance.
    usual = estimate_exact(COUNTS, CountModel(delta=0.01))
    for claim, label in ((1.2, "FAIL (judged)"), (12.0, "PASS (judged)")):
        verdict = em.judge(posterior, claim)
        assert (verdict.label, verdict.trustworthy) == ("INCONCLUSIVE", False)
        assert "did not reach its accuracy" in verdict.meaning
        assert em.judge(posterior, claim, accept_untrusted=True).label == label
        assert em.judge(usual, claim).label == label
    # A proof does not depend on the engine.
    proven = em.judge(posterior, 0.001)
    assert (proven.label, proven.trustworthy) == ("FAIL (proven)", False)
    assert proven.reasons == em.judge(usual, 0.001).reasons


# --- texts ------------------------------------------------------------------------------------


def test_meanings_differ_and_promise_nothing() -> None:
    posterior = estimate_exact(COUNTS, CountModel(delta=0.01))
    verdicts = [em.judge(posterior, claim) for claim in (12.0, 2.6, 7.4, 1.2, 1.0)]
    assert [verdict.label for verdict in verdicts] == [
        "PASS (judged)", "INCONCLUSIVE", "INCONCLUSIVE", "FAIL (judged)", "FAIL (proven)",
    ]  # fmt: skip
    *meanings, proven = [verdict.meaning for verdict in verdicts]
    untrusted = em.judge(chains(np.full((2, 1000), 0.5)), 1.0).meaning
    assert len({*meanings, untrusted, proven}) == 6
    for meaning in (*meanings, untrusted):
        # A judgement is marked as not being a proof.
        rest = meaning.replace("no proof", "").replace("not a proof", "")
        assert not any(word in rest for word in ("proof", "prove", "guarantee", "is private"))
    assert "this is not a proof of privacy" in meanings[0]
    assert "no proof refutes the claim" in meanings[3]
    assert "prove that epsilon is at least 1.1" in proven
    assert not any(word in proven for word in ("guarantee", "posterior"))
    assert "lies above" in meanings[3]
    assert not any("lies above" in meaning for meaning in (*meanings[:3], untrusted))
    for verdict in verdicts:
        assert not any(reason.endswith(".") for reason in verdict.reasons)


def test_gates_close_at_more_and_more() -> None:
    posterior = estimate_exact(COUNTS, CountModel(delta=0.01))
    labels = [em.judge(posterior, claim).label for claim in (1.0, 1.2, 2.6, 12.0)]
    closed = {gate: [label in refused for label in labels] for gate, refused in FAIL_ON.items()}
    assert closed == {
        "never": [False, False, False, False],
        "proven": [True, False, False, False],
        "conditional": [True, False, False, False],
        "fail": [True, True, False, False],
        "inconclusive": [True, True, True, False],
    }
