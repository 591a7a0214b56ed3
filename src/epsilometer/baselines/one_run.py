"""Auditing in one training run: epsilon from guesses of membership, by two bounds.

`OneRunBound` (Steinke, Nasr and Jagielski 2023): each of m canaries is included in the training set by
a fair coin.  The auditor guesses r of them and v guesses are correct.  Under (epsilon, delta)-DP the
number of correct guesses hardly exceeds Binomial(r, q) with q = 1 / (1 + e^-epsilon), which gives a
p-value and, inverted, a lower bound of epsilon.

`OneRunFdpBound` (Mahloujifar, Melis and Chaudhuri 2024) uses the same guesses, with a recursion over how
many of them can be correct if the algorithm's trade-off curve is f.  The curve comes from a
one-parameter family; the largest parameter that the guesses refute is converted to an epsilon at delta.

In the recursion, ``right`` and ``wrong`` are the probabilities that a canary is guessed correctly
(incorrectly) and at least i guesses are correct, starting at i = v from the values implied by a
probability ``level`` of v or more.  As i decreases, the curve forces ``wrong`` up to the smallest
false-positive rate at ``right``, and counting forces ``right`` up by i / (r - i) times that (theorem 9
and algorithm 3 of that paper).  If the total exceeds r / m, the curve is refuted.

The family is the assumption.  `ApproximateDP` makes the weakest, (epsilon, delta)-DP itself, and bounds
epsilon for any algorithm.  `GaussianDP` assumes a Gaussian mechanism, as jax_privacy does: tighter if
this is true, and otherwise about the Gaussian mechanism that covers the algorithm, whose epsilon may be
far above the algorithm's own.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root
from scipy.special import betainc, expit, logit, ndtri

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.baselines.estimator import (
    Kind,
    LowerEndOnly,
    check_positive_delta,
    check_significance,
)
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

#: Absolute tolerance of epsilon or of a curve's parameter: far below reported precision.
TOLERANCES: Any = {"xatol": 1e-9}

FAIR_COIN = "each canary included by a fair coin, a decision rule fixed in advance"

#: Probability of an equally uneven split below which the coin is not accepted as fair.
_TOO_UNEVEN = 5e-3


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

    def excess(epsilon: FloatArray, *guessed: FloatArray) -> FloatArray:
        m, r, v, level = guessed
        p_value = np.maximum(one_run_p_value(m, r, v, epsilon, delta), 1e-300)
        return np.asarray(np.log(p_value / level))

    bracket = np.zeros(m.shape), high
    result[refuted] = find_root(excess, bracket, args=(m, r, v, level), tolerances=TOLERANCES).x
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


# --- the bound of f-differential privacy -----------------------------------------------------------

#: Initial and largest upper end of the bracket, which is doubled; exp of the largest is finite.
_FIRST_BRACKET, _LARGEST_PARAMETER = 1.0, 512.0


@dataclass(frozen=True)
class ApproximateDP:
    """The curve of (epsilon, delta)-DP, with parameter epsilon.  Holds for every algorithm.

    At a true-positive rate t, the least false-positive rate is the larger of (t - delta) e^-epsilon and
    1 - delta - e^epsilon (1 - t): the two edges of R(epsilon, delta).
    """

    gaussian = False

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """Epsilon at delta: the parameter itself."""
        return parameter


@dataclass(frozen=True)
class GaussianDP:
    """The curve of two unit-variance normal distributions, with parameter mu, their distance.

    At a true-positive rate t, the least false-positive rate is Phi(Phi^-1(t) - mu).
    """

    gaussian = True

    def epsilon(self, parameter: FloatArray, delta: float) -> FloatArray:
        """Epsilon of the Gaussian mechanism at delta."""
        return epsilon_of_gaussian(parameter, check_positive_delta(delta, who="GaussianDP"))


#: Trade-off curves that decrease in their parameter; at 0 membership is indistinguishable.
Family = ApproximateDP | GaussianDP

ANY_ALGORITHM = ApproximateDP()


def epsilon_one_run_fdp(
    canaries: ArrayLike,
    guesses: ArrayLike,
    correct: ArrayLike,
    delta: float,
    significance: ArrayLike = 0.05,
    *,
    family: Family = ANY_ALGORITHM,
) -> FloatArray:
    """Epsilon at delta of the largest parameter that the guesses refute; 0 if none.

    Parameters
    ----------
    canaries, guesses, correct
        m >= r >= v >= 0, any shapes that broadcast.
    delta
        In [0, 1); above 0 for `GaussianDP`.
    significance
        Error probability of the bound, in (0, 1); may be an array.
    family
        Default: `ApproximateDP()`.

    Examples
    --------
    >>> round(float(epsilon_one_run_fdp(1000, 100, 100, 1e-5, family=GaussianDP())), 5)
    5.54903
    """
    from epsilometer.baselines.one_run_fdp_kernels import excess as kernel

    delta = _validate.delta(delta)
    guessed = check_guesses(canaries, guesses, correct, check_levels(significance))
    shape = guessed[0].shape
    m, r, v, level = (x.flatten() for x in guessed)

    def excess(parameter: FloatArray, *guessed: FloatArray) -> FloatArray:
        m, r, v, level = guessed
        first = ndtri(level * v / m)
        return np.asarray(kernel(parameter, m, r, v, level, first, delta, family.gaussian))

    parameter = np.zeros(len(m))
    refuted = (excess(parameter, m, r, v, level) > 0) & (r > 0)
    if refuted.any():
        few = m[refuted], r[refuted], v[refuted], level[refuted]
        low, high = parameter[refuted], np.full(few[0].shape, _FIRST_BRACKET)
        while True:
            above = excess(high, *few) > 0
            if not above.any() or high.max() >= _LARGEST_PARAMETER:
                break
            low, high = np.where(above, high, low), np.where(above, 2 * high, high)
        root = find_root(excess, (low, high), args=few, tolerances=TOLERANCES)
        # Refuted even at the largest parameter: report that one.
        parameter[refuted] = np.where(above, high, root.x)
    return family.epsilon(parameter.reshape(shape), delta)


@dataclass(frozen=True)
class OneRunFdpBound(LowerEndOnly):
    """Mahloujifar's bound from error counts: the guesses are those of `OneRunBound`.

    Parameters
    ----------
    family
        Family of trade-off curves; `ApproximateDP()` holds for every algorithm.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=500, false_negatives=[410], trials_h1=500
    ... )
    >>> round(float(OneRunFdpBound().lower(counts, 1e-5)[0]), 4)
    1.6143
    """

    family: Family = ANY_ALGORITHM

    kind = Kind.EXACT_BOUND

    @property
    def label(self) -> str:
        return "one run, f-DP, Gaussian" if self.gaussian else "one run, f-DP"

    @property
    def assumes(self) -> str:
        return f"a Gaussian trade-off curve, {FAIR_COIN}" if self.gaussian else FAIR_COIN

    @property
    def gaussian(self) -> bool:
        return self.family.gaussian

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        guessed, error = guessed_members(counts), check_significance(significance)
        return epsilon_one_run_fdp(*guessed, delta, error, family=self.family)
