"""Families of trade-off functions, against integrals, independent formulas and the paper's region."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import hypsecant, kstwo, logistic, norm

from epsilometer.errors import InputError
from epsilometer.model.families import (
    AVERAGE,
    FAMILIES,
    Gaussian,
    HardCap,
    Laplace,
    MixedCap,
    RandomizedResponse,
    SmoothCap,
    ThinTail,
    TwoVariances,
    check_families,
    families_of,
)
from epsilometer.model.family import LARGEST_CURVE_EPSILON, Curves, Family
from epsilometer.model.region import beta_limits
from epsilometer.model.shapes import HardCaps, MixedCaps, Shape, SmoothCaps, VarianceRatios
from studies import mechanisms
from tests.engines.curve.oracles import (
    Pair,
    capped,
    gaussian,
    hockey_sticks,
    laplace,
    reversed_,
    smooth,
    thin,
    two_variances,
)

CONTINUOUS: list[Family] = [
    Gaussian(),
    Laplace(),
    HardCap(ratio=1.3),
    HardCap(ratio=2.5),
    MixedCap(ratio=1.8),
    SmoothCap(ratio=1.3),
    SmoothCap(ratio=3.0),
    TwoVariances(spread=0.3),
    TwoVariances(spread=0.3, exchanged=True),
    ThinTail(),
]
ALL: list[Family] = [*CONTINUOUS, RandomizedResponse(), RandomizedResponse(atom=0.05)]
LEAKS = np.array([0.05, 0.5, 1.0, 3.0])


def named(family: Family) -> str:
    return family.name


def pair_of(family: Family, leak: float) -> Pair:
    """The same pair from SciPy."""
    match family:
        case Laplace():
            return laplace(leak)
        case HardCap():
            return capped(leak, family.ratio)
        case SmoothCap():
            return smooth(leak, family.ratio)
        case ThinTail():
            return thin(leak)
        case TwoVariances():
            pair = two_variances(leak, family.spread)
            return reversed_(pair) if family.exchanged else pair
    return gaussian(leak)


# --- scores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", CONTINUOUS, ids=named)
@pytest.mark.parametrize("leak", LEAKS)
def test_tails_and_ratios_are_those_of_the_pair(family: Family, leak: float) -> None:
    pair = pair_of(family, leak)
    # Where densities are not too small for a ratio of two.
    x = np.linspace(max(-4.0, pair.ends[0]), min(7.0, pair.ends[1]), 45)
    x = x[(pair.p0(x) > 1e-200) & (pair.p1(x) > 1e-200)]
    without, with_point = family.above(x, np.array([leak]))
    # Tabulated noise is good to 1e-9 of a tail, the rest to rounding; complements lose what is small.
    np.testing.assert_allclose(without, pair.s0(x), rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(with_point, pair.s1(x), rtol=1e-8, atol=1e-14)
    expected = np.log(pair.p1(x) / pair.p0(x))
    np.testing.assert_allclose(family.log_ratio(x, np.array([leak])), expected, atol=1e-9)


@pytest.mark.parametrize("family", CONTINUOUS, ids=named)
@pytest.mark.parametrize("part", [0.0, 0.02, 0.1, 0.5, 0.97])
def test_scores_at_have_the_share_above_them(family: Family, part: float) -> None:
    share = np.concatenate([[1e-9, 1e-4], np.linspace(0.01, 0.99, 31), [1 - 1e-6]])
    leaks = np.append(0.0, np.append(LEAKS, 20.0))
    score = family.scores_at(share, leaks, part)
    assert score.shape == (len(share), len(leaks))
    without, with_point = family.above(score, leaks)
    found = (1 - part) * without + part * with_point
    # Newton stops at steps of 1e-9 of a score whose density is below 1.
    np.testing.assert_allclose(found, np.broadcast_to(share[:, None], found.shape), atol=2e-9)
    ends = family.scores_at(np.array([0.0, 1.0]), leaks, part)
    lowest = pair_of(family, 1.0).ends[0] if isinstance(family, TwoVariances) else -np.inf
    highest = 0.0 if getattr(family, "exchanged", False) else np.inf
    assert np.all(ends[0] == highest)
    assert np.all(ends[1] == (lowest if highest else -np.inf))


@pytest.mark.parametrize("family", CONTINUOUS, ids=named)
def test_densities_over_the_share_integrate_to_one(family: Family) -> None:
    """By Simpson's rule in the angle, which the source does not use."""
    angle = np.linspace(0.0, np.pi, 20_001)
    share = np.sin(angle / 2) ** 2
    share[-1] = 1.0
    for members in (0.1, 0.5, 0.8):
        density, other, below = Curves(family=family).densities(share, LEAKS, members)
        assert np.all(density >= 0)
        assert np.all(other >= 0)
        # Mixed as in the pool they sum to 1; each alone keeps its small values.
        np.testing.assert_allclose((1 - members) * density + members * other, 1.0, rtol=1e-12)
        weight = np.sin(angle)[:, None] / 2
        total = np.trapezoid(density * weight, angle, axis=0)
        # Kinks (as of Laplace) cost the square of the step, 2e-4; jumps, though smoothed, a little more.
        error = 2e-5 if isinstance(family, HardCap) else 1e-6
        np.testing.assert_allclose(total, 1.0, atol=error)
        np.testing.assert_allclose(np.trapezoid(other * weight, angle, axis=0), 1.0, atol=error)
        cells = (
            (density[1:] * weight[1:] + density[:-1] * weight[:-1]) / 2 * np.diff(angle)[:, None]
        )
        running = np.append(np.zeros((1, len(LEAKS))), np.cumsum(cells, axis=0), axis=0)
        # At the step of a jump itself, half of a cell is missing.
        np.testing.assert_allclose(below, running, atol=2e-4 if error > 1e-6 else 1e-6)
    even, *_ = Curves(family=family).densities(share, LEAKS)
    first, *_ = Curves(family=family).densities(share, LEAKS, 0.5)
    np.testing.assert_array_equal(even, first)


