"""E-values of error counts, for a decision rule fixed in advance and counted once.

Given X of N0 and Y of N1, the claim of (epsilon, delta)-DP states that the error rates (alpha, beta) lie
in a convex region R.  For any other rates (a, b) let (a', b') be the point of R with the least
divergence N0 KL(a, a') + N1 KL(b, b').  Then the likelihood ratio of (a, b) to (a', b') has mean at most
1 everywhere in R, by the convexity of R and log(1 + x) <= x (Turner, Ly and Grünwald 2024).  It is the
e-value that grows fastest if the rates are (a, b).  E-values of many such rates are mixed, and bases are
multiplied, by `mixed`.
"""

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.model.counts import AttackCounts
from epsilometer.proofs.nearest import nearest
from epsilometer.proofs.refuting import log_mean

#: Number of rates along each axis of the mixture, evenly spaced in the logit.
RATES_PER_AXIS = 24

#: Largest logit of a rate in the mixture: counts hardly distinguish rates below 1 in 2,000.
FURTHEST = 8.0

#: Share of a base's capital that is exposed at all, and the weight of that choice.  If few bases
#: leak, the others would consume what those win; with an exposed share w a base loses at most the
#: factor 1 - w.
SHARES = ((1.0, 0.5), (0.3, 0.25), (0.1, 0.15), (0.03, 0.1))


def alternatives() -> FloatPair:
    """The rates (a, b) of the mixture, below the line a + b = 1."""
    rates = expit(np.linspace(-FURTHEST, FURTHEST, RATES_PER_AXIS))
    first, second = (grid.ravel() for grid in np.meshgrid(rates, rates, indexing="ij"))
    useful = first + second < 1
    return first[useful], second[useful]


def log_e_values(counts: AttackCounts, epsilon: float, delta: float) -> FloatArray:
    """Log e-value against the claim, for each base and each of the alternatives."""
    alpha, beta = alternatives()
    logs = np.zeros((len(counts), len(alpha)))
    sizes = np.stack([counts.trials_h0, counts.trials_h1], axis=1)
    for size in np.unique(sizes, axis=0):
        rows = np.flatnonzero((sizes == size).all(axis=1))
        null = projected(alpha, beta, size, epsilon, delta)
        sides = zip(counts.by_hypothesis, (alpha, beta), null, strict=True)
        for (errors, trials), rate, other in sides:
            x, n = errors[rows, None], trials[rows, None]
            ratio = xlogy(x, rate) + xlog1py(n - x, -rate) - xlogy(x, other)
            logs[rows] += ratio - xlog1py(n - x, -other)
    return logs


def projected(
    alpha: FloatArray, beta: FloatArray, size: FloatArray, epsilon: float, delta: float
) -> FloatPair:
    """The rates that the claim allows nearest to (alpha, beta), which are their own nearest in R."""
    rates = [
        nearest(a, 1 - b, np.exp(epsilon), delta, *size) for a, b in zip(alpha, beta, strict=True)
    ]
    rare, common = np.array(rates).T
    return rare, 1 - common


def mixed(log_capitals: FloatArray, *, independent: bool = True) -> FloatArray:
    """Log of the mixture of all bettors on all bases: bases x bettors (x anything) -> anything.

    With ``independent`` the capitals of a bettor on all bases are multiplied, for each of the shares,
    and averaged over shares and bettors; otherwise everything is averaged.

    Examples
    --------
    >>> bool(abs(mixed(np.zeros((3, 5)))) < 1e-12)  # no gains or losses
    True
    """
    if not independent:
        return log_mean(log_capitals.reshape(-1, *log_capitals.shape[2:]))
    parts = []
    for share, weight in SHARES:
        kept = np.log1p(-share) if share < 1 else -np.inf
        total = np.logaddexp(kept, np.log(share) + log_capitals).sum(axis=0)
        parts.append(np.log(weight) + log_mean(total))
    return np.asarray(np.logaddexp.reduce(parts, axis=0))
