"""The likelihood of an order of labels under smooth families: the chain of ranks against its twins.

The twins are accurate to 1e-10.  The chain is finer than in the engine's first step (`chain_step` 1),
whose error is about 1e-2 nats where a curve fits and falls about eightfold with every halving.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, xlogy
from scipy.stats import norm

import epsilometer as em
from epsilometer.engines.curve.evaluation import Accuracy, evaluate
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.counts import counts_of
from epsilometer.model.family import Curves, Family
from tests.engines.curve.oracles import (
    CHI_SQUARE_19,
    Pair,
    averaged_over_ties,
    capped,
    gaussian,
    laplace,
    log_lambda,
    mixed,
    orders_of,
    reference_scores,
    reversed_,
    scores_in_order,
    simulated_orders,
    smooth,
    surprise_of,
    thin,
    two_variances,
)

#: A fine chain, and its largest error in nats against the twin, with room for about twice of it.
STEP, TOLERANCE = 0.3, 1e-3

Case = tuple[Family, float, float, Pair]

CASES: dict[str, Case] = {
    "gaussian": (em.families.Gaussian(), 1.3, 1.0, gaussian(1.3)),
    "gaussian, far": (em.families.Gaussian(), 5.0, 1.0, gaussian(5.0)),
    "laplace": (em.families.Laplace(), 1.5, 1.0, laplace(1.5)),
    "two variances": (em.families.TwoVariances(spread=0.3), 1.0, 1.0, two_variances(1.0, 0.3)),
    "reversed": (
        em.families.TwoVariances(spread=0.3, exchanged=True),
        1.0,
        1.0,
        reversed_(two_variances(1.0, 0.3)),
    ),
    "hard cap": (em.families.HardCap(ratio=1.6), 1.2, 1.0, capped(1.2, 1.6)),
    "hard cap, far": (em.families.HardCap(ratio=2.5), 2.5, 1.0, capped(2.5, 2.5)),
    "smooth cap": (em.families.SmoothCap(ratio=1.6), 1.2, 1.0, smooth(1.2, 1.6)),
    "thin tails": (em.families.ThinTail(), 0.6, 1.0, thin(0.6)),
    "gaussian, mixed": (em.families.Gaussian(), 2.0, 0.2, mixed(gaussian(2.0), 0.2)),
    "laplace, mixed": (em.families.Laplace(), 3.0, 0.5, mixed(laplace(3.0), 0.5)),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def chain(scores: em.Scores, family: Family, leak: float, rate: float, step: float = STEP) -> float:
    found = evaluate(scores, Curves(family=family, rate=rate), np.array([leak]), Accuracy(step))
    return float(found[0, 0])


def drawn(case: Case, zeros: int, ones: int, seed: int) -> em.Scores:
    family, leak, rate, _ = case
    member = np.arange(zeros + ones) >= zeros
    rng = np.random.default_rng(seed)
    score = Curves(family=family, rate=rate).sample(leak, member, rng=rng)
    return em.Scores(without=[score[:zeros]], with_point=[score[zeros:]])


def close(found: float, expected: float, tolerance: float = TOLERANCE) -> bool:
    """Within the tolerance; below -5, where a curve is ruled out, 2 % is sufficient."""
    return abs(found - expected) <= (tolerance if expected > -5 else 0.02 * abs(expected))


def labels_of(scores: em.Scores) -> list[int]:
    (labels,) = scores.bases[0].orders(1)
    return [int(label) for label in labels]


# --- reference numbers ----------------------------------------------------------------------------

ALL_FIRST = scores_in_order([1] * 20 + [0] * 20)
ALTERNATING = scores_in_order([1, 0] * 30)
# Source: the notes on the whole curve, section 7 (a prototype's chain, stated to be good to .01).
GOLDEN = {
    "P1": (reference_scores(50, 50, 1.0), (8.345, 11.111, 0.078, 8.930, 7.382, 5.227, 6.914)),
    "P2": (reference_scores(40, 80, 0.7), (5.643, 4.968, -15.261, 4.026, 1.969, 3.135, 1.462)),
    "P3": (ALL_FIRST, (7.047, 12.634, 20.094, 12.698, 13.817, 4.076, 11.611)),
    "P4": (ALTERNATING, (-1.220, -6.168, -27.232, -5.166, -6.587, -0.886, -6.831)),
}
CURVES: list[tuple[Family, float, float]] = [
    (em.families.Gaussian(), 0.5, 1.0),
    (em.families.Gaussian(), 1.0, 1.0),
    (em.families.Gaussian(), 2.0, 1.0),
    (em.families.Laplace(), 1.0, 1.0),
    (em.families.RandomizedResponse(), 1.0, 1.0),
    (em.families.Gaussian(), 2.0, 0.2),
    (em.families.Laplace(), 3.0, 0.5),
]


@pytest.mark.parametrize("name", GOLDEN)
def test_reference_numbers(name: str) -> None:
    scores, expected = GOLDEN[name]
    found = [chain(scores, *curve) for curve in CURVES]
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_the_first_step_is_within_its_tolerance() -> None:
    """At the engine's coarsest step: its own error of .02 plus that of the source."""
    for scores, expected in GOLDEN.values():
        found = [chain(scores, *curve, step=1.0) for curve in CURVES]
        assert all(close(*pair, 0.03) for pair in zip(found, expected, strict=True))


