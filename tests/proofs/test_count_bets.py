"""E-values of counts: their mean is at most 1 everywhere in the region of the claim."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import epsilometer as em
from epsilometer.proofs import count_bets
from epsilometer.proofs.claim_tests import FixedCounts

FloatArray = NDArray[np.float64]


def corners(epsilon: float, delta: float) -> list[tuple[float, float]]:
    """Rates on the lower edges of the region, and inside."""
    odds = np.exp(epsilon)
    meet = (1 - delta) / (1 + odds)
    steep = [(a, 1 - delta - odds * a) for a in np.linspace(0, meet, 7)]
    return [*steep, *[(b, a) for a, b in steep], (0.5, 0.5), (0.9, 0.4), (1.0, 0.0)]


def every(n0: int, n1: int) -> em.AttackCounts:
    x, y = (each.ravel() for each in np.meshgrid(np.arange(n0 + 1), np.arange(n1 + 1)))
    return em.AttackCounts(false_positives=x, trials_h0=n0, false_negatives=y, trials_h1=n1)


def mean_at(values: FloatArray, counts: em.AttackCounts, alpha: float, beta: float) -> FloatArray:
    """Exact mean of e-values over all counts, for given rates."""
    chance = binom.pmf(counts.false_positives, counts.trials_h0, alpha)
    chance = chance * binom.pmf(counts.false_negatives, counts.trials_h1, beta)
    return np.asarray(chance @ np.exp(values))


@pytest.mark.parametrize(("n0", "n1"), [(5, 5), (4, 9), (12, 3)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.7, 0.1), (3.0, 1e-3)])
def test_the_mean_is_one_at_most_where_the_claim_is_true(
    n0: int, n1: int, epsilon: float, delta: float
) -> None:
    counts = every(n0, n1)
    values = count_bets.log_e_values(counts, epsilon, delta)
    worst = max(mean_at(values, counts, a, b).max() for a, b in corners(epsilon, delta))
    assert worst <= 1 + 1e-9
    # Against a smaller claim the same rates are outside the region, and the mean exceeds 1.
    outside = mean_at(values, counts, 0.01, 0.01).max()
    assert outside > 1


def test_a_point_that_is_not_the_nearest_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = every(5, 5)
    half = (np.array([0.25]), np.array([0.45]))
    monkeypatch.setattr(count_bets, "alternatives", lambda: (np.array([0.05]), np.array([0.2])))
    monkeypatch.setattr(
        count_bets, "projected", lambda *_: half
    )  # on the edge of epsilon 0, elsewhere
    values = count_bets.log_e_values(counts, np.log(2.2), 0.0)
    means = [mean_at(values, counts, a, b).max() for a, b in corners(np.log(2.2), 0.0)]
    assert max(means) > 1


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.2), (2.0, 1e-5)])
def test_nearest_points_are_those_of_a_fine_search(epsilon: float, delta: float) -> None:
    odds, size = np.exp(epsilon), np.array([30, 80])
    grid = np.linspace(0, 1, 400_001)[1:-1]
    edge = np.maximum(1 - delta - odds * grid, (1 - delta - grid) / odds)
    ok = (edge > 0) & (edge < 1)
    grid, edge = grid[ok], edge[ok]

    def divergence(a: float, b: float, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        def kl(p: float, q: FloatArray) -> FloatArray:
            return np.asarray(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))

        return np.asarray(size[0] * kl(a, alpha) + size[1] * kl(b, beta))

    for a, b in ((0.01, 0.3), (0.2, 0.02), (0.05, 0.05), (0.001, 0.6), (0.45, 0.5)):
        alpha, beta = count_bets.projected(np.array([a]), np.array([b]), size, epsilon, delta)
        inside = odds * a + b >= 1 - delta and a + odds * b >= 1 - delta
        least = 0.0 if inside else float(divergence(a, b, grid, edge).min())
        # The search has a finite step: where the edges meet it misses the corner slightly.
        assert least - 1e-4 <= float(divergence(a, b, alpha, beta)[0]) <= least + 1e-9
        assert float(odds * alpha[0] + beta[0]) >= 1 - delta - 1e-9


def test_with_the_bound_of_clopper_and_pearson_the_mean_is_still_one_at_most() -> None:
    """The whole e-value of counts, including the all-or-nothing part, by exact sums."""
    counts, delta, error = every(8, 8), 0.0, 0.2
    for epsilon in (0.5, 1.5):
        values = np.array(
            [
                FixedCounts(counts=counts.take([row])).log_e_value(epsilon, delta, error)
                for row in range(len(counts))
            ]
        )
        worst = max(
            float(mean_at(values[:, None], counts, a, b).max()) for a, b in corners(epsilon, delta)
        )
        assert worst <= 1 + 1e-9
        assert worst > 0.3  # and it is not trivial


def test_bases_are_multiplied_or_averaged() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(4, 7))
    capital = np.exp(logs)
    shares = [
        weight * np.mean(np.prod(1 - share + share * capital, axis=0))
        for share, weight in count_bets.SHARES
    ]
    assert float(count_bets.mixed(logs)) == pytest.approx(np.log(sum(shares)))
    assert float(count_bets.mixed(logs, independent=False)) == pytest.approx(np.log(capital.mean()))
    assert sum(weight for _, weight in count_bets.SHARES) == pytest.approx(1.0)


def test_one_base_that_leaks_is_not_eaten_up_by_others() -> None:
    logs = np.full((20, 3), -2.0)
    logs[0] = 12.0
    assert float(count_bets.mixed(logs)) > np.log(20)
    assert logs.sum(axis=0).max() < 0  # without shares it would be
