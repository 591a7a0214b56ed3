"""No dependence of canaries beats the one-run bounds: the worst algorithm, found by linear programming.

An algorithm maps m coins to r guesses.  Probabilities of guesses given coins are the unknowns, and
(epsilon, delta)-DP under every flip of one coin is linear in them, with a variable for each positive
part of the divergence.  So the largest probability of v or more correct guesses, over *all* algorithms
however their guesses depend on each other, is a linear programme.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom

from epsilometer._arrays import FloatArray
from epsilometer.baselines.one_run import epsilon_one_run, epsilon_one_run_fdp, one_run_p_value

#: Feasibility tolerance of the solver.
ROUNDING = 1e-7


def worst_of_all(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """With one unknown per pair of coins and guesses: tiny cases only."""
    inputs = list(product([-1, 1], repeat=canaries))
    outputs = [
        tuple(signs[where.index(i)] if i in where else 0 for i in range(canaries))
        for where in combinations(range(canaries), guesses)
        for signs in product([-1, 1], repeat=guesses)
    ]
    size = len(outputs)
    flips = [
        (a, b)
        for a, one in enumerate(inputs)
        for b, other in enumerate(inputs)
        if sum(x != y for x, y in zip(one, other, strict=True)) == 1
    ]
    unknowns = len(inputs) * size
    limits = np.zeros((len(flips) * (size + 1), unknowns + len(flips) * size))
    most = np.zeros(limits.shape[0])
    for number, (a, b) in enumerate(flips):
        for g in range(size):
            row, part = number * (size + 1) + g, unknowns + number * size + g
            limits[row, a * size + g], limits[row, b * size + g] = 1, -np.exp(epsilon)
            limits[row, part] = -1
            limits[number * (size + 1) + size, part] = 1
        most[number * (size + 1) + size] = delta
    sums = np.zeros((len(inputs), limits.shape[1]))
    gain = np.zeros(limits.shape[1])
    for a, coins in enumerate(inputs):
        sums[a, a * size : (a + 1) * size] = 1
        for g, guess in enumerate(outputs):
            right = sum(x == y for x, y in zip(coins, guess, strict=True))
            gain[a * size + g] = (right >= correct) / len(inputs)  # the coins are fair
    return _largest(gain, limits, most, sums)


def worst(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """The same in guesses + 1 unknowns: a_d, the probability that exactly d guesses are correct.

    Renaming canaries and exchanging included and excluded changes nothing, so some worst algorithm is
    symmetric: its guesses depend on the coins through d only.  A canary is guessed correctly, with d
    correct in total, in d / m of cases; after its flip these guesses have d - 1 correct.  So the
    divergence is sum_d (d a_d - e^eps (r - d + 1) a_(d-1))+ / m + sum_d ((r - d) a_d - e^eps (d + 1)
    a_(d+1))+ / m.
    """
    size, grow = guesses + 1, np.exp(epsilon)
    limits, most = np.zeros((2 * size + 1, 3 * size)), np.zeros(2 * size + 1)
    for d in range(size):
        limits[d, d], limits[size + d, d] = d, guesses - d
        if d > 0:
            limits[d, d - 1] = -grow * (guesses - d + 1)
        if d < guesses:
            limits[size + d, d + 1] = -grow * (d + 1)
        limits[d, size + d] = limits[size + d, 2 * size + d] = -1
    limits[2 * size, size:] = 1
    most[2 * size] = canaries * delta
    sums = np.zeros((1, 3 * size))
    sums[0, :size] = 1
    gain = np.zeros(3 * size)
    gain[correct:size] = 1
    return _largest(gain, limits, most, sums)


def _largest(gain: FloatArray, limits: FloatArray, most: FloatArray, sums: FloatArray) -> float:
    found = linprog(
        -gain, A_ub=limits, b_ub=most, A_eq=sums, b_eq=np.ones(sums.shape[0]), method="highs"
    )
    assert found.status == 0, found.message
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct"), [(2, 2, 2), (3, 3, 2), (3, 2, 2), (3, 1, 1)]
)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.05), (0.0, 0.1)])
def test_some_worst_algorithm_is_symmetric(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> None:
    small = worst(canaries, guesses, correct, epsilon, delta)
    assert small == pytest.approx(
        worst_of_all(canaries, guesses, correct, epsilon, delta), abs=ROUNDING
    )


@pytest.mark.parametrize(
    ("guesses", "correct", "epsilon"), [(10, 8, 0.0), (10, 8, 1.0), (50, 40, 1.0), (100, 60, 0.3)]
)
def test_without_delta_independent_guesses_are_the_worst(
    guesses: int, correct: int, epsilon: float
) -> None:
    """Dependence never helps there, so Steinke's p-value is exact."""
    found = worst(2 * guesses, guesses, correct, epsilon, 0.0)
    independent = float(binom.sf(correct - 1, guesses, expit(epsilon)))
    assert found == pytest.approx(independent, abs=ROUNDING)
    assert float(one_run_p_value(2 * guesses, guesses, correct, epsilon, 0.0)) == pytest.approx(
        independent, rel=1e-9
    )


