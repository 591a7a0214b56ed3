"""Assumptions of the curve model, and the prior of strengths by quadrature."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, kstest

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.errors import InputError
from epsilometer.model.families import FAMILIES
from epsilometer.model.mixing import MIXING_RATES
from epsilometer.model.strengths import LARGEST_CONCENTRATION, FixedStrength, FreeStrengths


def test_components_are_all_curves_with_weights_of_one() -> None:
    model = em.CurveModel(delta=1e-5)
    families = [family for group in FAMILIES.values() for family, _ in group.members()]
    plain = sum(family.mixed_share < 1 for family in families)
    mixed = [family for family in families if family.mixed_share > 0]
    rates = sum(rate >= family.least_rate for family in mixed for rate in MIXING_RATES)
    assert 0 < len(mixed) < plain
    assert len(model.components) == plain + 2 * rates
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
    # At delta = 0 only pure mechanisms have an epsilon at all.
    pure = em.CurveModel(delta=0.0)
    assert set(pure.used) == {"laplace", "response", "hard-caps", "mixed-caps", "smooth-caps"}


def test_no_leak_is_for_averages_by_default() -> None:
    assert em.CurveModel(delta=1e-5, families=(em.families.Gaussian(),)).no_leak == 0.0
    assert 0 < (em.CurveModel(delta=1e-5).no_leak or 0) < 1
    assert em.CurveModel(delta=1e-5, no_leak=0.0).no_leak == 0.0
    model = em.CurveModel(delta=1e-5, no_leak=0.25)
    assert model.no_leak == 0.25
    prior = em.priors.HalfCauchy()
    assert model.prior_probability_above(2.0) == pytest.approx(0.75 * prior.probability_above(2.0))


def test_a_told_family_keeps_its_prior() -> None:
    """Its answers do not change with what is averaged over otherwise."""
    told = em.CurveModel(delta=1e-5, families=(em.families.Gaussian(),))
    assert (told.epsilon, told.strength) == (em.priors.HalfNormal(), FreeStrengths())
    averaged = em.CurveModel(delta=1e-5)
    assert (averaged.epsilon, averaged.strength) == (
        em.priors.HalfCauchy(),
        FreeStrengths(full=0.3),
    )


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
        (lambda: FixedStrength(value=0.0), "expected strength > 0"),
        (lambda: FixedStrength(value=1.2), "expected 0 <= strength <= 1, got strength=1.2"),
        (lambda: FixedStrength(value=-0.1), "expected 0 <= strength <= 1"),
        (lambda: FixedStrength(value=float("nan")), "expected a finite strength"),
        (lambda: FreeStrengths(best_possible=1.0), "expected best_possible < 1"),
        (lambda: FreeStrengths(best_possible=-0.5), "expected 0 <= best_possible <= 1"),
    ],
)  # fmt: skip
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()


def test_what_the_model_is_estimated_from() -> None:
    scores = em.Scores(without=[[0.0]], with_point=[[1.0]])
    with pytest.raises(InputError, match="expected AttackCounts for CountModel, got Scores"):
        estimate(scores, em.CountModel(delta=0.01))
    with pytest.raises(InputError, match="ExactSettings cannot be used with CurveModel"):
        estimate(scores, em.CurveModel(delta=0.01), em.engines.ExactSettings())
    ties = em.Scores(without=[[1.0]], with_point=[[1.0]])
    with pytest.raises(InputError, match="got only ties"):
        estimate(ties, em.CurveModel(delta=0.01))


# --- distributions of strengths: their quadrature against the priors of mean and concentration ----


@pytest.mark.parametrize("best_possible", [0.0, 0.3, 0.9])
def test_distributions_are_a_quadrature_of_the_prior(best_possible: float) -> None:
    distributions = FreeStrengths(best_possible=best_possible).distributions(16, 6)
    assert distributions.weights.sum() == pytest.approx(1.0, rel=1e-13)
    assert (distributions.means[0], distributions.concentrations[0]) == (1.0, np.inf)
    assert distributions.weights[0] == best_possible
    rest, total = slice(1, None), 1 - best_possible
    means, sizes, weights = (
        distributions.means[rest],
        distributions.concentrations[rest],
        distributions.weights[rest] / total,
    )
    # Gauss rules of 16 and 6 points are exact for these moments, up to rounding.
    for power in range(1, 5):
        # Of the density 2 (1 - m).
        moment = 2 / ((power + 1) * (power + 2))
        assert weights @ means**power == pytest.approx(moment, rel=1e-12)
        moments = np.log(sizes) / np.log(LARGEST_CONCENTRATION)
        assert weights @ moments**power == pytest.approx(1 / (power + 1), rel=1e-12)
    assert np.all((means > 0) & (means < 1))
    assert np.all((sizes > 1) & (sizes < LARGEST_CONCENTRATION))


def test_prior_of_one_strength_by_quadrature_and_by_draws() -> None:
    """The marginal distribution of s_1, three ways: draws, the quadrature, and its first moments."""
    strengths, rng = FreeStrengths(best_possible=0.4), np.random.default_rng(5)
    drawn = np.array([strengths.sample(3, rng=rng) for _ in range(20_000)])
    assert drawn.shape == (20_000, 3)
    best = (drawn == 1).all(axis=1)
    # 5 standard errors of a share: a false alarm of 6e-7.
    assert abs(best.mean() - 0.4) < 5 * np.sqrt(0.4 * 0.6 / len(drawn))
    free = drawn[~best]
    distributions = strengths.distributions(24, 10)
    weights = distributions.weights[1:] / 0.6
    cuts = np.array([0.05, 0.3, 0.5, 0.8, 0.97])
    a, b = (
        distributions.means[1:] * distributions.concentrations[1:],
        (1 - distributions.means[1:]) * distributions.concentrations[1:],
    )
    expected = weights @ beta.cdf(cuts[None, :], a[:, None], b[:, None])
    seen = (free[:, :1] < cuts).mean(axis=0)
    assert np.all(np.abs(seen - expected) < 5 * np.sqrt(expected * (1 - expected) / len(free)))
    # Within an audit strengths share their distribution: the mean of a pair is correlated.
    assert np.corrcoef(free[:, 0], free[:, 1])[0, 1] > 0.5


def test_draws_of_a_given_law() -> None:
    """Replaying the generator gives the distribution that was drawn: s is Beta(m c, (1 - m) c)."""
    # A seed whose distribution is not all at one end, where strengths are 1 up to rounding.
    rng, again = np.random.default_rng(9), np.random.default_rng(9)
    drawn = FreeStrengths(best_possible=0.0).sample(20_000, rng=rng)
    again.random()
    mean, concentration = 1 - np.sqrt(1 - again.random()), LARGEST_CONCENTRATION ** again.random()
    assert 0.1 < mean < 0.9
    distribution = beta(mean * concentration, (1 - mean) * concentration)
    assert kstest(drawn, distribution.cdf).pvalue > 1e-6
    assert kstest(drawn, beta(concentration, 1.0).cdf).pvalue < 1e-6


def test_fixed_strength() -> None:
    distributions = FixedStrength(value=0.6).distributions(16, 6)
    assert [each.tolist() for each in distributions] == [[0.6], [np.inf], [0.0], [1.0]]
    assert FixedStrength().value == 1.0
    rng = np.random.default_rng(1)
    assert FixedStrength(value=0.6).sample(3, rng=rng).tolist() == [0.6, 0.6, 0.6]
    assert FreeStrengths().fixed_value is None
    assert FixedStrength(value=0.6).fixed_value == 0.6
