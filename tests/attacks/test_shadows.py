"""Moments of shadow scores and leave-one-out closed forms against slow loops in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from epsilometer.attacks.rules import LOST, CrossFedScores, Shadows, moments

FloatArray = NDArray[np.float64]
NAN = float("nan")
EPS = float(np.finfo(float).eps)
#: The smallest number, which a rounding of denormal ones amounts to.
TINY = 5e-324

#: Closed forms lose what cancels: the remaining squares are at least half of LOST of the total,
#: whose 40 or so roundings of EPS / 2 are then at most 2 / LOST * 40 * EPS / 2 = 9e-9 of a
#: variance, and half of that for its root.
RELATIVE = 5e-9


def root(value: Fraction) -> float:
    """Square root, correctly rounded even if the value itself is not a double."""
    with mpmath.workdps(50):
        return float(mpmath.sqrt(mpmath.mpf(value.numerator) / value.denominator))


def slow_squares(values: ArrayLike) -> tuple[int, Fraction, Fraction]:
    """Number, mean and sum of squares about it, in fractions; NaN is skipped."""
    present = [Fraction(v) for v in np.asarray(values, dtype=float).tolist() if not math.isnan(v)]
    mean = sum(present, Fraction(0)) / max(len(present), 1)
    return len(present), mean, sum(((v - mean) ** 2 for v in present), Fraction(0))


def slow(values: ArrayLike) -> tuple[int, float, float]:
    """Number, mean and standard deviation; NaN if there are too few."""
    count, mean, squares = slow_squares(values)
    return (count, float(mean) if count else NAN, root(squares / (count - 1)) if count > 1 else NAN)


def check_leave_one_out(scores: FloatArray) -> None:
    """Every challenge compared with np.delete and a loop."""
    found = CrossFedScores(scores).moments()
    for base, model in np.ndindex(*scores.shape):
        count, mean, deviation = slow(np.delete(scores[base], model))
        if np.isnan(scores[base, model]):
            # No challenge, no shadows.
            assert np.isnan(found.mean[base, model])
            assert np.isnan(found.deviation[base, model])
            continue
        assert found.count[base, model] == count
        where = f"base {base}, model {model}"
        assert found.deviation[base, model] == pytest.approx(
            deviation, rel=RELATIVE, abs=TINY, nan_ok=True
        ), where
        spread = 0.0 if count < 2 else deviation
        assert found.mean[base, model] == pytest.approx(
            # Two roundings of the mean itself, and the digits lost to a large score.
            mean,
            rel=2 * EPS,
            abs=1e-10 * spread + 4 * EPS * np.nanmax(abs(scores[base])) * (count < 2) + TINY,
            nan_ok=True,
        ), where


def rows(seed: int, *shape: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal(shape)


# --- moments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e8, -1e15])
@pytest.mark.parametrize("size", [2, 3, 30])
def test_moments_in_fractions(offset: float, size: int) -> None:
    values = offset + rows(1, 5, size)
    found = moments(values)
    for row in range(5):
        count, mean, deviation = slow(values[row])
        assert found.count[row] == count
        assert found.mean[row] == pytest.approx(mean, rel=2 * EPS, abs=size * EPS)
        # Centred first, so the offset costs no digit.  Differences from an element are wrong by EPS / 2
        # each, in total sqrt(2 size) EPS / 2 of the root; the sum by size EPS / 2 of itself, half of
        # that for its root; plus some roundings of the whole.
        assert found.deviation[row] == pytest.approx(deviation, rel=(size + 2) * EPS, abs=0)


@pytest.mark.parametrize("exponent", [-1060, -1000, -600, 600, 1000])
def test_moments_where_squares_underflow_or_overflow(exponent: int) -> None:
    values = np.ldexp(rows(1, 5, 9), exponent)
    found = moments(values)
    for row in range(5):
        _, mean, deviation = slow(values[row])
        largest = float(abs(values[row]).max())
        assert found.mean[row] == pytest.approx(mean, rel=0, abs=9 * EPS * largest + TINY)
        assert found.deviation[row] == pytest.approx(deviation, rel=11 * EPS, abs=TINY)


def test_moments_skip_nan_anywhere() -> None:
    values = rows(2, 3, 7)
    holes = np.full((3, 10), NAN)
    holes[:, [1, 2, 4, 5, 6, 8, 9]] = values
    plain, holed = moments(values), moments(holes)
    assert holed.count.tolist() == [7.0] * 3
    assert holed.mean == pytest.approx(plain.mean, rel=7 * EPS, abs=7 * EPS)
    assert holed.deviation == pytest.approx(plain.deviation, rel=2 * 9 * EPS)


def test_moments_of_too_few() -> None:
    found = moments(np.array([[NAN, NAN], [NAN, 4.0], [4.0, 6.0]]))
    assert found.count.tolist() == [0.0, 1.0, 2.0]
    assert found.mean.tolist()[1:] == [4.0, 5.0]
    assert np.isnan(found.mean[0])
    assert np.isnan(found.deviation[:2]).all()
    assert found.deviation[2] == math.sqrt(2.0)
    empty = moments(np.empty((3, 0)))
    assert empty.count.tolist() == [0.0] * 3
    assert np.isnan(empty.mean).all()
    assert np.isnan(empty.deviation).all()


@pytest.mark.parametrize("value", [0.0, 0.1, -1 / 3, 1e8 + 0.1, 1e-320, 1e300])
def test_equal_values_have_no_deviation_at_all(value: float) -> None:
    found = moments(np.full((1, 7), value))
    assert found.mean.tolist() == [value]
    assert found.deviation.tolist() == [0.0]


# --- leaving one out ------------------------------------------------------------------------------


@pytest.mark.parametrize("models", [1, 2, 3, 4, 30])
@pytest.mark.parametrize("scale", [1e-318, 1e-300, 1e-150, 1.0, 1e150, 1e307])
def test_leave_one_out(models: int, scale: float) -> None:
    check_leave_one_out(scale * (0.5 + rows(models, 4, models)))


def test_leaving_one_out_of_rows_with_padding_and_holes() -> None:
    scores = rows(3, 6, 12)
    scores[1, 8:] = NAN
    scores[2, [0, 5, 6]] = NAN
    scores[3, 3:] = NAN
    scores[4, 1:] = NAN
    scores[5] = NAN
    check_leave_one_out(scores)
    check_pooled(scores)


def test_no_models_at_all() -> None:
    found = CrossFedScores(np.empty((2, 0))).moments()
    assert found.mean.shape == found.deviation.shape == (2, 0)


@pytest.mark.parametrize("size", [1e2, 1e3, 1.2e3, 1e4, 1e8, 1e16, 1e100, 1e200, 1e307])
@pytest.mark.parametrize("models", [3, 4, 12])
def test_one_outlier_dominates(size: float, models: int) -> None:
    """The others' variance nearly cancels: around 1 / LOST it is recomputed, or nearly so."""
    scores = rows(4, 3, models)
    scores[np.arange(3), [0, models // 2, models - 1]] = [size, -size, size]
    assert (size > LOST**-0.5) == (size > 1e3)
    check_leave_one_out(scores)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1])
