"""The grid of (tau, rho) on which the correlated likelihood is evaluated, and the kernels on it.

rho is handled as the fraction r = rho / bound(tau) of its largest admissible value, which is uniform
on (-1, 1) whatever tau.  tau has a Gauss rule made for its own prior, so that only the likelihood,
and not the prior, has to be smooth.  The independent likelihood has a grid of one point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import panels
from epsilometer.inference.edges import BinomialKernel, Family, Kernel, NormalKernel
from epsilometer.inference.spread_grid import SpreadGrid
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial, Likelihood

FloatArray = NDArray[np.float64]

FARTHEST = 6.0
"""tau is followed this many prior standard deviations out (probability 1e-9), unless data insist."""


@dataclass(frozen=True, kw_only=True)
class NuisanceBox:
    """The part of (tau, r) space that a grid covers."""

    tau_low: float
    tau_high: float
    r_low: float
    r_high: float


@dataclass(frozen=True, kw_only=True)
class NuisanceGrid:
    """Nodes (tau_a, r_b) and prior weights; axis order of flattened arrays is (tau, r)."""

    box: NuisanceBox | None
    tau: FloatArray
    r: FloatArray
    log_weight: FloatArray

    def __len__(self) -> int:
        return len(self.log_weight)


POINT = NuisanceGrid(box=None, tau=np.zeros(1), r=np.zeros(1), log_weight=np.zeros(1))


def whole_box(likelihood: CorrelatedNormal, counts: AttackCounts) -> NuisanceBox:
    """The box that holds all of the prior but a negligible part."""
    low, high = likelihood.within_correlation_bounds(counts)
    reach = FARTHEST * likelihood.within_correlation_scale
    return NuisanceBox(tau_low=max(low, -reach), tau_high=min(high, reach), r_low=-1.0, r_high=1.0)


def make_grid(likelihood: Likelihood, counts: AttackCounts, count: tuple[int, int]) -> NuisanceGrid:
    """A grid for the prior, so many nodes for tau and for r: the likelihood varies less with r."""
    if isinstance(likelihood, IndependentBinomial):
        return POINT
    box = whole_box(likelihood, counts)
    tau, tau_weight = _prior_gauss(likelihood, counts, box, count[0])
    points, weights = panels.gauss_legendre(count[1])
    half = 0.5 * (box.r_high - box.r_low)
    r = box.r_low + half * (1 + points)
    log_weight = np.log(tau_weight)[:, None] + np.log(0.5 * half * weights)[None, :]
    return NuisanceGrid(box=box, tau=tau, r=r, log_weight=log_weight.ravel())


NARROWEST = 0.2
"""Counts are never taken to spread less than this share of a binomial's standard deviation."""


def _prior_gauss(
    likelihood: CorrelatedNormal, counts: AttackCounts, box: NuisanceBox, count: int
) -> tuple[FloatArray, FloatArray]:
    """Gauss nodes and weights for the prior of tau cut to the box, by the Stieltjes procedure.

    In the variable v = sqrt(1 + (N - 1) tau), the standard deviation of a count over a binomial's,
    the likelihood is smooth down to v = 0, where tau meets its bound.  What the prior has below
    `NARROWEST` (1.2 % for 100 trials and the default scale) is put there: no grid could follow counts
    that hardly spread, and the likelihood hardly changes any more.
    """
    from scipy.special import ndtr

    scale = likelihood.within_correlation_scale
    largest = max(int(counts.trials_h0.max()), int(counts.trials_h1.max()))
    if largest == 1:
        return np.zeros(1), np.ones(1)

    def tau_of(root: FloatArray) -> FloatArray:
        return np.asarray((root * root - 1) / (largest - 1))

    def below(tau: float) -> float:
        return float(ndtr(tau / scale))

    low, high = likelihood.within_correlation_bounds(counts)
    ends = [math.sqrt(max(1 + (largest - 1) * tau, 0.0)) for tau in (box.tau_low, box.tau_high)]
    start = max(ends[0], NARROWEST)
    half = 0.5 * (ends[1] - start)
    fine, weights = panels.gauss_legendre(200)
    root = start + half * (1 + fine)
    mass = half * weights * np.exp(-0.5 * (tau_of(root) / scale) ** 2)
    mass *= 2 * root / ((largest - 1) * scale * math.sqrt(2 * math.pi))
    # The part of the prior below the start is an atom there.
    cut = below((start * start - 1) / (largest - 1)) - below(box.tau_low)
    x, mass = np.append(fine, -1.0), np.append(mass, max(cut, 0.0))
    total = mass.sum()
    previous, current = np.zeros_like(x), np.ones_like(x)
    diagonal, off = np.zeros(count), np.zeros(count)
    norm_before = 1.0
    for k in range(count):
        norm = float(mass @ (current * current))
        diagonal[k] = float(mass @ (x * current * current)) / norm
        off[k] = norm / norm_before if k else 0.0
        previous, current = current, (x - diagonal[k]) * current - off[k] * previous
        norm_before = norm
    matrix = np.diag(diagonal) + np.diag(np.sqrt(off[1:]), 1) + np.diag(np.sqrt(off[1:]), -1)
    nodes, vectors = np.linalg.eigh(matrix)
    return tau_of(start + half * (1 + nodes)), total / (below(high) - below(low)) * vectors[0] ** 2


