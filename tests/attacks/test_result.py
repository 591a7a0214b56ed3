"""Results of attacks: counts at any rate, checks of the target rate, and warnings."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, shapiro

from epsilometer.attacks.losses import Losses
from epsilometer.attacks.result import (
    ALARM,
    CURVE_COLUMNS,
    LARGEST_SHAPIRO,
    SWEEP,
    AttackResult,
    normality,
    target_rate,
)
from epsilometer.attacks.statistics import CustomStatistic, Logit
from epsilometer.errors import InputError
from epsilometer.measurement.designs import cross_feed

FloatArray = NDArray[np.float64]
NAN = float("nan")


def result(
    p_values_h0: ArrayLike,
    p_values_h1: ArrayLike | None = None,
    *,
    scores_h0: ArrayLike | None = None,
    scores_h1: ArrayLike | None = None,
    **others: Any,
) -> AttackResult:
    h0 = np.atleast_2d(np.asarray(p_values_h0, dtype=float))
    h1 = np.atleast_2d(np.asarray(h0 if p_values_h1 is None else p_values_h1, dtype=float))
    settings: dict[str, Any] = {
        "names": tuple(f"base {number}" for number in range(len(h0))),
        "statistic": "loss",
        "attack": "likelihood-ratio",
    }
    return AttackResult(
        p_values_h0=h0,
        p_values_h1=h1,
        scores_h0=h0 if scores_h0 is None else np.atleast_2d(np.asarray(scores_h0, dtype=float)),
        scores_h1=h1 if scores_h1 is None else np.atleast_2d(np.asarray(scores_h1, dtype=float)),
        **(settings | others),
    )


def losses_of(h0: NDArray[Any], h1: NDArray[Any], names: Sequence[str] | None = None) -> Losses:
    """Losses from tables (bases, models)."""
    labels = [str(number) for number in range(len(h0))] if names is None else list(names)
    rows = [
        (labels[base], hypothesis, model, part[base, model])
        for hypothesis, part in enumerate((h0, h1))
        for base, model in np.ndindex(*part.shape)
    ]
    base, hypothesis, replicate, loss = zip(*rows, strict=True)
    return Losses(challenge_base=base, hypothesis=hypothesis, replicate=replicate, loss=loss)


# --- counts ---------------------------------------------------------------------------------------

# Some exactly at a rate, where "at most" must hold.
PROBABILITIES = st.one_of(
    st.floats(0, 1), st.just(NAN), st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.99, 1.0])
)
ROWS = st.lists(PROBABILITIES, min_size=4, max_size=4).filter(
    lambda row: not all(map(math.isnan, row))
)


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=4),
    st.floats(0, 1, exclude_min=True, exclude_max=True),
)
def test_counts_equal_those_of_a_loop(
    rows: list[tuple[list[float], list[float]]], level: float
) -> None:
    found = result([row[0] for row in rows], [row[1] for row in rows])
    for target in (level, 0.01, 0.1, 0.3, 0.99):
        counts = found.counts(target)
        assert counts.names == found.names
        for base, (h0, h1) in enumerate(rows):
            assert counts.false_positives[base] == sum(p <= target for p in h0)
            assert counts.false_negatives[base] == sum(p > target for p in h1)
            assert counts.trials_h0[base] == sum(not math.isnan(p) for p in h0)
            assert counts.trials_h1[base] == sum(not math.isnan(p) for p in h1)


def holed() -> AttackResult:
    rng = np.random.default_rng(31)
    h0, h1 = rng.random((4, 50)), rng.random((4, 30)) ** 3
    h0[1, 20:] = NAN
    h1[2, 5:] = NAN
    return result(h0, h1)


def test_sweep_is_counts_at_every_level() -> None:
    found = holed()
    curves = found.sweep()
    assert curves.target_alpha.tolist() == [level / 100 for level in range(1, 100)] == list(SWEEP)
    assert curves.names == found.names
    assert curves.false_positives.shape == curves.false_negatives.shape == (99, 4)
    for row, level in enumerate(SWEEP):
        counts = found.counts(level)
        assert counts.false_positives.tolist() == curves.false_positives[row].tolist()
        assert counts.false_negatives.tolist() == curves.false_negatives[row].tolist()
        assert counts.trials_h0.tolist() == curves.trials_h0.tolist() == [50, 20, 50, 50]
        assert counts.trials_h1.tolist() == curves.trials_h1.tolist() == [30, 30, 5, 30]


def test_any_csv_reader_finds_the_rows() -> None:
    found, levels = holed(), [0.1, 1 / 3, 0.7]
    records = list(csv.DictReader(io.StringIO(found.sweep(levels).to_csv(), newline="")))
    assert len(records) == len(levels) * len(found.names)
    for index, record in enumerate(records):
        level, base = divmod(index, len(found.names))
        counts = found.counts(levels[level])
        assert float(record["target_alpha"]) == levels[level]
        assert record["challenge_base"] == found.names[base]
        for column in CURVE_COLUMNS[2:]:
            assert int(record[column]) == getattr(counts, column)[base]


@pytest.mark.parametrize(
    "value", [0, 0.0, 1, 1.0, -0.1, 1.5, NAN, float("inf"), "0.1", None, True, 0.1j]
)
def test_target_out_of_range(value: Any) -> None:
    found = result([0.2, 0.4, 0.6])
    for ask in (target_rate, found.counts, found.checks, found.warnings):
        with pytest.raises(InputError, match="target_alpha"):
            ask(value)
    with pytest.raises(InputError, match="target_alpha"):
        found.sweep([0.1, value])


def test_targets_just_inside() -> None:
    found = result([0.0, 0.5, 1.0])
    assert found.counts(5e-324).false_positives.tolist() == [1]
    assert found.counts(np.nextafter(1.0, 0.0)).false_positives.tolist() == [2]


# --- realised against target ----------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.97])
@pytest.mark.parametrize("trials", [1, 20, 100])
def test_missed_is_the_binomial_test(trials: int, alpha: float) -> None:
    """Every possible count of one base: both tails doubled against ALARM, and its probability."""
    chance = 0.0
    for called in range(trials + 1):
        p = np.where(np.arange(trials) < called, alpha, 1.0)
        (check,) = result(p).checks(alpha)
        tails = binom.cdf(called, trials, alpha), binom.sf(called - 1, trials, alpha)
        assert check.missed == (2 * min(tails) < ALARM)
        assert check.realised == called / trials
        chance += check.missed * float(binom.pmf(called, trials, alpha))
    assert chance <= ALARM


def test_missed_shares_the_alarm_among_bases() -> None:
    """Nothing out of 70 at 0.1 has 2 * 0.9^70 = 0.0013: an alarm for one base, not for twenty."""
    nothing = np.ones(70)
    fits = np.where(np.arange(70) < 7, 0.0, 1.0)
    assert result(nothing).checks(0.1)[0].missed
    checks = result([nothing] + [fits] * 19).checks(0.1)
    assert not any(check.missed for check in checks)


def test_checks_name_their_base_and_its_scores() -> None:
    rng = np.random.default_rng(32)
    normal, crooked = rng.standard_normal(60), rng.standard_exponential(60) ** 3
    found = result(
        [np.linspace(0, 1, 60)] * 2, scores_h0=[normal, crooked], scores_h1=[crooked, normal]
    )
    first, second = found.checks(0.1)
    assert (first.name, second.name) == ("base 0", "base 1")
    assert first.normality_h0 == second.normality_h1 > 0.01
    assert first.normality_h1 == second.normality_h0 < 1e-6


@pytest.mark.parametrize(
    "scores", [[], [1.0, 2.0], [1.0, NAN, 2.0, NAN], [0.1] * 9, [NAN] * 5], ids=str
)
def test_no_normality_of_few_or_constant_scores(scores: list[float]) -> None:
    assert np.isnan(normality(np.array(scores)))


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12])
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_normality_is_shapiro_and_wilk(scale: float, offset: float) -> None:
    values = np.random.default_rng(33).standard_normal(40)
    holes = np.concatenate([[NAN], values, [NAN]])
    # Neither location nor scale matters, except for the digits lost to an offset.
    expected = float(shapiro(values).pvalue)
    assert normality((holes + offset) * scale) == pytest.approx(expected, rel=1e-9)


def test_normality_of_many_scores_uses_the_first() -> None:
    values = np.random.default_rng(34).standard_normal(LARGEST_SHAPIRO)
    longer = np.concatenate([values, np.full(1000, 1e6)])
    assert normality(longer) == normality(values)


# --- warnings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
def test_no_warning_about_normal_losses(alpha: float) -> None:
    """A false alarm has probability ALARM at a rate; with these fixed seeds there is none."""
    for seed in (41, 42, 43):
        h0, h1 = np.random.default_rng(seed).standard_normal((2, 20, 100))
        assert cross_feed(losses_of(5 + h0, 3 + h1)).warnings(alpha) == []


def crooked_losses() -> Losses:
    """Cross-entropies of models whose logit is normal: most nearly 0, a few large."""
    rng = np.random.default_rng(44)
    logits = [mean + 3 * rng.standard_normal((20, 100)) for mean in (2.0, 5.0)]
    return losses_of(np.log1p(np.exp(-logits[0])), np.log1p(np.exp(-logits[1])))


def test_warning_about_losses_far_from_normal() -> None:
    found = cross_feed(crooked_losses())
    (text,) = found.warnings(0.1)
    checks = found.checks(0.1)
    missed = [check for check in checks if check.missed]
    worst = max(missed, key=lambda check: abs(check.realised - 0.1))
    assert len(missed) > 10
    assert text.startswith(
        f"{len(missed)} of 20 bases missed the target false-positive rate 0.1 "
        f"(worst: {worst.name!r} with {worst.realised:.2f})"
    )
    assert f"{len(missed)} of these have losses far from normal" in text
    assert "statistic logit may work better" in text


def test_logit_serves_such_losses_better() -> None:
    """Its scores are normal here: no alarm, as for normal losses above."""
    assert cross_feed(crooked_losses(), statistic=Logit()).warnings(0.1) == []


@pytest.mark.parametrize(
    ("statistic", "constant", "far", "better"),
    [("loss", None, True, True), ("logit", None, True, False), ("loss", 0, True, True),
     ("loss", 1, True, True), ("loss", "normal", False, False)],
)  # fmt: skip
def test_advice_where_a_base_missed_its_rate(
    statistic: str, constant: Any, far: bool, better: bool
) -> None:
    """Logit is suggested for crooked scores unless already used; constant scores do not hide them."""
    rng = np.random.default_rng(46)
    crooked = rng.standard_exponential(100) ** 3
    scores = [crooked, crooked]
    if constant == "normal":
        scores = [rng.standard_normal(100)] * 2
    elif constant is not None:
        scores[constant] = np.ones(100)
    found = result(np.zeros(100), scores_h0=scores[0], scores_h1=scores[1], statistic=statistic)
    (text,) = found.warnings(0.1)
    assert "1 of 1 bases missed" in text
    assert ("1 of these have losses far from normal" in text) == far
    assert ("may work better" in text) == better


def test_warnings_name_a_few_bases() -> None:
    fits = np.where(np.arange(100) < 10, 0.0, 1.0)
    found = result(fits, left_out=tuple("abcdefg"), dropped=(("x", 3), ("y", 1)))
    dropped, left_out = found.warnings(0.1)
    assert dropped == "4 losses are not finite and were dropped ('x', 'y')."
    assert left_out == "too few losses to attack: 'a', 'b', 'c', 'd', 'e' and 2 more."


# --- what is left out -----------------------------------------------------------------------------


def test_base_with_too_few_losses_is_left_out_and_reported() -> None:
    rng = np.random.default_rng(47)
    h0, h1 = rng.standard_normal((4, 10)), rng.standard_normal((4, 10))
    whole = cross_feed(losses_of(h0, h1))
    h0[1, 2:] = NAN  # two leave one shadow too few for a variance
    h1[3] = NAN
    found = cross_feed(losses_of(h0, h1))
    assert found.names == ("0", "2")
    assert found.left_out == ("1", "3")
    assert found.dropped == (("1", 8), ("3", 10))
    np.testing.assert_array_equal(found.p_values_h0, whole.p_values_h0[[0, 2]])
    np.testing.assert_array_equal(found.scores_h1, whole.scores_h1[[0, 2]])
    assert found.counts(0.1).names == ("0", "2")
    text = " ".join(found.warnings(0.1))
    assert "too few losses to attack: '1', '3'." in text
    assert "18 losses are not finite" in text


def test_three_losses_are_just_enough() -> None:
    rng = np.random.default_rng(48)
    found = cross_feed(losses_of(rng.standard_normal((1, 3)), rng.standard_normal((1, 3))))
    assert found.left_out == ()
    assert found.counts(0.1).trials_h0.tolist() == [3]


@pytest.mark.parametrize("bad", [NAN, float("inf"), float("-inf")])
def test_losses_that_are_not_finite_count_as_missing(bad: float) -> None:
    rng = np.random.default_rng(49)
    h0, h1 = rng.standard_normal((3, 12)), rng.standard_normal((3, 12))
    h0[0, [0, 4]], h1[0, 11], h1[2, 5] = bad, bad, bad
    losses = losses_of(h0, h1)
    there = np.isfinite(losses.loss)
    without = Losses(
        challenge_base=[n for n, ok in zip(losses.challenge_base, there, strict=True) if ok],
        hypothesis=losses.hypothesis[there],
        replicate=losses.replicate[there],
        loss=losses.loss[there],
    )
    found, expected = cross_feed(losses), cross_feed(without)
    assert found.dropped == (("0", 3), ("2", 1))
    assert expected.dropped == ()
    assert found.counts(0.1).trials_h0.tolist() == [10, 12, 12]
    for one, other in (
        (found.p_values_h0, expected.p_values_h0),
        (found.p_values_h1, expected.p_values_h1),
    ):
        for row, again in zip(one, other, strict=True):
            # Sums over a row with gaps may be in another order.
            np.testing.assert_allclose(row[~np.isnan(row)], again[~np.isnan(again)], atol=1e-12)
    assert "4 losses are not finite and were dropped ('0', '2')." in found.warnings(0.1)


@pytest.mark.parametrize("bad", [NAN, float("inf"), float("-inf")])
def test_scores_that_are_not_finite_count_as_dropped(bad: float) -> None:
    """Finite losses for which a custom statistic is undefined, besides a missing loss."""
    rng = np.random.default_rng(50)
    h0, h1 = rng.random((3, 12)), rng.random((3, 12))
    h0[1, :2], h0[2, 0], h1[2, 7] = 5.0, 5.0, NAN
    statistic = CustomStatistic(function=lambda x: np.where(x > 1, bad, -x))
    found = cross_feed(losses_of(h0, h1), statistic=statistic)
    assert found.dropped == (("1", 2), ("2", 2))
    h0[1, :2], h0[2, 0] = NAN, NAN
    expected = cross_feed(losses_of(h0, h1))
    assert expected.dropped == found.dropped
    np.testing.assert_array_equal(found.p_values_h0, expected.p_values_h0)
    np.testing.assert_array_equal(found.p_values_h1, expected.p_values_h1)
    assert any(text.startswith("4 losses ") for text in found.warnings(0.1))


@pytest.mark.parametrize("kind", ["two models", "no H1", "all infinite"])
def test_no_usable_base(kind: str) -> None:
    h0, h1 = np.ones((2, 5)), np.ones((2, 5))
    if kind == "two models":
        h0, h1 = h0[:, :2], h1[:, :2]
    elif kind == "no H1":
        h1 = h1[:, :0]
    else:
        h0[:] = np.inf
    with pytest.raises(InputError, match="likelihood-ratio, got too few in each of 2 challenge ba"):
        cross_feed(losses_of(h0, h1))
