"""Mixtures of a pair: both interpretations, both directions, against integrals and known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.errors import InputError
from epsilometer.model import family as mixtures
from epsilometer.model import mixing
from epsilometer.model.families import Gaussian, Laplace, MixedCap, RandomizedResponse, TwoVariances
from epsilometer.model.family import Family
from studies import mechanisms
from tests.engines.curve.oracles import Pair, gaussian, hockey_sticks, laplace, mixed

CASES: list[tuple[Family, float, Pair]] = [
    (Gaussian(), 1.5, gaussian(1.5)),
    (Laplace(), 2.0, laplace(2.0)),
    (TwoVariances(spread=0.4), 1.0, gaussian(1.0, 1.4)),
]


@pytest.mark.parametrize(
    ("family", "leak", "pair"), CASES, ids=lambda each: getattr(each, "name", "")
)
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_divergence_is_the_larger_of_both_integrals(
    family: Family, leak: float, pair: Pair, rate: float
) -> None:
    curves = mixtures.Curves(family=family, rate=rate)
    reverse = 0
    for epsilon in (0.0, 0.01, 0.04, 0.2, 0.6, 1.5, 3.0):
        both = hockey_sticks(mixed(pair, rate), epsilon)
        # The oracle's trapezoids are good to 1e-8 or so.
        assert float(curves.delta(leak, epsilon)) == pytest.approx(max(both), abs=1e-7)
        reverse += both[1] > both[0] + 1e-5
    if not isinstance(family, TwoVariances):
        assert reverse == 0  # of a symmetric pair the forward direction is the larger one


def test_the_reverse_direction_can_decide() -> None:
    """Two pieces in which only the absence of the point shows: the mixture hides the forward part."""

    class Backward(RandomizedResponse):
        """P0 has an outcome that P1 never has, but not the reverse."""

        def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
            eps = np.asarray(epsilon, dtype=float)
            # P0 = (1/2, 1/2), P1 = (1, 0).
            return np.maximum(1 - np.exp(eps) / 2, 0.0), np.full(eps.shape, 0.5)

        def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
            return np.full(np.shape(leak), math.log(2 * (1 - delta)))

    rate, curves = 0.3, mixtures.Curves(family=Backward(), rate=0.3)
    for epsilon in (0.0, 0.1, 0.25, 0.35):
        grow = math.exp(epsilon)
        without = np.array([0.5, 0.5])
        with_point = (1 - rate) * without + rate * np.array([1.0, 0.0])
        forward = np.maximum(with_point - grow * without, 0).sum()
        backward = np.maximum(without - grow * with_point, 0).sum()
        found = float(curves.delta(np.array(1.0), epsilon))
        assert found == pytest.approx(max(forward, backward), abs=1e-14)
    # At delta = 0.01, log(P0 / mixture) on the second outcome decides.
    expected = math.log((0.5 - 0.01) / (0.7 * 0.5))
    assert float(curves.epsilon(np.array(1.0), 0.01)) == pytest.approx(expected, abs=1e-12)
    assert expected > math.log((0.65 - 0.01) / 0.5)


def test_known_values_of_the_subsampled_gaussian() -> None:
    """7.6204: by the accountants' own formula for one step, as `calibration.mechanisms` has it."""
    curves = mixtures.Curves(family=Gaussian(), rate=0.2)
    assert float(curves.epsilon(2.0, 1e-5)) == pytest.approx(7.6204, abs=5e-5)
    for mu, rate, delta in [(2.0, 0.2, 1e-5), (0.5, 0.7, 1e-3), (1.0, 0.01, 1e-6), (3.0, 0.4, 0.1)]:
        expected = mechanisms.SubsampledGaussian(mu=mu, rate=rate).epsilon(delta)
        found = float(mixtures.Curves(family=Gaussian(), rate=rate).epsilon(mu, delta))
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-9)  # the mechanism's own tolerance


def test_readings_share_what_is_seen_and_differ_in_epsilon() -> None:
    rates, leaks = np.linspace(0, 1, 11), np.array([0.5, 2.0])
    seen = [
        mixtures.Curves(family=Gaussian(), rate=0.2, interpretation=interpretation)
        for interpretation in mixtures.MixtureInterpretation
    ]
    one, two = (each.seen_true_positives(rates, leaks) for each in seen)
    np.testing.assert_array_equal(one, two)
    one, two = (each.densities(rates, leaks)[0] for each in seen)
    np.testing.assert_array_equal(one, two)
    mechanism, attack = (each.epsilon(leaks, 1e-5) for each in seen)
    assert np.all(mechanism < attack)
    np.testing.assert_array_equal(attack, Gaussian().epsilon(leaks, 1e-5))


