"""Auditing in one training run (Steinke, Nasr and Jagielski 2023): epsilon from guesses of membership.

Each of m canaries is included in the training set by a fair coin.  The auditor guesses r of them and v
guesses are correct.  Under (epsilon, delta)-DP the number of correct guesses hardly exceeds Binomial(r,
q) with q = 1 / (1 + e^-epsilon), which gives a p-value and, inverted, a lower bound of epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root
from scipy.special import betainc, expit, logit

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.baselines.estimator import Kind, LowerEndOnly, check_significance
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts

EPSILON_TOLERANCE = 1e-9
"""Absolute tolerance of epsilon or of a curve's parameter: far below reported precision."""

FAIR_COIN = "each canary included by a fair coin, a decision rule fixed in advance"

_TOO_UNEVEN = 5e-3
"""Probability of an equally uneven split below which the coin is not accepted as fair."""


def check_guesses(
    canaries: ArrayLike, guesses: ArrayLike, correct: ArrayLike, other: ArrayLike
) -> list[FloatArray]:
    """Return all four as floats of the same shape if 0 <= correct <= guesses <= canaries."""
    arrays = np.broadcast_arrays(canaries, guesses, correct, other)
    m, r, v, other = (np.asarray(x, dtype=float) for x in arrays)
    bad = ~((v >= 0) & (v <= r) & (r <= m) & (m >= 1))
    if bad.any():
        first = [float(x[bad].flat[0]) for x in (m, r, v)]
        raise InputError(
            "expected 0 <= correct <= guesses <= canaries and at least one canary, "
            f"got canaries={first[0]:.15g}, guesses={first[1]:.15g}, correct={first[2]:.15g}."
        )
    return [m, r, v, other]


def check_levels(significance: ArrayLike) -> FloatArray:
    """Return ``significance`` as floats if each can be the error probability of a bound."""
    levels = np.asarray(significance, dtype=float)
    for end in (levels.min(), levels.max()):
        check_significance(float(end))
    return levels


def check_fair_coin(num_in: ArrayLike, num_out: ArrayLike, *, runs: int = 1) -> None:
    """Raise :class:`InputError` if these numbers are implausible for a fair coin.

    The one-run bounds depend on it: with twice as many members as non-members, guessing "member" is
    correct two times out of three, which looks like a leak.  A fair coin is rejected once in two hundred
    times, also with several ``runs``.
    """
    unfair = ~fair_coin(num_in, num_out, runs=runs)
    if unfair.any():
        members, others = np.broadcast_arrays(num_in, num_out)
        raise InputError(
            "expected canaries included by a fair coin each, about as many included as excluded, "
            f"got {int(members[unfair].flat[0])} included and {int(others[unfair].flat[0])} excluded."
        )


def fair_coin(num_in: ArrayLike, num_out: ArrayLike, *, runs: int = 1) -> BoolArray:
    """Whether these numbers are plausible for a fair coin, with ``runs`` runs."""
    members, others = np.asarray(num_in, dtype=float), np.asarray(num_out, dtype=float)
    fewer = np.minimum(members, others)
    chance = 2 * betainc(members + others - fewer, fewer + 1, 0.5)
    return np.asarray(chance >= _TOO_UNEVEN / runs)


def _at_least(correct: FloatArray, guesses: FloatArray, chance: FloatArray) -> FloatArray:
    """P(Binomial(guesses, chance) >= correct); 1 if correct <= 0."""
    some = np.maximum(correct, 1.0)
    tail = betainc(some, guesses - some + 1, chance)
    return np.asarray(np.where(correct <= 0, 1.0, tail))


def one_run_p_value(
    canaries: ArrayLike, guesses: ArrayLike, correct: ArrayLike, epsilon: ArrayLike, delta: float
) -> FloatArray:
    """Largest probability, over (epsilon, delta)-DP algorithms, of at least this many correct guesses.

    P(W >= v) + 2 m delta max over i = 1 .. v of P(v > W >= v - i) / i, with W ~ Binomial(r, q), cut
    at 1 (theorem 5.2 and its algorithm in appendix D of that paper).

    Parameters
    ----------
    canaries, guesses, correct
        m >= r >= v >= 0.
    epsilon
        >= 0, broadcast against them.
    delta
        In [0, 1).

    Examples
    --------
    >>> f"{one_run_p_value(1000, 100, 90, 1.0, 0.0):.5e}"
    '2.73581e-05'
    """
    delta = _validate.delta(delta)
    m, r, v, eps = check_guesses(canaries, guesses, correct, epsilon)
    if not np.all(eps >= 0):
        raise InputError(f"expected epsilon >= 0, got epsilon={eps[~(eps >= 0)].flat[0]}.")
    chance = expit(eps)
    right = _at_least(v, r, chance)
    if delta == 0:
        return right
    return np.minimum(1.0, right + 2 * m * delta * _largest_mean(v, r, chance, right))