# --- divergences ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", CONTINUOUS, ids=named)
@pytest.mark.parametrize("leak", LEAKS)
def test_divergences_are_the_integrals(family: Family, leak: float) -> None:
    for epsilon in (0.0, 0.02, 0.3, 1.0, 2.5):
        expected = hockey_sticks(pair_of(family, leak), epsilon)
        found = family.delta(leak, epsilon)
        # The oracle's trapezoids: spacing 2e-4 at most, squared; where the density jumps, not squared.
        error = 4e-5 if isinstance(family, HardCap) else 1e-7
        np.testing.assert_allclose(found, expected, atol=error)


@pytest.mark.parametrize(("spread", "epsilon"), [(0.1, 6.0), (1.0, 0.1)])
def test_two_variances_against_many_digits(spread: float, epsilon: float) -> None:
    leak, family = 1.5, TwoVariances(spread=spread)
    width = mpmath.mpf(1 + spread * leak)
    with mpmath.workdps(40):

        def excess(x: mpmath.mpf, first: bool) -> mpmath.mpf:
            p0, p1 = mpmath.npdf(x), mpmath.npdf(x, leak, width)
            a, b = (p1, p0) if first else (p0, p1)
            return a - mpmath.e**epsilon * b

        for which in (0, 1):
            grid = [mpmath.mpf(i) / 20 for i in range(-400, 700)]
            values = [excess(x, which == 0) for x in grid]
            roots = [
                mpmath.findroot(lambda x, w=which: excess(x, w == 0), (a, b), solver="anderson")
                for a, b, u, v in zip(grid, grid[1:], values, values[1:], strict=False)
                if u * v < 0
            ]
            cuts = [grid[0], *roots, grid[-1]]
            total = mpmath.mpf(0)
            for a, b in pairwise(cuts):
                if excess((a + b) / 2, which == 0) > 0:
                    total += mpmath.quad(lambda x, w=which: excess(x, w == 0), [a, b])
            found = float(family.delta(leak, epsilon)[which])
            # Differences of tails near 1 lose at most a few units of 1e-16 times e^epsilon.
            assert found == pytest.approx(float(total), rel=1e-9, abs=1e-12)


