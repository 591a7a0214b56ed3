"""Curves of pieces (randomised response): finite sums against enumeration, simulation, closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp
from scipy.stats import binom, hypergeom

import epsilometer as em
from epsilometer.engines.curve.evaluation import Accuracy, evaluate
from epsilometer.engines.curve.pieces import MOST_CUTS, log_likelihood_ratios
from epsilometer.engines.curve.ranks import Blocks
from epsilometer.errors import InputError
from epsilometer.model.families import RandomizedResponse
from epsilometer.model.family import Curves
from tests.engines.curve.oracles import (
    CHI_SQUARE_19,
    averaged_over_ties,
    log_lambda_of_pieces,
    orders_of,
    scores_in_order,
    simulated_orders,
    surprise_of,
)

#: Sums of at most a few thousand terms, by logarithms of factorials.
EXACT = 1e-10

PLAIN, ATOM = RandomizedResponse(), RandomizedResponse(atom=0.1)
CASES = [(PLAIN, 1.0, 1.0), (PLAIN, 3.0, 0.3), (ATOM, 1.2, 1.0), (ATOM, 0.5, 0.4), (ATOM, 0.0, 1.0)]
each_case = pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case[0].name} {case[1]:g} {case[2]:g}"
)
Case = tuple[RandomizedResponse, float, float]


def found_for(zeros: list[int], ones: list[int], case: Case) -> float:
    family, leak, rate = case
    found = log_likelihood_ratios([blocks_of(zeros, ones)], family, np.array([leak]), rate)
    return float(found[0, 0])


def blocks_of(zeros: list[int], ones: list[int]) -> Blocks:
    return Blocks(np.array(zeros), np.array(ones))


def of_labels(labels: list[int], case: Case) -> float:
    return found_for([1 - label for label in labels], labels, case)


def twin(labels: list[int], case: Case) -> float:
    family, leak, rate = case
    without, with_point = family.masses(leak)
    return log_lambda_of_pieces(labels, without, (1 - rate) * without + rate * with_point)


@each_case
@pytest.mark.parametrize(
    "labels", [[1, 0], [0, 1], [1, 1, 0, 0], [0, 1, 1, 0, 1], [1, 1, 1, 0, 0, 1, 0, 0], [0, 0, 0, 1]]
)  # fmt: skip
def test_finite_sums_are_those_of_all_ways_to_cut(labels: list[int], case: Case) -> None:
    assert of_labels(labels, case) == pytest.approx(twin(labels, case), abs=EXACT)


@each_case
def test_probabilities_of_all_orders_sum_to_one(case: Case) -> None:
    chances = [math.exp(of_labels(labels, case)) for labels in orders_of(4, 3)]
    assert np.mean(chances) == pytest.approx(1.0, abs=EXACT)


@each_case
@pytest.mark.parametrize(
    ("zeros", "ones"),
    [
        ([2], [2]),
        ([1, 2], [2, 1]),
        ([0, 3, 0], [2, 1, 1]),
        ([2, 0, 2], [1, 1, 1]),
        ([1, 1], [3, 0]),
    ],
)
def test_ties_are_averaged_over(zeros: list[int], ones: list[int], case: Case) -> None:
    expected = averaged_over_ties(zeros, ones, lambda labels: twin(labels, case))
    assert found_for(zeros, ones, case) == pytest.approx(expected, abs=EXACT)


def test_several_bases_at_once_are_as_alone() -> None:
    """Equal and unequal sizes, with ties and without."""
    bases = [
        blocks_of([1, 0, 0, 1], [0, 1, 1, 0]),
        blocks_of([0, 1, 1, 0], [1, 0, 0, 1]),
        blocks_of([1, 0], [0, 1]),
        blocks_of([2, 1, 0], [1, 0, 1]),
        blocks_of([0, 0, 1, 0], [1, 1, 0, 1]),
    ]
    leaks = np.array([0.0, 0.4, 1.0, 3.0])
    for family, rate in ((PLAIN, 1.0), (PLAIN, 0.3), (ATOM, 1.0)):
        together = log_likelihood_ratios(bases, family, leaks, rate)
        alone = [log_likelihood_ratios([base], family, leaks, rate)[0] for base in bases]
        np.testing.assert_allclose(together, alone, atol=EXACT)


def test_grouped_bases_come_the_same_way() -> None:
    counts = em.AttackCounts(
        false_positives=[2], trials_h0=6, false_negatives=[1], trials_h1=5, names=["a"]
    )
    curves, leaks = Curves(family=PLAIN, rate=0.6), np.array([1.4])
    found = evaluate(em.Scores.of_counts(counts), curves, leaks, Accuracy(1.0))[0, 0]
    expected = averaged_over_ties([2, 4], [4, 1], lambda labels: twin(labels, (PLAIN, 1.4, 0.6)))
    assert found == pytest.approx(expected, abs=EXACT)


def test_one_against_one_is_twice_the_area() -> None:
    for leak in (0.2, 1.0, 4.0):
        truth = 1 / (1 + math.exp(-leak))
        # Both tell the truth, or both lie and ties count half: P = truth^2 + truth (1 - truth).
        assert math.exp(of_labels([1, 0], (PLAIN, leak, 1.0))) == pytest.approx(
            2 * truth, rel=1e-12
        )


@each_case
def test_frequencies_of_all_orders_in_simulated_audits(case: Case) -> None:
    """Three and three, ties broken at random: chi-square of 19, upper 1e-6 quantile 61.9."""
    family, leak, rate = case
    simulated = simulated_orders(Curves(family=family, rate=rate), leak, seed=31)
    assert surprise_of(simulated, lambda labels: of_labels(labels, case)) < CHI_SQUARE_19
    other = family, leak + 0.7, rate
    assert surprise_of(simulated, lambda labels: of_labels(labels, other)) > CHI_SQUARE_19


@pytest.mark.parametrize("case", [c for c in CASES if c[2] == 1], ids=lambda case: case[0].name)
@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    labels=st.lists(st.integers(0, 1), min_size=2, max_size=25).filter(
        lambda each: 0 < sum(each) < len(each)
    )
)
def test_exchanging_the_hypotheses_and_turning_the_order(case: Case, labels: list[int]) -> None:
    turned = [1 - label for label in reversed(labels)]
    assert of_labels(labels, case) == pytest.approx(of_labels(turned, case), abs=1e-9)


# --- thresholds of many models --------------------------------------------------------------------


def one_threshold(zeros: int, n0: int, ones: int, n1: int, leak: float) -> float:
    """Sum over the number in the upper piece; the threshold's rank falls into one of the two."""
    without, with_point = PLAIN.masses(leak)
    rank = zeros + ones
    i, j = (
        grid.ravel() for grid in np.meshgrid(np.arange(n0 + 1), np.arange(n1 + 1), indexing="ij")
    )
    logs = binom.logpmf(i, n0, without[0]) + binom.logpmf(j, n1, with_point[0])
    upper = i + j >= rank
    with np.errstate(divide="ignore"):
        among = hypergeom.logpmf(zeros, i + j, i, rank)
        rest = hypergeom.logpmf(zeros - i, n0 + n1 - i - j, n0 - i, rank - i - j)
    chance = hypergeom.logpmf(zeros, n0 + n1, n0, rank)
    return float(logsumexp(logs + np.where(upper, np.nan_to_num(among, nan=-np.inf),
                                           np.nan_to_num(rest, nan=-np.inf))) - chance)  # fmt: skip


