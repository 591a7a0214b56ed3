"""Claims that are refuted if the noise of canaries is independent: a ground of its own, everywhere."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import epsilometer as em
from epsilometer.engines.storage import load
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.judgement.verdict import FAIL_ON, Grounds, Outcome, Verdict, decide
from epsilometer.proofs.independent_noise import CONDITION
from epsilometer.report.text.summary import result_text
from epsilometer.testing import InconclusiveWarning, assert_private
from tests.report.curve_results import SIMPLE, canaries, judged, posterior

LABEL = "FAIL (proven if the noise is independent)"

#: The canaries have an epsilon of 7.06: less than 3 is proven, 5 to 7 if the noise is independent.
MODEL = replace(SIMPLE, delta=1e-5)
SCORES, EPSILON, CLAIM = canaries(1.5, 1000, seed=3), 7.07, 4.0


def decided(**given: Any) -> Verdict:
    usual = {"claim": 1.0, "above": 0.5, "before": 0.5, "refuted": None, "objections": lambda _: ()}
    return decide(**(usual | given))


def test_a_conditional_proof_comes_after_a_proof_and_before_a_judgement() -> None:
    proven = decided(refuted="surely", conditional="perhaps", above=1.0)
    assert (proven.label, proven.reasons) == ("FAIL (proven)", ("surely",))
    known = decided(conditional="perhaps", above=1.0)
    assert (known.outcome, known.grounds) == (Outcome.FAIL, Grounds.CONDITIONAL)
    assert (known.label, known.reasons) == (LABEL, ("perhaps",))
    # It depends on neither the engine nor the model, nor on what they say.
    assert decided(conditional="perhaps", untrusted="not accurate").label == LABEL
    assert decided(conditional="perhaps", above=0.0).label == LABEL
    assert decided(above=1.0).label == "FAIL (judged)"


def test_gates_tell_it_from_a_proof() -> None:
    verdict = decided(conditional="perhaps")
    stopped = {gate: verdict.stops(gate) for gate in FAIL_ON}
    assert stopped == {
        "never": False,
        "proven": False,
        "conditional": True,
        "fail": True,
        "inconclusive": True,
    }
    assert decided(refuted="surely").stops("conditional")
    assert not decided(above=1.0).stops("conditional")


def test_every_view_says_the_condition() -> None:
    result = judged(posterior(SCORES, MODEL), question=Question(claim=CLAIM))
    verdict, proof = result.verdict, result.proof
    assert verdict is not None
    assert proof is not None
    assert proof.conditional is not None
    assert proof.at_least < CLAIM < proof.conditional.at_least < EPSILON
    assert verdict.label == LABEL
    assert verdict.meaning.endswith(f"if {CONDITION}")
    for details in (False, True):
        said = " ".join(result_text(result, details=details).split())
        assert said.startswith(f"{LABEL}: the attacks prove that epsilon is at least 5.")
        assert "Proven if the noise is independent: epsilon is at least 5." in said
    summary = result.to_dict()
    assert summary["verdict"]["grounds"] == "proven if the noise is independent"
    assert summary["proof"]["conditional"]["condition"] == CONDITION
    # Every claim that the page tries is judged by the same rule.
    labels = [result.judged(1e-5, claim).label for claim in (1.0, CLAIM, EPSILON)]
    assert labels[:2] == ["FAIL (proven)", LABEL]
    assert "proven" not in labels[2]


def test_canaries_without_the_assumption_are_judged_as_before() -> None:
    """Control."""
    without, with_point = SCORES.bases[0].in_training_order
    plain = em.Scores.of_canaries(with_point, without)
    result = judged(posterior(plain, MODEL), question=Question(claim=CLAIM))
    assert result.proof is not None
    assert result.proof.conditional is None
    assert result.verdict is not None
    assert result.verdict.label == "FAIL (judged)"
    assert "independent:" not in result_text(result)


def test_sorted_scores_are_judged_without_it() -> None:
    without, with_point = map(np.sort, SCORES.bases[0].in_training_order)
    scores = em.Scores.of_canaries(with_point, without).assuming_independent_noise()
    result = judged(posterior(scores, MODEL), question=Question(claim=CLAIM))
    assert result.verdict is not None
    assert result.verdict.label == "FAIL (judged)"
    said = " ".join(result_text(result).split())
    assert "independent: nothing: neighbouring canaries seem to share luck" in said


def test_a_posterior_keeps_the_assumption(tmp_path: Path) -> None:
    found = posterior(SCORES, MODEL)
    found.save(tmp_path / "posterior.nc")
    again = load(tmp_path / "posterior.nc")
    assert again.scores.independent_noise
    labels = {result_of(each, Question(claim=CLAIM)).verdict.label for each in (found, again)}  # type: ignore[union-attr]
    assert labels == {LABEL}


def test_several_deltas_are_refuted_together() -> None:
    deltas = (1e-5, 1e-3)
    question = Question(claim=lambda delta: -0.8 * math.log10(delta), deltas=deltas)
    result = judged(posterior(SCORES, MODEL), question=question)
    assert result.verdict is not None
    assert result.verdict.label == LABEL


def test_a_test_suite_can_ask_for_it() -> None:
    gates: tuple[Literal["conditional", "fail"], ...] = ("conditional", "fail")
    for fail_on in gates:
        with pytest.raises(AssertionError, match=r"^FAIL \(proven if the noise is independent\): "):
            assert_private(SCORES, epsilon=CLAIM, model=MODEL, fail_on=fail_on)
    with pytest.warns(InconclusiveWarning, match="proven if the noise is independent"):
        verdict = assert_private(SCORES, epsilon=CLAIM, model=MODEL, fail_on="proven")
    assert verdict.label == LABEL