@pytest.mark.parametrize(
    "family",
    [Gaussian(), Laplace(), RandomizedResponse(), TwoVariances()],
    ids=lambda family: family.name,
)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    leak=st.floats(0.01, 7.0),
    rate=st.floats(0.02, 1.0),
    log_delta=st.floats(-13.0, -0.5),
    interpretation=st.sampled_from(mixtures.MixtureInterpretation),
)
def test_epsilon_and_delta_are_inverse(
    family: Family,
    leak: float,
    rate: float,
    log_delta: float,
    interpretation: mixtures.MixtureInterpretation,
) -> None:
    curves, delta = (
        mixtures.Curves(family=family, rate=rate, interpretation=interpretation),
        math.exp(log_delta),
    )
    epsilon = float(curves.epsilon(np.array(leak), delta))
    reached = float(curves.delta(np.array(leak), epsilon))
    if epsilon > 0:
        # Epsilon to 1e-10 by bisection; through the mixture at most e^epsilon times that.
        assert reached == pytest.approx(delta, abs=1e-9, rel=1e-7)
        # Any smaller one would not suffice.
        assert float(curves.delta(np.array(leak), epsilon * 0.999)) >= delta * (1 - 1e-9)
    else:
        assert reached <= delta * (1 + 1e-9)


def test_limits() -> None:
    curves = mixtures.Curves(family=Gaussian(), rate=0.1)
    # A mixture is distinguishable at most by its rate: for delta >= rate epsilon is 0.
    assert float(curves.epsilon(50.0, 0.1)) == 0.0
    assert float(curves.epsilon(50.0, 0.5)) == 0.0
    assert curves.largest_leak(1.0, 0.1) == 0.0
    assert float(curves.epsilon(50.0, 0.099)) > 0.0
    assert float(curves.epsilon(0.0, 1e-5)) == 0.0
    assert float(curves.delta(0.0, 0.3)) == 0.0
    assert float(curves.epsilon(1.0, 0.0)) == np.inf
    # Laplace has an epsilon at delta = 0, and amplification is log(1 + q (e^epsilon - 1)).
    pure = float(mixtures.Curves(family=Laplace(), rate=0.1).epsilon(2.0, 0.0))
    assert pure == pytest.approx(math.log1p(0.1 * math.expm1(2.0)), rel=1e-12)
    # A rate of 1 is no mixture.
    whole = mixtures.Curves(family=Gaussian(), rate=1.0)
    assert float(whole.epsilon(1.0, 1e-5)) == float(Gaussian().epsilon(1.0, 1e-5))
    # Large epsilon: no overflow, and log(rate) below the full pair.
    far = float(mixtures.Curves(family=Laplace(), rate=0.1).epsilon(580.0, 0.0))
    assert far == pytest.approx(580 + math.log(0.1), rel=1e-12)


