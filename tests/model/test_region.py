"""Geometry of R(epsilon, delta): against mpmath, against simulation, and its symmetries."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.errors import InputError
from epsilometer.model import region
from studies import draws
from tests.drawn import ring_contains

RATE = st.floats(0.0, 1.0)
EPSILON = st.floats(0.0, 20.0)
DELTA = st.floats(0.0, 0.9)
FIXED = settings(derandomize=True, max_examples=200, deadline=None)


def _ring_area(epsilon: float, delta: float, strength: float) -> mpmath.mpf:
    """The formula under equation (3) of the paper, in 60 digits."""
    with mpmath.workdps(60):
        e, d, s = mpmath.mpf(epsilon), mpmath.mpf(delta), mpmath.mpf(strength)

        def q(t: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(-t) / (1 + mpmath.exp(-t))

        return 2 * ((1 - s * d) ** 2 * q(s * e) - (1 - d) ** 2 * q(e))


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 0.5, 3.0, 40.0, 500.0])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.01, 0.7])
@pytest.mark.parametrize("strength", [0.0, 1e-9, 0.3, 0.99, 1 - 1e-12])
def test_ring_area_matches_sixty_digits(epsilon: float, delta: float, strength: float) -> None:
    expected = mpmath.log(_ring_area(epsilon, delta, strength))
    found = float(region.log_ring_area(epsilon, delta, strength))
    # Relative 1e-12: 1 - s itself is only known to 1e-16 / (1 - s).
    slack = 1e-12 + 2e-16 / (1 - strength)
    assert found == pytest.approx(float(expected), abs=slack * max(1.0, abs(float(expected))))


def test_area_by_simulation_and_at_the_ends() -> None:
    rng = np.random.default_rng(1)
    alpha, beta = rng.random((2, 400_000))
    share = np.mean(region.contains(alpha, beta, 1.3, 0.05))
    area = float(np.exp(region.log_area(1.3, 0.05)))
    # Five standard errors of a proportion.
    assert abs(share - area) < 5 * np.sqrt(area * (1 - area) / 400_000)
    assert region.log_area(0.0, 0.0) == -np.inf
    assert float(np.exp(region.log_area(0.0, 0.1))) == pytest.approx(1 - 0.9**2)


def test_rate_is_the_limit_of_the_ring() -> None:
    for epsilon, delta in ((0.2, 0.0), (3.0, 0.05), (30.0, 1e-6)):
        gap = 1e-9
        ring = float(region.log_ring_area(epsilon, delta, 1 - gap)) - np.log(gap)
        assert ring == pytest.approx(float(region.log_ring_area_rate(epsilon, delta)), abs=1e-6)


@pytest.mark.parametrize(
    ("alpha", "beta", "delta", "expected"),
    [
        (0.4, 0.4, 0.0, 0.405465),
        (0.4, 0.4, 0.01, 0.388658),
        (0.05, 0.2, 0.001, 2.771338),
        (0.9, 0.9, 0.0, 2.197225),
        (0.0, 0.5, 0.0, np.inf),
        (0.0, 1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0, 0.0),
        (0.0, 0.0, 0.5, np.inf),
        (0.6, 0.0, 0.5, 0.0),
    ],
)
def test_critical_epsilon(alpha: float, beta: float, delta: float, expected: float) -> None:
    assert float(region.critical_epsilon(alpha, beta, delta)) == pytest.approx(expected, abs=1e-6)


@FIXED
@given(alpha=RATE, beta=RATE, epsilon=EPSILON, delta=DELTA)
def test_critical_epsilon_is_membership_by_the_four_inequalities(
    alpha: float, beta: float, epsilon: float, delta: float
) -> None:
    g = np.exp(epsilon)
    slack = min(
        alpha + g * beta - (1 - delta),
        beta + g * alpha - (1 - delta),
        g + delta - (beta + g * alpha),
        g + delta - (alpha + g * beta),
    )
    if abs(slack) > 1e-9 * g:
        assert bool(region.contains(alpha, beta, epsilon, delta)) == (slack > 0)


@FIXED
@given(alpha=RATE, beta=RATE, delta=DELTA, more=st.floats(0.0, 3.0))
def test_symmetries_and_nesting(alpha: float, beta: float, delta: float, more: float) -> None:
    level = float(region.critical_epsilon(alpha, beta, delta))
    assert level == float(region.critical_epsilon(beta, alpha, delta))
    if np.isfinite(level):
        assert bool(region.contains(alpha, beta, level + more, delta))
    wider = float(region.critical_epsilon(alpha, beta, min(delta + 0.05, 0.95)))
    assert wider <= level


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.05), (6.0, 1e-5), (0.0, 0.2)])
def test_sample_ring_is_uniform(epsilon: float, delta: float, strength: float) -> None:
    rng = np.random.default_rng(7)
    alpha, beta = draws.sample_ring(40_000, epsilon, delta, strength, rng=rng)
    if strength < 1:
        assert np.all(ring_contains(alpha, beta, epsilon * (1 + 1e-12), delta, strength))
    # The share inside a smaller region must be the quotient of the areas (inner ring for s = 1).
    middle = 0.5 + 0.5 * strength
    if strength < 1:
        inner = np.exp(
            region.log_ring_area(epsilon, delta, strength)
            - np.log(
                np.exp(region.log_ring_area(epsilon, delta, strength))
                - np.exp(region.log_ring_area(epsilon, delta, middle))
            )
        )
        expected = 1 / float(inner)
        share = np.mean(~ring_contains(alpha, beta, epsilon, delta, middle))
        assert abs(share - expected) < 5 * np.sqrt(0.25 / 40_000)
        # Every scale, also of few, divides the ring's area as its uniform number says.
        uniform = rng.random(20)
        scale = draws._sample_scale(uniform, epsilon, delta, strength)
        outside = np.exp(region.log_ring_area(epsilon, delta, scale))
        ring = np.exp(region.log_ring_area(epsilon, delta, strength))
        np.testing.assert_allclose(1 - outside / ring, uniform, atol=1e-9)
    # Symmetric in both ways.
    assert abs(np.mean(alpha - beta)) < 5 * np.std(alpha - beta) / 200
    assert abs(np.mean(alpha + beta - 1)) < 5 * np.std(alpha + beta) / 200


def test_sample_ring_control_rejects_a_wrong_density() -> None:
    """Negative control: points uniform in the scale u are not uniform in the ring."""
    rng = np.random.default_rng(7)
    epsilon, delta, middle = 6.0, 0.01, 0.5
    level = rng.random(40_000)
    expected = 1 - np.exp(
        region.log_ring_area(epsilon, delta, middle) - region.log_area(epsilon, delta)
    )
    assert abs(np.mean(level <= middle) - float(expected)) > 5 * np.sqrt(0.25 / 40_000)


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match=r"expected 0 <= delta < 1, got delta=1\.0"):
        region.log_area(1.0, 1.0)
    with pytest.raises(InputError, match="epsilon >= 0"):
        region.log_area(-1.0, 0.0)
    with pytest.raises(InputError, match="alpha"):
        region.critical_epsilon(float("nan"), 0.5, 0.0)
    with pytest.raises(InputError, match="line without area"):
        draws.sample_ring(1, 0.0, 0.0, 0.5, rng=np.random.default_rng(1))
