"""Priors against scipy.stats: densities, quantiles and tails, far out and at the ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from epsilometer.errors import InputError
from epsilometer.model import priors

Continuous = (
    priors.HalfNormal | priors.HalfCauchy | priors.Exponential | priors.LogNormal | priors.Uniform
)

ORACLES: dict[Continuous, Any] = {
    priors.HalfNormal(): stats.halfnorm(scale=math.sqrt(10)),
    priors.HalfNormal(scale=0.01): stats.halfnorm(scale=0.01),
    priors.HalfCauchy(): stats.halfcauchy(scale=3.0),
    priors.HalfCauchy(scale=50.0): stats.halfcauchy(scale=50.0),
    priors.Exponential(mean=2.5): stats.expon(scale=2.5),
    priors.Exponential(mean=1e-6): stats.expon(scale=1e-6),
    priors.LogNormal(): stats.lognorm(s=1.0),
    priors.LogNormal(median=7.0, log_scale=0.2): stats.lognorm(s=0.2, scale=7.0),
    priors.LogNormal(median=0.3, log_scale=5.0): stats.lognorm(s=5.0, scale=0.3),
    priors.Uniform(upper=8.0): stats.uniform(scale=8.0),
    priors.Uniform(upper=1e-3): stats.uniform(scale=1e-3),
}
EVERY = pytest.mark.parametrize("prior", ORACLES, ids=repr)

PROBABILITIES = [1e-300, 1e-12, 1e-3, 0.05, 0.5, 0.95, 1 - 1e-9]

#: A few special functions of double precision; 1e-16 times the largest log density or exponent.
ROUNDING = 1e-12


def tail_error(prior: Continuous, found: float, value: float) -> float:
    """Relative difference of a tail from scipy's."""
    expected = float(ORACLES[prior].sf(value))
    return abs(found - expected) / expected


# --- densities and quantiles ------------------------------------------------------------------


@EVERY
def test_log_density(prior: Continuous) -> None:
    points = np.append(ORACLES[prior].ppf(PROBABILITIES[1:]), ORACLES[prior].isf(1e-100))
    found = prior.log_density(points)
    np.testing.assert_allclose(found, ORACLES[prior].logpdf(points), rtol=ROUNDING, atol=ROUNDING)
    assert isinstance(prior, priors.Prior)


@EVERY
def test_log_density_outside_and_at_zero(prior: Continuous) -> None:
    assert prior.log_density([-1.0, -1e-300]).tolist() == [-math.inf] * 2
    at_zero = float(prior.log_density(0.0))
    assert at_zero == pytest.approx(float(ORACLES[prior].logpdf(0.0)), rel=ROUNDING)
    assert (at_zero == -math.inf) == isinstance(prior, priors.LogNormal)


@EVERY
def test_quantiles(prior: Continuous) -> None:
    # Near 1/2 the inverse normal is 0 and a probability of 1e-16 moves it by as much.
    expected = ORACLES[prior].ppf(PROBABILITIES)
    scale = float(ORACLES[prior].median())
    np.testing.assert_allclose(prior.quantile(PROBABILITIES), expected, ROUNDING, 1e-15 * scale)
    np.testing.assert_allclose(
        prior.upper_quantile(PROBABILITIES), ORACLES[prior].isf(PROBABILITIES), rtol=1e-9
    )


# --- tails ------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("probability", [1e-200, 1e-12, 1e-3, 0.05, 0.5, 0.95, 1 - 1e-9])
def test_tail_is_scipys(prior: Continuous, probability: float) -> None:
    value = float(ORACLES[prior].isf(probability))
    if isinstance(prior, priors.Uniform) and probability < 1e-15:
        assert prior.probability_above(value) == 0.0
        return
    # The exponent is z^2 / 2 <= 500 and z has an error of 1e-16; 1 - x / upper cancels to 1e-16.
    allowed = 1e-11 if not isinstance(prior, priors.Uniform) else 4e-16 / probability
    found = prior.probability_above(value)
    assert tail_error(prior, found, value) <= allowed
    # Control: the other side, and the square of the tail, are not it.
    assert tail_error(prior, 1 - found, value) > allowed or probability == 0.5
    assert tail_error(prior, found**2, value) > min(allowed, 1e-10)


@EVERY
def test_tail_at_and_below_zero_and_at_infinity(prior: Continuous) -> None:
    for value in (0, 0.0, -0.0, -1e-300, -1.0, -math.inf):
        assert prior.probability_above(value) == 1.0
    assert prior.probability_above(math.inf) == 0.0
    assert type(prior.probability_above(1)) is float
    assert type(prior.probability_above(0)) is float


