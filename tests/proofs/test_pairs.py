"""Bets on pairs of models: means of e-values over all that can happen, and slow twins of every step."""

from __future__ import annotations

from itertools import pairwise, product
from math import exp, inf, log

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar
from scipy.stats import t as student

from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.proofs import outcomes
from epsilometer.proofs.bettors import Bettors, bettors_against
from epsilometer.proofs.nearest import nearest
from epsilometer.proofs.outcomes import Outcomes, outcomes_of
from epsilometer.proofs.pairs import PairTest, log_mixtures, multiplied
from epsilometer.proofs.refuting import LARGEST_CLAIM

CLAIMS = [(0.0, 0.0), (0.7, 1e-5), (1.0, 0.1), (3.0, 1e-3), (5.0, 0.0)]

#: What is beyond its thresholds for a model without the point, and with it: each outcome's bits.
HIGH, LOW = (outcomes.HIGH_WITHOUT, outcomes.HIGH_WITH), (outcomes.LOW_WITHOUT, outcomes.LOW_WITH)


def extreme(epsilon: float, delta: float) -> FloatPair:
    """The mechanism of which all others are post-processings: its four outputs, without and with."""
    likely, rare = ((1 - delta) / (1 + exp(sign * epsilon)) for sign in (-1, 1))
    return np.array([delta, likely, rare, 0.0]), np.array([0.0, rare, likely, delta])


def tables(against: Bettors) -> FloatArray:
    """E-values of each bettor: by what is beyond its thresholds (neither, high, low, both), 4 x 4."""
    cells = [[bits[0] * high + bits[1] * low for low in (0, 1) for high in (0, 1)] for bits in
             ((HIGH[side], LOW[side]) for side in (0, 1))]  # fmt: skip
    return np.exp(against.log_e[:, np.add.outer(*cells)])


# --- e-values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_e_values_have_mean_one_at_most_however_outputs_become_scores(
    epsilon: float, delta: float
) -> None:
    zeros, ones = extreme(epsilon, delta)
    against = bettors_against(epsilon, delta)
    e_values = tables(against)[against.weight > 0]
    rng = np.random.default_rng(1)
    maps = [np.eye(4)[list(cells)] for cells in product(range(4), repeat=4)]
    maps += list(rng.dirichlet(np.full(4, 0.3), size=(500, 4)))
    kernels = np.array(maps)
    means = np.einsum("mi,bij,mj->mb", zeros @ kernels, e_values, ones @ kernels)
    assert means.max() <= 1 + 1e-9
    assert np.median(means.max(axis=0)) > 0.99  # and nothing is given away
    # Control: a mechanism that leaks a little more than is claimed.
    zeros, ones = extreme(epsilon + 0.1, delta)
    means = np.einsum("mi,bij,mj->mb", zeros @ kernels, e_values, ones @ kernels)
    assert means.max() > 1.001


def largest_sum(zeros: FloatArray, ones: FloatArray, epsilon: float, delta: float) -> float:
    """The largest E f0 + E f1 that a claim allows, by a linear program: no event tells more."""
    size = len(zeros)
    events = np.array(list(product((0, 1), repeat=size)))
    rows = np.vstack([np.hstack([a * events, b * events]) for a, b in
                      ((1, -exp(epsilon)), (-exp(epsilon), 1))])  # fmt: skip
    sums = np.kron(np.eye(2), np.ones(size))
    values = np.concatenate([zeros, ones])
    found = linprog(-values, rows, np.full(len(rows), delta), sums, np.ones(2))
    return -float(np.asarray(found.fun))


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS[1:4])
def test_e_values_are_certified_by_a_linear_program(epsilon: float, delta: float) -> None:
    """An e-value f0 f1 has mean at most 1 if E f0 + E f1 is at most 2, whatever else is known."""
    against = bettors_against(epsilon, delta)
    rng = np.random.default_rng(2)
    allowed = []
    for table in rng.permutation(tables(against)[against.weight > 0])[:12]:
        zeros, ones = table[:, 0] / np.sqrt(table[0, 0]), table[0] / np.sqrt(table[0, 0])
        np.testing.assert_allclose(np.outer(zeros, ones), table, rtol=1e-9)
        best = minimize_scalar(
            lambda c, f=(zeros, ones): largest_sum(exp(c) * f[0], exp(-c) * f[1], epsilon, delta),
            bounds=(-3, 3),
            method="bounded",
            options={"xatol": 1e-5},
        )
        allowed.append(best.fun)
    # The solver's own tolerance.
    assert 1.9 < min(allowed) <= max(allowed) <= 2 + 1e-6