CASES = [
    (canaries, guesses, correct, epsilon, delta)
    for canaries, guesses, correct in ((10, 10, 8), (100, 50, 40), (100, 100, 65), (300, 30, 28))
    for epsilon in (0.0, 0.5, 1.5)
    for delta in (1e-4, 1e-3, 0.01, 0.1)
]


def test_no_algorithm_is_right_more_often_than_steinke_allows() -> None:
    """Wherever the p-value is useful: one half or less."""
    used = beaten = 0
    for canaries, guesses, correct, epsilon, delta in CASES:
        allowed = float(one_run_p_value(canaries, guesses, correct, epsilon, delta))
        if allowed > 0.5:
            continue
        found = worst(canaries, guesses, correct, epsilon, delta)
        assert found <= allowed + ROUNDING
        used += 1
        beaten += found > binom.sf(correct - 1, guesses, expit(epsilon)) + 10 * ROUNDING
    # The same check of a bound for independent guesses, which ignores delta: it fails everywhere.
    assert used == beaten > 10


def test_near_one_the_published_p_value_is_too_small() -> None:
    """Two canaries and never both guesses wrong: e^(2 eps), twice e^eps and 0 over their sum.

    A flip leads to an impossible output with probability 1 / (e^eps + 2), which is delta.  At least one
    guess is always correct, and the p-value of theorem 5.2 is below 1.  No bound at a useful error is
    affected.
    """
    epsilon = 2.0
    delta = 1 / (np.exp(epsilon) + 2)
    assert worst(2, 2, 1, epsilon, delta) == pytest.approx(1.0, abs=ROUNDING)
    assert worst_of_all(2, 2, 1, epsilon, delta) == pytest.approx(1.0, abs=ROUNDING)
    assert 0.98 < float(one_run_p_value(2, 2, 1, epsilon, delta)) < 0.995


@pytest.mark.parametrize("significance", [0.05, 0.01])
@pytest.mark.parametrize("bound", [epsilon_one_run, epsilon_one_run_fdp])
def test_no_algorithm_misleads_a_bound_more_often_than_stated(
    bound: object, significance: float
) -> None:
    """The worst-case probability of as many correct guesses as the bound needs to exceed epsilon."""
    assert callable(bound)
    nearest = 0.0
    for canaries, guesses, epsilon, delta in (
        (20, 20, 0.5, 1e-3),
        (100, 100, 0.5, 1e-3),
        (100, 100, 0.2, 1e-4),
        (100, 30, 1.0, 1e-3),
        (200, 100, 0.0, 1e-3),
    ):
        right = np.arange(guesses + 1)
        said = bound(canaries, guesses, right, delta, significance)
        misled = right[said > epsilon]
        if len(misled):
            found = worst(canaries, guesses, int(misled[0]), epsilon, delta)
            assert found <= significance + ROUNDING
            nearest = max(nearest, found / significance)
    assert nearest > 0.5  # and not because it is trivial
