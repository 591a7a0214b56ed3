"""Tabulated distribution functions: atoms at 0 and at infinity, and finer cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import lognorm

from epsilometer.posteriors.tabulated import Tabulated, mixed, refined


def test_a_distribution_with_something_at_zero_and_at_infinity() -> None:
    found = mixed(
        [(np.array([0.0, 1.0, 3.0, np.inf]), np.array([0.2, 0.4, 0.1]))],
        at_zero=0.3,
    )
    assert found.quantile([0.0, 0.1, 0.3]).tolist() == [0.0, 0.0, 0.0]
    assert found.quantile([0.5, 0.7, 0.9]).tolist() == pytest.approx([1.0, 2.0, 3.0])
    assert found.quantile([0.95, 1.0]).tolist() == [np.inf, np.inf]
    assert found.probability_above(-1.0) == 1.0
    assert found.probability_above(0.0) == pytest.approx(0.7)
    assert found.probability_above(2.0) == pytest.approx(0.3)
    assert found.infinite == pytest.approx(0.1)
    assert found.mean() == np.inf


def test_cells_without_width_are_jumps() -> None:
    found = mixed([(np.array([0.0, 0.0, 2.0]), np.array([0.4, 0.6]))], at_zero=0.0)
    assert found.probability_above(0.0) == pytest.approx(0.6)
    assert float(found.quantile(0.4)) == 0.0
    assert float(found.quantile(0.7)) == pytest.approx(1.0)
    assert found.mean() == pytest.approx(0.6)
    assert found.standard_deviation() == pytest.approx(np.sqrt(0.6 * 4 / 3 - 0.36), rel=1e-9)


def test_what_was_left_out_is_not_at_infinity() -> None:
    """Negligible cells are dropped first: the rest is the whole distribution."""
    found = mixed([(np.array([0.0, 1.0]), np.array([0.999]))], at_zero=0.0)
    assert found.infinite == 0.0
    assert found.mean() == pytest.approx(0.5)
    assert float(found.quantile(1.0)) == 1.0


def test_quantiles_and_probabilities_are_inverse() -> None:
    rng = np.random.default_rng(1)
    parts = [(np.sort(rng.random(20)), rng.random(19) / 30) for _ in range(3)]
    whole = sum(float(mass.sum()) for _, mass in parts) + 0.1
    found = mixed([(edges, mass / whole) for edges, mass in parts], at_zero=0.1 / whole)
    for chance in np.linspace(0.15, 0.99, 30).tolist():
        above = found.probability_above(float(found.quantile(chance)))
        assert above == pytest.approx(1 - chance, abs=1e-12)
    assert np.all(np.diff(found.quantile(np.linspace(0, 1, 101))) >= 0)


def test_a_density_is_the_slope_without_what_lies_at_zero() -> None:
    points = np.linspace(0.0, 10.0, 4001)
    shape = lognorm(0.5, scale=2.0)
    found = Tabulated(points=points, cumulative=0.2 + 0.8 * shape.cdf(points))
    at = np.array([0.5, 1.0, 2.0, 4.0])
    # A difference quotient over a hundredth of the interquartile range.
    np.testing.assert_allclose(found.density(at), 0.8 * shape.pdf(at), rtol=5e-3)
    assert found.density(-1.0) == 0.0


def test_finer_cells_follow_a_smooth_density() -> None:
    """Cells of log leak 0.4 standard deviations wide: quantiles between their ends."""
    shape, step = lognorm(0.25, scale=2.0), 0.1
    leaks = 10.0 * np.exp(-step * np.arange(60))
    half = np.exp(step / 2)
    # As in the engine: the density in the middle of a cell represents it.
    mass = shape.pdf(leaks) * leaks * step
    edges, fine = refined(np.append(leaks * half, leaks[-1] / half), mass)
    assert np.all(np.diff(edges) < 0)
    assert fine.sum() == pytest.approx(mass.sum(), rel=1e-9)
    found = mixed([(edges[::-1], fine[::-1])], at_zero=0.0)
    chances = np.array([0.025, 0.25, 0.5, 0.75, 0.975])
    # Midpoint densities represent cells: a thousandth of the standard deviation.
    np.testing.assert_allclose(found.quantile(chances), shape.ppf(chances), rtol=2e-3)
    # Linear interpolation across whole cells would be ten times worse.
    coarse = mixed([(np.append(leaks * half, leaks[-1] / half)[::-1], mass[::-1])], at_zero=0.0)
    error = np.abs(coarse.quantile(chances) - shape.ppf(chances)).max()
    assert error > np.abs(found.quantile(chances) - shape.ppf(chances)).max()


def test_few_cells_stay_as_they_are() -> None:
    ends, mass = np.array([4.0, 2.0, 1.0]), np.array([0.25, 0.75])
    edges, fine = refined(ends, mass)
    np.testing.assert_allclose(edges, ends)
    np.testing.assert_array_equal(fine, mass)
