"""Requirements on every estimator; several bases: the best of them, or all pooled."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.baselines.catalogue import (
    FROM_COUNTS,
    FROM_SCORES,
    ScoreEstimator,
    best_scores,
    one_run_fdp_scan,
    one_run_scan,
    raw_counts,
    roc_scan,
)
from epsilometer.baselines.estimator import (
    CountEstimator,
    Kind,
    best_base,
    best_interval,
    check_positive_delta,
    pooled,
)
from epsilometer.baselines.intervals import ClopperPearson, GaussianRates, Jeffreys
from epsilometer.baselines.one_run import GaussianDP, OneRunFdpBound
from epsilometer.baselines.scores import Bonferroni, CanaryScoreAuditor, Split
from epsilometer.errors import InputError
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts, counts_of
from tests.baselines.oracles import base, most_failures, normal_grid

FIXED = settings(derandomize=True, max_examples=8, deadline=None)

VARIANTS: dict[str, CountEstimator] = {
    "Clopper-Pearson, one-sided": ClopperPearson(one_sided=True),
    "Jeffreys, one-sided": Jeffreys(one_sided=True),
    "one run, f-DP, Gaussian": OneRunFdpBound(family=GaussianDP()),
}
ALL = {estimator.label: estimator for estimator in FROM_COUNTS} | VARIANTS
# Exchanging the hypotheses changes nothing; the others use one direction only.
EXCHANGEABLE = [name for name in ALL if "one-sided" not in name and "one run" not in name]
REFLECTABLE = ["Clopper-Pearson", "Jeffreys", "joint beta"]

counts_of_one = st.tuples(st.integers(1, 90), st.floats(0, 1), st.integers(1, 90), st.floats(0, 1))
levels = st.floats(0.001, 0.6)
deltas = st.sampled_from([1e-6, 1e-3, 0.02, 0.2])


def to_base(drawn: tuple[int, float, int, float]) -> AttackCounts:
    n0, share0, n1, share1 = drawn
    return base(round(share0 * n0), n0, round(share1 * n1), n1)


@pytest.mark.parametrize("name", list(ALL))
@FIXED
@given(drawn=counts_of_one, delta=deltas, level=levels)
def test_ends_are_in_order(
    name: str, drawn: tuple[int, float, int, float], delta: float, level: float
) -> None:
    counts = to_base(drawn)
    low, high = ALL[name].interval(counts, delta, level)
    assert 0 <= low[0] <= high[0]
    assert low[0] < math.inf
    if name != "joint beta":  # others give the same half to the lower end; this is a quantile
        assert low[0] == pytest.approx(ALL[name].lower(counts, delta, level / 2)[0], abs=1e-8)


@pytest.mark.parametrize("name", list(ALL))
@FIXED
@given(
    drawn=counts_of_one,
    some_deltas=st.tuples(deltas, deltas).map(sorted),
    some_levels=st.tuples(levels, levels).map(sorted),
)
def test_lower_end_rises_with_significance_and_falls_with_delta(
    name: str,
    drawn: tuple[int, float, int, float],
    some_deltas: list[float],
    some_levels: list[float],
) -> None:
    counts, estimator = to_base(drawn), ALL[name]
    small, large = (estimator.lower(counts, some_deltas[0], s)[0] for s in some_levels)
    assert small <= large + 1e-7
    further = estimator.lower(counts, some_deltas[1], some_levels[0])[0]
    assert further <= small + 1e-7


def exchanged(x: int, n0: int, y: int, n1: int) -> AttackCounts:
    return base(y, n1, x, n0)


def reflected(x: int, n0: int, y: int, n1: int) -> AttackCounts:
    return base(n0 - x, n0, n1 - y, n1)


@pytest.mark.parametrize(
    ("name", "turned"),
    [*((name, exchanged) for name in EXCHANGEABLE), *((name, reflected) for name in REFLECTABLE)],
)
@FIXED
@given(drawn=counts_of_one, delta=deltas, level=levels)
def test_hypotheses_can_be_exchanged_and_decisions_reflected(
    name: str,
    turned: Callable[..., AttackCounts],
    drawn: tuple[int, float, int, float],
    delta: float,
    level: float,
) -> None:
    counts = to_base(drawn)
    other = turned(*(int(counts.rows()[0][column]) for column in COLUMNS))
    same, found = (np.ravel(ALL[name].interval(c, delta, level)) for c in (counts, other))
    assert found == pytest.approx(same, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", list(ALL))
def test_many_bases_are_one_by_one(name: str) -> None:
    cells = [(10, 100, 10, 100), (0, 40, 0, 50), (50, 50, 3, 9), (1, 1, 0, 1), (7, 90, 800, 1000)]
    counts = AttackCounts(**dict(zip(COLUMNS, np.transpose(cells), strict=True)))
    many = ALL[name].interval(counts, 0.001, 0.1)
    alone = [ALL[name].interval(base(*cell), 0.001, 0.1) for cell in cells]
    for end in range(2):
        assert many[end].shape == (5,)
        assert many[end] == pytest.approx([float(a[end][0]) for a in alone], abs=1e-8)


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize(
    ("delta", "significance", "message"),
    [
        (1.0, 0.05, "0 <= delta < 1, got delta=1.0"),
        (-0.1, 0.05, "0 <= delta < 1, got delta=-0.1"),
        (math.nan, 0.05, "delta=nan"),
        (1e-5, 0.0, "0 < significance < 1, got significance=0.0"),
        (1e-5, 1.0, "0 < significance < 1, got significance=1.0"),
        (1e-5, 2.0, "significance=2.0"),
        (1e-5, math.nan, "significance=nan"),
    ],
)
def test_out_of_range(name: str, delta: float, significance: float, message: str) -> None:
    for method in (ALL[name].lower, ALL[name].interval):
        with pytest.raises(InputError, match=message):
            method(base(1, 10, 1, 10), delta, significance)


def test_the_error_names_who_needs_a_positive_delta() -> None:
    assert check_positive_delta(0.1, who="me") == 0.1
    with pytest.raises(InputError, match="me assumes a Gaussian mechanism"):
        check_positive_delta(0.0, who="me")


AUDITOR = CanaryScoreAuditor(normal_grid(150) + 2, normal_grid(150))


def test_labels_are_distinct_and_assumptions_are_stated() -> None:
    assert len({e.label for e in FROM_COUNTS}) == len(FROM_COUNTS)
    assert len({e.label for e in FROM_SCORES}) == len(FROM_SCORES)
    words = [(e.label, e.assumes, e.kind, e.gaussian) for e in FROM_COUNTS]
    words += [(e.label, e.assumes, e.kind, e.gaussian) for e in FROM_SCORES]
    for label, assumes, kind, gaussian in words:
        assert label
        assert assumes
        assert kind in set(Kind)
        assert gaussian == ("Gaussian" in label)


def test_they_are_the_auditor_s() -> None:
    a, split, hull = AUDITOR, Split(), Bonferroni()
    pairs: list[tuple[ScoreEstimator, float]] = [
        (roc_scan(ClopperPearson()), a.epsilon_lower(ClopperPearson(), 0.1, 1e-5)),
        (
            roc_scan(ClopperPearson(), split),
            a.epsilon_lower(ClopperPearson(), 0.1, 1e-5, threshold_strategy=split),
        ),
        (
            roc_scan(GaussianRates(), hull),
            a.epsilon_lower(GaussianRates(), 0.1, 1e-5, threshold_strategy=hull),
        ),
        (one_run_scan(), a.epsilon_one_run(0.1, 1e-5)),
        (one_run_scan(one_sided=False), a.epsilon_one_run(0.1, 1e-5, one_sided=False)),
        (one_run_fdp_scan(), a.epsilon_one_run_fdp(0.1, 1e-5)),
        (one_run_fdp_scan(GaussianDP()), a.epsilon_one_run_fdp(0.1, 1e-5, family=GaussianDP())),
        (raw_counts(5), a.epsilon_raw_counts(5, 1e-5)),
    ]
    for estimator, expected in pairs:
        assert estimator.lower(a, 1e-5, 0.1) == expected


def test_the_strategy_is_in_the_label() -> None:
    assert roc_scan(ClopperPearson(), Bonferroni()).label == "ROC scan, Clopper-Pearson, Bonferroni"
    assert one_run_scan(Split(), one_sided=False).label == "one-run scan, both ends, Split"


# --- several bases: the best of them with correction, or all of them pooled -----------------------


COUNTS = counts_of([10, 40, 0, 100], [100, 100, 50, 100], [10, 40, 20, 100], [100, 200, 50, 100])


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
    some = counts_of([10, 40], 100, [10, 40], 100)
    low, high = best_interval(ClopperPearson(), some, 0.01, 0.1)
    assert low == best_base(ClopperPearson(), some, 0.01, 0.05)
    # Any base's lower end may be too high; only the strongest attack's upper end may be too low.
    lows, _ = ClopperPearson().interval(some, 0.01, 0.05)
    _, highs = ClopperPearson().interval(some, 0.01, 0.1)
    assert (low, high) == (lows.max(), highs.max())


def test_pooled_adds_up() -> None:
    one_ratio = counts_of([10, 40, 0], [100, 50, 10], [10, 40, 5], [200, 100, 20])
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
