"""Where data set no upper limit: what is shown, estimated and judged then, and where they do set one."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.judgement.curve_result import NO_LIMIT, CurveResult
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.judgement.verdict import Outcome

MODELS, DELTA = 60, 1e-5
TOLD = em.CurveModel(delta=DELTA, families=(em.families.Gaussian(),))


def scores_of(shift: float) -> em.Scores:
    rng = np.random.default_rng(3)
    sides = rng.standard_normal((2, 3, MODELS))
    return em.Scores(without=[*sides[0]], with_point=[*(sides[1] + shift)])


@cache
def posterior_of(shift: float, *, told: bool = False) -> em.engines.CurvePosterior:
    model = TOLD if told else em.CurveModel(delta=DELTA)
    return em.engines.CurveSettings().estimate(scores_of(shift), model)


def result(shift: float, claim: float | None = None, *, told: bool = False) -> CurveResult:
    found = result_of(posterior_of(shift, told=told), Question(claim=claim))
    assert isinstance(found, CurveResult)
    return found


#: All scores apart, and scores of a Gaussian mechanism with epsilon 4.4.
APART, ORDINARY = 60.0, 1.0


def test_separated_scores_set_no_upper_limit_and_ordinary_ones_do() -> None:
    apart, ordinary = posterior_of(APART), posterior_of(ORDINARY)
    assert apart.saturated
    low, high = apart.credible_interval("epsilon")
    assert math.isinf(high)
    # Whatever the prior says beyond it: the most that so many models can show.
    assert low == pytest.approx(math.log(MODELS))
    assert float(apart.quantile("epsilon", 0.05)) > low
    # Controls: ordinary data, and a family that says what the data do not.
    assert not ordinary.saturated
    assert math.isfinite(ordinary.credible_interval("epsilon")[1])
    assert not posterior_of(APART, told=True).saturated


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [(1.0, Outcome.FAIL), (4.5, Outcome.INCONCLUSIVE), (30.0, Outcome.INCONCLUSIVE),
     (1e5, Outcome.INCONCLUSIVE)],
)  # fmt: skip
def test_nothing_passes_and_only_small_claims_fail(claim: float, outcome: Outcome) -> None:
    verdict = result(APART, claim).verdict
    assert verdict is not None
    assert verdict.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE and verdict.leaning is not Outcome.INCONCLUSIVE:
        assert NO_LIMIT in verdict.meaning
    # Control: with the same scores and a told family this is no objection.
    told = result(APART, claim, told=True).verdict
    assert told is not None
    assert NO_LIMIT not in told.meaning


def test_the_answer_is_said_without_the_priors_numbers(tmp_path: Path) -> None:
    found = result(APART)
    found.write(tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["saturated"] is True
    assert summary["upper"] is None
    assert summary["epsilon"]["interval"][1] is None
    assert summary["epsilon"]["median"] is None
    said = str(result_of(posterior_of(APART)))
    assert "no upper limit" in said
    median = posterior_of(APART).median("epsilon")
    assert f"{median:.2f}" not in said
    # A folder without a median is read back, and an ordinary one beside a wrong summary is not.
    from epsilometer.inputs.recorded import open_result

    assert open_result(tmp_path).posterior.saturated
    ordinary = json.loads(json.dumps(summary)) | {"epsilon": {"median": 1.0, "level": 0.9}}
    (tmp_path / "summary.json").write_text(json.dumps(ordinary))
    with pytest.raises(em.errors.InputError, match="is of another result"):
        open_result(tmp_path)


@pytest.mark.parametrize("shift", [APART, ORDINARY, 0.0])
def test_shown_is_at_most_what_models_can_show_and_at_least_proven(shift: float) -> None:
    found = result(shift)
    low, high = found.posterior.credible_interval("shown")
    assert 0 <= low <= high <= math.log(MODELS) + 1e-9
    assert found.proof is not None
    assert found.shown == (max(low, found.proof.at_least), max(high, found.proof.at_least))
    if shift == ORDINARY:  # epsilon at such a delta is more than any score has seen
        assert high < 0.8 * em.families.Gaussian().epsilon(ORDINARY, DELTA)
