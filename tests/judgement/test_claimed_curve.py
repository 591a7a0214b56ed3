"""Claims over delta: read conservatively, and judged as at a single delta; with a real accountant."""

from __future__ import annotations

import math
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from epsilometer.judgement.claimed_curve import claimed_at
from scipy.stats import norm

import epsilometer as em
from epsilometer.engines.exact.over_delta import DeltaCurve
from epsilometer.errors import InputError

NOISE, TRIALS = 1.0, 1000


@pytest.fixture(scope="module")
def curve() -> DeltaCurve:
    """Counts as expected of the best attack on a Gaussian mechanism, at three target rates."""
    alpha = np.array([0.02, 0.1, 0.3])
    beta = norm.cdf(norm.isf(alpha) - 1 / NOISE)
    counts = em.AttackCounts(
        false_positives=np.round(TRIALS * alpha).astype(int),
        trials_h0=TRIALS,
        false_negatives=np.round(TRIALS * beta).astype(int),
        trials_h1=TRIALS,
    )
    return em.engines.estimate_curve(counts, em.CountModel(delta=0.0), [0.0, 1e-6, 1e-4, 1e-2, 0.1])


@pytest.mark.parametrize("accountant", [PLDAccountant, RdpAccountant])
def test_a_true_accountant_is_not_refuted_and_a_false_one_is(
    curve: DeltaCurve, accountant: type[PLDAccountant | RdpAccountant]
) -> None:
    labels = {}
    for noise in (NOISE, 6 * NOISE):
        made = accountant()
        made.compose(dp_accounting.GaussianDpEvent(noise))
        found = em.judge_curve(curve, made.get_epsilon)
        labels[noise] = found.label
        # No Gaussian mechanism is private at delta = 0.
        assert found.verdicts[0] is None
        assert found.claims[0] == math.inf
        assert found.claims[2] == made.get_epsilon(1e-4)
    # The strength is not assumed to be 1, so a true claim may stay open, but must not fail.
    assert labels[NOISE] in ("PASS (judged)", "INCONCLUSIVE")
    assert labels[6 * NOISE] == "FAIL (proven)"


def test_an_algorithm_s_own_claim_is_one(curve: DeltaCurve) -> None:
    algorithm = em.training.ClippedMean(noise=0.02, records=50)
    claims = em.judge_curve(curve, algorithm.claimed_epsilon).claims
    assert claims[3] == algorithm.claimed_epsilon(1e-2)


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        (0.5, "FAIL (proven)"),
        (1.3, "FAIL (judged)"),
        (1.8, "INCONCLUSIVE"),
        (14.0, "PASS (judged)"),
    ],
)
def test_verdicts_are_those_of_separate_posteriors(
    curve: DeltaCurve, claim: float, label: str
) -> None:
    found = em.judge_curve(curve, claim)
    for delta, verdict in zip(curve.deltas[1::2], found.verdicts[1::2], strict=True):
        posterior = em.estimate(curve.counts, em.CountModel(delta=float(delta)))
        alone = em.judge(posterior, claim=claim)
        assert verdict is not None
        # A quantile within the tolerance moves the probability by that times the density.
        atol = 3 * curve.tolerance * float(posterior.density("epsilon", claim))
        assert verdict.probability_above == pytest.approx(alone.probability_above, abs=atol)
        assert verdict.label == alone.label == label
        assert verdict.reasons[0] == alone.reasons[0]
        assert verdict.leaning is alone.leaning
        assert verdict.prior_probability_above == alone.prior_probability_above
        assert verdict.reasons[0] in found.reasons


def test_overall_is_fail_at_any_and_pass_only_at_all(curve: DeltaCurve) -> None:
    fails, open_, high = curve.quantile([0.001, 0.5, 0.999])
    # So far out that a prior of twice the scale also passes.
    passes = np.full(5, 14.0)
    assert (passes > high).all()

    def judged(claims: np.ndarray) -> em.CurveVerdict:
        at = dict(zip(curve.deltas.tolist(), claims.tolist(), strict=True))
        return em.judge_curve(curve, at.__getitem__)

    def one_of(other: np.ndarray | float) -> str:
        """The label if the claim differs at one delta."""
        found = judged(np.where(np.arange(5) == 3, other, passes))
        assert found.label.startswith(str(found.outcome))
        return found.label

    assert judged(passes).label == "PASS (judged)"
    assert one_of(fails) == "FAIL (judged)"
    assert one_of(0.2) == "FAIL (proven)"
    assert one_of(open_) == "INCONCLUSIVE"
    assert one_of(math.inf) == "PASS (judged)"
    # The leaning of the posterior alone involves no other prior.
    leanings = [each.leaning for each in judged(high).verdicts if each is not None]
    assert leanings == [em.judgement.Outcome.PASS] * 5
    with pytest.raises(InputError, match="expected a claim at one or more of the curve's deltas"):
        judged(np.full(5, math.inf))
    with pytest.raises(InputError, match="got claim=nan"):
        judged(np.full(5, math.nan))


