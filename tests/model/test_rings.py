"""Points on rings of the region are evenly spread: their distribution in closed form.

Kolmogorov-Smirnov checks are at level 1e-4 each; each has a twin with a fault that it must catch.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, kstest

from epsilometer.checks.predictive import fold
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.region import sample_rings
from tests.engines.oracles import ring_area

FloatArray = NDArray[np.float64]
Points = tuple[FloatArray, FloatArray]

LEVEL = 1e-4
SIZE = 20_000
RINGS = [
    (0.05, 0.0, 0.0),
    (2.0, 0.0, 0.0),
    (2.0, 0.1, 0.0),
    (0.5, 0.0, 0.6),
    (3.0, 0.02, 0.6),
    (0.0, 0.2, 0.5),
    (6.0, 0.3, 0.9),
]
BOUNDARIES = [(1.5, 0.0, 1.0), (3.0, 0.05, 1.0), (0.0, 0.2, 1.0)]


def quarter(alpha: FloatArray, beta: FloatArray) -> Points:
    """Every point moved by the two symmetries to beta <= alpha, alpha + beta <= 1."""
    alpha, beta = fold(alpha, beta)
    return np.maximum(alpha, beta), np.minimum(alpha, beta)


def share_within(points: Points, epsilon: float, delta: float, strength: float) -> FloatArray:
    """Share of the ring within the curve through each point: its area over that of the ring.

    The curve is the boundary of R(u epsilon, u delta), with u found by bisection.
    """
    alpha, beta = quarter(*points)
    low, high = np.zeros(alpha.shape), np.ones(alpha.shape)
    for _ in range(50):
        level = (low + high) / 2
        inside = beta >= np.exp(-level * epsilon) * (1 - level * delta - alpha)
        low, high = np.where(inside, low, level), np.where(inside, level, high)
    whole = ring_area(np.asarray(epsilon), delta, np.asarray(strength))
    return 1 - ring_area(np.asarray(epsilon), delta, high) / whole


def share_below_slope(points: Points, epsilon: float, delta: float, strength: float) -> FloatArray:
    """Share of the quarter ring below the line from (0, 0) through each point.

    Below slope k, the part of the quarter outside R(t, d) is a triangle of area
    (1 - d)^2 k / (1 + k e^t) / 2; the ring is the difference of two, or the derivative at s = 1.
    """
    alpha, beta = quarter(*points)

    def area(slope: FloatArray) -> FloatArray:
        if strength < 1:
            inner = (1 - strength * delta) ** 2 * slope / (1 + slope * np.exp(strength * epsilon))
            return np.asarray(inner - (1 - delta) ** 2 * slope / (1 + slope * np.exp(epsilon)))
        bend = 1 + slope * np.exp(epsilon)
        shift = 2 * delta * (1 - delta) * slope / bend
        return np.asarray(shift + (1 - delta) ** 2 * slope**2 * epsilon * np.exp(epsilon) / bend**2)

    return area(beta / alpha) / area(np.asarray(1.0))


@pytest.mark.parametrize(("epsilon", "delta", "strength"), RINGS + BOUNDARIES)
def test_points_fill_each_ring_evenly(epsilon: float, delta: float, strength: float) -> None:
    rng = np.random.default_rng(3)
    points = sample_rings(epsilon, delta, strength, size=(SIZE,), rng=rng)
    if strength < 1:
        shares = share_within(points, epsilon, delta, strength)
        assert kstest(shares, "uniform").pvalue > LEVEL
    elif epsilon > 0:
        # On the boundary up to rounding, which the logarithm enlarges where a rate is near 0.
        levels = region.critical_epsilon(*points, delta)
        np.testing.assert_allclose(levels, epsilon, rtol=1e-9)
    slopes = share_below_slope(points, epsilon, delta, strength)
    assert kstest(slopes, "uniform").pvalue > LEVEL
    alpha, beta = points
    cells = 2 * (alpha > beta).astype(int) + (alpha + beta > 1)
    assert chisquare(np.bincount(cells, minlength=4)).pvalue > LEVEL


def test_each_point_has_its_own_ring() -> None:
    """Rings of different sizes drawn in one call: all shares together are uniform, each in turn."""
    rng = np.random.default_rng(6)
    epsilon, strength = np.array([[0.3], [2.0], [5.0]]), np.array([[0.0], [0.7], [0.2]])
    alpha, beta = sample_rings(epsilon, 0.05, strength, size=(3, SIZE), rng=rng)
    for row in range(3):
        ring = (float(epsilon[row, 0]), 0.05, float(strength[row, 0]))
        assert kstest(share_within((alpha[row], beta[row]), *ring), "uniform").pvalue > LEVEL
    # Control: the same points read with the ring of the next row.
    wrong = share_within((alpha[0], beta[0]), 2.0, 0.05, 0.0)
    assert kstest(wrong, "uniform").pvalue < LEVEL


def _uniform_in_alpha_only(rng: np.random.Generator) -> Points:
    """Sabotage: alpha uniform on [0, 1], then beta uniform in the region R(2, .1) above it."""
    alpha = rng.random(SIZE)

    def lower(rate: FloatArray) -> FloatArray:
        edges = 0.9 - np.exp(2.0) * rate, np.exp(-2.0) * (0.9 - rate)
        return np.asarray(np.clip(np.maximum(*edges), 0.0, 1.0))

    low, high = lower(alpha), 1 - lower(1 - alpha)
    return alpha, low + (high - low) * rng.random(SIZE)


def test_uniform_in_alpha_only_is_caught() -> None:
    points = _uniform_in_alpha_only(np.random.default_rng(7))
    assert kstest(share_within(points, 2.0, 0.1, 0.0), "uniform").pvalue < LEVEL
    assert kstest(share_below_slope(points, 2.0, 0.1, 0.0), "uniform").pvalue < LEVEL


def test_boundary_by_arc_length_is_caught() -> None:
    rng = np.random.default_rng(8)
    reach = (1 - 0.05) / (1 + np.exp(-3.0)) * rng.random(SIZE)
    points = 1 - 0.05 - reach, np.exp(-3.0) * reach
    assert kstest(share_below_slope(points, 3.0, 0.05, 1.0), "uniform").pvalue < LEVEL


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1.0, 800.0])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.9])
@pytest.mark.parametrize("strength", [0.0, 0.99, 1 - 1e-15, 1.0])
def test_rings_at_the_limits(epsilon: float, delta: float, strength: float) -> None:
    rng = np.random.default_rng(9)
    alpha, beta = sample_rings(epsilon, delta, strength, size=(500,), rng=rng)
    assert np.all((alpha >= 0) & (alpha <= 1) & (beta >= 0) & (beta <= 1))
    # In the region, up to a rounding error of a rate next to 1.
    alpha, beta = fold(alpha, beta)
    for one, other in ((alpha, beta), (beta, alpha)):
        assert np.all(one + np.exp(-epsilon) * other >= np.exp(-epsilon) * (1 - delta) - 1e-15)


def test_bad_rings_are_refused() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match=r"epsilon >= 0, got epsilon=-1\.0"):
        sample_rings([1.0, -1.0], 0.0, 0.5, rng=rng)
    with pytest.raises(InputError, match="got epsilon=inf"):
        sample_rings(np.inf, 0.0, 0.5, rng=rng)
    with pytest.raises(InputError, match="got strength=nan"):
        sample_rings(1.0, 0.0, np.nan, rng=rng)
    with pytest.raises(InputError, match="delta"):
        sample_rings(1.0, 1.0, 0.5, rng=rng)