def test_known_values() -> None:
    """The Gaussian value from Balle and Wang's formula (dp_accounting agrees), the others by hand."""
    assert float(Gaussian().epsilon(1.0, 1e-5)) == pytest.approx(4.377178, abs=1e-6)
    assert float(Laplace().epsilon(3.0, 0.1)) == pytest.approx(3 + 2 * math.log(0.9))
    assert float(RandomizedResponse().epsilon(1.0, 0.0)) == 1.0
    # With delta = atom only the pure part remains.
    assert float(RandomizedResponse(atom=0.1).epsilon(1.3, 0.1)) == pytest.approx(1.3)


@pytest.mark.parametrize("delta", [1e-7, 1e-3, 0.2])
def test_epsilon_agrees_with_the_mechanisms(delta: float) -> None:
    """`calibration.mechanisms` was written independently of the families."""
    pairs: list[tuple[Family, mechanisms.Mechanism, float]] = [
        (Gaussian(), mechanisms.GaussianMechanism(1.3), 1.3),
        (Laplace(), mechanisms.LaplaceMechanism(0.9), 0.9),
        (RandomizedResponse(), mechanisms.RandomisedResponse(2.0), 2.0),
    ]
    for family, mechanism, leak in pairs:
        found = float(family.epsilon(leak, delta))
        assert found == pytest.approx(mechanism.epsilon(delta), rel=1e-9, abs=1e-12)
        rates = np.linspace(0.0, 1.0, 21)
        seen = 1 - Curves(family=family).seen_true_positives(rates, np.array([leak]))[:, 0]
        np.testing.assert_allclose(seen, mechanism.least_beta(rates), atol=1e-9)


