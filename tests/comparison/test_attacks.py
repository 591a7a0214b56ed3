"""Attacks side by side: curves against an obvious loop, and the way to a claim."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer._arrays import FloatArray
from epsilometer.attacks.pool_attacks import POOL_ATTACKS
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.cli.compare import text_of
from epsilometer.comparison.attacks import (
    RATES,
    AttackComparison,
    AttackRow,
    Gap,
    Judge,
    Roc,
    compare_pool_attacks,
    gap_of,
    roc_of,
)
from epsilometer.errors import InputError

# --- curves ---------------------------------------------------------------------------------------


def slow_auc(without: FloatArray, with_point: FloatArray) -> float:
    won = [(m > o) + 0.5 * (m == o) for m in with_point for o in without]
    return float(np.mean(won))


def slow_rate(without: FloatArray, with_point: FloatArray, rate: float) -> float:
    """The best of all thresholds that call at most that share of others members."""
    best = 0.0
    for limit in [-math.inf, *without, *with_point]:
        # Called are those above it; at -inf all of them, whatever their scores.
        everybody = limit == -math.inf
        false = 1.0 if everybody else float(np.mean(without > limit))
        true = 1.0 if everybody else float(np.mean(with_point > limit))
        if false <= rate + 1e-12:
            best = max(best, true)
    return best


def check(without: FloatArray, with_point: FloatArray) -> None:
    found = roc_of(without, with_point)
    assert found.auc == pytest.approx(slow_auc(without, with_point), abs=1e-12)
    assert found.others == len(without)
    for false, true in list(zip(found.false, found.true, strict=True))[::6]:
        assert true == pytest.approx(slow_rate(without, with_point, false), abs=1e-12)
    assert (np.diff(found.false) > 0).all()
    assert (np.diff(found.true) >= 0).all()
    assert found.at(1.0) == 1.0


SCORES = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=12).map(np.array)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SCORES, SCORES)
def test_curves_are_the_loop_with_ties_and_few_scores(
    without: FloatArray, with_point: FloatArray
) -> None:
    check(without, with_point)


def test_rates_that_so_few_others_cannot_show() -> None:
    rng = np.random.default_rng(1)
    for others, told in ((99, (False, False)), (100, (False, True)), (999, (False, True)),
                         (1000, (True, True))):  # fmt: skip
        without, with_point = rng.normal(size=others), rng.normal(size=50) + 2
        found = roc_of(without, with_point)
        assert tuple(not math.isnan(found.at(rate)) for rate in RATES) == told
        for rate, known in zip(RATES, told, strict=True):
            if known:
                assert found.at(rate) == slow_rate(without, with_point, rate)


# --- the gap --------------------------------------------------------------------------------------


def row(proven: float, shown: float, *, attack: str = "a", points: str = "judged") -> AttackRow:
    roc = roc_of(np.arange(4.0), np.arange(4.0))
    ends = (shown / 2, shown, 2 * shown)
    return AttackRow(attack=attack, points=points, roc=roc, proven=proven, shown=ends)


EPSILON = st.floats(0, 20)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(EPSILON, EPSILON, EPSILON, EPSILON, EPSILON, EPSILON)
def test_the_parts_of_the_gap_are_not_negative_and_make_the_claim(
    claim: float, proven: float, mine: float, best: float, one: float, other: float
) -> None:
    sets = [row(0, best), row(0, one), row(0, other)]
    rows = [row(0, best), row(proven, mine, attack="mine")]
    gap = gap_of(claim, "mine", rows, sets)
    assert gap is not None
    parts = (gap.estimator, gap.attack, gap.points, gap.unexplained)
    assert min(parts) >= 0
    assert gap.proven + sum(parts) == pytest.approx(max(claim, proven))


def test_a_gap_by_hand() -> None:
    rows = [row(0, 3), row(1, 2, attack="mine")]
    found = gap_of(6, "mine", rows, [row(0, 3), row(0, 4.5)])
    assert vars(found) == {
        "claim": 6, "proven": 1, "estimator": 1, "attack": 1, "points": 1.5, "unexplained": 1.5,
    }  # fmt: skip
    reached = gap_of(2.5, "mine", rows, [row(0, 3)])
    assert reached is not None
    assert (reached.attack, reached.points, reached.unexplained) == (0.5, 0, 0)
    assert gap_of(None, "mine", rows, rows) is None
    assert gap_of(6, "another", rows, rows) is None  # the audit's own attack could not be made


# --- text -----------------------------------------------------------------------------------------


def comparison(**changed: object) -> AttackComparison:
    roc = Roc(auc=1.0, false=np.array([0.001, 1.0]), true=np.array([1.0, 1.0]), others=5000)
    wide = AttackRow(attack="likelihood-ratio, logit", points="judged", roc=roc,
                     proven=1234.567, shown=(123.4, 500.0, 12345.6))  # fmt: skip
    usual = {
        "judge": Judge(delta=1e-5, source="a" * 70 + ".db of audit.toml: 1,024 models, 60,000 points"),
        "rows": (wide, row(0.0, 0.1)),
        "point_sets": (wide, row(0.0, 0.1, points="leakiest in the first stage")),
        "skipped": (("population", "expected reference points for the attack, got none. " * 4),),
        "gap": gap_of(2000, wide.attack, [wide], [wide]), "notes": ("A note of several words. " * 9,),
    }  # fmt: skip
    return AttackComparison(**usual | changed)  # type: ignore[arg-type]


def test_text_is_80_columns_wide_and_columns_stand_apart() -> None:
    text = text_of(comparison())
    assert max(map(len, text.splitlines())) <= 80
    assert text.endswith("\n")
    assert "likelihood-ratio, logit   1.000      100.00 %    100.00 %  1234.56" in text
    assert "123 to 12346" in text
    assert "too few" in text
    assert "population was left out" in text
    assert "from 0 to the claim of 2000" in text
    lines = text.splitlines()
    head = next(line for line in lines if line.startswith("attack"))
    table = lines[lines.index(head) : lines.index(head) + 3]
    assert {len(line) for line in table} == {len(head)}


def test_text_of_a_claim_that_is_refuted() -> None:
    text = text_of(comparison(gap=Gap(claim=1, proven=2.349, estimator=0, attack=0, points=0,
                                      unexplained=0)))  # fmt: skip
    assert "The claim of 1 is refuted: 2.34 is proven." in text
    assert "claim" not in text_of(comparison(gap=None))


# --- attacks on a pool ----------------------------------------------------------------------------


def pool(models: int = 12, points: int = 30) -> PoolLosses:
    rng = np.random.default_rng(3)
    member = rng.random((models, points)) < 0.5
    return PoolLosses(
        loss=np.logaddexp(0, -rng.normal(size=member.shape) - 2.5 * member),
        member=member,
        fair_coins=True,
    )


HERE = Judge(delta=0.1, source="here", own="loss", claim=9.0)


def compared(losses: PoolLosses, *names: str, **changed: object) -> AttackComparison:
    usual = {
        "teachers": np.arange(6), "judge": HERE,
        "points": {"judged": np.arange(3), "random": np.arange(3, 6)},
    }  # fmt: skip
    attacks = {name: POOL_ATTACKS[name] for name in names}
    return compare_pool_attacks(losses, attacks, **usual | changed)  # type: ignore[arg-type]


def test_rows_of_a_pool() -> None:
    said: list[str] = []
    found = compared(pool(), "loss", "lira", "population", judge=replace(HERE, report=said.append))
    assert {each.attack for each in found.rows} == {"loss", "lira"}
    (skipped,) = found.skipped
    assert skipped[0] == "population"
    assert "reference points" in skipped[1]
    keys = [(each.proven, each.shown[1], each.roc.auc) for each in found.rows]
    assert keys == sorted(keys, reverse=True)
    assert [each.points for each in found.point_sets] == ["judged", "random"]
    assert {each.attack for each in found.point_sets} == {found.point_sets[0].attack}
    by_loss = next(each for each in found.rows if each.attack == "loss")
    losses = pool()
    expected = slow_auc(-losses.loss[~losses.member][:, 0], -losses.loss[losses.member][:, 0])
    assert by_loss.roc.auc == pytest.approx(expected)
    assert found.gap is not None
    assert found.gap.proven == by_loss.proven
    assert said[0] == "attack loss"
    data = found.described()
    assert set(data) == {
        "source", "delta", "error", "level", "attacks", "points", "skipped", "gap", "notes",
    }  # fmt: skip
    assert set(data["attacks"][0]) == {
        "attack", "points", "auc", "true_positive_rate_at_0.001", "true_positive_rate_at_0.01",
        "proven", "shown",
    }  # fmt: skip
    assert data["attacks"][0]["true_positive_rate_at_0.001"] is None  # too few
    assert data["attacks"][0]["true_positive_rate_at_0.01"] is not None
    assert set(data["attacks"][0]["shown"]) == {"low", "median", "high"}


def test_no_attack_at_all() -> None:
    with pytest.raises(InputError, match=r"no attack can run on here: .*reference points"):
        compared(pool(), "population")
    few = compared(pool(), "loss", "lira", teachers=np.arange(3), points={"judged": np.arange(2)})
    assert few.skipped == [("lira", "it needs at least 4 models to learn from.")]
