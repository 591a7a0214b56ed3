"""Cells of a bivariate normal: against mpmath and SciPy, as probabilities, and against draws."""

from __future__ import annotations

from itertools import product

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, multivariate_normal

import epsilometer as em
from epsilometer.model.counts import counts_of
from epsilometer.model.normal_cells import log_cells, log_rectangle

FloatArray = NDArray[np.float64]
INF = float("inf")

RECTANGLES = [
    # ends of the first, ends of the second, correlation
    (-1.0, 1.0, -1.0, 1.0, 0.5),
    (-0.1, 0.2, 0.3, 0.35, -0.9),
    (-INF, -0.4, 1.0, 1.3, 0.3),
    (-INF, 0.5, -INF, 0.7, -0.6),
    (2.0, INF, 3.0, INF, 0.8),
    (6.0, 6.4, -5.0, -4.9, 0.2),
    (6.0, 6.4, 5.0, 5.3, -0.7),
    (9.0, 9.2, 10.0, INF, 0.6),
    (20.0, 20.3, -18.0, -17.5, -0.5),
    (35.0, INF, 30.0, 30.5, 0.1),
    (-0.5, 0.4, -0.6, 0.8, 0.999),
    (-3.0, 2.0, -2.5, 4.0, -0.9999),
    (1.0, 5.0, 1.2, 6.0, 0.99999),
    (1.0, 1.5, -INF, INF, 0.97),
]


def by_mpmath(a: float, b: float, c: float, d: float, r: float) -> float:
    """Log probability by quadrature with forty digits, in many pieces around the mass."""
    with mp.workdps(40):
        r, root = mp.mpf(r), mp.sqrt((1 - mp.mpf(r)) * (1 + mp.mpf(r)))
        a, b, c, d = (mp.mpf(end) for end in (a, b, c, d))

        def interval(low: mp.mpf, high: mp.mpf) -> mp.mpf:
            if low > 0:
                return (mp.erfc(low / mp.sqrt(2)) - mp.erfc(high / mp.sqrt(2))) / 2
            if high < 0:
                return interval(-high, -low)
            return (mp.erf(high / mp.sqrt(2)) - mp.erf(low / mp.sqrt(2))) / 2

        def integrand(w: mp.mpf) -> mp.mpf:
            return mp.npdf(w) * interval((a - r * w) / root, (b - r * w) / root)

        top = min(max(r * min(max(mp.mpf(0), a), b), c), d)
        low, high = max(c, top - 14), min(d, top + 14)
        marks = [top + scale * k for k in range(-12, 13) for scale in (1, root, root / 8)]
        marks += [end / r + root * k for end in (a, b) for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8)]
        inside = sorted({low, high, *(mark for mark in marks if low < mark < high)})
        return float(mp.log(mp.quad(integrand, inside, maxdegree=6)))


@pytest.mark.parametrize(
    "rectangle",
    [*RECTANGLES[::2], *(pytest.param(r, marks=pytest.mark.slow) for r in RECTANGLES[1::2])],
)
def test_rectangles_against_mpmath(rectangle: tuple[float, ...]) -> None:
    expected = by_mpmath(*rectangle)
    # 1e-7 as stated in the docstring of log_density, relative to the logarithm where that is large.
    assert log_rectangle(*rectangle) == pytest.approx(expected, abs=1e-7, rel=1e-7)
    a, b, c, d, r = rectangle
    assert log_rectangle(c, d, a, b, r) == pytest.approx(expected, abs=1e-7, rel=1e-7)
    assert log_rectangle(-b, -a, c, d, -r) == pytest.approx(expected, abs=1e-7, rel=1e-7)
    if r != 0:  # control: the sign of the correlation matters
        assert abs(log_rectangle(a, b, c, d, -r) - expected) > 1e-4 or -a == b or -c == d


def test_rectangles_against_scipy() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        low = rng.normal(size=2)
        high = low + rng.uniform(0.2, 2.0, 2)
        r = float(rng.uniform(-0.95, 0.95))
        normal = multivariate_normal(cov=[[1, r], [r, 1]])
        expected = float(normal.cdf(high, lower_limit=low))
        found = np.exp(log_rectangle(low[0], high[0], low[1], high[1], r))
        # SciPy's own error is about 1e-8 of 1.
        assert found == pytest.approx(expected, abs=1e-7)


def test_no_cell_is_ever_more_than_certain_or_not_a_number() -> None:
    """Rates close to 0 and 1, counts that hardly vary, perfect correlation."""
    rng = np.random.default_rng(2)
    n = 40_000
    trials = np.stack([np.full(n, 40.0), np.full(n, 30.0)])
    count = np.floor(rng.random((2, n)) * (trials + 1))
    low, high = 10.0 ** rng.uniform(-300, 0, n), 1 - 10.0 ** rng.uniform(-16, 0, n)
    plain = rng.random((2, n))
    rate = np.where(rng.random((2, n)) < 0.5, plain, np.stack([low, high]))
    inflation = 10.0 ** rng.uniform(-12, 1, n)
    size = np.where(rng.random(n) < 0.5, rng.random(n), 1 - 10.0 ** rng.uniform(-16, 0, n))
    r = rng.choice([-1.0, 1.0], n) * size
    logs = log_cells(
        np.stack(
            [count[0], trials[0], rate[0], inflation, count[1], trials[1], rate[1], inflation, r]
        )
    )
    assert not np.isnan(logs).any()
    assert logs.max() < 1e-8


