"""Error rates of the bounds from scores when the threshold is chosen on the data, with correction.

Up to 300 simulated sets of scores, null and Laplace (epsilon = 1), and scans with too small a correction
or wrong counts, which must fail the same check.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.baselines import thresholds
from epsilometer.baselines.intervals import ClopperPearson, GaussianRates
from epsilometer.baselines.log_ratio import AdjustedLog
from epsilometer.baselines.one_run import epsilon_one_run
from epsilometer.baselines.one_run_fdp import GaussianDP
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.baselines.thresholds import Ranks, Split
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from tests.baselines.oracles import most_failures

SIZE = 200
COVERING_MU = 1.0300640

FloatArray = NDArray[np.float64]
Scores = tuple[FloatArray, FloatArray]


def score_sets(shift: float, runs: int, seed: int, *, coins: bool) -> list[Scores]:
    """Laplace scores, ``shift`` higher for members; with ``coins`` each is included by a fair coin."""
    rng = np.random.default_rng(seed)
    sets = []
    for _ in range(runs):
        inside = rng.random(2 * SIZE) < 0.5 if coins else np.arange(2 * SIZE) < SIZE
        scores = rng.laplace(size=2 * SIZE) + shift * inside
        sets.append((scores[inside], scores[~inside]))
    return sets


def coarse_sets(runs: int, seed: int) -> list[Scores]:
    """Null scores with four values only: ties everywhere."""
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, 4, size=(runs, 2, SIZE)).astype(float)
    return [(members, others) for members, others in draws]


def failures(
    bound: Callable[[CanaryScoreAuditor], float], sets: list[Scores], truth: float
) -> tuple[int, float]:
    """How many bounds exceed the truth, and the median of them."""
    bounds = np.array([bound(CanaryScoreAuditor(*scores)) for scores in sets])
    return int((bounds > truth).sum()), float(np.median(bounds))


ONE_SIDED = ClopperPearson(one_sided=True)
BOUNDS: dict[str, tuple[Callable[[CanaryScoreAuditor], float], bool, int]] = {
    # name: (bound, whether each canary is included by a coin, sets)
    "clopper-pearson": (lambda a: a.epsilon_lower(ONE_SIDED, 0.05), False, 300),
    "both-sides": (lambda a: a.epsilon_lower(ClopperPearson(), 0.05), False, 300),
    "split": (
        lambda a: a.epsilon_lower(ONE_SIDED, 0.05, threshold_strategy=Split()),
        False,
        300,
    ),
    "one-run": (lambda a: a.epsilon_one_run(0.05, 0.0), True, 200),
    "one-run-both-sides": (lambda a: a.epsilon_one_run(0.05, 1e-5, one_sided=False), True, 80),
    "one-run-fdp": (lambda a: a.epsilon_one_run_fdp(0.05, 0.0), True, 40),
}
GDP_BOUNDS: dict[str, tuple[Callable[[CanaryScoreAuditor], float], bool, int]] = {
    "gaussian": (lambda a: a.epsilon_lower(GaussianRates(), 0.05, 1e-5), False, 100),
    "one-run-gdp": (
        lambda a: a.epsilon_one_run_fdp(0.05, 1e-5, family=GaussianDP()),
        True,
        30,
    ),
}


@pytest.mark.parametrize("name", list(BOUNDS))
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_a_chosen_threshold_is_paid_for(epsilon: float, name: str) -> None:
    bound, coins, runs = BOUNDS[name]
    wrong, median = failures(bound, score_sets(epsilon, runs, 21, coins=coins), epsilon)
    assert wrong <= most_failures(runs)
    if epsilon:
        assert median > 0.1  # and not trivially


@pytest.mark.parametrize("name", list(GDP_BOUNDS))
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_bounds_that_take_the_mechanism_for_gaussian(epsilon: float, name: str) -> None:
    bound, coins, runs = GDP_BOUNDS[name]
    truth = float(epsilon_of_gaussian(COVERING_MU if epsilon else 0.0, 1e-5))
    wrong, _ = failures(bound, score_sets(epsilon, runs, 22, coins=coins), truth)
    assert wrong <= most_failures(runs)


@pytest.mark.parametrize("name", ["clopper-pearson", "both-sides", "one-run"])
def test_ties_do_not_matter(name: str) -> None:
    bound, _, _ = BOUNDS[name]
    wrong, _ = failures(bound, coarse_sets(200, 23), 0.0)
    assert wrong <= most_failures(200)


def unpaid_scan(auditor: CanaryScoreAuditor) -> float:
    """The best vertex of the hull, each at the full significance."""
    cuts = thresholds.hull_cuts(*auditor.in_order)
    return float(AdjustedLog().lower(auditor.counts_of(cuts), 0.0, 0.05).max())


def unshared_ranks(auditor: CanaryScoreAuditor) -> float:
    """Fixed ranks, each with the whole error."""
    cuts = thresholds.rank_cuts(*auditor.in_order, Ranks(1.05), one_sided=True)
    return float(AdjustedLog().lower(auditor.counts_of(cuts), 0.0, 0.05).max())


def unpaid_guesses(auditor: CanaryScoreAuditor) -> float:
    """Steinke's bound at the best vertex of the hull, each at the full significance."""
    cuts = thresholds.hull_cuts(*auditor.in_order)
    right = auditor.num_in - cuts.false_negatives
    canaries = auditor.num_in + auditor.num_out
    return float(epsilon_one_run(canaries, right + cuts.false_positives, right, 0.0).max())


def ties_to_the_wrong_side(auditor: CanaryScoreAuditor) -> float:
    """Members at the threshold are called members, but non-members there are not all counted."""
    members, others = auditor.in_order
    cuts = thresholds.rank_cuts(members, others, Ranks(), one_sided=True)
    missed = np.searchsorted(members, cuts.thresholds, side="left").astype(np.int64)
    wrong = thresholds.Cuts(cuts.thresholds, cuts.false_positives, missed)
    share = 0.05 / len(cuts)
    return float(ClopperPearson(one_sided=True).lower(auditor.counts_of(wrong), 0.0, share).max())


# Not with Clopper-Pearson: two limits at once are so conservative on the null that they hide the scan.
@pytest.mark.parametrize(
    "scan", [unpaid_scan, unshared_ranks, unpaid_guesses], ids=lambda f: f.__name__
)
def test_a_scan_that_does_not_pay_fails_the_same_check(
    scan: Callable[[CanaryScoreAuditor], float],
) -> None:
    coins = scan is unpaid_guesses
    wrong, _ = failures(scan, score_sets(0.0, 200, 21, coins=coins), 0.0)
    assert wrong > most_failures(200)


def test_ties_counted_to_the_wrong_side_fail_the_same_check() -> None:
    wrong, _ = failures(ties_to_the_wrong_side, coarse_sets(200, 23), 0.0)
    assert wrong > most_failures(200)
