"""Checks of the whole-curve model: they accept data from the model and reject data that is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

import epsilometer as em
from epsilometer.checks import roc_curves as checks
from epsilometer.checks.roc_curves import check_rocs
from epsilometer.engines.estimate import estimate
from epsilometer.errors import ContradictionError
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.judging import result_of
from tests.engines.curve.simulation import draw_scores, draw_truth
from tests.engines.curve.test_engine import gaussian_bases, pinned


def test_statistics_are_those_of_the_roc_curve() -> None:
    scores = gaussian_bases([1.0, 2.0], 50, 40, seed=31)
    posterior = estimate(scores, pinned(1e-5))
    found = check_rocs(posterior, rng=np.random.default_rng(1), replications=200)
    assert found.names == scores.names
    assert found.replications == 200
    assert found.observed.shape == (2, len(found.statistics))
    for row, base in enumerate(scores.bases):
        assert found.observed[row, 0] == pytest.approx(base.auc())
        np.testing.assert_allclose(
            found.observed[row, 1:], base.true_positive_rate(np.array(checks.COMPARED_RATES))
        )
    assert np.all(found.low <= found.high)
    assert np.all((found.p_value > 0) & (found.p_value <= 1))


def test_p_values_are_fair_on_audits_that_the_model_made() -> None:
    """Predictive p-values are no smaller than uniform ones: using the data twice only raises them."""
    model = em.CurveModel(
        delta=1e-3, families=(em.families.Gaussian(),), mixing=em.families.NoMixing()
    )
    rng, values, surprises = np.random.default_rng(32), [], 0
    for _ in range(25):
        scores = draw_scores(draw_truth(model, 3, rng), 40, 40, rng)
        posterior = em.engines.CurveSettings().estimate_quickly(scores, model)
        found = check_rocs(posterior, rng=rng, replications=200)
        values += found.p_value[:, 0].tolist()
        surprises += not found.fits
    # Smaller than uniform with a false alarm of 1e-4 at most: one-sided.
    assert kstest(values, "uniform", alternative="greater").pvalue > 1e-4
    # And not all at 1, which would never detect anything.
    assert np.min(values) < 0.6
    # Fifteen statistics at .01 in all for an audit: 25 audits have 4 surprises with probability 1e-4.
    assert surprises <= 4


def heavy(seed: int, bases: int = 4) -> em.Scores:
    """One member in five is revealed completely, the others not at all."""
    rng = np.random.default_rng(seed)
    without = rng.standard_normal((bases, 300))
    with_point = rng.standard_normal((bases, 300)) + 9 * (rng.random((bases, 300)) < 0.2)
    return em.Scores(without=list(without), with_point=list(with_point))


def test_a_family_that_cannot_make_such_scores_is_detected() -> None:
    posterior = estimate(heavy(33), pinned(1e-5))
    found = check_rocs(posterior, rng=np.random.default_rng(2), replications=400)
    assert not found.fits
    assert any("true-positive rate at 0.01" in text for text in found.surprising)
    # The mixture that made them fits.
    model = replace(pinned(1e-5), mixing=em.families.KnownMixing(rate=0.2))
    fair = check_rocs(estimate(heavy(33), model), rng=np.random.default_rng(2), replications=400)
    assert fair.fits


def test_one_family_of_several_can_be_asked_alone() -> None:
    scores = gaussian_bases([1.0, 1.0], 60, 60, seed=34)
    model = em.CurveModel(delta=1e-3)
    posterior = estimate(scores, model)
    found = check_rocs(posterior, rng=np.random.default_rng(3), replications=150, family="laplace")
    assert found.family == "laplace"
    assert found.replications == 150
    refuted = estimate(gaussian_bases([2.0] * 8, 600, 600, seed=35), model)
    assert refuted.family_probability("response") < 1e-12
    with pytest.raises(ContradictionError, match="response is ruled out by the scores"):
        check_rocs(refuted, rng=np.random.default_rng(4), family="response")


def test_other_priors_move_epsilon_their_way() -> None:
    scores = gaussian_bases([0.9], 30, 30, seed=36)
    posterior = estimate(scores, em.CurveModel(delta=1e-5))
    judged = result_of(posterior)
    assert isinstance(judged, CurveResult)
    half, twice = judged.other_priors
    assert (half.factor, twice.factor) == (0.5, 2.0)
    medians = [
        float(half.epsilon.quantile(0.5)),
        posterior.median("epsilon"),
        float(twice.epsilon.quantile(0.5)),
    ]
    assert medians == sorted(medians)
    low, high = half.credible_interval(0.8)
    assert low < medians[0] < high
    # The same as estimating with that prior: two tolerances of the engine.
    model = replace(posterior.model, epsilon=em.priors.HalfCauchy().rescaled(0.5))
    assert medians[0] == pytest.approx(estimate(scores, model).median("epsilon"), rel=0.04)
