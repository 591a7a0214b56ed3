"""Slow, obvious twins of the whole-curve engine; they share nothing with it.

Densities are SciPy's, over the scores themselves: no pooled share, no window, no splines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaln, expit, gammaln, logsumexp
from scipy.stats import beta as beta_law
from scipy.stats import gennorm, norm
from scipy.stats import laplace as laplace_law

import epsilometer as em
from epsilometer.model.family import Curves

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Function = Callable[[FloatArray], FloatArray]


class Pair(NamedTuple):
    """Densities and upper tails of the score without and with the point; they may have kinks."""

    p0: Function
    p1: Function
    s0: Function
    s1: Function
    kinks: tuple[float, ...]
    ends: tuple[float, float]


def gaussian(mu: float, width: float = 1.0) -> Pair:
    low, high = min(-9.0, mu - 9 * width), max(9.0, mu + 9 * width)
    return Pair(
        lambda x: np.asarray(norm.pdf(x)),
        lambda x: np.asarray(norm.pdf(x, mu, width)),
        lambda x: np.asarray(norm.sf(x)),
        lambda x: np.asarray(norm.sf(x, mu, width)),
        (),
        (low, high),
    )


def laplace(leak: float) -> Pair:
    return Pair(
        lambda x: np.asarray(laplace_law.pdf(x)),
        lambda x: np.asarray(laplace_law.pdf(x, leak)),
        lambda x: np.asarray(laplace_law.sf(x)),
        lambda x: np.asarray(laplace_law.sf(x, leak)),
        (0.0, leak),
        (-40.0, leak + 40.0),
    )


def capped(leak: float, ratio: float) -> Pair:
    """Gaussian trade-off function and that of pure DP, whichever is larger, on a normal score."""
    cap = ratio * leak

    def missing(x: float) -> float:
        return cap + norm.logsf(x) - norm.logsf(x, leak)

    gaussian_part = missing(leak / 2) > 0
    high = brentq(missing, leak / 2, leak / 2 + 20) if gaussian_part else -norm.ppf(expit(-cap))
    low = leak - high if gaussian_part else high

    def with_point(x: FloatArray) -> FloatArray:
        beyond = np.where(x > high, math.exp(cap), math.exp(-cap)) * norm.pdf(x)
        return np.where((x > low) & (x <= high), norm.pdf(x, leak), beyond)

    def tail(x: FloatArray) -> FloatArray:
        ends = np.minimum(math.exp(cap) * norm.sf(x), 1 - math.exp(-cap) * norm.cdf(x))
        return np.asarray(np.minimum(norm.sf(x, leak), ends))

    return gaussian(leak)._replace(p1=with_point, s1=tail, kinks=(low, high))


def smooth(leak: float, ratio: float) -> Pair:
    """Noise whose logistic function has a Beta distribution."""
    p = (ratio**2 - 1) / 2
    shift, law = ratio * leak / p, beta_law(p, p)

    def density(x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(p * (np.log(expit(x)) + np.log(expit(-x))) - betaln(p, p)))

    return Pair(
        density,
        lambda x: density(x - shift),
        lambda x: np.asarray(law.cdf(expit(-x))),
        lambda x: np.asarray(law.cdf(expit(shift - x))),
        (),
        (-40.0 / p, shift + 40.0 / p),
    )


def two_variances(leak: float, spread: float) -> Pair:
    """Distances from the vertex of the log ratio of N(0, 1) and N(leak, (1 + spread leak)^2)."""
    width = 1 + spread * leak
    centre = leak / (width**2 - 1)

    def density(d: FloatArray, mean: float, scale: float) -> FloatArray:
        return np.asarray(norm.pdf(d, mean, scale) + norm.pdf(d, -mean, scale))

    def tail(d: FloatArray, mean: float, scale: float) -> FloatArray:
        return np.asarray(norm.sf(d, mean, scale) + norm.cdf(-d, mean, scale))

    far = centre + leak
    return Pair(
        lambda d: density(d, centre, 1.0),
        lambda d: density(d, far, width),
        lambda d: tail(d, centre, 1.0),
        lambda d: tail(d, far, width),
        (),
        (0.0, far + 12 * width),
    )


def reversed_(pair: Pair) -> Pair:
    """The same with the hypotheses exchanged, so that low scores become high ones."""
    low, high = pair.ends
    return Pair(
        lambda x: pair.p1(-x),
        lambda x: pair.p0(-x),
        lambda x: 1 - pair.s1(-x),
        lambda x: 1 - pair.s0(-x),
        tuple(-kink for kink in pair.kinks),
        (-high, -low),
    )


def thin(leak: float) -> Pair:
    """Noise of density exp(-|x|^3)."""
    return Pair(
        lambda x: np.asarray(gennorm.pdf(x, 3)),
        lambda x: np.asarray(gennorm.pdf(x, 3, leak)),
        lambda x: np.asarray(gennorm.sf(x, 3)),
        lambda x: np.asarray(gennorm.sf(x, 3, leak)),
        (),
        (-3.5, leak + 3.5),
    )


def mixed(pair: Pair, rate: float) -> Pair:
    """The point matters only with probability ``rate``."""
    return pair._replace(
        p1=lambda x: (1 - rate) * pair.p0(x) + rate * pair.p1(x),
        s1=lambda x: (1 - rate) * pair.s0(x) + rate * pair.s1(x),
    )


# --- probability of an order of labels ----------------------------------------------------------


def log_lambda(labels: Sequence[int] | IntArray, pair: Pair, *, finer: float = 1.0) -> float:
    """Log M! times the ordered integral of the product of densities, over scores from the top down.

    A_m(x) is the integral of p_{c_m} A_{m-1} from x up, by Legendre polynomials of degree 9 in cells
    about 1 / M wide in the pooled distribution function.  ``finer`` divides the cells.
    """
    order = np.asarray(labels)
    size, ones = len(order), int(order.sum())
    inner = _even_edges(pair, ones / size, int(finer * (2 * size + 60)))
    edges = np.unique(np.concatenate([inner, pair.kinks, pair.ends]))[::-1]
    nodes, matrix, weights = _cumulative_rule(10)
    width = edges[:-1] - edges[1:]
    x = edges[:-1, None] - width[:, None] * nodes
    density = pair.p0(x) * width[:, None], pair.p1(x) * width[:, None]
    # Running integrals behave like t^m, and those of a thousand ranks exceed the range of doubles.
    running, logs = np.ones(x.shape, dtype=np.longdouble if size > 800 else np.float64), 0.0
    for label in order.tolist():
        part = density[label] * running
        cells = part @ weights
        before = np.append(0.0, np.cumsum(cells)[:-1])
        running = before[:, None] + part @ matrix.T
        top = float(before[-1] + cells[-1])
        running /= top
        logs += math.log(top)
    # Everything beyond the ends was left out; it is less than 1e-17.
    return logs + float(gammaln(size + 1))


def _even_edges(pair: Pair, members: float, cells: int) -> FloatArray:
    """Edges that divide the pooled distribution evenly in the angle 2 asin(sqrt(share))."""
    x = np.linspace(*pair.ends, 40_001)
    share = (1 - members) * pair.s0(x) + members * pair.s1(x)
    angle = 2 * np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0)))
    inner = np.interp(np.linspace(0.0, np.pi, cells + 1)[1:-1], angle[::-1], x[::-1])
    # And a few over the tails, where the angle gives no information.
    return np.append(inner, np.linspace(*pair.ends, 60))


def _cumulative_rule(count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gauss points on [0, 1], integrals from 0 to each of them, and over all."""
    x, w = np.polynomial.legendre.leggauss(count)
    # Lagrange polynomials in Legendre coefficients.
    basis = np.linalg.inv(np.polynomial.legendre.legvander(x, count - 1))
    matrix = np.empty((count, count))
    for own in range(count):
        whole = np.polynomial.legendre.legint(basis[:, own], lbnd=-1)
        matrix[:, own] = np.polynomial.legendre.legval(x, whole) / 2
    return (x + 1) / 2, matrix, w / 2


