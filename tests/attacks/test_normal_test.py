"""The most powerful test of two normals: closed forms, mpmath, simulation, and the paper's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import ncx2, norm

from epsilometer.attacks.rules import p_value

FloatArray = NDArray[np.float64]
PValue = Callable[..., FloatArray]
EPS = float(np.finfo(float).eps)

#: Quantiles at the midpoints of equal shares: a set with two ends is off by at most 1/POINTS.
POINTS = 20_000

LEVELS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Case:
    mean_h0: float
    deviation_h0: float
    mean_h1: float
    deviation_h1: float

    def p(self, observed: ArrayLike, function: PValue = p_value) -> FloatArray:
        return function(observed, **asdict(self))

    @property
    def centre(self) -> float:
        """The R of the appendix."""
        v0, v1 = self.deviation_h0**2, self.deviation_h1**2
        return (self.mean_h0 / v0 - self.mean_h1 / v1) / (1 / v1 - 1 / v0)

    def shift(self, mean: float, deviation: float) -> float:
        """Non-centrality of ((x + R) / deviation)^2 for x with this mean and deviation."""
        return ((mean + self.centre) / deviation) ** 2


PAPER = Case(2.0, 2.0, 0.0, 1.0)
UNEQUAL = {
    "paper": PAPER,
    "narrower, same mean": Case(0.0, 1.0, 0.0, 0.5),
    "narrower, far": Case(-1.0, 0.55, 2.0, 0.45),
    "wider": Case(0.0, 1.0, 2.0, 2.0),
    "wider, same mean": Case(5.0, 0.1, 5.0, 0.3),
    "wider, below": Case(3.0, 1.4, 1.0, 1.6),
}
EQUAL = {"equal, above": Case(0.0, 1.0, 1.5, 1.0), "equal, below": Case(-3.0, 2.0, -5.0, 2.0)}
CASES = UNEQUAL | EQUAL


def critical(case: Case, alpha: float) -> float:
    """c of the appendix: reject where (x + R)^2 is at most (narrower) or at least (wider) this."""
    level = alpha if case.deviation_h1 < case.deviation_h0 else 1 - alpha
    shift = case.shift(case.mean_h0, case.deviation_h0)
    return float(case.deviation_h0**2 * ncx2.ppf(level, 1, shift))


def power(case: Case, alpha: float) -> float:
    if case.deviation_h0 == case.deviation_h1:
        apart = abs(case.mean_h1 - case.mean_h0) / case.deviation_h0
        return float(norm.sf(norm.isf(alpha) - apart))
    shift = case.shift(case.mean_h1, case.deviation_h1)
    inside = float(ncx2.cdf(critical(case, alpha) / case.deviation_h1**2, 1, shift))
    return inside if case.deviation_h1 < case.deviation_h0 else 1 - inside


def share_rejected(
    function: PValue, case: Case, alpha: float, mean: float, deviation: float
) -> float:
    """Probability of p <= alpha when x is normal with this mean and deviation."""
    quantiles = ndtri((np.arange(POINTS) + 0.5) / POINTS)
    return float(np.mean(case.p(mean + deviation * quantiles, function) <= alpha))


def check_size_and_power(function: PValue, case: Case, alpha: float) -> None:
    """Compare with the closed forms; the grid may be off by 1/POINTS, doubled for ends on it."""
    size = share_rejected(function, case, alpha, case.mean_h0, case.deviation_h0)
    assert size == pytest.approx(alpha, abs=2 / POINTS), "size"
    found = share_rejected(function, case, alpha, case.mean_h1, case.deviation_h1)
    assert found == pytest.approx(power(case, alpha), abs=2 / POINTS), "power"


@pytest.mark.parametrize("alpha", LEVELS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_size_and_power(case: Case, alpha: float) -> None:
    check_size_and_power(p_value, case, alpha)


@pytest.mark.parametrize("alpha", LEVELS)
@pytest.mark.parametrize("case", UNEQUAL.values(), ids=UNEQUAL)
def test_both_ends_of_the_rejected_set_have_p_alpha(case: Case, alpha: float) -> None:
    half = critical(case, alpha) ** 0.5
    # ncx2.ppf solves for its root to about 1e-9.
    np.testing.assert_allclose(
        case.p(np.array([half, -half]) - case.centre), alpha, rtol=1e-7, atol=0
    )


# --- the paper's slips as sabotaged twins ---------------------------------------------------------


def twin(*, printed: bool = False, reversed_sign: bool = False) -> PValue:
    """The appendix word for word with ncx2; optionally with one of the two errors."""

    def function(
        x: FloatArray, *, mean_h0: float, deviation_h0: float, mean_h1: float, deviation_h1: float
    ) -> FloatArray:
        m0, d0, m1, d1 = mean_h0, deviation_h0, mean_h1, deviation_h1
        v0, v1 = d0**2, d1**2
        if d0 == d1:
            direction = np.sign(m1 - m0) * (-1 if reversed_sign else 1)
            return np.asarray(norm.sf(direction * (x - m0) / d0))
        under = 1 / v0 - 1 / v1 if printed else 1 / v1 - 1 / v0
        centre = (m0 / v0 - m1 / v1) / under
        law = ncx2(1, (m0 + centre) ** 2 / v0)
        statistic = (x + centre) ** 2 / v0
        return np.asarray(law.cdf(statistic) if v0 > v1 else law.sf(statistic))

    return function


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_twin_without_a_slip_passes(case: Case) -> None:
    check_size_and_power(twin(), case, 0.1)
    x = case.mean_h0 + case.deviation_h0 * np.linspace(-4, 4, 41)
    # ncx2 keeps about 1e-12 of the probability, in the upper tail an absolute error.
    np.testing.assert_allclose(case.p(x), case.p(x, twin()), rtol=0, atol=1e-11)


def test_sign_of_r_as_printed_fails() -> None:
    def rejected(function: PValue) -> float:
        return share_rejected(function, PAPER, 0.1, PAPER.mean_h1, PAPER.deviation_h1)

    # Normal probabilities of the two intervals, by hand; notes quote .371 and .198.
    assert rejected(p_value) == pytest.approx(0.3724, abs=2 / POINTS)
    assert rejected(twin(printed=True)) == pytest.approx(0.1986, abs=2 / POINTS)
    with pytest.raises(AssertionError, match="power"):
        check_size_and_power(twin(printed=True), PAPER, 0.1)


@pytest.mark.parametrize("case", EQUAL.values(), ids=EQUAL)
def test_reversed_sign_for_equal_variances_fails(case: Case) -> None:
    with pytest.raises(AssertionError, match="power"):
        check_size_and_power(twin(reversed_sign=True), case, 0.1)


def test_a_test_of_the_wrong_size_fails() -> None:
    def doubled(observed: ArrayLike, **moments: ArrayLike) -> FloatArray:
        return 2 * p_value(observed, **moments)

    with pytest.raises(AssertionError, match="size"):
        check_size_and_power(doubled, PAPER, 0.1)


# --- mpmath ---------------------------------------------------------------------------------------


def exact(x: float, case: Case) -> tuple[float, float]:
    """The p-value with 50 digits, and the rounding error that double precision cannot avoid.

    ``here`` is computed from its inputs with two roundings, the distance to the other end with eight
    (two of the shift, five of the excess, a division), each of EPS / 2; each normal probability then has
    a few more roundings.
    """

    def upper(value: mpmath.mpf) -> mpmath.mpf:
        return mpmath.erfc(value / mpmath.sqrt(2)) / 2

    with mpmath.workdps(50):
        m0, d0, m1, d1 = map(
            mpmath.mpf, (case.mean_h0, case.deviation_h0, case.mean_h1, case.deviation_h1)
        )
        here, shift, excess = (x - m0) / d0, (m1 - m0) / d0, (d1 / d0) ** 2 - 1
        end = 4 * EPS * abs(here)
        error = end * mpmath.npdf(here)
        if excess == 0:
            p = upper(mpmath.sign(shift) * here)
            return float(p), float(error + 4 * EPS * p)
        far = 2 * shift / excess
        there = -here - far
        error += (end + 4 * EPS * (abs(here) + abs(far))) * mpmath.npdf(there)
        low, high = min(here, there), max(here, there)
        if excess > 0:
            parts = (upper(-low), upper(high))
            return float(sum(parts)), float(error + 4 * EPS * sum(parts))
        parts = (upper(low), upper(high)) if low > 0 else (upper(-high), upper(-low))
        return float(parts[0] - parts[1]), float(error + 4 * EPS * sum(parts))


def check_exact(case: Case, places: Iterable[float]) -> None:
    for x in places:
        expected, error = exact(float(x), case)
        assert float(case.p(x)) == pytest.approx(expected, rel=0, abs=error + 1e-318), x


BELOW = (0.0, 1e-12, 0.5, 0.95, 1 - 1e-9, 1 - EPS, 1 - EPS / 2)
RATIOS = (*BELOW, 1.0, 1 + EPS, 1 + 1e-9, 1.05, 2.0, 1e12)
SHIFTS = (-3.0, 0.0, 1e-9, 0.5, 10.0)


@pytest.mark.parametrize(
    ("ratio", "shift"), [(r, s) for r in RATIOS for s in SHIFTS if (r, s) != (1.0, 0.0)]
)
def test_mpmath(ratio: float, shift: float) -> None:
    place = np.array([0.0, 1e-9, 0.3, 1.0, 3.0, 8.0, 20.0, 37.0])
    check_exact(Case(0.0, 1.0, shift, ratio), [*-place, *place, *(shift + place[1:4])])


@pytest.mark.parametrize("case", UNEQUAL.values(), ids=UNEQUAL)
def test_mpmath_away_from_the_standard_normal(case: Case) -> None:
    standard = np.array([-30.0, -5.0, -1.0, 0.0, 0.7, 6.0, 30.0])
    check_exact(case, case.mean_h0 + standard * case.deviation_h0)


@pytest.mark.parametrize("gap", [1e-12, -1e-9, 1e-6])
def test_mpmath_with_nearly_equal_hypotheses(gap: float) -> None:
    """Both ends matter although the hypotheses nearly agree: their differences must be exact."""
    check_exact(Case(0.0, 0.3, 0.4 * gap, 0.3 * (1 + gap)), (-2.0, -0.7, 0.0, 0.3, 1.5))


@pytest.mark.parametrize("case", [Case(0, 1, 5, 1), Case(0, 1, 0, 2), Case(0, 1, 20.5, 0.5)])
def test_small_p_values_keep_their_digits(case: Case) -> None:
    """Where 1 minus a distribution function would be 0: 20 standard deviations out."""
    expected, error = exact(20.0, case)
    assert expected < 1e-80
    assert error < 1e-12 * expected
    assert float(case.p(20.0)) == pytest.approx(expected, rel=1e-12)


# --- invariances ----------------------------------------------------------------------------------

# Sixteenths up to 64: sums and differences of these are exact.
SIXTEENTHS = st.integers(-1024, 1024).map(lambda n: n / 16)
DEVIATIONS = st.integers(1, 1024).map(lambda n: n / 16)


@settings(derandomize=True, deadline=None)
@given(
    SIXTEENTHS, SIXTEENTHS, DEVIATIONS, SIXTEENTHS, DEVIATIONS, SIXTEENTHS, st.integers(-100, 100)
)
def test_affine_maps_change_no_bit(
    x: float, m0: float, d0: float, m1: float, d1: float, offset: float, exponent: int
) -> None:
    scale = 2.0**exponent
    moved = Case((m0 + offset) * scale, d0 * scale, (m1 + offset) * scale, d1 * scale)
    assert Case(m0, d0, m1, d1).p(x) == moved.p((x + offset) * scale)


@settings(derandomize=True, deadline=None)
@given(SIXTEENTHS, SIXTEENTHS, DEVIATIONS, SIXTEENTHS, DEVIATIONS)
def test_sign_flip(x: float, m0: float, d0: float, m1: float, d1: float) -> None:
    # The two normal probabilities swap places: a rounding of each.
    assert Case(m0, d0, m1, d1).p(x) == pytest.approx(
        float(Case(-m0, d0, -m1, d1).p(-x)), rel=0, abs=4 * EPS
    )


@settings(derandomize=True, deadline=None)
@given(st.lists(SIXTEENTHS, min_size=2, max_size=8), SIXTEENTHS, DEVIATIONS, SIXTEENTHS, DEVIATIONS)
def test_p_values_order_like_likelihood_ratios(
    x: list[float], m0: float, d0: float, m1: float, d1: float
) -> None:
    """Neyman and Pearson: what is more likely under H1 than under H0 is rejected first."""

    def ratio(value: float) -> Fraction:
        """Twice the logarithm up to a constant, exactly."""
        h0, h1 = (Fraction(value - m) / Fraction(d) for m, d in ((m0, d0), (m1, d1)))
        return h0**2 - h1**2

    likelier = sorted(x, key=ratio, reverse=True)
    p = Case(m0, d0, m1, d1).p(likelier)
    # |x - mean| <= 128 and deviations >= 1/16, so scores are at most 2048.  A relevant end is off by at
    # most 4 EPS (|here| + |far|) < 4 EPS * 4200, times a density below 0.4, before and after.
    assert np.all(np.diff(p) >= -2 * 0.4 * 4 * EPS * 4200)


def test_arguments_broadcast() -> None:
    x, means, spreads = np.linspace(-1, 1, 5), np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]])
    table = p_value(x, mean_h0=means, deviation_h0=spreads, mean_h1=2, deviation_h1=1)
    assert table.shape == (2, 5)
    for row in (0, 1):
        one = Case(float(means[row, 0]), float(spreads[row, 0]), 2.0, 1.0)
        assert table[row].tolist() == one.p(x).tolist()


# --- limits the docstring promises ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean_h1", "deviation_h1"),
    [(-1.0, 0.0), (3.0, 0.0), (0.0, 1e-300), (3.0, 1e-300), (0.0, 1.0), (-1.0, 1.0), (3.0, 1e300)],
)
def test_h0_without_spread(mean_h1: float, deviation_h1: float) -> None:
    case = Case(0.0, 0.0, mean_h1, deviation_h1)
    assert case.p([-1e-300, 0.0, 1e-300, 3.0]).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_h1_without_spread_rejects_a_neighbourhood_of_its_mean() -> None:
    case, gaps = Case(0.0, 1.0, 1.0, 0.0), np.array([0.0, 1e-3, 0.5, 2.0])
    expected = ndtr(1 + gaps) - ndtr(1 - gaps)
    for side in (-1, 1):
        np.testing.assert_allclose(case.p(1 + side * gaps), expected, rtol=0, atol=4 * EPS)
    assert case.p(1.0) == 0


@pytest.mark.parametrize("deviation", [0.0, 5e-324, 1.0, 1e300])
def test_equal_hypotheses_are_never_distinguished(deviation: float) -> None:
    assert Case(2.0, deviation, 2.0, deviation).p([-9.0, 2.0, 1e9]).tolist() == [1.0] * 3


@pytest.mark.parametrize("deviation", [5e-324, 1e-320, 1e-310, 1e-200, 1e200, 1e307])
def test_deviations_whose_squares_underflow_or_overflow(deviation: float) -> None:
    z = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    equal = Case(0.0, deviation, deviation, deviation).p(z * deviation)
    np.testing.assert_allclose(equal, ndtr(-z), rtol=1e-14)
    wider = Case(0.0, deviation, 0.0, 2 * deviation).p(z * deviation)
    np.testing.assert_allclose(wider, 2 * ndtr(-abs(z)), rtol=1e-14)
    narrower = Case(0.0, 2 * deviation, 0.0, deviation).p(2 * z * deviation)
    np.testing.assert_allclose(narrower, 1 - 2 * ndtr(-abs(z)), rtol=1e-14)


@pytest.mark.parametrize("deviation", [5e-324, 1e-320, 1e-310])
def test_all_but_no_spread_under_h0_alone(deviation: float) -> None:
    z = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    wider = Case(0.0, deviation, 0.0, 1.0).p(z * deviation)
    np.testing.assert_allclose(wider, 2 * ndtr(-abs(z)), rtol=1e-14)
    assert Case(0.0, deviation, 1.0, 1.0).p([-1.0, 0.0, 1.0]).tolist() == [0.0, 1.0, 0.0]


def test_overflowing_units_count_as_no_spread() -> None:
    case = Case(0.0, 5e-324, 1e200, 0.0)
    assert case.p([1e200, 3e200]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("place", range(5))
def test_nan_gives_nan_and_spares_its_neighbours(place: int) -> None:
    arguments = np.array([[0.5, 0.0, 1.0, 2.0, 3.0], [0.5, 0.0, 0.0, 0.0, 0.0]])
    clean = p_value(*arguments.T[:1], **_named(arguments.T[1:]))
    arguments = np.vstack([arguments, arguments])
    arguments[2:, place] = np.nan
    p = p_value(*arguments.T[:1], **_named(arguments.T[1:]))
    assert p[:2].tolist() == clean.tolist()
    assert np.isnan(p[2:]).all()


def _named(columns: FloatArray) -> dict[str, FloatArray]:
    names = ("mean_h0", "deviation_h0", "mean_h1", "deviation_h1")
    return dict(zip(names, columns, strict=True))


def test_results_are_probabilities_everywhere() -> None:
    """No argument in the domain gives a warning, NaN or a number outside [0, 1]."""
    values = np.array([0.0, -5e-324, 1e-160, -1.0, 3.0, 1e150, -1e300])
    deviations = np.array([0.0, 5e-324, 1e-300, 1e-160, 1.0, 1e160, 1e300])
    grid = np.meshgrid(values, values, deviations, values, deviations, indexing="ij")
    p = p_value(grid[0], **_named(np.stack(grid[1:])))
    assert np.all((p >= 0) & (p <= 1))


@pytest.mark.parametrize("deviation", [2.0, 1e10])
def test_means_a_denormal_number_apart(deviation: float) -> None:
    """The one-sided test of equal deviations does not depend on how far apart the means are."""
    for side in (-1, 1):
        case = Case(0.0, deviation, side * 5e-324, deviation)
        assert case.p(side * deviation) == pytest.approx(float(ndtr(-1.0)), rel=4 * EPS)


def test_largest_numbers() -> None:
    for mean in (-1.7e308, 1.7e308):
        assert Case(mean, 1.0, 0.0, 1.0).p(mean) == 0.5
        assert Case(0.0, 1.0, mean, 1.0).p(0.0) == 0.5
