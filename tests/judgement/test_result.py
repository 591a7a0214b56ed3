"""A result is judged once, each of its checks is computed once, and every view agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import epsilometer as em
from epsilometer.judgement import result as results
from epsilometer.judgement.result import OtherModels, Question, Result
from epsilometer.report.page.published import render
from epsilometer.report.text.summary import result_data, result_text, summary_data

COUNTS = em.AttackCounts(
    false_positives=[10, 30], trials_h0=100, false_negatives=[20, 30], trials_h1=100
)
PERFECT = em.AttackCounts(
    false_positives=[5, 4, 6, 5], trials_h0=50, false_negatives=[0, 0, 0, 0], trials_h1=50
)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often each check was computed."""
    times: dict[str, int] = {}

    def watch(name: str) -> Callable[..., Any]:
        real = getattr(results, name)

        def called(*arguments: Any, **options: Any) -> Any:
            times[name] = times.get(name, 0) + 1
            return real(*arguments, **options)

        return called

    for name in ("decide", "prove", "valid_bounds", "check_extreme_counts", "check_predictions",
                 "leave_one_out", "compare_models", "look_ahead"):  # fmt: skip
        monkeypatch.setattr(results, name, watch(name))
    return times


def test_everything_is_computed_once(counted: dict[str, int]) -> None:
    posterior = em.estimate(COUNTS, em.CountModel(delta=0.01))
    result = Result(posterior=posterior, question=Question(claim=posterior.median("epsilon")))
    assert counted == {}  # nothing is computed before it is needed
    render(result)
    for _ in range(2):
        result_data(result)
        result_text(result)
        assert result.warnings == result.data_warnings
    assert set(counted.values()) == {1}
    assert len(counted) == 8


def test_a_summary_computes_no_more_than_it_shows(counted: dict[str, int]) -> None:
    result = Result(posterior=em.estimate(COUNTS, em.CountModel(delta=0.01)))
    assert "claim" not in summary_data(result)
    result_text(result)
    assert counted == {"check_extreme_counts": 1, "prove": 1, "valid_bounds": 1}


def test_the_answer_for_independent_counts_is_part_of_the_result(counted: dict[str, int]) -> None:
    model = em.CountModel(delta=1e-3, likelihood=em.likelihoods.CorrelatedNormal())
    messages: list[str] = []
    result = Result(
        posterior=em.estimate(PERFECT, model), question=Question(level=0.8), report=messages.append
    )
    beside = summary_data(result)["independent_counts"]
    binomial = em.estimate(PERFECT, em.CountModel(delta=1e-3))
    assert beside["interval"] == list(binomial.credible_interval("epsilon", 0.8))
    assert (beside["bases"], beside["of"]) == (4, 4)
    assert any("4 of 4 bases" in sentence for sentence in result.data_warnings)
    assert set(result.data_warnings) <= set(result.warnings)
    assert counted["check_extreme_counts"] == 1
    assert sum("independent counts" in line for line in messages) == 1
    # If the result is not doubtful there is no second one.
    plain = Result(posterior=binomial)
    assert "independent_counts" not in summary_data(plain)


@pytest.mark.parametrize(
    ("extent", "found"), [(OtherModels.NONE, 0), (OtherModels.QUICK, 6), (OtherModels.FULL, 6)]
)
def test_other_models_as_far_as_requested(extent: OtherModels, found: int) -> None:
    posterior = em.estimate(COUNTS, em.CountModel(delta=0.01))
    result = Result(posterior=posterior, question=Question(other_models=extent))
    assert (len(result.models.assumptions) if result.models else 0) == found
    assert ("model_comparison" in result_data(result)) is (extent is OtherModels.FULL)


def test_views_agree_with_the_verdict() -> None:
    posterior = em.estimate(COUNTS, em.CountModel(delta=0.01))
    question = Question(claim=0.01, claim_source="algorithm", thresholds=em.judgement.Thresholds())
    result = Result(posterior=posterior, question=question)
    assert result.verdict == em.judge(posterior, claim=0.01)
    assert result.proof == em.prove(COUNTS, delta=0.01, claim=0.01)
    data = result_data(result)
    assert data["verdict"]["outcome"] == "FAIL"
    assert data["verdict"]["grounds"] == "proven"
    assert data["verdict"]["reasons"] == list(result.verdict.reasons)
    assert data["verdict"]["meaning"] == result.verdict.meaning
    assert data["proof"] == result.proof.described()
    assert data["bounds"] == [bound._asdict() for bound in result.bounds]
    assert data["contradiction"] is None
    assert data["claim"]["source"] == "algorithm"
    assert result_text(result).startswith("FAIL (proven): ")
    assert '<p class="badge">FAIL (proven)</p>' in render(result)


@pytest.mark.parametrize(
    "wrong", [{"level": 1.0}, {"level": 0.0}, {"claim": -1.0}, {"error": 0.0}, {"error": 1.0}]
)
def test_questions_that_cannot_be_asked(wrong: dict[str, float]) -> None:
    with pytest.raises(em.InputError):
        Question(**wrong)  # type: ignore[arg-type]