def test_claims_at_several_deltas_are_refuted_together_or_not_at_all(curve: DeltaCurve) -> None:
    """Refuted at one delta by a little, the claims at all five are not: five tests were made."""
    proven = em.prove(curve.counts, delta=1e-2).at_least
    at = em.judgement.ClaimedCurve(deltas=[0.0, 1e-2], epsilons=[14.0, proven - 0.01])
    alone = em.prove(curve.counts, delta=1e-2, claim=proven - 0.01)
    assert alone.refuted
    assert alone.e_value is not None
    assert 20 <= alone.e_value < 100
    found = em.judge_curve(curve, at)
    assert (found.outcome, found.grounds) == (
        em.judgement.Outcome.FAIL,
        em.judgement.Grounds.JUDGED,
    )


def test_nothing_is_judged_where_the_tolerance_was_not_met() -> None:
    counts = em.AttackCounts(
        false_positives=[10], trials_h0=100, false_negatives=[20], trials_h1=100
    )
    settings = em.engines.ExactSettings(tolerance=1e-12, most_levels=2)
    rough = em.engines.estimate_curve(counts, em.CountModel(delta=0.1), [1e-3, 1e-2], settings)
    for claim, label in ((1.5, "FAIL (judged)"), (20.0, "PASS (judged)")):
        found = em.judge_curve(rough, claim)
        assert found.label == "INCONCLUSIVE"
        (reason,) = found.reasons
        assert "did not reach its accuracy" in reason
        assert em.judge_curve(rough, claim, accept_untrusted=True).label == label
    # A proof does not depend on the engine.
    assert em.judge_curve(rough, 0.001).label == "FAIL (proven)"


# --- lists of claims -----------------------------------------------------------------------------


def test_between_listed_deltas_the_smaller_one_counts() -> None:
    claim = em.judgement.ClaimedCurve(deltas=[1e-2, 1e-6, 1e-4], epsilons=[1.0, 3.0, 2.0])
    deltas = np.array([0.0, 1e-7, 1e-6, 9.9e-5, 1e-4, 5e-3, 1e-2, 0.9])
    expected = [math.inf, math.inf, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0]
    assert claimed_at(claim, deltas).tolist() == expected
    # A mechanism that satisfies the listed claims satisfies those in between (Gaussian accountant).
    made = PLDAccountant()
    made.compose(dp_accounting.GaussianDpEvent(1.0))
    listed = [1e-6, 1e-4, 1e-2]
    between = em.judgement.ClaimedCurve(
        deltas=listed, epsilons=[made.get_epsilon(d) for d in listed]
    )
    for delta in (2e-6, 5e-5, 3e-3, 0.3):
        assert between(delta) >= made.get_epsilon(delta)


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "claim.csv"
    path.write_text("epsilon,delta\n2,1e-4\n3.5,1e-6\n")
    claim = em.judgement.ClaimedCurve.read_csv(path)
    assert (claim(1e-6), claim(1e-3)) == (3.5, 2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delta\n0.1\n", "missing epsilon"),
        ("delta,epsilon\n", "expected at least one row"),
        ("delta,epsilon\n1e-5,two\n", "row 2: expected epsilon to be a number, got 'two'"),
        ("delta,epsilon\n1e-5,2\n1.5,1\n", "row 3: expected 0 <= delta < 1, got delta=1.5"),
        ("delta,epsilon\n1e-5,-2\n", "row 2: expected epsilon >= 0"),
        ("delta,epsilon\n1e-5,inf\n", "row 2: expected a finite epsilon"),
        ("delta,epsilon\n1e-5,2\n1e-5,1\n", "claim.csv: expected distinct deltas"),
        ("delta,epsilon\n1e-5,2\n1e-3,3\n", "claim.csv: expected a claim that does not increase"),
    ],
)
def test_bad_csv(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "claim.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        em.judgement.ClaimedCurve.read_csv(path)
    assert message in str(caught.value)