@pytest.mark.parametrize("rate", [0.2, 1.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_the_largest_leak_has_the_epsilon_asked_for(rate: float, delta: float) -> None:
    for family in (Gaussian(), Laplace(), RandomizedResponse(), TwoVariances()):
        for interpretation in mixtures.MixtureInterpretation:
            curves = mixtures.Curves(family=family, rate=rate, interpretation=interpretation)
            for epsilon in (0.5, 3.0, 20.0):
                leak = curves.largest_leak(epsilon, delta)
                assert float(curves.epsilon(leak, delta)) == pytest.approx(epsilon, rel=1e-7)


def test_densities_of_a_mixture_are_those_of_the_mixed_pair() -> None:
    share, leak = np.linspace(0.02, 0.98, 13), 1.5
    for members in (0.2, 0.5):
        density, _, below = mixtures.Curves(family=Gaussian(), rate=0.3).densities(
            share, np.array([leak]), members
        )
        pair = mixed(gaussian(leak), 0.3)
        x = np.linspace(-9.0, 10.5, 2_000_001)
        pooled = (1 - members) * pair.s0(x) + members * pair.s1(x)
        at = np.interp(share, pooled[::-1], x[::-1])
        # Straight lines between points 1e-5 apart.
        np.testing.assert_allclose(below[:, 0], pair.s0(at), atol=1e-8)
        expected = pair.p0(at) / ((1 - members) * pair.p0(at) + members * pair.p1(at))
        np.testing.assert_allclose(density[:, 0], expected, atol=1e-8)


def test_seen_true_positives_of_a_mixture() -> None:
    rates = np.linspace(0.0, 1.0, 21)
    mechanism = mechanisms.SubsampledGaussian(mu=2.0, rate=0.2)
    found = mixtures.Curves(family=Gaussian(), rate=0.2).seen_true_positives(rates, np.array([2.0]))
    np.testing.assert_allclose(1 - found[:, 0], mechanism.least_beta(rates), atol=1e-12)
    # For pieces: corners mixed with the diagonal.
    found = mixtures.Curves(family=RandomizedResponse(), rate=0.5).seen_true_positives(
        rates, np.array([2.0])
    )
    whole = 1 - mechanisms.RandomisedResponse(2.0).least_beta(rates)
    np.testing.assert_allclose(found[:, 0], (rates + whole) / 2, atol=1e-12)


def test_delta_at_a_rate_is_where_the_slope_is_e_to_epsilon() -> None:
    rate, alpha, leak = 0.3, 0.02, 1.7
    for curves in (
        mixtures.Curves(family=Gaussian()),
        mixtures.Curves(family=Gaussian(), rate=rate),
        mixtures.Curves(
            family=Gaussian(), rate=rate, interpretation=mixtures.MixtureInterpretation.ATTACK
        ),
    ):
        seen = curves if curves.subsampled else mixtures.Curves(family=curves.family)
        step = 1e-6
        rates = np.array([alpha - step, alpha, alpha + step])
        low, at, high = seen.seen_true_positives(rates, np.array([leak]))[:, 0]
        slope = (high - low) / (2 * step)
        # The tangent there meets the axis at delta: delta = (1 - f) - slope * alpha.
        expected = at - slope * alpha
        found = float(curves.delta_at_rate(np.array([leak]), alpha)[0])
        assert found == pytest.approx(expected, abs=1e-7)  # of the difference quotient


# --- assumptions about mixtures -------------------------------------------------------------------


def test_every_rate_and_reading_has_prior_weight() -> None:
    found = mixing.FreeMixing().curves(Gaussian())
    assert len(found) == 1 + 2 * len(mixing.MIXING_RATES)
    assert all(share > 0 for _, share in found)
    kinds = {(each.rate, each.interpretation) for each, _ in found if each.mixed}
    assert kinds == {
        (rate, interpretation)
        for rate in mixing.MIXING_RATES
        for interpretation in mixtures.MixtureInterpretation
    }
    # Families for mixtures only repeat others where there is no mixture, or one that is known.
    assert mixing.NoMixing().curves(MixedCap(ratio=2.0)) == []
    assert mixing.KnownMixing(rate=0.2).curves(MixedCap(ratio=2.0)) == []
    rates = {curves.rate for curves, _ in mixing.FreeMixing().curves(MixedCap(ratio=2.0))}
    assert rates == {rate for rate in mixing.MIXING_RATES if rate >= 0.2}
    ((alone, share),) = mixing.NoMixing().curves(Gaussian())
    assert (alone.rate, share > 0) == (1.0, True)
    ((known, share),) = mixing.KnownMixing(rate=0.25).curves(Gaussian())
    assert (known.rate, known.subsampled, share > 0) == (0.25, True, True)


def test_mixing_from_words() -> None:
    assert mixing.mixing_of("free") == mixing.FreeMixing()
    assert mixing.mixing_of("none") == mixing.NoMixing()
    assert mixing.mixing_of("0.25") == mixing.KnownMixing(rate=0.25)
    assert mixing.mixing_of(1) == mixing.KnownMixing(rate=1.0)


@pytest.mark.parametrize("text", ["sometimes", "0", "1.1", "-0.5", "nan", 0.0, 2.0, ""])
def test_words_that_are_no_mixing(text: str | float) -> None:
    with pytest.raises(InputError, match=r"expected mixing to be free, none or a rate in \(0, 1\]"):
        mixing.mixing_of(text)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0001, math.nan, math.inf, True])
def test_known_rates_outside_their_range(rate: float) -> None:
    with pytest.raises(InputError, match="mixing"):
        mixing.KnownMixing(rate=rate)