# --- the likelihood -------------------------------------------------------------------------------


def every_count(n0: int, n1: int) -> em.AttackCounts:
    x, y = (side.ravel() for side in np.meshgrid(np.arange(n0 + 1), np.arange(n1 + 1)))
    return em.AttackCounts(false_positives=x, trials_h0=n0, false_negatives=y, trials_h1=n1)


def at(counts: em.AttackCounts, tau: float, share: float) -> dict[str, float]:
    bound = float(em.likelihoods.CorrelatedCells().cross_correlation_bound(counts, tau))
    return {"within_correlation": tau, "cross_correlation": share * bound}


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.3, 0.6), (0.001, 0.02), (0.0, 0.4), (1.0, 0.0), (1e-9, 1 - 1e-12)]
)
def test_cells_add_up_to_one(alpha: float, beta: float) -> None:
    counts = every_count(12, 9)
    for tau, share in product((-0.08, 0.0, 0.3), (-0.99, 0.0, 0.7)):
        logs = em.likelihoods.CorrelatedCells().log_density(
            counts, alpha, beta, **at(counts, tau, share)
        )
        assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-7)
    if min(alpha, beta) == 0:
        assert np.exp(logs).max() < 1 + 1e-9
    # Control: the published density does not, if a rate is near an end.
    density = em.likelihoods.CorrelatedNormal().log_density(
        counts, alpha, beta, **at(counts, 0.3, 0.7)
    )
    assert abs(np.exp(density).sum() - 1.0) > 0.01


def test_moments_are_those_stated_up_to_rounding() -> None:
    counts, alpha, beta = every_count(60, 80), 0.45, 0.55
    where = at(counts, 0.004, -0.5)
    chance = np.exp(em.likelihoods.CorrelatedCells().log_density(counts, alpha, beta, **where))
    x, y = counts.false_positives, counts.false_negatives
    tau, rho = where["within_correlation"], where["cross_correlation"]
    mean = chance @ x, chance @ y
    assert mean == pytest.approx((60 * alpha, 80 * beta), abs=1e-4)
    variances = [n * p * (1 - p) * (1 + (n - 1) * tau) for n, p in ((60, alpha), (80, beta))]
    # Rounding adds the variance of a uniform number, 1/12 (Sheppard), and no covariance.
    for values, centre, variance in zip((x, y), mean, variances, strict=True):
        assert chance @ (values - centre) ** 2 == pytest.approx(variance + 1 / 12, rel=1e-4)
    covariance = rho * 60 * 80 * np.sqrt(alpha * (1 - alpha) * beta * (1 - beta))
    assert chance @ ((x - mean[0]) * (y - mean[1])) == pytest.approx(covariance, rel=1e-4)


def test_far_from_the_ends_it_is_the_published_density() -> None:
    gaps = []
    for trials in (10**3, 10**5, 10**7):
        counts = counts_of([int(0.3 * trials + trials**0.5)], trials, [int(0.6 * trials)], trials)
        where = at(counts, 1e-9, 0.6)
        cells, density = (
            kind().log_density(counts, 0.3, 0.6, **where)
            for kind in (em.likelihoods.CorrelatedCells, em.likelihoods.CorrelatedNormal)
        )
        gaps.append(abs(float(cells[0] - density[0])))
    # The difference is that of a mean from a midpoint: 1 / (24 variance) and so on.
    assert gaps[0] < 1e-2
    assert gaps[1] < 1e-4
    assert gaps[2] < 1e-6


@pytest.mark.parametrize("alpha", [0.02, 0.4])
def test_counts_are_drawn_from_it(alpha: float) -> None:
    counts, blank = every_count(10, 8), every_count(10, 8).take(np.array([0]))
    where = at(counts, 0.05, 0.8)
    rates = np.full((20_000, 1), alpha), np.full((20_000, 1), 0.3)
    x, y = em.likelihoods.CorrelatedCells().sample_counts(
        blank, rates, where, rng=np.random.default_rng(3)
    )
    seen = np.bincount((y * 11 + x).ravel(), minlength=99)
    logs = em.likelihoods.CorrelatedCells().log_density(counts, alpha, 0.3, **where)

    def p_value(chance: FloatArray) -> float:
        expected = 20_000 * chance
        common = expected > 5
        few = [expected[~common].sum() + 1e-9, seen[~common].sum() + 1e-9]
        both = np.append(expected[common], few[0]), np.append(seen[common], few[1])
        return float(chisquare(both[1], both[0] * both[1].sum() / both[0].sum()).pvalue)

    assert p_value(np.exp(logs)) > 1e-4
    # Control: independent binomials, and the wrong sign of the correlation, are detected.
    binomial = em.likelihoods.IndependentBinomial().log_density(counts, alpha, 0.3)
    assert p_value(np.exp(binomial)) < 1e-6
    wrong = where | {"cross_correlation": -where["cross_correlation"]}
    other = em.likelihoods.CorrelatedCells().log_density(counts, alpha, 0.3, **wrong)
    assert p_value(np.exp(other)) < 1e-6
