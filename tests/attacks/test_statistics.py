"""Scores from losses: the logit compared with mpmath, its rule for losses of zero, custom functions."""

from __future__ import annotations

import math
import re

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from epsilometer.attacks.statistics import (
    LEAST_LOSS,
    STATISTICS,
    CustomStatistic,
    Logit,
    Loss,
    Statistic,
    scored,
)
from epsilometer.errors import InputError

FloatArray = NDArray[np.float64]
EPS = float(np.finfo(float).eps)
TINY = 5e-324


def exact_logit(loss: float) -> float:
    with mpmath.workdps(60):
        return float(-mpmath.log(mpmath.expm1(mpmath.mpf(loss))))


def scores(*losses: float) -> list[float]:
    found: list[float] = Logit()(np.array([losses]))[0].tolist()
    return found


def test_loss_is_negated() -> None:
    losses = np.array([[1.5, -2.0, 0.0, 1e300, np.nan]])
    np.testing.assert_array_equal(Loss()(losses), -losses)


@pytest.mark.parametrize(
    "loss",
    [TINY, 1e-320, 2.3e-308, 1e-100, 1e-16, 1e-8, 1e-3, 0.5, math.log(2), 0.7, 1.0, 5.0, 36.0]
    + [37.0, 700.0, 745.0, 1e4, 1e100, 1.7e308],
)
def test_logit_in_mpmath(loss: float) -> None:
    # A sum of the loss and a logarithm, each with a rounding or two.
    error = 4 * EPS * (loss + abs(math.log(-math.expm1(-loss))))
    assert scores(loss)[0] == pytest.approx(exact_logit(loss), rel=0, abs=error)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0.0, allow_infinity=False), min_size=1, max_size=12))
def test_logit_is_finite_and_never_rises_with_the_loss(losses: list[float]) -> None:
    row = np.sort(losses)[None]
    found = Logit()(row)[0]
    assert np.isfinite(found).all()
    # Neighbouring losses may be out of order by the last digit of a score.
    assert np.all(np.diff(found) <= 4 * EPS * abs(found[1:]))


@pytest.mark.parametrize("smallest", [1e-300, 1e-7, 0.3, 40.0])
def test_zero_loss_scores_above_the_smallest_of_its_base(smallest: float) -> None:
    """Uniform below half of that, losses have the geometric mean smallest / 2 / e."""
    found = scores(0.0, smallest, 50.0, 0.0)
    assert found[0] == found[3] == pytest.approx(exact_logit(smallest / (2 * math.e)), rel=1e-14)
    assert found[0] > found[1] > found[2]


@pytest.mark.parametrize("smallest", [TINY, 2 * TINY, 1e-323])
def test_zero_loss_with_denormal_losses(smallest: float) -> None:
    """There is no smaller number, so the score is at least that of the smallest, and finite."""
    zero, other = scores(0.0, smallest)
    assert math.isfinite(zero)
    assert zero >= other


def test_zeros_only_are_all_alike() -> None:
    found = scores(0.0, -0.0, LEAST_LOSS)
    assert math.isfinite(found[0])
    assert found[0] == found[1] == found[2]


def test_zero_next_to_missing_losses() -> None:
    found = scores(np.nan, 0.0, 0.25)
    assert math.isnan(found[0])
    assert found[1:] == scores(0.0, 0.25)


def test_bases_do_not_affect_each_other() -> None:
    both = Logit()(np.array([[0.0, 1.0], [0.0, 1e-9]]))
    assert both.tolist() == [scores(0.0, 1.0), scores(0.0, 1e-9)]


@pytest.mark.parametrize("loss", [-0.0, -1e-320, -1e-8, LEAST_LOSS])
def test_rounding_below_zero_is_zero(loss: float) -> None:
    assert scores(loss, 0.5) == scores(0.0, 0.5)
    table = scored(np.array([[loss, 0.5]]), Logit(), ["a"])
    assert table[0].tolist() == scores(0.0, 0.5)