def test_likelihood_ratios_alone_are_no_e_values() -> None:
    """The control: ratios to rates that the claim allows, but not the nearest, without (C / 2)^2."""
    epsilon, delta = 1.0, 0.0
    zeros, ones = extreme(epsilon, delta)
    rare, common = 0.05, 0.6
    ratios = [np.array([(1 - rate) / (1 - near), rate / near]) for rate, near in
              ((rare, 0.01), (common, 0.01 * exp(epsilon)))]  # fmt: skip
    most = largest_sum(ratios[0], ratios[1], epsilon, delta)
    kernels = [np.eye(2)[list(cells)] for cells in product((0, 1), repeat=4)]
    means = [float(zeros @ each @ ratios[0]) * float(ones @ each @ ratios[1]) for each in kernels]
    assert max(means) > 1.2
    assert max(means) / (most / 2) ** 2 <= 1 + 1e-9


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.5, 0.99])
def test_bettors_have_weights_and_are_never_ruined(delta: float) -> None:
    for epsilon in (0.0, 2.0, 10.0, LARGEST_CLAIM):
        against = bettors_against(epsilon, delta)
        assert against.weight.sum() == pytest.approx(1.0)
        assert np.isfinite(against.log_e[against.weight > 0]).all()


@pytest.mark.parametrize(("rare", "common"), [(0.01, 0.3), (0.2, 0.9), (0.001, 0.01), (0.3, 0.31)])
def test_nearest_rates_are_those_of_a_fine_search(rare: float, common: float) -> None:
    def divergence(rate: float, other: FloatArray) -> FloatArray:
        return np.asarray(
            rate * np.log(rate / other) + (1 - rate) * np.log((1 - rate) / (1 - other))
        )

    for epsilon, delta in CLAIMS[:4]:
        odds = exp(epsilon)
        grid = np.linspace(0, 1, 400_001)[1:-1]
        edge = np.minimum(odds * grid + delta, 1 - (1 - grid - delta) / odds)
        ok = (edge > 0) & (edge < 1)
        far = divergence(rare, grid[ok]) + divergence(common, edge[ok])
        inside = common <= odds * rare + delta and 1 - rare <= odds * (1 - common) + delta
        near = nearest(rare, common, odds, delta)
        found = sum(
            float(divergence(a, np.array(b))) for a, b in zip((rare, common), near, strict=True)
        )
        least = 0.0 if inside else float(far.min())
        # The search has a finite step: where the edges meet it misses the corner slightly.
        assert least - 1e-4 <= found <= least + 1e-9


# --- thresholds -------------------------------------------------------------------------------------


def marked(pair: tuple[float, float], high: float, low: float, *, or_at: bool = False) -> int:
    """The outcome of a pair at two thresholds; a score on the high one is high if ``or_at``."""
    code = 0
    for side, score in enumerate(pair):
        code += HIGH[side] * (score >= high if or_at else score > high)
        code += LOW[side] * (score < low)
    return int(code)


def slow_fit(own: FloatArray, both: FloatArray, deviations: float) -> float | None:
    """A quantile of the past, on the scale of logarithms if this is less skewed."""
    own, both = own[np.isfinite(own)], both[np.isfinite(both)]
    found = []
    for sign in (0, 1, -1):  # as they are; logarithms of positive and of negative scores
        if sign and not (sign * both > 0).all():
            continue
        values = sign * np.log(sign * own) if sign else own
        centred = values - values.mean()
        if len(values) > 1 and (centred**2).sum() > 1e-20:
            skewness = abs((centred**3).sum()) / (centred**2).sum() ** 1.5
            value = float(values.mean() + deviations * values.std(ddof=1))
            found.append((skewness, sign * exp(sign * value) if sign else value))
    return min(found)[1] if found else None


