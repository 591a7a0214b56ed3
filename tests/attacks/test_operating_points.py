"""Several operating points on one base: every challenge is decided once, and they form groups."""

from __future__ import annotations

import numpy as np
import pytest

import epsilometer as em
from epsilometer.attacks.result import AttackResult
from epsilometer.errors import InputError
from tests.attacks.test_result import result as result_of


@pytest.fixture
def result() -> AttackResult:
    rng = np.random.default_rng(1)
    return result_of(rng.random((4, 31)), rng.beta(0.5, 2.0, (4, 31)))


def rules(result: AttackResult, *rates: float) -> list[em.attacks.OperatingPoint]:
    return [em.attacks.OperatingPoint(result=result, target_alpha=rate) for rate in rates]


def test_every_challenge_is_judged_once(result: AttackResult) -> None:
    counts = em.attacks.split_counts(rules(result, 0.05, 0.1, 0.2))
    assert len(counts) == 12
    assert counts.dependent
    assert [len(rows) for rows in counts.members] == [3, 3, 3, 3]
    assert counts.pooled().trials_h0.tolist() == [31] * 4
    assert counts.pooled().trials_h1.tolist() == [31] * 4
    assert counts.repeated_names == ()


def test_an_operating_point_counts_its_share(result: AttackResult) -> None:
    counts = em.attacks.split_counts(rules(result, 0.05, 0.2))
    for base in range(4):
        for number, rate in enumerate((0.05, 0.2)):
            row = 2 * base + number
            mine_h0 = result.p_values_h0[base, number::2]
            mine_h1 = result.p_values_h1[base, number::2]
            assert counts.false_positives[row] == sum(p <= rate for p in mine_h0)
            assert counts.false_negatives[row] == sum(p > rate for p in mine_h1)
            assert counts.trials_h0[row] == len(mine_h0)


def test_challenges_without_a_p_value_were_never_made() -> None:
    p = np.array([[0.01, np.nan, 0.5, 0.02, np.nan, 0.9]])
    counts = em.attacks.split_counts(rules(result_of(p, p), 0.1, 0.2))
    assert counts.trials_h0.tolist() == [2, 2]
    assert counts.false_positives.tolist() == [1, 1]  # of .01, .5 and of .02, .9


def test_a_value_that_one_statistic_lacks_does_not_move_the_others() -> None:
    p = np.linspace(0.01, 0.99, 12)[None]
    holed = p.copy()
    holed[0, 2] = np.nan
    both = [
        em.attacks.OperatingPoint(result=result_of(p, p), target_alpha=0.5),
        em.attacks.OperatingPoint(
            result=result_of(holed, holed, statistic="logit"), target_alpha=0.5
        ),
    ]
    counts = em.attacks.split_counts(both)
    # The third challenge does not belong to the second operating point, so that one loses none.
    assert counts.trials_h0.tolist() == [6, 6]
    assert em.attacks.split_counts(both[::-1]).trials_h0.tolist() == [5, 6]


def test_a_rule_without_challenges_has_no_row() -> None:
    p = np.array([[0.01, 0.5]])
    assert len(em.attacks.split_counts(rules(result_of(p, p), 0.1, 0.2, 0.3))) == 2


def test_judging_every_challenge_by_every_rule_would_count_them_twice() -> None:
    """Null operating points that share their challenges agree by chance; with split ones they do not."""
    rng = np.random.default_rng(7)
    shared, dealt = [], []
    for _ in range(400):
        p = rng.random((1, 40))
        one = result_of(p, p)
        counts = [one.counts(rate).false_positives[0] / rate for rate in (0.3, 0.31)]
        shared.append(counts)
        apart = em.attacks.split_counts(rules(one, 0.3, 0.31))
        dealt.append(apart.false_positives)
    together, apart_then = (np.asarray(np.corrcoef(np.array(x).T)) for x in (shared, dealt))
    assert together[0, 1] > 0.9
    assert abs(apart_then[0, 1]) < 0.2  # 4 standard errors of 400 pairs


def test_wrong_rules_are_refused(result: AttackResult) -> None:
    other = result_of(result.p_values_h0, result.p_values_h1, names=("a", "b", "c", "d"))
    for wrong, said in (
        (rules(result, 0.1), "at least two operating points"),
        (rules(result, 0.1, 0.1), "distinct operating points"),
        (rules(result, 0.1) + rules(other, 0.2), "the same challenge bases"),
    ):
        with pytest.raises(InputError, match=said):
            em.attacks.split_counts(wrong)
    with pytest.raises(InputError, match="target_alpha"):
        em.attacks.OperatingPoint(result=result, target_alpha=1.0)