# --- closed forms ---------------------------------------------------------------------------------


def test_one_against_one_is_twice_the_area() -> None:
    pair = scores_in_order([1, 0])
    for leak in (0.1, 1.0, 3.0):
        area = norm.cdf(leak / math.sqrt(2))
        assert math.exp(chain(pair, em.families.Gaussian(), leak, 1.0)) == pytest.approx(
            2 * area, abs=1e-3
        )
        area = 1 - math.exp(-leak) * (1 / 2 + leak / 4)
        assert math.exp(chain(pair, em.families.Laplace(), leak, 1.0)) == pytest.approx(
            2 * area, abs=1e-3
        )
        # A mixture's area is the mean of the pair's and of one half.
        mixture = math.exp(chain(pair, em.families.Laplace(), leak, 0.25))
        assert mixture == pytest.approx(2 * (0.25 * area + 0.75 / 2), abs=1e-3)
        reverse = math.exp(chain(scores_in_order([0, 1]), em.families.Laplace(), leak, 1.0))
        assert reverse == pytest.approx(2 * (1 - area), abs=1e-3)


@every_case
@pytest.mark.parametrize(("zeros", "ones"), [(2, 3), (4, 1)])
def test_probabilities_of_all_orders_sum_to_one(case: Case, zeros: int, ones: int) -> None:
    family, leak, rate, _ = case
    orders = orders_of(zeros, ones)
    logs = [chain(scores_in_order(labels), family, leak, rate) for labels in orders]
    assert np.mean(np.exp(logs)) == pytest.approx(1.0, abs=1e-3)


def test_no_leak_says_nothing() -> None:
    for scores, _ in GOLDEN.values():
        for family, _, rate in CURVES:
            assert chain(scores, family, 0.0, rate) == 0.0
            # Hardly more at the smallest leaks: log Lambda goes to 0 with the leak.
            assert abs(chain(scores, family, 1e-6, rate)) < 2e-3


# --- twins ----------------------------------------------------------------------------------------

SIZES = [(20, 20), (1, 50), (50, 1), (7, 33), (190, 10), (10, 190), (60, 3)]


@every_case
@pytest.mark.parametrize(("zeros", "ones"), SIZES)
def test_chain_is_its_slow_twin(case: Case, zeros: int, ones: int) -> None:
    family, leak, rate, pair = case
    for seed in (1, 2):
        scores = drawn(case, zeros, ones, seed)
        expected = log_lambda(labels_of(scores), pair)
        assert close(chain(scores, family, leak, rate), expected)
        if leak < 4:
            # Negative control: the densities exchanged are another likelihood altogether.
            exchanged = log_lambda([1 - label for label in labels_of(scores)], pair)
            assert not close(exchanged, expected)


@pytest.mark.parametrize(
    ("name", "zeros", "ones"),
    [("gaussian", 980, 20), ("laplace", 20, 980), ("gaussian, mixed", 500, 500)],
)
def test_larger_bases_of_unequal_sizes(name: str, zeros: int, ones: int) -> None:
    """Shares of ranks must be pooled like the scores: an even pool is off by hundreds of nats here."""
    family, leak, rate, pair = CASES[name]
    scores = drawn(CASES[name], zeros, ones, seed=4)
    expected = log_lambda(labels_of(scores), pair)
    assert chain(scores, family, leak, rate) == pytest.approx(expected, abs=TOLERANCE)
    # The engine's first step, where a chain of a thousand errors adds up.
    assert chain(scores, family, leak, rate, step=1.0) == pytest.approx(expected, abs=0.06)


def test_bases_of_different_sizes_together_are_as_alone() -> None:
    case = CASES["gaussian"]
    sizes = [(20, 20), (19, 21), (21, 19), (5, 30), (30, 5), (40, 40)]
    alone = [drawn(case, *each, seed=number) for number, each in enumerate(sizes)]
    together = em.Scores.of_bases([each.bases[0] for each in alone], range(len(sizes)))
    leaks = np.array([0.3, 1.3, 2.5])
    found = evaluate(together, Curves(family=em.families.Gaussian()), leaks, Accuracy(STEP))
    for row, scores in enumerate(alone):
        expected = [log_lambda(labels_of(scores), gaussian(leak)) for leak in leaks.tolist()]
        np.testing.assert_allclose(found[row], expected, atol=TOLERANCE)


