"""Error rates of the bounds from counts and from scores are within what they state."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.baselines import scores as cutting
from epsilometer.baselines.estimator import CountEstimator
from epsilometer.baselines.intervals import (
    AdjustedLog,
    Bailey,
    ClopperPearson,
    GaussianRates,
    InverseSinh,
    Jeffreys,
    Katz,
)
from epsilometer.baselines.joint_beta import JointBeta
from epsilometer.baselines.one_run import GaussianDP, OneRunBound, OneRunFdpBound, epsilon_one_run
from epsilometer.baselines.scores import CanaryScoreAuditor, Ranks, Split
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from tests.baselines.oracles import most_failures

RUNS = 5000
TRIALS = 400
LAPLACE = (0.5 * math.exp(-1), 0.5)  # false positives, false negatives at threshold 1
NULL = (0.3, 0.7)
GAUSSIAN = (0.30853753872598694, 0.30853753872598694)  # N(1, 1) against N(0, 1) at threshold 1/2
COVERING_MU = 1.0300640  # the smallest mu whose Gaussian curve is below Laplace(1)'s

RATIOS: dict[str, CountEstimator] = {
    "clopper-pearson": ClopperPearson(),
    "clopper-pearson-one-sided": ClopperPearson(one_sided=True),
    "jeffreys": Jeffreys(),
    "katz": Katz(),
    "adjusted": AdjustedLog(),
    "bailey": Bailey(),
    "inverse-sinh": InverseSinh(),
}
ONE_RUN: dict[str, CountEstimator] = {"one-run": OneRunBound(), "one-run-fdp": OneRunFdpBound()}
GDP: dict[str, CountEstimator] = {
    "gaussian": GaussianRates(),
    "one-run-gdp": OneRunFdpBound(family=GaussianDP()),
}


def simulated(
    rates: tuple[float, float], seed: int, *, runs: int = RUNS, coins: bool = False
) -> AttackCounts:
    """Counts of many bases; with ``coins`` each canary is included by a fair coin."""
    rng = np.random.default_rng(seed)
    n1 = rng.binomial(2 * TRIALS, 0.5, runs) if coins else np.full(runs, TRIALS)
    n0 = 2 * TRIALS - n1
    return counts_of(rng.binomial(n0, rates[0]), n0, rng.binomial(n1, rates[1]), n1)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", list(RATIOS))
def test_bounds_from_rates(name: str, delta: float) -> None:
    for rates, truth, seed in ((NULL, 0.0, 1), (LAPLACE, 1.0, 2)):
        bounds = RATIOS[name].lower(simulated(rates, seed), delta)
        assert int((bounds > truth).sum()) <= most_failures(RUNS)
    assert np.median(bounds) > 0.6  # below the truth and close to it


@pytest.mark.parametrize("name", list(ONE_RUN))
def test_bounds_from_guesses(name: str) -> None:
    for rates, truth, seed in ((NULL, 0.0, 3), (LAPLACE, 1.0, 4)):
        runs = RUNS if name == "one-run" else 2000
        bounds = ONE_RUN[name].lower(simulated(rates, seed, runs=runs, coins=True), 0.0)
        assert int((bounds > truth).sum()) <= most_failures(runs)
    assert np.median(bounds) > 0.4


@pytest.mark.parametrize("name", list(GDP))
def test_bounds_that_take_the_mechanism_for_gaussian(name: str) -> None:
    runs = 1000
    for rates, mu, seed in ((NULL, 0.0, 5), (LAPLACE, COVERING_MU, 6), (GAUSSIAN, 1.0, 7)):
        truth = float(epsilon_of_gaussian(mu, 1e-5))
        counts = simulated(rates, seed, runs=runs, coins=name == "one-run-gdp")
        bounds = GDP[name].lower(counts, 1e-5)
        assert int((bounds > truth).sum()) <= most_failures(runs)
    assert np.median(bounds) > (3.0 if name == "gaussian" else 1.0)


@pytest.mark.parametrize("estimator", [ClopperPearson(), Jeffreys()], ids=lambda e: e.label)
def test_both_ends_hold_the_attack_s_own_epsilon(estimator: ClopperPearson | Jeffreys) -> None:
    low, high = estimator.interval(simulated(LAPLACE, 8), 0.0, significance=0.1)
    assert int((low > 1).sum()) <= most_failures(RUNS)
    assert int((high < 1).sum()) <= most_failures(RUNS)


def test_joint_beta_is_calibrated_where_one_edge_is_near() -> None:
    # There epsilon is log((1 - beta) / alpha), smooth in both rates: the quantiles are nearly exact,
    # so each end fails in about 5 %; within 4.5 standard errors of the bases and .4 % of bias.
    runs = 2000
    low, high = JointBeta().interval(simulated(LAPLACE, 9, runs=runs), 0.0, significance=0.1)
    for failures in ((low > 1).mean(), (high < 1).mean()):
        assert failures == pytest.approx(0.05, abs=4.5 * math.sqrt(0.05 * 0.95 / runs) + 0.004)


def test_the_point_estimate_fails_the_same_check() -> None:
    # Negative control: without limits of the rates it errs half of the time.
    counts = simulated(LAPLACE, 2)
    bounds = np.log(1 - counts.false_negative_rates) - np.log(counts.false_positive_rates)
    assert int((bounds > 1).sum()) > most_failures(RUNS)


def test_the_best_base_unpaid_fails_the_same_check() -> None:
    # Negative control: the best of a hundred null bases, each at the full significance.
    groups, bases = 200, 100
    counts = simulated(NULL, 10, runs=groups * bases)
    unpaid = ClopperPearson().lower(counts, 0.0).reshape(groups, bases).max(axis=1)
    assert int((unpaid > 0).sum()) > most_failures(groups)
    paid = ClopperPearson().lower(counts, 0.0, 0.05 / bases).reshape(groups, bases).max(axis=1)
    assert int((paid > 0).sum()) <= most_failures(groups)


SIZE = 200

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
    "split": (lambda a: a.epsilon_lower(ONE_SIDED, 0.05, threshold_strategy=Split()), False, 300),
    "one-run": (lambda a: a.epsilon_one_run(0.05, 0.0), True, 200),
    "one-run-both-sides": (lambda a: a.epsilon_one_run(0.05, 1e-5, one_sided=False), True, 80),
    "one-run-fdp": (lambda a: a.epsilon_one_run_fdp(0.05, 0.0), True, 40),
}
GDP_BOUNDS: dict[str, tuple[Callable[[CanaryScoreAuditor], float], bool, int]] = {
    "gaussian": (lambda a: a.epsilon_lower(GaussianRates(), 0.05, 1e-5), False, 100),
    "one-run-gdp": (lambda a: a.epsilon_one_run_fdp(0.05, 1e-5, family=GaussianDP()), True, 30),
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
def test_bounds_that_take_the_mechanism_for_gaussian_from_scores(epsilon: float, name: str) -> None:
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
    cuts = cutting.hull_cuts(*auditor.in_order)
    return float(AdjustedLog().lower(auditor.counts_of(cuts), 0.0, 0.05).max())


def unshared_ranks(auditor: CanaryScoreAuditor) -> float:
    """Fixed ranks, each with the whole error."""
    cuts = cutting.rank_cuts(*auditor.in_order, Ranks(1.05), one_sided=True)
    return float(AdjustedLog().lower(auditor.counts_of(cuts), 0.0, 0.05).max())


def unpaid_guesses(auditor: CanaryScoreAuditor) -> float:
    """Steinke's bound at the best vertex of the hull, each at the full significance."""
    cuts = cutting.hull_cuts(*auditor.in_order)
    right = auditor.num_in - cuts.false_negatives
    canaries = auditor.num_in + auditor.num_out
    return float(epsilon_one_run(canaries, right + cuts.false_positives, right, 0.0).max())


def ties_to_the_wrong_side(auditor: CanaryScoreAuditor) -> float:
    """Members at the threshold are called members, but non-members there are not all counted."""
    members, others = auditor.in_order
    cuts = cutting.rank_cuts(members, others, Ranks(), one_sided=True)
    missed = np.searchsorted(members, cuts.thresholds, side="left").astype(np.int64)
    wrong = cutting.Cuts(cuts.thresholds, cuts.false_positives, missed)
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
