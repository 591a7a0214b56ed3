"""Studies of proofs and verdicts: rows of the plan, error rates within their levels."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.model.scores import Scores
from studies import proofs, results, verdicts
from studies.mechanisms import GaussianMechanism, Null, RandomisedResponse
from studies.proofs import FIXED, ONE_RUN, PEEKING, POWER, PROOF, REFUTATIONS, PowerCell, called
from studies.tables import SUSPECT, Row
from studies.verdicts import SCORES, VERDICTS, VerdictCell, chance, wrong


@pytest.fixture(scope="module")
def true() -> list[Row]:
    return results.read("proofs")[0][REFUTATIONS]


@pytest.fixture(scope="module")
def judged() -> list[Row]:
    return results.read("verdicts")[0][VERDICTS]


def test_more_models_prove_more() -> None:
    cell = PowerCell(mechanism=RandomisedResponse(3.0), bases=1, sizes=(30, 300), runs=5)
    found = cell.judge("runs", 0.05, 5, np.random.default_rng(1))
    for method in (PROOF, FIXED, ONE_RUN):
        few, many = (found[f"{method} @ {size}"]["sum_at_least"] for size in (30, 300))
        assert few < many < 5 * 3.0


def test_the_fixed_threshold_aims_at_its_rate() -> None:
    rng = np.random.default_rng(1)
    scores = Scores(without=[rng.normal(size=5000)], with_point=[rng.normal(size=5000) + 1])
    ((without, with_point),) = called(scores, GaussianMechanism(1.0))
    assert abs(without.mean() - 0.1) < 0.02
    assert abs(with_point.mean() - 0.39) < 0.03
    bits = Scores(without=[np.array([0.0, 0, 0, 1])], with_point=[np.array([0.0, 1, 1, 1])])
    ((without, with_point),) = called(bits, RandomisedResponse(1.0))
    assert (without.tolist(), with_point.tolist()) == ([False] * 3 + [True], [False] + [True] * 3)


def test_claims_of_the_null_are_themselves() -> None:
    assert VerdictCell(mechanism=Null(), bases=5, runs=1).claims() == {0.5: 0.5, 1.0: 1.0, 2.0: 2.0}
    claims = VerdictCell(mechanism=RandomisedResponse(1.0), bases=5, runs=1).claims()
    assert claims[2.0] == pytest.approx(2 * claims[1.0])


# --- what is committed ------------------------------------------------------------------------


def test_true_claims_are_refuted_no_more_often_than_stated(true: list[Row]) -> None:
    assert all(row.fits("refuted", 0.05) for row in true if row.method == PROOF)
    assert any(
        not row.fits("refuted", 0.05) for row in true if row.method == PEEKING
    )  # the control
    assert {row.runs for row in true} >= {10_000}
    assert len({row.name for row in true}) >= 5


def test_the_proof_is_not_bought_with_power() -> None:
    """With several bases it proves more than any bound that is valid for a single analysis."""
    rows = results.read("proofs")[0][POWER]
    for mechanism in {row.mechanism for row in rows}:
        own = [row for row in rows if row.mechanism == mechanism and row.bases == 20]
        best = max(row.mean_at_least for row in own if row.method != PROOF)
        assert max(row.mean_at_least for row in own if row.method == PROOF) > best


def test_verdicts_are_wrong_no_more_often_than_required(judged: list[Row]) -> None:
    for row in judged:
        assert chance(row, 0.05) > SUSPECT, row
    for factors in ((1.0, 2.0), (0.5,)):
        own = [row for row in judged if row.factor in factors and wrong(row) is not None]
        assert sum(wrong(row) or 0 for row in own) <= 0.05 * sum(row.runs for row in own)
    # It is informative: most false claims fail.
    half = [r for r in judged if (r.data, r.power, r.factor) == (SCORES, 1.0, 0.5)]
    leaking = [row for row in half if row.true_epsilon > 0]
    failed = sum(row.fail_proven + row.fail_judged for row in leaking)
    assert failed > 0.5 * sum(row.runs for row in leaking)


def test_statements_of_the_page_follow_from_the_tables(true: list[Row], judged: list[Row]) -> None:
    """A violated level, and a control that was not detected, would be reported."""
    assert "is detected" in " ".join(proofs.refuted_text(true, 0.05).split())
    bad = [row.changed(refuted=row.runs if row.method == PROOF else 0) for row in true]
    said = " ".join(proofs.refuted_text(bad, 0.05).split())
    assert "**Exceeded**" in said
    assert "was NOT detected" in said
    assert "met in all settings" in " ".join(verdicts.verdict_text(judged, 0.05).split())
    worse = [judged[0].changed(fail_judged=judged[0].runs), *judged[1:]]
    assert "**Not met** in 1" in verdicts.verdict_text(worse, 0.05)
    assert " **!!**" in verdicts.verdict_table(worse, 0.05)