@pytest.mark.parametrize("labels", [[1, 0], [0, 1], [1, 1, 0], [0, 0, 1], [0, 1, 1, 0]])
@every_case
def test_the_smallest_bases(labels: list[int], case: Case) -> None:
    family, leak, rate, pair = case
    found = chain(scores_in_order(labels), family, leak, rate)
    assert close(found, log_lambda(labels, pair))


def test_extreme_orders() -> None:
    """All members first, and all last, where likelihoods are far from 1."""
    for labels in (
        [1] * 30 + [0] * 30,
        [0] * 30 + [1] * 30,
        [1] * 5 + [0] * 90,
        [0] * 90 + [1] * 5,
    ):
        for name in ("gaussian", "laplace", "laplace, mixed"):
            family, leak, rate, pair = CASES[name]
            found = chain(scores_in_order(labels), family, leak, rate)
            # A mixture's curve bends within the first member, where few points are.
            assert close(found, log_lambda(labels, pair), 2 * TOLERANCE)


@every_case
def test_frequencies_of_all_orders_in_simulated_audits(case: Case) -> None:
    """Three and three: 20 orders, with frequencies that match their probabilities, by chi-square."""
    family, leak, rate, _ = case

    def surprise(leak: float) -> float:
        return surprise_of(
            simulated, lambda labels: chain(scores_in_order(labels), family, leak, rate)
        )

    simulated = simulated_orders(Curves(family=family, rate=rate), leak, seed=30)
    if leak < 4:  # where every order is expected a few times
        assert surprise(leak) < CHI_SQUARE_19
    assert surprise(0.5 * leak) > CHI_SQUARE_19  # another leak must be ruled out


# --- ties and thresholds --------------------------------------------------------------------------

BLOCKS: list[tuple[list[int], list[int]]] = [
    ([2], [3]),
    ([1, 2], [2, 1]),
    ([0, 3], [2, 1]),
    ([1, 0, 1, 2], [0, 1, 2, 1]),
    ([2, 1, 0, 1], [1, 0, 1, 2]),
    ([1, 1, 3], [3, 1, 0]),
]


def grouped(zeros: Sequence[int], ones: Sequence[int]) -> em.Scores:
    base = BaseScores(
        value=-np.arange(len(zeros), dtype=float),
        zeros=np.array(zeros),
        ones=np.array(ones),
        grouped=True,
    )
    return em.Scores.of_bases([base], ["a"])


@pytest.mark.parametrize(("zeros", "ones"), BLOCKS)
@every_case
def test_blocks_are_averages_over_all_orders(case: Case, zeros: list[int], ones: list[int]) -> None:
    family, leak, rate, pair = case
    # Ten Gauss points for a block: the error for curves that are nearly a step, as at leak 5.
    tolerance = 0.1 if leak > 4 else 2 * TOLERANCE
    expected = averaged_over_ties(zeros, ones, lambda labels: log_lambda(labels, pair))
    found = chain(grouped(zeros, ones), family, leak, rate)
    assert close(found, expected, tolerance)


def one_threshold(zeros: int, n0: int, ones: int, n1: int, pair: Pair) -> float:
    """Log Lambda of counts above a threshold of fixed rank: one integral over the score of that rank.

    By the trapezoidal rule in logarithms, on points closer together than any peak is wide.
    """
    x = np.linspace(*pair.ends, 400_001)
    s0, s1 = pair.s0(x), pair.s1(x)
    with np.errstate(divide="ignore"):
        others = xlogy(n0 - zeros, 1 - s0) + xlogy(n1 - ones, 1 - s1)
        parts = []
        if zeros:
            ways = math.log(n0) + log_choose(n0 - 1, zeros - 1) + log_choose(n1, ones)
            parts.append(ways + np.log(pair.p0(x)) + xlogy(zeros - 1, s0) + xlogy(ones, s1))
        if ones:
            ways = math.log(n1) + log_choose(n1 - 1, ones - 1) + log_choose(n0, zeros)
            parts.append(ways + np.log(pair.p1(x)) + xlogy(zeros, s0) + xlogy(ones - 1, s1))
    total = logsumexp(np.stack(parts) + others) + math.log(x[1] - x[0])
    chance = log_choose(n0, zeros) + log_choose(n1, ones) - log_choose(n0 + n1, zeros + ones)
    return float(total - chance)


