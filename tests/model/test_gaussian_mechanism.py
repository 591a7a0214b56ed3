"""The Gaussian mechanism against its definition: the divergence of two normals, by mpmath."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from epsilometer.errors import InputError
from epsilometer.model.families import Gaussian
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian, gaussian_epsilon
from tests.golden import peers


def gaussian_delta(epsilon: float, ratio: float) -> float:
    return float(Gaussian().delta(ratio, epsilon)[0])


def divergence(epsilon: float, ratio: float) -> Any:
    """Integral of max(0, p - exp(epsilon) q), p = N(ratio, 1), q = N(0, 1), to 30 digits."""
    with mpmath.workdps(30):
        a = mpmath.mpf(ratio)
        # p > exp(epsilon) q to the right of this point.
        edge = mpmath.mpf(epsilon) / a + a / 2

        def excess(x: Any) -> Any:
            return mpmath.npdf(x, a) - mpmath.exp(epsilon) * mpmath.npdf(x)

        return mpmath.quad(excess, [edge, edge + 1, edge + 4, edge + 10, max(edge, a) + 40])


@pytest.mark.parametrize("ratio", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 5.0, 20.0])
def test_delta_is_the_divergence(epsilon: float, ratio: float) -> None:
    expected = float(divergence(epsilon, ratio))
    # Two similar terms are subtracted: the error is their rounding, 1e-16 of each.
    assert gaussian_delta(epsilon, ratio) == pytest.approx(expected, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3, 0.02])
def test_epsilon_inverts_the_divergence(delta: float, ratio: float) -> None:
    epsilon = gaussian_epsilon(delta, sensitivity=2 * ratio, noise=2.0)
    # Epsilon is accurate to 1e-10, so delta is to that times its slope, which is below 1.
    assert float(divergence(epsilon, ratio)) == pytest.approx(delta, rel=1e-5, abs=1e-10)


def test_a_wrong_formula_fails_the_same_check() -> None:
    # The classical bound of Dwork and Roth is not tight.
    delta, ratio = 1e-3, 1.0
    classical = ratio * math.sqrt(2 * math.log(1.25 / delta))
    assert abs(float(divergence(classical, ratio)) - delta) > 1e-5 * delta + 1e-10


def test_limits() -> None:
    assert gaussian_epsilon(0.0, sensitivity=1.0, noise=1.0) == math.inf
    assert gaussian_epsilon(0.9, sensitivity=1.0, noise=1.0) == 0.0
    total_variation = gaussian_delta(0.0, 1.0)
    assert total_variation == pytest.approx(math.erf(1 / math.sqrt(8)), rel=1e-12)
    assert gaussian_epsilon(total_variation, sensitivity=1.0, noise=1.0) == 0.0
    assert gaussian_delta(1e6, 1.0) == 0.0
    assert gaussian_delta(0.0, 1e6) == 1.0


@pytest.mark.parametrize("noise", [1e-4, 1e-6])
def test_hardly_any_noise(noise: float) -> None:
    # Epsilon near ratio^2 / 2, where exp(epsilon) is far beyond the largest number.
    epsilon = gaussian_epsilon(1e-5, sensitivity=1.0, noise=noise)
    ratio = 1 / noise
    edge = epsilon / ratio - ratio / 2
    # Phi(-edge) less a smaller term of the order of delta / ratio.
    assert 0.5 * math.erfc(edge / math.sqrt(2)) == pytest.approx(1e-5, rel=10 / ratio)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"delta": -0.1}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"noise": 0.0}, "noise"),
        ({"noise": math.nan}, "noise"),
    ],
)
def test_out_of_range(arguments: dict[str, float], name: str) -> None:
    with pytest.raises(InputError, match=name):
        gaussian_epsilon(**{"delta": 1e-5, "sensitivity": 1.0, "noise": 1.0} | arguments)


@pytest.mark.parametrize("case", list(peers.GAUSSIAN_MECHANISM))
def test_epsilon_is_what_an_accountant_says(case: tuple[float, float]) -> None:
    noise, delta = case
    expected = pytest.approx(peers.GAUSSIAN_MECHANISM[case], abs=peers.TOLERANCE["seven decimals"])
    assert gaussian_epsilon(delta, sensitivity=1.0, noise=noise) == expected
    assert float(epsilon_of_gaussian(1 / noise, delta)) == expected


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 0.01, 0.3, 0.9])
def test_many_separations_at_once_are_one_by_one(delta: float) -> None:
    separations = np.array([[1e-6, 1e-3, 0.1], [1.0, 1.0300640, 7.0], [40.0, 300.0, 1e4]])
    many = epsilon_of_gaussian(separations, delta)
    assert many.shape == separations.shape
    for separation, epsilon in zip(separations.flat, many.flat, strict=True):
        alone = gaussian_epsilon(delta, sensitivity=float(separation), noise=1.0)
        # Each to 1e-10, or to the rounding of its own size.
        assert epsilon == pytest.approx(alone, rel=1e-10, abs=3e-10)


def test_many_separations_at_the_limits() -> None:
    assert epsilon_of_gaussian([0.0, 1.0], 0.0).tolist() == [0.0, math.inf]
    assert float(epsilon_of_gaussian(0.0, 1e-5)) == 0.0
    assert epsilon_of_gaussian([], 1e-5).shape == (0,)
    # Total variation 2 Phi(mu/2) - 1 below delta: no epsilon is needed.
    assert epsilon_of_gaussian([0.1, 0.2], 0.2).tolist() == [0.0, 0.0]
    rising = epsilon_of_gaussian(np.linspace(0, 10, 101), 1e-5)
    assert np.all(np.diff(rising) > 0)


@pytest.mark.parametrize("separation", [[-0.1], [1.0, math.nan]])
def test_separation_out_of_range(separation: list[float]) -> None:
    with pytest.raises(InputError, match="separation"):
        epsilon_of_gaussian(separation, 1e-5)