@pytest.mark.parametrize("models", [2, 3, 10])
def test_equal_scores(value: float, models: int) -> None:
    found = CrossFedScores(np.full((1, models), value)).moments()
    assert (found.mean == value).all()
    if models > 2:
        assert (found.deviation == 0).all()


@pytest.mark.parametrize("value", [0.1, -1 / 3, 1e8 + 0.1])
@pytest.mark.parametrize("other", [0.11, 7.0, 1e12])
@pytest.mark.parametrize("models", [3, 4, 10])
def test_all_but_one_are_equal(value: float, other: float, models: int) -> None:
    """Without the one that differs there is no spread: exactly 0, and exactly that mean."""
    scores = np.full((1, models), value)
    scores[0, 1] = other
    found = CrossFedScores(scores).moments()
    assert found.deviation[0, 1] == 0
    assert found.mean[0, 1] == value
    assert (np.delete(found.deviation[0], 1) > 0).all()


@pytest.mark.parametrize("value", [0.1, -1 / 3, 1e8 + 0.1])
def test_all_but_one_are_equal_and_that_one_nearly(value: float) -> None:
    """Algorithms without randomness still differ in the last bits of their losses."""
    for other in (np.nextafter(value, np.inf), value + 2 * np.spacing(abs(value))):
        found = CrossFedScores(np.array([[value, other, value]])).moments()
        assert found.deviation[0, 1] == 0
        assert found.mean[0, 1] == value
        check_leave_one_out(np.array([[value, other, value], [other, value, value]]))


OFFSETS = [
    (offset, spread, models)
    for offset, spread in ((1e8, 1e-3), (1e8, 1e-5), (-1e8, 1e-6), (1.0, 1e-14))
    for models in (3, 10, 30)
]


@pytest.mark.parametrize(("offset", "spread", "models"), OFFSETS)
def test_huge_offset_costs_no_digit(offset: float, spread: float, models: int) -> None:
    check_leave_one_out(offset + spread * rows(models, 4, models))


@settings(derandomize=True, deadline=None)
@given(
    st.lists(
        st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3), st.just(NAN)),
        min_size=1,
        max_size=9,
    )
)
def test_leave_one_out_of_anything(values: list[float]) -> None:
    check_leave_one_out(np.array([values]))