def make_family(
    likelihood: Likelihood, counts: AttackCounts, grid: NuisanceGrid | SpreadGrid
) -> Family:
    """The likelihood of each base at each node: a group for each r, in it a kernel for each tau."""
    if isinstance(likelihood, IndependentBinomial):
        from scipy.special import gammaln

        x, n0, y, n1 = (
            np.asarray(column, dtype=float)
            for column in (
                counts.false_positives,
                counts.trials_h0,
                counts.false_negatives,
                counts.trials_h1,
            )
        )
        constant = sum(
            gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) for k, n in ((x, n0), (y, n1))
        )
        kernel = BinomialKernel(
            false_positives=x,
            trials_h0=n0,
            false_negatives=y,
            trials_h1=n1,
            log_constant=np.asarray(constant),
        )
        return [[kernel]]
    assert isinstance(grid, NuisanceGrid)
    bound = likelihood.cross_correlation_bound(counts, grid.tau)
    return [
        [
            _normal_kernel(counts, float(tau), float(r * b))
            for tau, b in zip(grid.tau, bound, strict=True)
        ]
        for r in grid.r
    ]


def _normal_kernel(counts: AttackCounts, tau: float, rho: float) -> NormalKernel:
    n0, n1 = counts.trials_h0.astype(float), counts.trials_h1.astype(float)
    spread_h0, spread_h1 = 1 + (n0 - 1) * tau, 1 + (n1 - 1) * tau
    correlation = rho * np.sqrt(n0 * n1 / (spread_h0 * spread_h1))
    return NormalKernel(
        rate_h0=counts.false_positive_rates,
        precision_h0=n0 / spread_h0,
        rate_h1=counts.false_negative_rates,
        precision_h1=n1 / spread_h1,
        correlation=correlation,
        log_constant=-math.log(2 * math.pi)
        - 0.5 * np.log1p(-correlation * correlation)
        - 0.5 * np.log(n0 * spread_h0 * n1 * spread_h1),
    )


def take(family: Family, index: NDArray[np.intp]) -> Family:
    """The family of some of the attacks."""
    return [[kernel.take(index) for kernel in group] for group in family]


def peak_guess(family: Family) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Per attack: smoothed rates (the larger first, reflected below the diagonal), and a log-width.

    The width is the standard deviation of log((1 - alpha) / beta), the scale in epsilon on which the
    attack's counts leave its critical level uncertain.  Only guesses: they seed refinements.
    """
    # A narrow one of the family: the smallest tau but one.  The very smallest has next to no weight.
    group = family[len(family) // 2]
    kernel: Kernel = group[min(1, len(group) - 1)]
    if isinstance(kernel, BinomialKernel):
        n0, n1 = kernel.trials_h0, kernel.trials_h1
        rate_0, rate_1 = kernel.false_positives / n0, kernel.false_negatives / n1
    else:
        assert isinstance(kernel, NormalKernel)
        n0, n1 = kernel.precision_h0, kernel.precision_h1
        rate_0, rate_1 = kernel.rate_h0, kernel.rate_h1
    a = (rate_0 * n0 + 0.5) / (n0 + 1)
    b = (rate_1 * n1 + 0.5) / (n1 + 1)
    flip = a + b > 1
    a, b = np.where(flip, 1 - a, a), np.where(flip, 1 - b, b)
    swap = b > a
    large, small = np.where(swap, b, a), np.where(swap, a, b)
    n_large, n_small = np.where(swap, n1, n0), np.where(swap, n0, n1)
    width = np.sqrt(large / ((1 - large) * (n_large + 1)) + (1 - small) / (small * (n_small + 1)))
    return large, small, np.minimum(width, 3.0)