def log_lambda_of_pieces(
    labels: Sequence[int], without: FloatArray, with_point: FloatArray
) -> float:
    """The same for scores with finitely many values: all ways to cut the ranks into pieces."""
    order = np.asarray(labels)
    size = len(order)
    above = np.append(0, np.cumsum(order))
    total = 0.0
    for cuts in _increasing(size, len(without) - 1):
        ends = (0, *cuts, size)
        chance = 1.0
        for piece, (start, stop) in enumerate(pairwise(ends)):
            b = int(above[stop] - above[start])
            a = stop - start - b
            chance *= without[piece] ** a * with_point[piece] ** b / math.factorial(a + b)
        total += chance
    return math.log(total) + math.lgamma(size + 1) if total > 0 else -math.inf


def _increasing(most: int, count: int) -> Iterator[tuple[int, ...]]:
    """All weakly increasing tuples of numbers from 0 to ``most``."""
    return (each for each in product(range(most + 1), repeat=count) if list(each) == sorted(each))


def orders_of(zeros: int, ones: int) -> list[list[int]]:
    """Every order of that many labels."""
    size = zeros + ones
    return [[int(i in chosen) for i in range(size)] for chosen in combinations(range(size), ones)]


def averaged_over_ties(
    zeros: Sequence[int], ones: Sequence[int], log_of: Callable[[list[int]], float]
) -> float:
    """Log of the mean of Lambda over every order within every block."""
    inside = [orders_of(a, b) for a, b in zip(zeros, ones, strict=True)]
    logs = [log_of([label for part in parts for label in part]) for parts in product(*inside)]
    return float(logsumexp(logs) - math.log(len(logs)))