@settings(derandomize=True, deadline=None)
@given(
    st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    st.floats(min_value=1e-300, max_value=1e300),
    st.floats(min_value=1e-3, max_value=5),
)
def test_tail_is_a_probability_for_any_numbers(
    value: float, scale: float, log_scale: float
) -> None:
    """The smallest number over the largest scale, where a quotient would round to 0, included."""
    for prior in (
        priors.HalfNormal(scale=scale),
        priors.Exponential(mean=scale),
        priors.LogNormal(median=scale, log_scale=log_scale),
        priors.Uniform(upper=scale),
    ):
        above = prior.probability_above(value)
        assert 0 <= above <= 1
        assert prior.probability_above(2 * value) <= above


@pytest.mark.parametrize("value", [0.0, 0.99])
def test_fixed_is_above_what_is_below_it(value: float) -> None:
    prior = priors.Fixed(value=value)
    assert prior.probability_above(value) == 0.0
    assert prior.probability_above(float(np.nextafter(value, 2))) == 0.0
    assert prior.probability_above(float(np.nextafter(value, -1))) == 1.0
    assert prior.probability_above(-1) == 1.0
    assert prior.rescaled(2) == priors.Fixed(value=2 * value)


# --- other scales -----------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("factor", [0.01, 0.5, 1, 2.0, 300.0])
def test_rescaled_has_multiplied_quantiles(prior: Continuous, factor: float) -> None:
    other = prior.rescaled(factor)
    assert type(other) is type(prior)
    probabilities = [1e-12, 0.05, 0.5, 0.95, 1 - 1e-9]
    np.testing.assert_allclose(
        other.quantile(probabilities), factor * prior.quantile(probabilities), rtol=ROUNDING
    )
    points = prior.quantile([0.05, 0.5, 0.95])
    # The density of a multiple: p(x / factor) / factor.
    np.testing.assert_allclose(
        other.log_density(factor * points),
        prior.log_density(points) - math.log(factor),
        rtol=ROUNDING,
        atol=ROUNDING,
    )
    for point in points.tolist():
        same = prior.probability_above(point)
        assert other.probability_above(factor * point) == pytest.approx(same, rel=ROUNDING)
    assert (other == prior) == (factor == 1)


@EVERY
@pytest.mark.parametrize("factor", [0.0, -2.0, math.inf, math.nan])
def test_rescaled_by_what_is_no_scale(prior: Continuous, factor: float) -> None:
    with pytest.raises(InputError, match="expected"):
        prior.rescaled(factor)


def test_every_prior_of_epsilon_is_tested() -> None:
    assert {type(prior) for prior in ORACLES} | {priors.Fixed} | {priors.Beta} == set(
        priors.PRIORS.values()
    )


# --- the strength -----------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.5, 0.5), (2.0, 5.0), (1000.0, 0.05)])
def test_beta(a: float, b: float) -> None:
    prior, oracle = priors.Beta(a=a, b=b), stats.beta(a, b)
    points = np.array([1e-9, 0.3, 0.5, 0.999])
    # lgamma(1000) is 6e3, with 1e-16 of that as error.
    np.testing.assert_allclose(prior.log_density(points), oracle.logpdf(points), rtol=1e-11)
    assert prior.log_density([-1e-9, 1 + 1e-9]).tolist() == [-math.inf] * 2
    probabilities = [1e-9, 0.05, 0.5, 0.95]
    np.testing.assert_allclose(prior.quantile(probabilities), oracle.ppf(probabilities), rtol=1e-10)
    np.testing.assert_allclose(
        prior.upper_quantile(probabilities), oracle.isf(probabilities), rtol=1e-10
    )
    inside = prior.sample(100, rng=np.random.default_rng(1))
    assert np.all((inside >= 0) & (inside <= 1))


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [
        (1.0, 1.0, 0.0, 0.0),
        (2.0, 1.0, -math.inf, math.log(2)),
        (1.0, 3.0, math.log(3), -math.inf),
        (0.5, 2.0, math.inf, -math.inf),
    ],
)
def test_beta_at_its_ends(a: float, b: float, low: float, high: float) -> None:
    assert priors.Beta(a=a, b=b).log_density([0.0, 1.0]).tolist() == pytest.approx([low, high])


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (priors.HalfNormal, "scale"),
        (priors.Exponential, "mean"),
        (priors.LogNormal, "median"),
        (priors.LogNormal, "log_scale"),
        (priors.Uniform, "upper"),
        (priors.Beta, "a"),
        (priors.Beta, "b"),
    ],
)
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "1", None, True])
def test_scales_are_positive_numbers(kind: type, name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"{name}="):
        kind(**{name: value})


def test_other_bounds() -> None:
    with pytest.raises(InputError, match=r"log_scale <= 5, got log_scale=5\.1"):
        priors.LogNormal(log_scale=5.1)
    with pytest.raises(InputError, match=r"0\.05 <= a <= 1000, got a=0\.01"):
        priors.Beta(a=0.01)
    with pytest.raises(InputError, match="value >= 0, got value=-1"):
        priors.Fixed(value=-1)
