"""How the exact engine treats each likelihood: its nuisance grid and its kernel.

Add a likelihood with :func:`register`; nothing else in the engine depends on the list.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from epsilometer._arrays import FloatArray, IndexArray
from epsilometer.engines.exact import kernels
from epsilometer.engines.exact.kernels import BinomialKernel, Kernel, NormalKernel
from epsilometer.engines.exact.nuisance import CorrelationGrid, NoNuisance, NuisanceGrid
from epsilometer.errors import InputError
from epsilometer.model import likelihoods
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedCounts, IndependentBinomial, Likelihood

#: Of finite differences, in standard deviations of a rate: errors of about 1e-4.
DIFFERENCE_STEP = 1e-2


@dataclass(frozen=True, kw_only=True)
class CellKernel(Kernel):
    """Probabilities of :class:`epsilometer.model.likelihoods.CorrelatedCells`.

    ``observed_*`` are counts and ``trials_*`` their trials; ``inflation_*`` is 1 + (N - 1) tau, the
    variance of a count relative to a binomial's.
    """

    inflation_h0: FloatArray
    inflation_h1: FloatArray
    correlation: FloatArray

    def observed(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        (x, n0), (y, n1) = self.sides()
        return x / n0, n0 / self.inflation_h0, y / n1, n1 / self.inflation_h1

    def log_largest(self) -> FloatArray:
        """No probability is above 1."""
        return np.zeros(len(self))

    def windows(self, entry: int, reach: float) -> list[FloatArray]:
        """Half a count wider on either side than those of a normal density."""
        windows = []
        for (counts, trials), worth in zip(self.sides(), self.observed()[1::2], strict=True):
            n = trials[entry]
            rates = np.clip(counts[entry] + np.array([-0.5, 0.5]), 0.0, n) / n
            low, high = kernels.angle_windows(rates, worth[entry], 0.0, reach)
            windows.append(np.array([low[0], high[1]]))
        return windows

    def log_angle_density(
        self, entries: IndexArray, theta: FloatArray, phi: FloatArray
    ) -> FloatArray:
        from epsilometer.model import normal_cells

        first = entries[0]
        ends, jacobians = [], []
        for (count, trials), inflation, angle in zip(
            self.sides(), (self.inflation_h0, self.inflation_h1), (theta, phi), strict=True
        ):
            rate = np.sin(angle) ** 2
            seen = count[first], trials[first]
            ends.append(normal_cells.cell_ends_along(*seen, rate, inflation[first]))
            jacobians.append(np.log(np.maximum(np.sin(2 * angle), 1e-300)))
        logs = normal_cells.log_cells_on_grid(ends[0], ends[1], self.correlation[entries])
        return np.asarray(logs + jacobians[0][:, None] + jacobians[1])

    def exchanged(self) -> Self:
        swapped = super().exchanged()
        return replace(swapped, inflation_h0=self.inflation_h1, inflation_h1=self.inflation_h0)

    def _log_cells(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        from epsilometer.model import normal_cells

        (x, n0), (y, n1) = self.sides()
        arguments = np.broadcast_arrays(
            x, n0, alpha, self.inflation_h0, y, n1, beta, self.inflation_h1, self.correlation
        )
        columns = np.stack([np.ravel(argument) for argument in arguments])
        return np.asarray(normal_cells.log_cells(columns).reshape(arguments[0].shape))

    def log_weight(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        roots = 0.5 * np.log(np.maximum(alpha * beta, 1e-300))
        return np.asarray(self._log_cells(alpha, beta) + roots)

    def derivatives(self, alpha: FloatArray, beta: FloatArray) -> kernels.Derivatives:
        """By finite differences: used only to find peaks and widths, not for integrals."""
        _, worth_0, _, worth_1 = self.observed()
        h, k = (
            np.minimum(DIFFERENCE_STEP * np.sqrt(p * (1 - p) / worth), 0.25 * np.minimum(p, 1 - p))
            for p, worth in ((alpha, worth_0), (beta, worth_1))
        )
        here = self._log_cells(alpha, beta)
        right, left = self._log_cells(alpha + h, beta), self._log_cells(alpha - h, beta)
        above, below = self._log_cells(alpha, beta + k), self._log_cells(alpha, beta - k)
        both = self._log_cells(alpha + h, beta + k) + self._log_cells(alpha - h, beta - k)
        return kernels.Derivatives(
            alpha=(right - left) / (2 * h),
            beta=(above - below) / (2 * k),
            alpha_alpha=(right - 2 * here + left) / (h * h),
            beta_beta=(above - 2 * here + below) / (k * k),
            alpha_beta=(both + 2 * here - right - left - above - below) / (2 * h * k),
        )


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """What the engine needs to use a likelihood.

    ``grid`` maps a likelihood, counts and numbers of nodes to the grid of its nuisance parameters;
    ``kernel`` maps a likelihood, distinct counts and that grid to the likelihood as a function of the
    rates.  ``planar`` is true if the kernel has no fluxes, so that masses come from plane quadrature.
    """

    grid: Callable[[Any, AttackCounts, tuple[int, int]], NuisanceGrid]
    kernel: Callable[[Any, AttackCounts, Any], Kernel]
    planar: bool


_TREATMENTS: dict[str, Treatment] = {}


def register(name: str, treatment: Treatment) -> None:
    """Register the treatment of likelihoods with this name."""
    _TREATMENTS[name] = treatment


def treatment_of(likelihood: Likelihood) -> Treatment:
    """The treatment of a likelihood; raises an InputError if none is registered."""
    if likelihood.name not in _TREATMENTS:
        known = ", ".join(_TREATMENTS)
        raise InputError(
            f"expected a likelihood known to the exact engine ({known}), got {likelihood.name!r}; "
            "see epsilometer.engines.exact.treatments.register."
        )
    return _TREATMENTS[likelihood.name]


def log_choices(counts: AttackCounts) -> FloatArray:
    """Log of the product of the two binomial coefficients of each base."""
    from scipy.special import gammaln

    sides = counts.by_hypothesis
    total = sum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) for k, n in sides)
    return np.asarray(total)


def _binomial_kernel(
    likelihood: IndependentBinomial, counts: AttackCounts, grid: NoNuisance
) -> BinomialKernel:
    x, n0, y, n1 = (np.asarray(getattr(counts, name), dtype=float) for name in COLUMNS)
    return BinomialKernel(
        observed_h0=x, trials_h0=n0, observed_h1=y, trials_h1=n1, log_constant=log_choices(counts)
    )


def _correlated_kernel(
    likelihood: CorrelatedCounts, counts: AttackCounts, grid: CorrelationGrid
) -> CellKernel | NormalKernel:
    """Every base at each (tau, rho), where rho is given as a fraction of its bound at tau.

    Variances of X and of Y are relative to a binomial's.  Cells have no constant.
    """
    bound = likelihood.cross_correlation_bound(counts, grid.tau)
    tau = np.repeat(grid.tau, len(grid.r))[:, None]
    rho = (bound[:, None] * grid.r).ravel()[:, None]
    x, n0, y, n1 = (np.asarray(getattr(counts, name), dtype=float) for name in COLUMNS)
    wide_h0, wide_h1 = 1 + (n0 - 1) * tau, 1 + (n1 - 1) * tau
    correlation = rho * np.sqrt(n0 * n1 / (wide_h0 * wide_h1))

    def filled(*columns: FloatArray) -> dict[str, FloatArray]:
        names = "observed_h0", "trials_h0", "observed_h1", "trials_h1", "correlation"
        pairs = zip(names, (*columns, correlation), strict=True)
        return {name: np.broadcast_to(part, correlation.shape).ravel() for name, part in pairs}

    if likelihood.bounded:
        return CellKernel(
            **filled(x, n0, y, n1),
            inflation_h0=wide_h0.ravel(),
            inflation_h1=wide_h1.ravel(),
            log_constant=np.zeros(correlation.size),
        )
    constant = (
        -math.log(2 * math.pi)
        - 0.5 * np.log1p(-correlation * correlation)
        - 0.5 * np.log(n0 * wide_h0 * n1 * wide_h1)
    )
    columns = filled(x / n0, n0 / wide_h0, y / n1, n1 / wide_h1)
    return NormalKernel(**columns, log_constant=constant.ravel())


BINOMIAL = Treatment(grid=lambda *_: NoNuisance(), kernel=_binomial_kernel, planar=False)
CORRELATED = Treatment(grid=CorrelationGrid.of_prior, kernel=_correlated_kernel, planar=True)
register(IndependentBinomial().name, BINOMIAL)
register(likelihoods.CorrelatedNormal().name, CORRELATED)
register(likelihoods.CorrelatedCells().name, CORRELATED)