#: Upper 1e-6 quantile of chi-square with 19 degrees of freedom: 61.9.
CHI_SQUARE_19 = 62.0


def simulated_orders(curves: Curves, leak: float, seed: int) -> IntArray:
    """How often each of the 20 orders of three and three occurs, ties broken at random."""
    runs, rng = 40_000, np.random.default_rng(seed)
    member = np.tile(np.arange(6) >= 3, (runs, 1))
    score = curves.sample(leak, member, rng=rng)
    order = np.lexsort((rng.random(score.shape), -score), axis=1)
    seen = np.take_along_axis(member, order, axis=1) @ 2 ** np.arange(6)
    return np.array([(seen == np.dot(each, 2 ** np.arange(6))).sum() for each in orders_of(3, 3)])


def surprise_of(counts: IntArray, log_ratio: Callable[[list[int]], float]) -> float:
    """Chi-square of these frequencies, if each order has 1/20 times its likelihood ratio."""
    expected = counts.sum() / 20 * np.exp([log_ratio(labels) for labels in orders_of(3, 3)])
    return float(((counts - expected) ** 2 / expected).sum())


# --- divergences --------------------------------------------------------------------------------


def hockey_sticks(pair: Pair, epsilon: float, points: int = 400_001) -> tuple[float, float]:
    """Integrals of (p1 - e^epsilon p0)+ and (p0 - e^epsilon p1)+, by the trapezoidal rule.

    The integrand has kinks, so the error is about the square of the spacing: below 1e-8.
    """
    x = np.linspace(*pair.ends, points)
    p0, p1, grow = pair.p0(x), pair.p1(x), math.exp(epsilon)
    forward = np.trapezoid(np.maximum(p1 - grow * p0, 0.0), x)
    return float(forward), float(np.trapezoid(np.maximum(p0 - grow * p1, 0.0), x))


# --- example scores -----------------------------------------------------------------------------


def reference_scores(zeros: int, ones: int, shift: float) -> em.Scores:
    """Normal quantiles, those with the point shifted: section 7 of the notes on the whole curve."""
    without = norm.ppf((np.arange(zeros) + 0.5) / zeros)
    with_point = shift + norm.ppf((np.arange(ones) + 0.5) / ones)
    # Ties, if any, member first.
    return em.Scores(without=[without], with_point=[with_point + 1e-12])


def scores_in_order(labels: Sequence[int] | IntArray) -> em.Scores:
    """Scores of one base whose labels come in this order from the highest down."""
    order = np.asarray(labels)
    value = -np.arange(len(order), dtype=float)
    return em.Scores(without=[value[order == 0]], with_point=[value[order == 1]])
