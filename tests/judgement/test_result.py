"""A result is judged once, each of its checks is computed once, and every view agrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import epsilometer as em
from epsilometer.judgement import count_result, objections, result
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import OtherModels, Question
from tests.drawn import error_counts

COUNTS = error_counts([10, 30], [20, 30], 100)
PERFECT = error_counts([5, 4, 6, 5], [0, 0, 0, 0], 50)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often each check was computed."""
    times: dict[str, int] = {}

    def watch(module: ModuleType, name: str) -> Callable[..., Any]:
        real = getattr(module, name)

        def called(*arguments: Any, **options: Any) -> Any:
            times[name] = times.get(name, 0) + 1
            return real(*arguments, **options)

        return called

    for module, names in CHECKS.items():
        for name in names:
            monkeypatch.setattr(module, name, watch(module, name))
    return times


CHECKS = {
    result: ("decide",),
    objections: ("prove", "valid_bounds"),
    count_result: (
        "check_extreme_counts",
        "check_predictions",
        "leave_one_out",
        "compare_models",
        "prior_sensitivity",
    ),
}


def test_everything_is_computed_once(counted: dict[str, int], tmp_path: Path) -> None:
    posterior = em.estimate(COUNTS, em.CountModel(delta=0.01))
    judged = result_of(posterior, Question(claim=posterior.median("epsilon")))
    assert counted == {}  # nothing is computed before it is needed
    judged.concluded()
    once = dict(counted)
    assert once.pop("prior_sensitivity") == 2  # a narrower prior and a wider one
    assert set(once.values()) == {1}
    assert len(once) == 7
    _ = judged.what_if  # only the page's
    known = dict(counted)
    for _ in range(2):
        judged.report(tmp_path / "page.html")
        judged.to_dict()
        assert judged.warnings == judged.concluded().warnings
    assert counted == known
    # Verdicts on many claims share proofs and estimates.
    deltas, priors = judged.what_if_deltas, judged.what_if_priors
    assert known["prove"] == known["valid_bounds"] == len(deltas)
    assert known["prior_sensitivity"] == len(priors) + 1  # each halved and doubled, without itself


def test_a_verdict_computes_no_more_than_it_needs(counted: dict[str, int]) -> None:
    posterior = em.estimate(COUNTS, em.CountModel(delta=0.01))
    judged = result_of(posterior)
    assert judged.verdict is None
    assert counted == {}
    assert judged.proof is not None
    assert counted == {"prove": 1}


def test_the_answer_for_independent_counts_is_part_of_the_result(counted: dict[str, int]) -> None:
    model = em.CountModel(delta=1e-3, likelihood=em.likelihoods.CorrelatedNormal())
    messages: list[str] = []
    judged = result_of(em.estimate(PERFECT, model), Question(level=0.8), on_message=messages.append)
    beside = judged.to_dict()["independent_counts"]
    binomial = em.estimate(PERFECT, em.CountModel(delta=1e-3))
    assert beside["interval"] == list(binomial.credible_interval("epsilon", 0.8))
    assert (beside["bases"], beside["of"]) == (4, 4)
    assert any("4 of 4 bases" in sentence for sentence in judged.warnings)
    assert counted["check_extreme_counts"] == 1
    assert sum("independent counts" in line for line in messages) == 1
    # If the result is not doubtful there is no second one.
    assert "independent_counts" not in result_of(binomial).to_dict()


@pytest.mark.parametrize(
    ("extent", "found"), [(OtherModels.NONE, 0), (OtherModels.QUICK, 6), (OtherModels.FULL, 6)]
)
def test_other_models_as_far_as_requested(extent: OtherModels, found: int) -> None:
    posterior = em.estimate(COUNTS, em.CountModel(delta=0.01))
    judged = result_of(posterior, Question(other_models=extent))
    assert isinstance(judged, count_result.CountResult)
    assert (len(judged.models.assumptions) if judged.models else 0) == found
    assert ("model_comparison" in judged.to_dict()) is (extent is OtherModels.FULL)


def test_views_agree_with_the_verdict() -> None:
    posterior = em.estimate(COUNTS, em.CountModel(delta=0.01))
    judged = result_of(posterior, Question(claim=0.01, claim_source="algorithm"))
    verdict, proof = judged.verdict, judged.proof
    assert verdict is not None
    assert verdict == em.judge(posterior, 0.01)
    assert proof == em.prove(COUNTS, delta=0.01, claim=0.01)
    assert proof is not None
    data = judged.to_dict()
    assert data["verdict"]["outcome"] == "FAIL"
    assert data["verdict"]["grounds"] == "proven"
    assert data["verdict"]["reasons"] == list(verdict.reasons)
    assert data["proof"] == proof.described()
    assert data["bounds"] == [bound._asdict() for bound in judged.bounds_at(judged.delta)]
    assert data["contradiction"] is None
    assert data["claim"]["source"] == "algorithm"


@pytest.mark.parametrize(
    "wrong", [{"level": 1.0}, {"level": 0.0}, {"claim": -1.0}, {"error": 0.0}, {"error": 1.0}]
)
def test_questions_that_cannot_be_asked(wrong: dict[str, float]) -> None:
    with pytest.raises(em.InputError):
        Question(**wrong)  # type: ignore[arg-type]
