"""Error rates of the bounds from counts, on attacks with known rates: never above the stated level.

Members score Laplace(1, 1) and non-members Laplace(0, 1), whose epsilon is 1; at threshold 1 the attack
reaches it: TPR 1/2 over FPR 1/(2e).  The null has equal scores.  A check passes if the failures of all
simulated bases are no more than a 5 % error gives with probability 1 - 1e-4.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.baselines.estimator import CountEstimator
from epsilometer.baselines.intervals import ClopperPearson, GaussianRates, Jeffreys
from epsilometer.baselines.joint_beta import JointBeta
from epsilometer.baselines.log_ratio import AdjustedLog, Bailey, InverseSinh, Katz
from epsilometer.baselines.one_run import OneRunBound
from epsilometer.baselines.one_run_fdp import GaussianDP, OneRunFdpBound
from epsilometer.model.counts import AttackCounts
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
ONE_RUN: dict[str, CountEstimator] = {
    "one-run": OneRunBound(),
    "one-run-fdp": OneRunFdpBound(),
}
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
    return AttackCounts(
        false_positives=rng.binomial(n0, rates[0]),
        trials_h0=n0,
        false_negatives=rng.binomial(n1, rates[1]),
        trials_h1=n1,
    )


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