def _largest_mean(
    v: FloatArray, r: FloatArray, chance: FloatArray, right: FloatArray
) -> FloatArray:
    """Largest P(v > W >= v - i) / i over i = 1 .. v: the largest mean probability just below v.

    As a function of i the mean rises while the next probability is above it and then falls, because the
    binomial probabilities are unimodal; so the best i is found by bisection on that condition.
    """
    low, high = np.ones_like(v), np.maximum(v, 1.0)
    while np.any(low < high):
        middle = np.floor((low + high) / 2)
        here = (_at_least(v - middle, r, chance) - right) / middle
        further = (_at_least(v - middle - 1, r, chance) - right) / (middle + 1)
        # If both underflow to 0, the mass is further away.
        rising = ((further > here) | (here <= 0)) & (middle < v)
        low, high = np.where(rising, middle + 1, low), np.where(rising, high, middle)
        low = np.minimum(low, high)
    mean = (_at_least(v - low, r, chance) - right) / low
    return np.where(v >= 1, np.maximum(mean, 0.0), 0.0)


def epsilon_one_run(
    canaries: ArrayLike,
    guesses: ArrayLike,
    correct: ArrayLike,
    delta: float,
    significance: ArrayLike = 0.05,
) -> FloatArray:
    """Largest epsilon that the guesses refute, whose p-value is ``significance``; 0 if none.

    ``get_eps_audit(m, r, v, delta, p)`` of the paper's appendix, with its order of arguments.  Accurate
    to 1e-9.

    Parameters
    ----------
    canaries, guesses, correct
        m >= r >= v >= 0, any shapes that broadcast.
    delta
        In [0, 1).
    significance
        Error probability of the bound, in (0, 1); may be an array.

    Examples
    --------
    >>> round(float(epsilon_one_run(1000, 100, 100, 1e-5)), 5)
    3.46538
    """
    delta = _validate.delta(delta)
    m, r, v, level = check_guesses(canaries, guesses, correct, check_levels(significance))
    result = np.zeros(m.shape)
    refuted = one_run_p_value(m, r, v, 0.0, delta) < level
    m, r, v, level = (x[refuted] for x in (m, r, v, level))
    if not m.size:
        return result
    # P(W >= v) >= q^r: at q = level^(1/r) no number of correct guesses refutes.
    high = logit(level ** (1 / r)) + 1.0

    def excess(
        epsilon: FloatArray, m: FloatArray, r: FloatArray, v: FloatArray, level: FloatArray
    ) -> FloatArray:
        p_value = np.maximum(one_run_p_value(m, r, v, epsilon, delta), 1e-300)
        return np.asarray(np.log(p_value / level))

    root = find_root(
        excess,
        (np.zeros(m.shape), high),
        args=(m, r, v, level),
        tolerances={"xatol": EPSILON_TOLERANCE},
    )
    result[refuted] = root.x
    return result


def guessed_members(counts: AttackCounts) -> tuple[IntArray, IntArray, IntArray]:
    """Canaries, guesses and correct guesses of each base, of an attack's decisions.

    Its trials are the canaries, and each "member" that it says is a guess.  No guesses where the trials
    are too uneven for a fair coin: the bound does not apply there and is 0.
    """
    fair = fair_coin(counts.trials_h1, counts.trials_h0)
    canaries = counts.trials_h0 + counts.trials_h1
    right = counts.trials_h1 - counts.false_negatives
    guesses = right + counts.false_positives
    return canaries, np.where(fair, guesses, 0), np.where(fair, right, 0)


@dataclass(frozen=True)
class OneRunBound(LowerEndOnly):
    """Steinke's bound from error counts: a decision for "member" is a guess, as in jax_privacy.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=500, false_negatives=[410], trials_h1=500
    ... )
    >>> round(float(OneRunBound().lower(counts, 1e-5)[0]), 4)
    1.6261
    """

    label = "one run"
    kind = Kind.EXACT_BOUND
    assumes = FAIR_COIN

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        return epsilon_one_run(*guessed_members(counts), delta, check_significance(significance))