@pytest.mark.parametrize("loss", [-1.1e-6, -0.5, -1e300])
def test_negative_losses_are_refused_by_name(loss: float) -> None:
    losses = np.array([[0.1, 0.2], [0.3, loss]])
    with pytest.raises(
        InputError, match=r"'b': expected losses >= (0|-1e-06) for .* logit"
    ) as caught:
        scored(losses, Logit(), ["a", "b"])
    assert f"got loss={loss:g};" in str(caught.value)
    assert scored(losses, Loss(), ["a", "b"])[1, 1] == -loss


@pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)
class TestContract:
    """Holds for every statistic that ships."""

    def test_name(self, statistic: Statistic) -> None:
        assert STATISTICS[statistic.name] is statistic

    def test_same_shape_and_losses_untouched(self, statistic: Statistic) -> None:
        losses = np.array([[0.0, 0.5, np.nan], [2.0, 1.0, 0.1]])
        before = losses.copy()
        assert statistic(losses).shape == (2, 3)
        np.testing.assert_array_equal(losses, before)

    def test_lower_losses_score_higher(self, statistic: Statistic) -> None:
        assert np.all(np.diff(statistic(np.array([[0.0, 1e-9, 0.2, 3.0, 800.0]]))) < 0)

    def test_missing_stays_missing(self, statistic: Statistic) -> None:
        found = scored(np.array([[0.5, np.nan, np.inf, -np.inf, 1.0]]), statistic, ["a"])
        assert np.isnan(found).tolist() == [[False, True, True, True, False]]

    def test_order_of_models_does_not_matter(self, statistic: Statistic) -> None:
        losses = np.random.default_rng(5).exponential(size=(1, 9))
        losses[0, 3] = 0
        order = np.random.default_rng(6).permutation(9)
        np.testing.assert_array_equal(statistic(losses[:, order]), statistic(losses)[:, order])

    def test_no_models(self, statistic: Statistic) -> None:
        assert statistic(np.empty((2, 0))).shape == (2, 0)


# --- functions of the user ------------------------------------------------------------------------


def test_custom_function_is_called_with_the_losses() -> None:
    losses = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert CustomStatistic(function=lambda x: x**2)(losses).tolist() == [[1.0, 4.0], [9.0, 16.0]]
    flags = CustomStatistic(function=lambda x: (x > 1).astype(int))(losses)
    assert flags.dtype == np.float64
    assert flags.tolist() == [[0.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("answer", "shape"), [(0.0, "()"), ([1.0, 2.0], "(2,)"), ([[1.0], [2.0]], "(2, 1)")]
)
def test_custom_of_the_wrong_shape(answer: object, shape: str) -> None:
    statistic = CustomStatistic(function=lambda _: np.array(answer), name="mine")
    with pytest.raises(InputError, match=f"mine of shape .1, 2., got shape {re.escape(shape)}"):
        statistic(np.ones((1, 2)))


def test_custom_scores_that_are_not_finite_are_missing() -> None:
    def pole(losses: FloatArray) -> FloatArray:
        return np.where(losses > 1, np.inf, losses)

    found = scored(np.array([[0.5, 2.0]]), CustomStatistic(function=pole), ["a"])
    assert found[0, 0] == 0.5
    assert np.isnan(found[0, 1])


@pytest.mark.parametrize("least", [-5.0, -0.5, 0.0, 0.001])
def test_custom_domain_is_enforced(least: float) -> None:
    statistic = CustomStatistic(function=np.negative, name="mine", least_loss=least)
    assert scored(np.array([[least]]), statistic, ["a"])[0, 0] == -least
    with pytest.raises(
        InputError, match=f"'a': .* >= {least:g} .* mine, got loss={least - 0.25:g};"
    ):
        scored(np.array([[least - 0.25]]), statistic, ["a"])