def log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@pytest.mark.parametrize(
    ("zeros", "n0", "ones", "n1"),
    [
        (1, 10, 6, 10),
        (0, 12, 5, 12),
        (5, 50, 30, 40),
        (12, 12, 3, 9),
        (50, 500, 20, 30),
        (3, 30, 210, 300),
    ],
)
@every_case
def test_counts_of_one_threshold(case: Case, zeros: int, n0: int, ones: int, n1: int) -> None:
    family, leak, rate, pair = case
    counts = counts_of([zeros], n0, [n1 - ones], n1)
    found = chain(em.Scores.of_counts(counts), family, leak, rate)
    expected = one_threshold(zeros, n0, ones, n1, pair)
    # Sharp posteriors of the rank's share, on a grid for two blocks only.
    assert close(found, expected, 5 * TOLERANCE)


def test_a_threshold_above_or_below_everything_says_nothing() -> None:
    for x, y in ((0, 8), (10, 0)):
        counts = counts_of([x], 10, [y], 8)
        found = chain(em.Scores.of_counts(counts), em.families.Gaussian(), 1.5, 1.0)
        assert found == pytest.approx(0.0, abs=TOLERANCE)


def test_ties_are_the_mean_over_random_orders() -> None:
    """Equal scores: the mean log likelihood of the orders returned by the base itself."""
    rng = np.random.default_rng(2)
    scores = em.Scores(without=[rng.integers(0, 4, 9)], with_point=[rng.integers(1, 5, 7)])
    orders = scores.bases[0].orders(8)
    assert len({tuple(order.tolist()) for order in orders}) > 1
    expected = np.mean([log_lambda(order, gaussian(1.0)) for order in orders])
    assert chain(scores, em.families.Gaussian(), 1.0, 1.0) == pytest.approx(expected, abs=TOLERANCE)


# --- large bases ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zeros", "ones"),
    [
        (2500, 2500),
        (4500, 500),
        pytest.param(50_000, 50_000, marks=pytest.mark.slow),
        pytest.param(90_000, 10_000, marks=pytest.mark.slow),
    ],
)
def test_steps_agree_on_many_scores(zeros: int, ones: int) -> None:
    scores = drawn(CASES["gaussian"], zeros, ones, seed=8)
    leaks = np.array([1.29, 1.3, 1.31])
    coarse, fine = (
        evaluate(scores, Curves(family=em.families.Gaussian()), leaks, Accuracy(step))
        for step in (1.0, 0.6)
    )
    # Twice the tolerance of the engine's first step.
    np.testing.assert_allclose(coarse, fine, atol=0.02)
    # About how much better the best leak is, by the law of large numbers: the pair's own divergence.
    assert np.all(fine > 0.01 * (zeros + ones) * min(zeros, ones) / max(zeros, ones))


@pytest.mark.slow
@pytest.mark.parametrize(("zeros", "ones"), [(2000, 2000), (3600, 400)])
def test_thousands_of_scores_against_the_twin(zeros: int, ones: int) -> None:
    for name in ("gaussian", "laplace", "gaussian, mixed"):
        family, leak, rate, pair = CASES[name]
        scores = drawn(CASES[name], zeros, ones, seed=7)
        expected = log_lambda(labels_of(scores), pair, finer=0.5)
        assert chain(scores, family, leak, rate) == pytest.approx(expected, abs=2 * TOLERANCE)


# --- symmetries -----------------------------------------------------------------------------------

label_lists = st.lists(st.integers(0, 1), min_size=2, max_size=30).filter(
    lambda labels: 0 < sum(labels) < len(labels)
)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(labels=label_lists, leak=st.floats(0.05, 3.0))
@pytest.mark.parametrize(
    "family", [em.families.Gaussian(), em.families.Laplace()], ids=lambda f: f.name
)
def test_exchanging_the_hypotheses_and_turning_the_order(
    family: Family, labels: list[int], leak: float
) -> None:
    turned = [1 - label for label in reversed(labels)]
    one = chain(scores_in_order(labels), family, leak, 1.0)
    two = chain(scores_in_order(turned), family, leak, 1.0)
    # The grid is even and symmetric, but some of the cubics are one-sided.
    assert close(one, two, 2 * TOLERANCE)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(labels=label_lists)
def test_only_the_order_matters(labels: list[int]) -> None:
    scores = scores_in_order(labels)
    without, with_point = scores.bases[0].by_hypothesis
    rng = np.random.default_rng(len(labels))
    other = em.Scores(
        without=[np.arctan(rng.permutation(without) / 3)],
        with_point=[np.arctan(rng.permutation(with_point) / 3)],
        names=["elsewhere"],
    )
    curves, leaks = Curves(family=em.families.Laplace(), rate=0.4), np.array([0.5, 2.0])
    np.testing.assert_array_equal(
        evaluate(scores, curves, leaks, Accuracy(1.0)),
        evaluate(other, curves, leaks, Accuracy(1.0)),
    )