@pytest.mark.parametrize("family", ALL, ids=named)
@settings(derandomize=True, max_examples=40, deadline=None)
@given(leak=st.floats(1e-3, 8.0), log_delta=st.floats(-14.0, -0.8))
def test_epsilon_and_delta_are_inverse(family: Family, leak: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    epsilon = float(family.epsilon(leak, delta))
    if epsilon > LARGEST_CURVE_EPSILON and math.isfinite(epsilon):
        return
    if math.isinf(epsilon):
        assert isinstance(family, RandomizedResponse)
        assert delta < family.atom
        return
    reached = max(float(each) for each in family.delta(leak, epsilon))
    if epsilon > 0:
        # Found to 1e-10 in epsilon, or 1e-11 of it; divergences change by at most 1 for each unit.
        assert reached == pytest.approx(delta, abs=2e-10 * max(1.0, 0.1 * epsilon))
        # The inverse: the leak with that epsilon, where delta determines it.
        assert family.leak_of(epsilon, delta) == pytest.approx(leak, rel=1e-5)
    else:
        assert reached <= delta * (1 + 1e-9)


@pytest.mark.parametrize("family", ALL, ids=named)
def test_no_leak_is_perfect_privacy(family: Family) -> None:
    atom = family.atom if isinstance(family, RandomizedResponse) else 0.0
    for each in family.delta(0.0, np.array([0.0, 1.0])):
        np.testing.assert_array_equal(each, [atom, atom])
    assert float(family.epsilon(0.0, max(atom, 1e-3))) == 0.0
    if not family.pieces:
        at_nothing = float(family.epsilon(1.0, 0.0))
        # Pure DP for one family, and for caps.
        assert at_nothing == getattr(
            family, "ratio", 1.0 if isinstance(family, Laplace) else np.inf
        )
        assert float(family.epsilon(0.0, 0.0)) == 0.0


def test_epsilon_is_zero_once_delta_is_the_total_variation() -> None:
    for family in (*CONTINUOUS, RandomizedResponse()):
        variation = max(float(each) for each in family.delta(1.0, 0.0))
        # On both sides of it.
        assert float(family.epsilon(1.0, variation * 1.001)) == 0.0
        assert 0 < float(family.epsilon(1.0, variation * 0.999)) < 0.01


# --- randomised response and the region -----------------------------------------------------------


@pytest.mark.parametrize("atom", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("leak", [0.0, 0.3, 2.0, 9.0])
def test_response_is_the_edge_of_the_papers_region(atom: float, leak: float) -> None:
    rates = np.linspace(0.0, 1.0, 101)
    curves = Curves(family=RandomizedResponse(atom=atom))
    found = 1 - curves.seen_true_positives(rates, np.array([leak]))[:, 0]
    # Closed forms on both sides.
    np.testing.assert_allclose(found, beta_limits(rates, leak, atom)[0], atol=1e-14)


@pytest.mark.parametrize("atom", [0.0, 0.2])
def test_response_masses_are_probabilities_with_the_right_ratios(atom: float) -> None:
    without, with_point = RandomizedResponse(atom=atom).masses(1.7)
    assert without.sum() == pytest.approx(1.0, rel=1e-14)
    assert with_point.sum() == pytest.approx(1.0, rel=1e-14)
    inner = slice(None) if atom == 0 else slice(1, 3)
    np.testing.assert_allclose(np.log(with_point[inner] / without[inner]), [1.7, -1.7])
    # Exchanging the hypotheses reflects the curve.
    np.testing.assert_allclose(without[::-1], with_point)


def test_scores_of_two_variances_are_in_the_order_of_the_ratio() -> None:
    """The best attack: its ROC curve is concave.  Ordered by the value, it would not be."""
    rates = np.linspace(0.0, 1.0, 401)
    curves = Curves(family=TwoVariances(spread=0.5))
    missed = 1 - curves.seen_true_positives(rates, np.array([0.4]))[:, 0]
    assert np.diff(missed, n=2).min() > -1e-9
    by_value = norm.cdf((-norm.ppf(rates[1:-1]) - 0.4) / 1.2)
    assert np.diff(by_value, n=2).min() < -1e-6


@pytest.mark.parametrize("leak", [0.3, 1.0, 2.5])
def test_caps_are_between_their_limits(leak: float) -> None:
    """Smooth caps: Laplace, hyperbolic secant and logistic noise by hand; large caps are Gaussian."""
    rates = np.array([1e-6, 1e-3, 0.05, 0.3, 0.5, 0.8])

    def missed(family: Family, at: float = leak) -> NDArray[np.float64]:
        return np.asarray(
            1 - Curves(family=family).seen_true_positives(rates, np.array([at]))[:, 0]
        )

    np.testing.assert_allclose(missed(SmoothCap(ratio=1.0005)), missed(Laplace()), atol=2e-3)
    np.testing.assert_allclose(missed(SmoothCap(ratio=20.0)), missed(Gaussian()), atol=2e-3)
    np.testing.assert_allclose(missed(HardCap(ratio=20.0)), missed(Gaussian()), atol=1e-12)
    secant, log = SmoothCap(ratio=math.sqrt(2)), SmoothCap(ratio=math.sqrt(3))
    shift = 2 * math.sqrt(2) * leak
    expected = hypsecant.cdf(hypsecant.isf(rates), shift / 2)
    np.testing.assert_allclose(missed(secant), expected, rtol=1e-8)
    expected = logistic.cdf(logistic.isf(rates), math.sqrt(3) * leak)
    np.testing.assert_allclose(missed(log), expected, rtol=1e-8)
    # A cap is the larger of two curves.
    expected = np.maximum(missed(Gaussian()), beta_limits(rates, 1.4 * leak, 0.0)[0])
    np.testing.assert_allclose(missed(HardCap(ratio=1.4)), expected, atol=1e-12)


@pytest.mark.parametrize("shape", [HardCaps(), MixedCaps(), SmoothCaps(), VarianceRatios()])
def test_cells_of_a_shape_share_its_prior(shape: Shape) -> None:
    members = shape.members()
    assert sum(part for _, part in members) == pytest.approx(1.0)
    edges = np.array(shape.edges)
    for (family, part), low, high in zip(members, edges[:-1], edges[1:], strict=True):
        assert family.shape is not None
        assert low < family.shape < high
        whole = quad(lambda x: x ** -(shape.power + 1), edges[0], edges[-1])[0]
        assert part == pytest.approx(quad(lambda x: x ** -(shape.power + 1), low, high)[0] / whole)
    # A divided cell keeps its share, and its middle part its family.
    finer = (*edges[:1], *np.geomspace(edges[0], edges[1], 4)[1:3], *edges[1:])
    again = shape.members(tuple(finer))
    assert again[1][0] == members[0][0]
    assert sum(part for _, part in again[:3]) == pytest.approx(members[0][1])


# --- samples --------------------------------------------------------------------------------------

#: Of one comparison of a sample with its distribution function; seeds are fixed, about 30 are made.
FALSE_ALARM = 1e-6


def gap(sample: NDArray[np.float64], above: NDArray[np.float64]) -> float:
    """Kolmogorov-Smirnov's p-value, from probabilities of a higher score at the sorted sample."""
    size = len(sample)
    below = 1 - above
    steps = np.arange(size)
    distance = max((below - steps / size).max(), ((steps + 1) / size - below).max())
    return float(kstwo.sf(distance, size))


@pytest.mark.parametrize("family", CONTINUOUS, ids=named)
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_samples_have_the_tails(family: Family, rate: float) -> None:
    rng = np.random.default_rng(20)
    curves = Curves(family=family, rate=rate)
    member = np.arange(40_000) < 20_000
    drawn = curves.sample(1.2, member, rng=rng)
    for which in (0, 1):
        sample = np.sort(drawn[member == bool(which)])
        pair = pair_of(family, 1.2)
        tail = (
            pair.s0(sample) if which == 0 else (1 - rate) * pair.s0(sample) + rate * pair.s1(sample)
        )
        assert gap(sample, tail) > FALSE_ALARM
        # The other hypothesis must be distinguished.
        wrong = pair.s1(sample) if which == 0 else pair.s0(sample)
        assert gap(sample, wrong) < FALSE_ALARM


@pytest.mark.parametrize("atom", [0.0, 0.1])
@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_samples_of_pieces_have_the_masses(atom: float, rate: float) -> None:
    family, size = RandomizedResponse(atom=atom), 40_000
    rng = np.random.default_rng(21)
    member = np.arange(2 * size) < size
    drawn = Curves(family=family, rate=rate).sample(1.2, member, rng=rng)
    without, with_point = family.masses(1.2)
    expected = without, (1 - rate) * without + rate * with_point
    values = sorted(set(drawn.tolist()), reverse=True)
    for which, chance in enumerate(expected):
        seen = np.array([(drawn[member == bool(which)] == value).sum() for value in values])
        error = np.sqrt(size * chance * (1 - chance)) + 1e-9
        # Five standard errors: a false alarm of 6e-7 for each of about 20 numbers.
        assert np.all(np.abs(seen - size * chance) < 5 * error)


def test_above_of_pieces_counts_ties_half() -> None:
    without, with_point = RandomizedResponse().above(np.array([1.0, 0.0, 0.5, 2.0]), np.array(2.0))
    truth = 1 / (1 + math.exp(-2.0))
    np.testing.assert_allclose(without, [(1 - truth) / 2, 1 - truth / 2, 1 - truth, 0.0])
    np.testing.assert_allclose(with_point, [truth / 2, 1 - (1 - truth) / 2, truth, 0.0])
    area = quad(lambda a: float(beta_limits(a, 2.0, 0.0)[0]), 0, 1, points=[1 - truth])[0]
    # Half of ties: the area under the ROC curve.
    masses = RandomizedResponse().masses(2.0)
    auc = float(masses[1] @ RandomizedResponse().above(np.array([1.0, 0.0]), np.array(2.0))[0])
    assert 1 - auc == pytest.approx(1 - area, abs=1e-12)


# --- refusals -------------------------------------------------------------------------------------


def test_families_by_name() -> None:
    assert families_of(AVERAGE) == tuple(FAMILIES.values())
    assert families_of("laplace") == (Laplace(),)
    with pytest.raises(InputError, match=r"^expected family to be one of average, gaussian"):
        families_of("cauchy")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomizedResponse(atom=1.0), "expected 0 <= delta < 1"),
        (lambda: TwoVariances(spread=-0.1), "expected spread > 0, got spread=-0.1"),
        (lambda: HardCap(ratio=1.0), "expected 1 < ratio <= 20, got ratio=1"),
        (lambda: SmoothCap(ratio=21.0), "expected 1 < ratio <= 20, got ratio=21"),
        (lambda: ThinTail(power=1.0), "expected 1.5 <= power <= 20, got power=1"),
        (lambda: Laplace().epsilon(1.0, -0.1), "expected 0 <= delta < 1"),
        (lambda: check_families([]), "expected one or more families of curves"),
        (lambda: check_families("gaussian"), "expected one or more families of curves"),
        (lambda: check_families([Gaussian(), Gaussian()]), "expected distinct families"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()  # type: ignore[operator]
