"""The verdict on a claim: three outcomes, ends included, and none from a run that went wrong."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.inference.exact.engine import ExactSettings, estimate_exact
from epsilometer.inference.mcmc.diagnostics import diagnose
from epsilometer.inference.mcmc.driver import McmcSettings
from epsilometer.inference.provenance import Provenance
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.inference.verdict import Outcome, Thresholds, Verdict, judge
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.priors import Exponential, Fixed, HalfNormal, Prior, Uniform

COUNTS = AttackCounts(
    false_positives=[10, 30], trials_h0=100, false_negatives=[20, 30], trials_h1=80
)


def chains(epsilon: np.ndarray, *, epsilon_prior: Prior | None = None) -> SamplePosterior:
    """A posterior whose draws of epsilon are given, (chain, draw)."""
    model = AuditModel(delta=0.01, epsilon=epsilon_prior or HalfNormal(), strength=Fixed(value=0.5))
    samples = {"epsilon": epsilon}
    return SamplePosterior(
        counts=COUNTS,
        model=model,
        provenance=Provenance(engine="mcmc", settings={}, seconds=0.0, seed=1),
        samples=samples,
        diagnostics=diagnose(samples, acceptance_rate=0.3),
    )


def mixed(share_above: float, claim: float = 1.0) -> SamplePosterior:
    """Well mixed draws of which exactly so many are above the claim, some of the others at it."""
    rng = np.random.default_rng(5)
    above = round(2000 * share_above)
    draws = np.concatenate([np.full(2000 - above, claim), claim + rng.random(above)])
    draws[: (2000 - above) // 2] -= 0.5 * rng.random((2000 - above) // 2)
    posterior = chains(rng.permutation(draws).reshape(2, 1000))
    assert posterior.trustworthy
    return posterior


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


@pytest.mark.parametrize(
    ("probability", "expected"),
    [
        (0.0, Outcome.PASS),
        (0.05, Outcome.PASS),
        (np.nextafter(0.05, 1), Outcome.INCONCLUSIVE),
        (0.5, Outcome.INCONCLUSIVE),
        (np.nextafter(0.95, 0), Outcome.INCONCLUSIVE),
        (0.95, Outcome.FAIL),
        (1.0, Outcome.FAIL),
    ],
)
def test_sides_are_taken_from_the_ends_on(probability: float, expected: Outcome) -> None:
    assert Thresholds().outcome(probability) is expected


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
    with pytest.raises(InputError) as caught:
        Thresholds(pass_at_most=low, fail_at_least=high)
    assert message in str(caught.value)


def test_thresholds_and_verdicts_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Thresholds().pass_at_most = 0.5  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        judge(mixed(0.5), claim=1.0).outcome = Outcome.PASS  # type: ignore[misc]


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
    verdict = judge(mixed(share), claim=1.0)
    assert verdict.probability_above == pytest.approx(share, abs=1e-15)
    assert (str(verdict.outcome), verdict.claim) == (outcome, 1.0)
    assert verdict.thresholds == Thresholds(pass_at_most=0.05, fail_at_least=0.95)
    assert verdict.trustworthy


def test_own_thresholds() -> None:
    posterior = mixed(0.3)
    for low, high, outcome in (
        (0.3, 0.9, "PASS"),
        (0.2, 0.3, "FAIL"),
        (0.29, 0.31, "INCONCLUSIVE"),
    ):
        thresholds = Thresholds(pass_at_most=low, fail_at_least=high)
        verdict = judge(posterior, claim=1.0, thresholds=thresholds)
        assert (str(verdict.outcome), verdict.thresholds) == (outcome, thresholds)


def test_claims_on_both_sides_of_an_exact_posterior() -> None:
    posterior = estimate_exact(COUNTS, AuditModel(delta=0.01))
    at = [float(posterior.quantile("epsilon", p)) for p in (0.01, 0.06, 0.5, 0.94, 0.99)]
    verdicts = [judge(posterior, claim=claim) for claim in at]
    assert [str(verdict.outcome) for verdict in verdicts] == [
        "FAIL", "INCONCLUSIVE", "INCONCLUSIVE", "INCONCLUSIVE", "PASS",
    ]  # fmt: skip
    # Quantiles are found by bisection on the same distribution function, to 1e-16.
    found = [verdict.probability_above for verdict in verdicts]
    np.testing.assert_allclose(found, [0.99, 0.94, 0.5, 0.06, 0.01], atol=1e-9)


@pytest.mark.parametrize("claim", [-0.1, math.nan, math.inf, "1", None, True])
def test_claims_are_numbers_from_zero(claim: Any) -> None:
    with pytest.raises(InputError, match="claim"):
        judge(mixed(0.5), claim=claim)


def test_claim_of_no_privacy_loss_at_all() -> None:
    verdict = judge(estimate_exact(COUNTS, AuditModel(delta=0.01)), claim=0)
    assert (verdict.probability_above, verdict.prior_probability_above) == (1.0, 1.0)
    assert verdict.outcome is Outcome.FAIL


# --- before the data --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "oracle"),
    [
        (HalfNormal(), stats.halfnorm(scale=math.sqrt(10))),
        (Exponential(mean=2.5), stats.expon(scale=2.5)),
        (Uniform(upper=6.0), stats.uniform(scale=6.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_prior_said(prior: Prior, oracle: Any) -> None:
    posterior = chains(np.random.default_rng(1).random((2, 1000)), epsilon_prior=prior)
    for claim in (0.0, 0.7, 5.0):
        verdict = judge(posterior, claim=claim)
        # One call of a special function each.
        assert verdict.prior_probability_above == pytest.approx(oracle.sf(claim), rel=1e-12)


@pytest.mark.parametrize(("claim", "outcome"), [(2.9, "FAIL"), (3.0, "PASS"), (3.1, "PASS")])
def test_a_fixed_epsilon_is_above_or_not(claim: float, outcome: str) -> None:
    posterior = estimate_exact(COUNTS, AuditModel(delta=0.01, epsilon=Fixed(value=3.0)))
    verdict = judge(posterior, claim=claim)
    assert str(verdict.outcome) == outcome
    assert verdict.probability_above == verdict.prior_probability_above == float(claim < 3)


# --- runs that went wrong ---------------------------------------------------------------------


@pytest.mark.parametrize(("claim", "outcome"), [(0.1, Outcome.FAIL), (0.9, Outcome.PASS)])
def test_chains_that_never_moved_say_nothing(claim: float, outcome: Outcome) -> None:
    posterior = chains(np.full((2, 1000), 0.5))
    assert not posterior.trustworthy
    verdict = judge(posterior, claim=claim)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert not verdict.trustworthy
    assert "did not reach its accuracy" in verdict.meaning
    # The probability is still told; only the side is not taken.
    assert verdict.probability_above == float(outcome is Outcome.FAIL)
    accepted = judge(posterior, claim=claim, accept_untrusted=True)
    assert accepted.outcome is outcome
    assert accepted.trustworthy
    assert "accuracy" not in accepted.meaning


def test_exact_engine_that_missed_its_tolerance() -> None:
    settings = ExactSettings(tolerance=1e-300, most_levels=2)
    posterior = estimate_exact(COUNTS, AuditModel(delta=0.01), settings)
    assert not posterior.trustworthy
    assert judge(posterior, claim=0.001).outcome is Outcome.INCONCLUSIVE
    assert judge(posterior, claim=0.001, accept_untrusted=True).outcome is Outcome.FAIL
    # Control: the same problem at its usual tolerance.
    usual = estimate_exact(COUNTS, AuditModel(delta=0.01))
    assert judge(usual, claim=0.001).outcome is Outcome.FAIL


def test_accepting_changes_nothing_for_a_sound_posterior() -> None:
    posterior = mixed(0.4)
    assert judge(posterior, claim=1.0, accept_untrusted=True) == judge(posterior, claim=1.0)


# --- words ------------------------------------------------------------------------------------


def test_meanings_differ_and_promise_nothing() -> None:
    verdicts = [judge(mixed(share), claim=1.0) for share in (0.0, 0.5, 1.0)]
    meanings = [verdict.meaning for verdict in verdicts]
    untrusted = judge(chains(np.full((2, 1000), 0.5)), claim=1.0).meaning
    assert len({*meanings, untrusted}) == 4
    for meaning in (*meanings, untrusted):
        assert not any(word in meaning for word in ("proof", "prove", "guarantee", "is private"))
    assert "lies above" in meanings[2]
    assert not any("lies above" in meaning for meaning in (*meanings[:2], untrusted))


def test_public_names() -> None:
    assert (em.judge, em.Verdict, em.Thresholds, em.Outcome) == (
        judge, Verdict, Thresholds, Outcome,
    )  # fmt: skip
    assert [f"{outcome}" for outcome in Outcome] == ["PASS", "FAIL", "INCONCLUSIVE"]


# --- engines ----------------------------------------------------------------------------------


def test_engines_agree() -> None:
    model = AuditModel(delta=0.01)
    exact = em.estimate(COUNTS, model)
    sampled = em.estimate(
        COUNTS, model, McmcSettings(num_iterations=6000, num_warmup=1000, num_chains=2, seed=3)
    )
    assert exact.trustworthy
    assert sampled.trustworthy
    draws = sampled.diagnostics.parameters["epsilon"].bulk_effective_size
    for probability in (0.02, 0.3, 0.5, 0.7, 0.98):
        claim = float(exact.quantile("epsilon", probability))
        first, second = judge(exact, claim=claim), judge(sampled, claim=claim)
        assert first.outcome is second.outcome
        assert first.prior_probability_above == second.prior_probability_above
        # Five standard errors of a share, as in test_mcmc; five comparisons.
        slack = 5 * math.sqrt(probability * (1 - probability) / draws)
        assert second.probability_above == pytest.approx(first.probability_above, abs=slack)
        # Control: the other tail is not within that, but in the middle.
        assert (abs(second.probability_above - probability) > slack) == (probability != 0.5)