@pytest.mark.parametrize(
    ("zeros", "n0", "ones", "n1"), [(3, 20, 11, 25), (0, 30, 12, 30), (30, 30, 5, 9)]
)
def test_counts_of_one_threshold(zeros: int, n0: int, ones: int, n1: int) -> None:
    found = found_for([zeros, n0 - zeros], [ones, n1 - ones], (PLAIN, 1.7, 1.0))
    assert found == pytest.approx(one_threshold(zeros, n0, ones, n1, 1.7), abs=1e-9)


@pytest.mark.parametrize(("zeros", "n0", "ones", "n1"), [(60, 400, 210, 400), (300, 1500, 70, 200)])
def test_large_blocks_are_sampled_closely_enough(zeros: int, n0: int, ones: int, n1: int) -> None:
    """Beyond 40,000 splits a regular subset is used: a sum over a smooth bell curve."""
    assert (n0 - zeros + 1) * (n1 - ones + 1) > MOST_CUTS
    for leak in (1.0, 1.7, 2.5):
        found = found_for([zeros, n0 - zeros], [ones, n1 - ones], (PLAIN, leak, 1.0))
        expected = one_threshold(zeros, n0, ones, n1, leak)
        # A hundredth of a nat: the engine's tolerance for splines.
        assert found == pytest.approx(expected, abs=0.01)


def test_many_scores_without_ties() -> None:
    """A hundred thousand positions of a cut, compared with the same sum written out."""
    rng = np.random.default_rng(4)
    labels = (rng.random(20_000) < np.where(np.arange(20_000) < 10_000, 0.6, 0.4)).astype(int)
    scores = scores_in_order(labels)
    leak = 0.4
    found = evaluate(scores, Curves(family=PLAIN), np.array([leak]), Accuracy(1.0))[0, 0]
    without, with_point = (np.log(each) for each in PLAIN.masses(leak))
    above = np.append(0, np.cumsum(labels))
    size = np.arange(20_001)
    ones, zeros = above, size - above
    logs = ones * with_point[0] + zeros * without[0]
    logs = logs + (above[-1] - ones) * with_point[1] + (20_000 - above[-1] - zeros) * without[1]
    logs = logs + gammaln(20_001) - gammaln(size + 1) - gammaln(20_001 - size)
    assert found == pytest.approx(float(logsumexp(logs)), rel=1e-10)


def test_an_atom_with_too_many_places_is_refused_in_one_line() -> None:
    scores = scores_in_order([0, 1] * 1600)
    with pytest.raises(InputError, match="family with an atom"):
        evaluate(scores, Curves(family=ATOM), np.array([1.0]), Accuracy(1.0))


def test_an_atom_seen_is_possible_and_its_opposite_is_not() -> None:
    """With nearly everything in the atom, any order other than members first is nearly impossible."""
    nearly = RandomizedResponse(atom=0.999)
    first = of_labels([1, 1, 0, 0], (nearly, 0.0, 1.0))
    assert first == pytest.approx(math.log(6.0), abs=0.02)  # the one order out of six
    assert of_labels([0, 0, 1, 1], (nearly, 0.0, 1.0)) < -10
