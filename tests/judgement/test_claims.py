"""Claims over delta: read conservatively, and judged as at a single delta; with a real accountant."""

from __future__ import annotations

import math
import re
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

import epsilometer as em
from epsilometer.errors import InputError
from tests.drawn import error_counts

NOISE, TRIALS = 1.0, 1000
DELTAS = [0.0, 1e-6, 1e-4, 1e-2, 0.1]


@pytest.fixture(scope="module")
def posterior() -> em.Posterior:
    """Counts as expected of the best attack on a Gaussian mechanism, at three target rates."""
    alpha = np.array([0.02, 0.1, 0.3])
    beta = norm.cdf(norm.isf(alpha) - 1 / NOISE)
    counts = error_counts(
        np.round(TRIALS * alpha).astype(int), np.round(TRIALS * beta).astype(int), TRIALS
    )
    return em.estimate(counts, em.CountModel(delta=1e-6))


@pytest.fixture(scope="module")
def curve(posterior: em.Posterior) -> em.engines.DeltaCurve:
    return em.engines.estimate_curve(posterior.data, posterior.model, DELTAS)


def test_a_true_accountant_is_not_refuted_and_a_false_one_is(posterior: em.Posterior) -> None:
    labels = {}
    for noise in (NOISE, 6 * NOISE):
        made = PLDAccountant()
        made.compose(dp_accounting.GaussianDpEvent(noise))
        verdict = em.judge(posterior, made.get_epsilon, deltas=DELTAS)
        labels[noise] = verdict.label
        # No Gaussian mechanism is private at delta = 0.
        assert [row.delta for row in verdict.by_delta] == DELTAS[1:]
        assert verdict.by_delta[1].claim == made.get_epsilon(1e-4)
    # The strength is not assumed to be 1, so a true claim may stay open, but must not fail.
    assert labels[NOISE] in ("PASS (judged)", "INCONCLUSIVE")
    assert labels[6 * NOISE] == "FAIL (proven)"


def test_an_algorithm_s_own_claim_is_one(posterior: em.Posterior) -> None:
    algorithm = em.training.ClippedMean(noise=0.02, records=50)
    verdict = em.judge(posterior, algorithm.claimed_epsilon, deltas=DELTAS)
    assert dict(row[:2] for row in verdict.by_delta)[1e-2] == algorithm.claimed_epsilon(1e-2)


@pytest.mark.parametrize(
    ("claim", "label"),
    [(0.5, "FAIL (proven)"), (1.3, "FAIL (judged)"), (14.0, "PASS (judged)")],
)
def test_one_delta_is_a_curve_of_length_one(
    posterior: em.Posterior, curve: em.engines.DeltaCurve, claim: float, label: str
) -> None:
    """The probabilities over several deltas are those of separate posteriors."""
    together = em.judge(posterior, claim, deltas=DELTAS)
    assert together.label == label
    for row in together.by_delta[3:4]:
        alone = em.estimate(posterior.data, em.CountModel(delta=row.delta))
        verdict = em.judge(alone, claim)
        # A quantile within the tolerance moves the probability by that times the density.
        atol = 3 * curve.tolerance * float(alone.density("epsilon", claim))
        assert row.probability_above == pytest.approx(verdict.probability_above, abs=atol)
        assert (verdict.label, verdict.claim) == (label, row.claim)


def test_fail_at_any_delta_and_pass_only_at_all(
    posterior: em.Posterior, curve: em.engines.DeltaCurve
) -> None:
    fails, open_, high = curve.quantile([0.001, 0.5, 0.999])
    # So far out that a prior of twice the scale also passes.
    passes = np.full(5, 14.0)
    assert (passes > high).all()

    def judged(claims: np.ndarray) -> em.Verdict:
        at = dict(zip(DELTAS, claims.tolist(), strict=True))
        return em.judge(posterior, at.__getitem__, deltas=DELTAS)

    def one_of(other: np.ndarray | float) -> str:
        """The label if the claim differs at one delta."""
        return judged(np.where(np.arange(5) == 3, other, passes)).label

    assert judged(passes).label == "PASS (judged)"
    # With a narrower prior it would not fail at that delta alone, but in one case of a thousand.
    assert one_of(fails) == "FAIL (judged)"
    assert one_of(0.2) == "FAIL (proven)"
    assert one_of(open_) == "INCONCLUSIVE"
    assert one_of(math.inf) == "PASS (judged)"
    # The leaning of the posterior alone involves no other prior.
    assert judged(high).leaning is em.judgement.Outcome.PASS
    with pytest.raises(InputError, match="expected a claim at one or more of the deltas"):
        judged(np.full(5, math.inf))
    with pytest.raises(InputError, match="got claim=nan"):
        judged(np.full(5, math.nan))


def test_claims_at_several_deltas_are_refuted_together_or_not_at_all(
    posterior: em.Posterior,
) -> None:
    """Refuted at one delta by a little, the claims at all five are not: five tests were made."""
    proven = em.prove(posterior.data, delta=1e-2).at_least
    at = em.judgement.ClaimedCurve(deltas=[0.0, 1e-2], epsilons=[14.0, proven - 0.01])
    alone = em.prove(posterior.data, delta=1e-2, claim=proven - 0.01)
    assert alone.refuted
    assert alone.e_value is not None
    assert 20 <= alone.e_value < 100
    verdict = em.judge(posterior, at, deltas=DELTAS)
    assert verdict.label == "FAIL (judged)"


# --- lists of claims -----------------------------------------------------------------------------


def test_between_listed_deltas_the_smaller_one_counts() -> None:
    claim = em.judgement.ClaimedCurve(deltas=[1e-2, 1e-6, 1e-4], epsilons=[1.0, 3.0, 2.0])
    deltas = np.array([0.0, 1e-7, 1e-6, 9.9e-5, 1e-4, 5e-3, 1e-2, 0.9])
    expected = [math.inf, math.inf, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0]
    assert [claim(delta) for delta in deltas.tolist()] == expected
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
        ("delta,epsilon\n", "claim.csv: expected a claimed epsilon for each"),
        ("delta,epsilon\n1e-5,two\n", "row 2: expected a number in epsilon, got epsilon='two'"),
        ("delta,epsilon\n1e-5,2\n1.5,1\n", "claim.csv: expected 0 <= delta < 1, got delta=1.5"),
        ("delta,epsilon\n1e-5,-2\n", "claim.csv: expected epsilon >= 0, got epsilon=-2.0"),
        ("delta,epsilon\n1e-5,inf\n", "claim.csv: expected a finite epsilon"),
        ("delta,epsilon\n1e-5,2\n1e-5,1\n", "claim.csv: expected distinct deltas"),
        ("delta,epsilon\n1e-5,2\n1e-3,3\n", "claim.csv: expected a claim that does not increase"),
    ],
)
def test_bad_csv(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "claim.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        em.judgement.ClaimedCurve.read_csv(path)