# --- the deviation pooled over bases --------------------------------------------------------------


#: Sums of some 30 squares and a root: less than one rounding per square.
SUMS = 40 * EPS


def slow_pooled(table: list[FloatArray]) -> float:
    """Root of squares within rows over degrees of freedom, in fractions."""
    squares, freedom = Fraction(0), 0
    for row in table:
        count, _, own = slow_squares(row)
        squares += own
        freedom += max(count - 1, 0)
    return root(squares / freedom) if freedom else NAN


def check_pooled(scores: FloatArray) -> None:
    found = CrossFedScores(scores).pooled_deviation()
    for base, model in np.ndindex(*scores.shape):
        if np.isnan(scores[base, model]):
            continue
        left = [np.delete(row, model) if b == base else row for b, row in enumerate(scores)]
        assert found[base, model] == pytest.approx(
            slow_pooled(left), rel=RELATIVE, abs=TINY, nan_ok=True
        ), (base, model)


@pytest.mark.parametrize("models", [1, 2, 3, 8])
def test_pooled_deviation_cross_fed(models: int) -> None:
    check_pooled(np.array([[1.0], [-3.0], [0.2], [2.0]]) * rows(5, 4, models))


@pytest.mark.parametrize("scale", [1e-318, 1e-300, 1e-150, 1e150, 1e307])
def test_pooled_deviation_where_squares_underflow_or_overflow(scale: float) -> None:
    scores = scale * rows(6, 4, 5)
    check_pooled(scores)
    found = Shadows(scores).pooled_deviation()
    assert found[0, 0] == pytest.approx(slow_pooled(list(scores)), rel=SUMS, abs=TINY)


@pytest.mark.parametrize("size", [1e2, 1e3, 1e6, 1e9, 1e12, 1e100, 1e200, 1e307])
def test_pooled_deviation_with_an_outlier(size: float) -> None:
    """The outlier's own shadows do not contain it, so it must leave no trace in them."""
    scores = rows(7, 3, 10)
    scores[0, 3] = size
    check_pooled(scores)


def test_pooled_deviation_of_equal_scores_is_zero() -> None:
    assert (CrossFedScores(np.array([[0.1] * 4, [1 / 3] * 4])).pooled_deviation() == 0).all()


def test_pooled_deviation_of_shared_shadows() -> None:
    values = rows(8, 5, 6)
    values[1, 2:] = NAN
    values[2, 1:] = NAN
    found = Shadows(values).pooled_deviation()
    assert found.shape == (1, 1)
    assert found[0, 0] == pytest.approx(slow_pooled(list(values)), rel=SUMS)


def test_pooled_deviation_of_separate_shadows_is_one_per_challenge() -> None:
    values = rows(9, 3, 4, 5)
    values[0, 1, 2:] = NAN
    values[2, 3] = NAN
    found = Shadows(values).pooled_deviation()
    assert found.shape == (1, 4)
    expected = [slow_pooled(list(values[:, challenge])) for challenge in range(4)]
    assert found[0] == pytest.approx(expected, rel=SUMS)


def test_pooled_deviation_without_two_shadows_anywhere() -> None:
    assert np.isnan(Shadows(rows(10, 3, 1)).pooled_deviation()).all()


# --- ranks ----------------------------------------------------------------------------------------

TIED = st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.5, -0.0, NAN]), min_size=1, max_size=8)


@settings(derandomize=True, deadline=None)
@given(TIED)
def test_count_at_least_cross_fed(values: list[float]) -> None:
    found = CrossFedScores(np.array([values])).count_at_least(np.array([values]))
    for model, score in enumerate(values):
        if not math.isnan(score):
            others = values[:model] + values[model + 1 :]
            assert found[0, model] == sum(other >= score for other in others)


@settings(derandomize=True, deadline=None)
@given(TIED, TIED)
def test_count_at_least_of_shadows(shadows: list[float], scores: list[float]) -> None:
    shared = np.array([shadows])
    own = np.repeat(shared[:, None, :], len(scores), axis=1)
    asked = np.array([scores])
    found, again = Shadows(shared).count_at_least(asked), Shadows(own).count_at_least(asked)
    for challenge, score in enumerate(scores):
        if not math.isnan(score):
            expected = sum(shadow >= score for shadow in shadows)
            assert found[0, challenge] == again[0, challenge] == expected


def test_count_at_least_does_not_mix_bases() -> None:
    shadows = Shadows(np.array([[1.0, 2.0, 3.0], [10.0, 20.0, NAN]]))
    assert shadows.count_at_least(np.array([[2.0, 0.0], [2.0, 11.0]])).tolist() == [[2, 3], [2, 1]]
