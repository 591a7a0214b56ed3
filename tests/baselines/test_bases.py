"""Several bases: the best of them with correction, or all of them pooled."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.baselines.catalogue import ScoreEstimator, best_scores
from epsilometer.baselines.estimator import best_base, best_interval, pooled
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from tests.baselines.oracles import base, most_failures

COUNTS = AttackCounts(
    false_positives=[10, 40, 0, 100],
    trials_h0=[100, 100, 50, 100],
    false_negatives=[10, 40, 20, 100],
    trials_h1=[100, 200, 50, 100],
)


def test_best_base_shares_the_error() -> None:
    single = [
        ClopperPearson().lower(base(x, n0, y, n1), 0.01, 0.2 / 4)[0]
        for x, n0, y, n1 in ((10, 100, 10, 100), (40, 100, 40, 200), (0, 50, 20, 50))
    ]
    single.append(ClopperPearson().lower(base(100, 100, 100, 100), 0.01, 0.2 / 4)[0])
    assert best_base(ClopperPearson(), COUNTS, 0.01, 0.2) == max(single)
    alone = base(10, 100, 10, 100)
    assert best_base(ClopperPearson(), alone, 0.0) == ClopperPearson().lower(alone, 0.0)[0]


def test_best_interval_holds_the_best_base() -> None:
    some = AttackCounts(
        false_positives=[10, 40], trials_h0=100, false_negatives=[10, 40], trials_h1=100
    )
    low, high = best_interval(ClopperPearson(), some, 0.01, 0.1)
    assert low == best_base(ClopperPearson(), some, 0.01, 0.05)
    # Any base's lower end may be too high; only the strongest attack's upper end may be too low.
    lows, _ = ClopperPearson().interval(some, 0.01, 0.05)
    _, highs = ClopperPearson().interval(some, 0.01, 0.1)
    assert (low, high) == (lows.max(), highs.max())


def test_pooled_adds_up() -> None:
    one_ratio = AttackCounts(
        false_positives=[10, 40, 0],
        trials_h0=[100, 50, 10],
        false_negatives=[10, 40, 5],
        trials_h1=[200, 100, 20],
    )
    total = pooled(one_ratio)
    assert len(total) == 1
    cells = (total.false_positives, total.trials_h0, total.false_negatives, total.trials_h1)
    assert [int(cell[0]) for cell in cells] == [50, 160, 55, 320]
    with pytest.raises(InputError, match="same ratio of trials_h0 to trials_h1"):
        pooled(COUNTS)
    alone = base(3, 7, 2, 9)
    assert np.array_equal(pooled(alone).false_positives, alone.false_positives)


def test_pooled_bases_with_different_rates_meet_the_level() -> None:
    # Four null attacks with very different rates, (a, 1 - a), equally many trials of each.
    rng = np.random.default_rng(11)
    rates = np.array([0.05, 0.3, 0.6, 0.95])
    runs = 2000
    x = rng.binomial(100, rates, size=(runs, 4)).sum(axis=1)
    y = rng.binomial(100, 1 - rates, size=(runs, 4)).sum(axis=1)
    many = AttackCounts(false_positives=x, trials_h0=400, false_negatives=y, trials_h1=400)
    wrong = int((ClopperPearson().lower(many, 0.0) > 0).sum())
    assert wrong <= most_failures(runs)


def test_the_best_of_several_scores_is_within_the_level() -> None:
    """A bound with exactly its allowed error rate; uncorrected, the best of twenty errs far more."""
    exact = ScoreEstimator(
        label="exact",
        assumes="",
        lower=lambda scores, _, error: float(scores.in_order[0][0] < error),
    )
    rng = np.random.default_rng(5)
    runs, bases, promised = 400, 20, 0.1
    paid = unpaid = 0
    for values in rng.uniform(size=(runs, bases)):
        several = [CanaryScoreAuditor([value], [0.0]) for value in values]
        paid += best_scores(exact, several, 0.0, promised) > 0
        unpaid += max(exact.lower(each, 0.0, promised) for each in several) > 0
    assert 0 < paid <= most_failures(runs, promised)
    assert unpaid > most_failures(runs, promised)
