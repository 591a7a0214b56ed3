"""Claim test of canaries whose noise is independent and normal: what is proven *if* it is.

Proofs of `canaries.py` hold however canaries interfere, and (epsilon, delta) limits the tail of a curve
only: from a few thousand canaries they prove about half of epsilon.  This test has two premises, which
hold for orthogonal gradient canaries with the noise of DP-SGD:

- *independent*: a canary's score depends on its own coin and its own noise;
- *normal*: the curve of a canary whose epsilon at delta is E is at most that of N(0, 1) and N(mu, 1)
  with the same epsilon.  The exact laws of DP-SGD are below this curve for every epsilon up to E, so the
  bound is valid for them too, unless delta alone covers nearly all of the training (E below 0.1 at a
  delta of 0.01 or more); with few steps they are far below, and it proves less.

Let x be the cell of a canary's score in a partition fixed by other canaries.  By Blackwell's theorem the
two distributions of x are a post-processing of N(0, 1) and N(mu, 1).  So for any f0, f1 >= 0 the mean of
f0(x) without and f1(x) with the canary, whose coin is fair, is at most

    C / 2,  C = integral over w of max over x of [f0(x) phi(w) + f1(x) phi(w - mu)],

whatever was learnt from other canaries.  The product of f_coin(x) / (C / 2) over all canaries has mean
at most 1.  The f are ratios to the nearest allowed pair, for one alternative: the separation at which
the product is expected to reach 1 / error.  Cells are ranks among the earlier canaries, so only the
order of scores matters.  Canaries are taken in a random order that nobody could choose, neither by their
scores nor by their coins: its seed is a digest of both.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.fft import next_fast_len
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri
from scipy.stats import rankdata

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.model.base_scores import BaseScores, seeded_by
from epsilometer.model.families import Gaussian
from epsilometer.model.scores import Scores
from epsilometer.proofs.refuting import ClaimTest, ceiling

CONDITION = "the noise of canaries is independent and normal"

#: Cells of a score: equal shares of what the alternative expects.  Twice as many gain nothing.
CELLS = 16

#: Canaries before the first bet.
WARM_UP = 32

#: Newton steps to the nearest allowed pair; after six nothing changes any more.
NEWTON_STEPS = 8

#: Largest separation of normal distributions that is considered, and how far beyond it alternatives are.
FARTHEST, WIDEST_GAP = 100.0, 10.0

# --- the search for shared luck -------------------------------------------------------------------

#: False-alarm rate of the search, and the number of random orders that it is compared with.
FALSE_ALARM, ORDERS = 0.01, 399

#: Canaries on a side below which nothing could be seen.
FEWEST = 32

#: Share of equal scores above which noise is not normal; single precision rounds a few alike.
MOST_TIES = 0.01


def _masses(edges: FloatArray) -> FloatArray:
    """Probabilities of the cells between edges under N(0, 1), without cancellation."""
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    return np.where(ends[:-1] > 0, -np.diff(ndtr(-ends)), np.diff(ndtr(ends)))


@lru_cache(maxsize=1000)
def log_bets(mu: float, alternative: float) -> FloatArray:
    """Log of f0 and f1 over C / 2 in each cell, against any pair of at most the separation mu.

    The nearest allowed pair is that of cells whose edges v maximise the likelihood of the alternative.
    C is bounded from above, whatever the edges: the largest f0 (1 - r) + f1 r is convex in the posterior
    r of the coin, so between edges it is at most its chord.
    """
    grid = np.linspace(-9.0, alternative + 9.0, 2001)
    mixture = (ndtr(grid) + ndtr(grid - alternative)) / 2
    edges = np.interp(np.arange(1, CELLS) / CELLS, mixture, grid)
    wanted = _masses(edges), _masses(edges - alternative)
    v = edges - (alternative - mu) / 2
    sides = np.eye(CELLS, CELLS - 1) - np.eye(CELLS, CELLS - 1, -1)
    for _ in range(NEWTON_STEPS):
        gradient, hessian = np.zeros(CELLS - 1), np.zeros((CELLS - 1, CELLS - 1))
        for shift, mass in zip((0.0, mu), wanted, strict=True):
            near, slopes = _masses(v - shift), sides * np.exp(-((v - shift) ** 2) / 2)
            slopes /= math.sqrt(2 * math.pi)
            pull = (mass / near) @ slopes
            gradient += pull
            hessian += slopes.T @ (slopes * (mass / near**2)[:, None]) + np.diag((v - shift) * pull)
        v = np.sort(v + np.linalg.solve(hessian, gradient))
    allowed = _masses(v), _masses(v - mu)
    f0, f1 = wanted[0] / allowed[0], wanted[1] / allowed[1]
    r = np.concatenate([[0.0], expit(mu * v - mu**2 / 2), [1.0]])
    most = (f0[:, None] * (1 - r) + f1[:, None] * r).max(axis=0)
    both = allowed[0] + allowed[1]
    return np.log([f0, f1]) - math.log(both @ np.interp(allowed[1] / both, r, most) / 2)


@lru_cache(maxsize=1000)
def separation(epsilon: float, delta: float) -> float:
    """The largest mu at which N(0, 1) and N(mu, 1) are (epsilon, delta)-private; delta > 0.

    Examples
    --------
    >>> round(separation(4.377178, 1e-5), 5)
    1.0
    """
    return float(brentq(lambda mu: float(Gaussian().delta(mu, epsilon)[0]) - delta, 0.0, FARTHEST))


def cell_counts(rank: IntArray, coins: IntArray, order: IntArray) -> IntArray:
    """How many excluded and included canaries fall into each cell, learnt in this order."""
    counts = np.zeros((2, CELLS), dtype=np.int64)
    past: list[int] = []
    for place, (x, coin) in enumerate(
        zip(rank[order].tolist(), coins[order].tolist(), strict=True)
    ):
        if place >= WARM_UP:
            middle = (bisect_left(past, x) + bisect_right(past, x) + 1) / 2
            counts[coin, int(CELLS * middle / (place + 1))] += 1
        insort(past, x)
    return counts


def log_e_value(counts: IntArray | FloatArray, epsilon: float, delta: float, error: float) -> float:
    """Log e-value against the claim, from the numbers of canaries in cells."""
    mu, canaries = separation(epsilon, delta), float(counts.sum())
    if not canaries:
        return 0.0
    # A canary has information of about exp(-mu^2 / 8) / 4 on mu.
    gap = math.sqrt(8 * math.log(1 / error) / canaries) * math.exp(mu**2 / 16)
    return float((counts * log_bets(mu, mu + min(gap, WIDEST_GAP))).sum())


@lru_cache(maxsize=4)
def shared_luck(runs: tuple[BaseScores, ...]) -> float:
    """P-value against independent canaries, from their scores in the order of canaries.

    Normal scores of the ranks and their squares, of excluded and of included canaries apart, are summed
    over windows of 2, 4, 8 ... neighbours.  If neighbours share noise, scale or luck, these sums vary by
    more than in random orders.  Exact: canaries that are independent and alike are in random order.
    """
    sides = _ranks(runs)
    widths = 2 ** np.arange(1, int(math.log2(min(map(len, sides)))) - 2)
    rng, found = np.random.default_rng(len(sides[0])), np.zeros((1 + ORDERS, 2, len(widths)))
    for side in sides:
        normal = ndtri((rankdata(side) - 0.5) / len(side))
        series = np.stack([normal, normal**2])
        series -= series.mean(axis=1, keepdims=True)
        # Sums over windows, squared and added up: the power at each frequency, filtered.
        size = next_fast_len(len(side), real=True)
        windows = np.abs(np.fft.rfft(np.arange(size) < widths[:, None])) ** 2
        for order in range(1 + ORDERS):
            found[order] += np.abs(np.fft.rfft(series, size)) ** 2 @ windows.T
            series = rng.permutation(series, axis=1)
    spread = found.std(axis=0)
    # Squares of scores with two values are all equal.
    apart = (found - found.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    largest = apart.max(axis=(1, 2))
    return float((largest >= largest[0]).mean())


def _ranks(runs: tuple[BaseScores, ...]) -> tuple[IntArray, IntArray]:
    """Ranks of the scores of excluded and of included canaries in their order, which must be known."""
    without, with_point = BaseScores.of_batches(runs).arrival or (np.zeros(0, np.int64),) * 2
    return -without, -with_point


@dataclass(frozen=True, kw_only=True, eq=False)
class IndependentNoiseTest(ClaimTest):
    """Canaries of training runs: what is proven if their noise is independent and normal.

    Nothing is proven if the scores themselves speak against it, see `withheld`.  What they cannot show:
    luck that a whole run shares, which moves all canaries alike, and luck shared by canaries that are
    far apart in the order of canaries.

    Attributes
    ----------
    independent
        Whether every run has its own coins.
    search
        Whether to look for ties and shared luck first; studies also see what happens without.
    """

    scores: Scores
    independent: bool = True
    search: bool = True

    assumes = (
        "noise of canaries that is independent and normal, each canary included by its own fair coin; "
        "one planned analysis"
    )

    @property
    def searched(self) -> float | None:
        """P-value of the search for shared luck; None without a search."""
        wanted = self.search and self._unsuitable is None
        return shared_luck(self.scores.bases) if wanted else None

    def withheld(self, delta: float) -> str | None:
        """Why nothing is proven whatever the claim, without a full stop; None if something may be."""
        if delta == 0:
            return "normal noise has no finite epsilon at delta = 0"
        if self.searched is not None and self.searched <= FALSE_ALARM:
            return (
                "neighbouring canaries seem to share luck or noise (p = "
                f"{self.searched:.2g} if they shared none)"
            )
        return self._unsuitable

    @cached_property
    def _unsuitable(self) -> str | None:
        """Why there is nothing to search in, or no normal noise."""
        runs, canaries = self.scores.bases, self.scores.all_runs
        if len(runs) > 1 and not self.independent:
            return "the runs may share coins"
        if any(run.arrival is None for run in runs):
            return "the order of the canaries is not known, so shared luck would not be seen"
        if min(canaries.trials_h0, canaries.trials_h1) < FEWEST:
            return f"with fewer than {FEWEST} canaries on a side shared luck would not be seen"
        least = (1 - MOST_TIES) * (canaries.trials_h0 + canaries.trials_h1)
        if self.search and len(canaries.value) < least:
            return "many scores are equal, which normal noise does not allow"
        return None

    @cached_property
    def _counts(self) -> IntArray:
        """How many fall into each cell, learnt in a random order; its seed is a digest of the data."""
        sides = _ranks(self.scores.bases)
        rank, coins = np.concatenate(sides), np.repeat([0, 1], [len(side) for side in sides])
        return cell_counts(rank, coins, seeded_by(rank, coins).permutation(len(rank)))

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        if self.withheld(delta) is not None:
            return -math.inf
        return log_e_value(self._counts, epsilon, delta, error)

    def most_provable(self, delta: float, error: float, times: float = 1.0) -> float:
        if delta == 0:
            return 0.0
        size = math.ceil(times * float((self.scores.trials_h0 + self.scores.trials_h1).sum()))
        # Excluded canaries evenly in the lower half of the cells, included ones in the upper half.
        best = np.repeat(np.eye(2), CELLS // 2, axis=1) * max(size - WARM_UP, 0) / CELLS
        return ceiling(lambda epsilon: log_e_value(best, epsilon, delta, error) >= -math.log(error))
