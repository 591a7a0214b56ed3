"""Claims over delta: read conservatively, and judged as at a single delta; with a real accountant."""

from __future__ import annotations

import math
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.inference.claimed_curve import claimed_at
from epsilometer.inference.delta_curve import DeltaCurve

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
    return em.estimate_curve(counts, em.AuditModel(delta=0.0), [0.0, 1e-6, 1e-4, 1e-2, 0.1])


@pytest.mark.parametrize("accountant", [PLDAccountant, RdpAccountant])
def test_a_true_accountant_is_not_refuted_and_a_false_one_is(
    curve: DeltaCurve, accountant: type[PLDAccountant | RdpAccountant]
) -> None:
    outcomes = {}
    for noise in (NOISE, 6 * NOISE):
        made = accountant()
        made.compose(dp_accounting.GaussianDpEvent(noise))
        found = em.judge_curve(curve, made.get_epsilon)
        outcomes[noise] = found.outcome
        # No Gaussian mechanism promises anything at delta = 0.
        assert found.verdicts[0] is None
        assert found.claims[0] == math.inf
        assert found.claims[2] == made.get_epsilon(1e-4)
    # The strength is not assumed to be 1, so a true claim may stay open, but not fail.
    assert outcomes[NOISE] is not em.Outcome.FAIL
    assert outcomes[6 * NOISE] is em.Outcome.FAIL


def test_an_algorithm_s_own_claim_is_one(curve: DeltaCurve) -> None:
    algorithm = em.ClippedMean(noise=0.02, records=50)
    claims = em.judge_curve(curve, algorithm.claimed_epsilon).claims
    assert claims[3] == algorithm.claimed_epsilon(1e-2)


def test_verdicts_are_those_of_separate_posteriors(curve: DeltaCurve) -> None:
    found = em.judge_curve(curve, 1.8)
    for delta, verdict in zip(curve.deltas[1::2], found.verdicts[1::2], strict=True):
        posterior = em.estimate(curve.counts, em.AuditModel(delta=float(delta)))
        alone = em.judge(posterior, claim=1.8)
        assert verdict is not None
        # A quantile within the tolerance moves the probability by that times the density.
        atol = 3 * curve.tolerance * float(posterior.density("epsilon", 1.8))
        assert verdict.probability_above == pytest.approx(alone.probability_above, abs=atol)
        assert verdict.outcome is alone.outcome
        assert verdict.prior_probability_above == alone.prior_probability_above


def test_overall_is_fail_at_any_and_pass_only_at_all(curve: DeltaCurve) -> None:
    low, median, high = curve.quantile([0.001, 0.5, 0.999])
    passes, fails, open_ = high, low, median

    def outcome(claims: np.ndarray) -> em.Outcome:
        at = dict(zip(curve.deltas.tolist(), claims.tolist(), strict=True))
        return em.judge_curve(curve, at.__getitem__).outcome

    assert outcome(passes) is em.Outcome.PASS
    assert outcome(np.where(np.arange(5) == 3, fails, passes)) is em.Outcome.FAIL
    assert outcome(np.where(np.arange(5) == 3, open_, passes)) is em.Outcome.INCONCLUSIVE
    assert outcome(np.where(np.arange(5) == 3, math.inf, passes)) is em.Outcome.PASS
    with pytest.raises(InputError, match="expected a claim at one of the curve's deltas"):
        outcome(np.full(5, math.inf))
    with pytest.raises(InputError, match="got claim=nan"):
        outcome(np.full(5, math.nan))


def test_nothing_is_judged_where_the_tolerance_was_not_met() -> None:
    counts = em.AttackCounts(
        false_positives=[10], trials_h0=100, false_negatives=[20], trials_h1=100
    )
    settings = em.ExactSettings(tolerance=1e-12, most_levels=2)
    rough = em.estimate_curve(counts, em.AuditModel(delta=0.1), [1e-3, 1e-2], settings)
    assert em.judge_curve(rough, 0.001).outcome is em.Outcome.INCONCLUSIVE
    assert em.judge_curve(rough, 0.001, accept_untrusted=True).outcome is em.Outcome.FAIL


# --- lists of claims -----------------------------------------------------------------------------


def test_between_listed_deltas_the_smaller_one_counts() -> None:
    claim = em.ClaimedCurve(deltas=[1e-2, 1e-6, 1e-4], epsilons=[1.0, 3.0, 2.0])
    deltas = np.array([0.0, 1e-7, 1e-6, 9.9e-5, 1e-4, 5e-3, 1e-2, 0.9])
    expected = [math.inf, math.inf, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0]
    assert claimed_at(claim, deltas).tolist() == expected
    # A mechanism that keeps the listed promises keeps those in between: Gaussian, by the accountant.
    made = PLDAccountant()
    made.compose(dp_accounting.GaussianDpEvent(1.0))
    listed = [1e-6, 1e-4, 1e-2]
    between = em.ClaimedCurve(deltas=listed, epsilons=[made.get_epsilon(d) for d in listed])
    for delta in (2e-6, 5e-5, 3e-3, 0.3):
        assert between(delta) >= made.get_epsilon(delta)


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "claim.csv"
    path.write_text("epsilon,delta\n2,1e-4\n3.5,1e-6\n")
    claim = em.ClaimedCurve.read_csv(path)
    assert (claim(1e-6), claim(1e-3)) == (3.5, 2.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("delta\n0.1\n", "missing epsilon"),
        ("delta,epsilon\n", "expected at least one row"),
        ("delta,epsilon\n1e-5,two\n", "row 2: expected epsilon to be a number, got 'two'"),
        ("delta,epsilon\n1e-5,2\n1.5,1\n", "row 3: expected 0 <= delta < 1, got delta=1.5"),
        ("delta,epsilon\n1e-5,-2\n", "row 2: expected epsilon >= 0"),
        ("delta,epsilon\n1e-5,inf\n", "row 2: expected a finite epsilon"),
        ("delta,epsilon\n1e-5,2\n1e-5,1\n", "claim.csv: expected distinct deltas"),
        ("delta,epsilon\n1e-5,2\n1e-3,3\n", "claim.csv: expected a claim that does not rise"),
    ],
)
def test_bad_csv(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "claim.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        em.ClaimedCurve.read_csv(path)
    assert said in str(caught.value)