def slow_cut(zeros: FloatArray, ones: FloatArray) -> tuple[float, float, float]:
    """The threshold with most correct decisions on the past, and its rates of errors."""
    size, quarter = len(zeros), max(len(zeros) // 4, 1)
    values = sorted({*zeros, *ones})
    best, cut = (0.0, inf), -inf
    for last, score in pairwise(values):
        right = float((zeros < score).sum() + (ones >= score).sum() - size)
        if (right, score - last) > best:
            best = right, score - last
            below = np.sort(zeros)[max(int((zeros < score).sum()) - 1 - quarter, 0)]
            above = np.sort(ones)[min(int((ones < score).sum()) + quarter, size - 1)]
            with np.errstate(invalid="ignore"):
                spread = last - below + above - score
                share = (last - below) / spread if 0 < spread < inf else 0.5
                cut = last + (score - last) * min(max(share, 0.1), 0.9)
            cut = cut if last < cut <= score else score
    return cut, float((zeros >= cut).mean()), float((ones < cut).mean())


def slow_outcomes(zeros: FloatArray, ones: FloatArray) -> tuple[IntArray, FloatArray]:
    """Outcomes and errors of the cut, by looking at the whole past again for every pair."""
    codes = np.full((outcomes.PLACEMENTS, len(zeros)), outcomes.NO_BET)
    errors, due = np.zeros((2, len(zeros))), 0
    for pair in range(outcomes.PAIRS_BEFORE_BETS, len(zeros)):
        now, past = (zeros[pair], ones[pair]), (zeros[:pair], ones[:pair])
        both = np.concatenate(past)
        for number, rate in enumerate(outcomes.RANK_RATES):
            if rate * (pair + 1) >= outcomes.LEAST_BEYOND:
                place = max(round(rate * (pair + 1)) - 1, 0)
                highs, lows = np.sort(past[0])[::-1], np.sort(past[1])
                codes[number, pair] = marked(now, highs[place], lows[place])
        size = min(pair, outcomes.FITTED_SIZES - 1)
        for number, rate in enumerate(outcomes.FIT_RATES, len(outcomes.RANK_RATES)):
            deviations = student.isf(rate, size - 1) * np.sqrt(1 + 1 / size)
            high, low = slow_fit(past[0], both, deviations), slow_fit(past[1], both, -deviations)
            if high is not None and low is not None:
                codes[number, pair] = marked(now, high, low)
        if pair >= due:
            cut, *wrong = slow_cut(*past)
            due = max(pair + 1, int(pair * (1 + outcomes.CUT_GROWTH)))
        errors[:, pair] = wrong
        codes[outcomes.CUT, pair] = marked(now, cut, cut, or_at=True)
    return codes, errors


def drawn(rng: np.random.Generator, pairs: int) -> FloatPair:
    """Scores without and with the point: normal, all positive, with many ties, some infinite."""
    zeros, ones = rng.normal(size=pairs), rng.normal(size=pairs) + rng.choice([0.0, 2.0])
    how = rng.integers(4)
    if how == 1:
        return np.exp(2 * zeros), np.exp(2 * ones)
    if how >= 2:
        zeros, ones = np.rint(zeros), np.rint(ones)
    if how == 3:
        zeros[rng.random(pairs) < 0.2], ones[rng.random(pairs) < 0.2] = rng.choice([-inf, inf], 2)
    return zeros, ones


@pytest.mark.parametrize("seed", range(12))
def test_outcomes_are_those_of_a_slow_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    zeros, ones = drawn(rng, 60 + 400 * (seed == 0))
    codes, errors = slow_outcomes(zeros, ones)
    found = outcomes_of([(zeros, ones)])
    np.testing.assert_array_equal(found.codes, codes)
    np.testing.assert_allclose(found.cut_errors, errors, atol=1e-12)


def test_a_pair_is_judged_by_its_past_alone() -> None:
    rng = np.random.default_rng(3)
    zeros, ones = rng.normal(size=70), rng.normal(size=70) + 1
    whole = outcomes_of([(zeros, ones)])
    for pairs in (3, 20, 69):
        other = outcomes_of([(np.append(zeros[:pairs], 50.0), np.append(ones[:pairs], -50.0))])
        np.testing.assert_array_equal(other.codes[:, :pairs], whole.codes[:, :pairs])
        np.testing.assert_array_equal(other.cut_errors, whole.cut_errors[:, : pairs + 1])


# --- capital ----------------------------------------------------------------------------------------


def slow_capitals(bets: Outcomes, against: Bettors) -> FloatArray:
    """Capital of each bettor on each base."""
    found = np.ones((len(bets.starts) - 1, len(against.weight)))
    for base, bettor in np.ndindex(found.shape):
        paper, placed = 0.0, 0
        log_e, place = against.log_e[bettor], against.placement[bettor]
        first, last = bets.starts[base : base + 2]
        for pair, code in enumerate(bets.codes[place, first:last]):
            if code == outcomes.NO_BET:
                continue
            seen = paper
            if place == outcomes.CUT:  # what it wins on average at the errors of the past
                high0, low1 = bets.cut_errors[:, first + pair]
                seen = pair * sum(
                    chance0 * chance1 * log_e[marked((zero, one), 1.0, 1.0, or_at=True)]
                    for zero, chance0 in ((1.0, high0), (0.0, 1 - high0))
                    for one, chance1 in ((0.0, low1), (1.0, 1 - low1))
                )
            if seen >= against.least[bettor] - 1e-12 and placed >= against.after[bettor]:
                found[base, bettor] *= exp(log_e[code])
            paper += log_e[code]
            placed += 1
        found[base, bettor] *= exp(bets.incomplete[base] * min(log_e.min(), 0))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_capital_is_that_of_a_slow_loop(seed: int) -> None:
    """Multiplied over bases and then mixed; or, if bases share models, mixed and then averaged."""
    rng = np.random.default_rng(seed)
    pairs = [drawn(rng, size) for size in rng.integers(0, 40, size=5)]
    bets = outcomes_of(pairs, rng.integers(0, 3, size=5).tolist())
    for epsilon, delta in CLAIMS:
        against = bettors_against(epsilon, delta)
        capitals = slow_capitals(bets, against)
        for independent, expected in (
            (True, against.weight @ capitals.prod(axis=0)),
            (False, (capitals @ against.weight).mean()),
        ):
            test = PairTest(outcomes=bets, independent=independent)
            assert test.log_e_value(epsilon, delta, 0.05) == pytest.approx(log(expected), abs=1e-9)


def test_claims_are_refuted_by_the_e_value_whatever_was_tried_before() -> None:
    """The favourites of one claim only save time on the next."""
    rng = np.random.default_rng(6)
    test = PairTest(outcomes=outcomes_of([(rng.normal(size=90), rng.normal(size=90) + 2)] * 2))
    for epsilon in rng.permutation(np.linspace(0, 4, 41)):
        fresh = PairTest(outcomes=test.outcomes).log_e_value(epsilon, 1e-5, 0.05)
        assert test.refutes(epsilon, 1e-5, 0.05) == (fresh >= log(20))


def test_bases_that_are_added_later_change_no_capital_on_others() -> None:
    rng = np.random.default_rng(5)
    pairs = [(rng.normal(size=size), rng.normal(size=size) + 1.5) for size in (40, 7, 60)]
    against = bettors_against(0.5, 1e-5)
    chosen = np.flatnonzero(against.weight > 0)
    weight = multiplied(outcomes_of([(np.empty(0), np.empty(0))]), against, chosen)
    first, last, both = (
        multiplied(outcomes_of(each), against, chosen) - weight
        for each in (pairs[:2], pairs[2:], pairs)
    )
    np.testing.assert_allclose(first + last, both, atol=1e-9)
    assert np.abs(last).max() > 1
    for order in ([2, 0, 1], [1, 2, 0]):  # nor does it matter how bases take turns
        moved = multiplied(outcomes_of([pairs[n] for n in order]), against, chosen) - weight
        np.testing.assert_allclose(moved, both, atol=1e-9)
    np.testing.assert_allclose(
        log_mixtures(outcomes_of(pairs), against)[:2], log_mixtures(outcomes_of(pairs[:2]), against)
    )


def growth(past: FloatPair, values: FloatArray, leak: float, claim: float, delta: float) -> float:
    """How much capital grows on average with one more pair, whose outputs are scored by ``values``."""
    zeros, ones = past
    chances = np.outer(*extreme(leak, delta)).ravel()
    after = [
        (np.append(zeros, values[zero]), np.append(ones, values[one]))
        for zero, one in product(range(4), repeat=2)
    ]
    logs = log_mixtures(outcomes_of([*after, (zeros, ones)]), bettors_against(claim, delta))
    return float(chances @ np.exp(logs[:-1] - logs[-1]))


@pytest.mark.parametrize(("claim", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.1), (2.0, 0.01)])
def test_capital_does_not_grow_under_a_true_claim(claim: float, delta: float) -> None:
    """Whatever the past, and however it decides about scores: exact means over the next pair."""
    rng = np.random.default_rng(9)
    cases = []
    for _ in range(60):
        past = drawn(rng, int(rng.integers(4, 120)))
        values = rng.choice(np.concatenate([*past, [-inf, inf]]), 4) + rng.normal(size=4) / 10
        cases.append((past, np.sort(values) if rng.random() < 0.7 else values))
    assert max(growth(*case, claim, claim, delta) for case in cases) <= 1 + 1e-9
    # The control: outputs that tell more than is claimed.
    assert max(growth(*case, claim + 1, claim, delta) for case in cases) > 1.02


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.1), (2.0, 0.01)])
def test_means_over_all_data_of_a_small_audit(epsilon: float, delta: float) -> None:
    outputs = np.array(list(product(range(3), repeat=10))).reshape(-1, 2, 5)
    zeros, ones = outputs[:, 0], 3 - outputs[:, 1]  # each side has three of the four outputs

    def mean(leak: float) -> float:
        chances = [side[which].prod(axis=1) for side, which in
                   zip(extreme(leak, delta), (zeros, ones), strict=True)]  # fmt: skip
        return float((chances[0] * chances[1]) @ capital)

    bets = outcomes_of(list(zip(zeros, ones, strict=True)))
    capital = np.exp(log_mixtures(bets, bettors_against(epsilon, delta)))
    assert np.ptp(capital) > 0.05  # there were bets
    assert mean(epsilon) <= 1 + 1e-9
    assert mean(epsilon + 1.5) > 1  # the control
