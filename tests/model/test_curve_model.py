"""Assumptions of the whole-curve model: components, weights, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.errors import InputError
from epsilometer.model.families import FAMILIES
from epsilometer.model.mixtures import MIXING_RATES


def test_components_are_all_curves_with_weights_of_one() -> None:
    model = em.CurveModel(delta=1e-5)
    assert len(model.components) == len(FAMILIES) * (1 + 2 * len(MIXING_RATES))
    assert sum(each.probability for each in model.components) == pytest.approx(1.0)
    assert all(each.probability > 0 for each in model.components)
    one = em.CurveModel(
        delta=1e-5, families=(em.families.Gaussian(),), mixing=em.families.NoMixing()
    )
    (only,) = one.components
    assert only.probability == 1.0
    assert not only.curves.mixed


def test_curves_without_an_epsilon_are_left_out_and_the_rest_sums_to_one() -> None:
    # For delta >= rate a subsampled mechanism is indistinguishable from nothing.
    model = em.CurveModel(delta=0.15)
    kept = {(each.curves.rate, each.curves.interpretation) for each in model.components}
    assert (0.1, em.families.MixtureInterpretation.MECHANISM) not in kept
    assert (0.1, em.families.MixtureInterpretation.ATTACK) in kept
    assert (0.2, em.families.MixtureInterpretation.MECHANISM) in kept
    assert sum(each.probability for each in model.components) == pytest.approx(1.0)
    # At delta = 0 a Gaussian has no epsilon at all.
    pure = em.CurveModel(delta=0.0)
    assert {each.curves.family.name for each in pure.components} == {"laplace", "response"}


def test_no_leak_is_for_averages_by_default() -> None:
    assert em.CurveModel(delta=1e-5, families=(em.families.Gaussian(),)).no_leak == 0.0
    assert 0 < (em.CurveModel(delta=1e-5).no_leak or 0) < 1
    assert em.CurveModel(delta=1e-5, no_leak=0.0).no_leak == 0.0
    model = em.CurveModel(delta=1e-5, no_leak=0.25)
    assert model.no_leak == 0.25
    prior = em.priors.HalfNormal()
    assert model.prior_probability_above(2.0) == pytest.approx(0.75 * prior.probability_above(2.0))


def test_sentences_say_what_was_chosen() -> None:
    text = " ".join(
        em.CurveModel(
            delta=1e-3,
            families=(em.families.Laplace(),),
            mixing=em.families.KnownMixing(rate=0.25),
            strength=em.families.FixedStrength(value=0.5),
            no_leak=0.125,
        ).sentences
    )
    for part in ("laplace", "0.25", "strength 0.5", "delta = 0.001", "0.125"):
        assert part in text


def wrong(**given: Any) -> em.CurveModel:
    """A model with an argument of a forbidden type."""
    return em.CurveModel(delta=1e-5, **given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: em.CurveModel(delta=1.0), "expected 0 <= delta < 1, got delta=1.0"),
        (lambda: em.CurveModel(delta=-1e-9), "expected 0 <= delta < 1"),
        (lambda: em.CurveModel(delta=float("nan")), "expected a finite delta"),
        (lambda: em.CurveModel(delta=1e-5, families=()), "expected one or more families of curves"),
        (lambda: wrong(families=("gaussian",)), "expected one or more families of curves"),
        (lambda: wrong(mixing="free"), "expected another kind of mixing"),
        (lambda: wrong(strength=0.5), "expected another kind of strength"),
        (lambda: wrong(strength=em.priors.Beta(a=1, b=1)), "another kind of strength"),
        (lambda: wrong(epsilon=1.0), "expected another kind of epsilon"),
        (lambda: em.CurveModel(delta=1e-5, epsilon=em.priors.Fixed(value=1.0)), "got a fixed value"),
        (lambda: em.CurveModel(delta=1e-5, no_leak=1.0), "expected no_leak < 1"),
        (lambda: em.CurveModel(delta=1e-5, no_leak=-0.1), "expected 0 <= no_leak <= 1"),
        (
            lambda: em.CurveModel(delta=0.0, families=(em.families.Gaussian(),)),
            "expected a family that has an epsilon at delta=0: gaussian has none",
        ),
        (
            lambda: em.CurveModel(delta=0.5, mixing=em.families.KnownMixing(rate=0.25)),
            "expected a family that has an epsilon at delta=0.5",
        ),
    ],
)  # fmt: skip
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_the_model_is_estimated_from() -> None:
    scores = em.Scores(without=[[0.0]], with_point=[[1.0]])
    with pytest.raises(InputError, match="expected AttackCounts for CountModel, got Scores"):
        estimate(scores, em.CountModel(delta=0.01))
    with pytest.raises(InputError, match="ExactSettings cannot be used with CurveModel"):
        estimate(scores, em.CurveModel(delta=0.01), em.engines.ExactSettings())
    ties = em.Scores(without=[[1.0]], with_point=[[1.0]])
    with pytest.raises(InputError, match="got only ties"):
        estimate(ties, em.CurveModel(delta=0.01))
