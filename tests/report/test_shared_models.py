"""Points that share models, in words and files: what is said of them, and that it is not lost."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.comparison.estimators import compare
from epsilometer.engines.curve import files
from epsilometer.engines.curve.tree import MODEL_NUMBERS
from epsilometer.errors import InputError
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.objections import SHARED, valid_bounds
from epsilometer.judgement.question import Question
from epsilometer.judgement.units import MODELS, POINTS, SHARED_ESTIMATE, units_of
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.proofs.shared_models import SharedModels
from epsilometer.report.page.sections import about
from epsilometer.report.text.facts import provenance_facts
from epsilometer.report.text.summary import result_text
from epsilometer.report.text.values import result_values
from tests.report.curve_results import SETTINGS, SIMPLE, judged


def pool(*, fair_coins: bool = True) -> PoolScores:
    rng = np.random.default_rng(1)
    member = rng.random((24, 4)) < 0.5
    value = rng.normal(size=member.shape) + member
    return PoolScores(value=value, member=member, fair_coins=fair_coins)


@cache
def result() -> CurveResult:
    return judged(SETTINGS.estimate(pool().by_point(), SIMPLE))


def without_models(scores: Scores) -> Scores:
    return Scores.of_bases(scores.bases, scores.names)


def test_models_survive_files(tmp_path: Path) -> None:
    posterior = result().posterior
    posterior.save(tmp_path / "p.nc")
    found = em.load(tmp_path / "p.nc")
    assert isinstance(found, em.engines.CurvePosterior)
    assert found.scores == posterior.scores
    assert found.scores.fair_coins
    assert found.scores.shared_models == 24
    assert found.scores.models is not None
    for pair, inside in zip(found.scores.models, pool().member.T, strict=True):
        np.testing.assert_array_equal(pair[1], np.flatnonzero(inside))
    one, two = (em.prove(each, delta=1e-2, claim=0.2) for each in (found.scores, posterior.scores))
    assert one == two


class Numbers:
    """As much of an open file as is asked for the numbers of models."""

    def __init__(self, without: list[int], with_point: list[int]) -> None:
        names = (f"observed_data/{name}" for name in MODEL_NUMBERS)
        self.arrays = dict(zip(names, map(np.array, (without, with_point)), strict=True))

    def get(self, name: str, *, ndim: int) -> Any:
        assert self.arrays[name].ndim == ndim
        return self.arrays[name]


def test_numbers_of_models_in_a_file_are_checked() -> None:
    bases = Scores(without=[[0.0, 1.0]], with_point=[[2.0]]).bases

    def read(without: list[int], with_point: list[int]) -> Scores:
        reader: Any = Numbers(without, with_point)
        return Scores.of_bases(bases, ["a"], models=files._sides(reader, MODEL_NUMBERS, ([2], [1])))

    assert read([0, 2], [1]).shared_models == 3
    with pytest.raises(InputError, match="expected the number of every model"):
        read([0], [1])
    with pytest.raises(InputError, match="each model once"):
        read([0, 1], [1])


@pytest.mark.parametrize("claim", [0.5, 20.0])
def test_nothing_is_judged_from_points_that_share_models(claim: float) -> None:
    asked = replace(result(), question=Question(claim=claim))
    verdict = asked.verdict
    assert verdict is not None
    assert verdict.label == "INCONCLUSIVE"
    assert SHARED in verdict.reasons
    # The same scores of models of their own are judged.
    alone = SETTINGS.estimate(without_models(pool().by_point()), SIMPLE)
    other = judged(alone, question=Question(claim=claim)).verdict
    assert other is not None
    assert SHARED not in other.reasons


def test_words_are_of_points() -> None:
    assert units_of(pool().by_point()) is POINTS
    assert units_of(without_models(pool().by_point())) is MODELS
    said = " ".join(result_text(result(), details=True).split())
    assert " ".join(SHARED_ESTIMATE.split()) in said
    assert "Models of a base are independent" not in said
    assert "on the worst point, of at most" in said
    assert SHARED_ESTIMATE in result_values(result())["assumptions"]["sentences"]


def test_the_page_says_it() -> None:
    assert dict(about(result()))["shared models"] == SHARED_ESTIMATE
    assert provenance_facts(result())[0] == ("points", "4")


def test_a_comparison_names_the_models_once() -> None:
    found = compare(pool().by_point(), delta=1e-2)
    assert found.source == "4 points that share 24 models"


def test_the_bound_beside_the_proof_is_over_all_models() -> None:
    scores = pool().by_point()
    (bound,) = valid_bounds(scores, 1e-2, 0.05)
    assert bound.label == "the one-run bound over all models"
    assert bound.epsilon == SharedModels.of_scores(scores).bound_by_model(1e-2, 0.05)
    (scan,) = valid_bounds(pool(fair_coins=False).by_point(), 1e-2, 0.05)
    assert "ROC" in scan.label
