"""The kernel of correlated counts as cells of a normal, rounded and clipped to 0..N."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from epsilometer._arrays import FloatArray, IndexArray
from epsilometer.engines.exact.kernels import Derivatives, Kernel, angle_window

DIFFERENCE_STEP = (
    1e-2  # of finite differences, in standard deviations of a rate: errors of about 1e-4
)


@dataclass(frozen=True, kw_only=True)
class CellKernel(Kernel):
    """Probabilities of :class:`epsilometer.model.likelihoods.CorrelatedCells`.

    ``observed_*`` are counts and ``trials_*`` their trials; ``inflation_*`` is 1 + (N - 1) tau, the
    variance of a count relative to a binomial's.
    """

    inflation_h0: FloatArray
    inflation_h1: FloatArray
    correlation: FloatArray

    def correlated(self) -> FloatArray | float:
        return self.correlation

    def observed(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        (x, n0), (y, n1) = self.sides()
        return x / n0, n0 / self.inflation_h0, y / n1, n1 / self.inflation_h1

    def log_largest(self) -> FloatArray:
        """No probability is above 1."""
        return np.zeros(len(self))

    def windows(self, entry: int, reach: float) -> list[tuple[float, float]]:
        """Half a count wider on either side than those of a normal density."""
        windows = []
        for (counts, trials), inflation in zip(
            self.sides(), (self.inflation_h0, self.inflation_h1), strict=True
        ):
            count, n = float(counts[entry]), float(trials[entry])
            low, high = max(count - 0.5, 0.0) / n, min(count + 0.5, n) / n
            windows.append(angle_window(low, high, n / float(inflation[entry]), reach))
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
            ends.append(
                normal_cells.cell_ends_along(count[first], trials[first], rate, inflation[first])
            )
            jacobians.append(np.log(np.maximum(np.sin(2 * angle), 1e-300)))
        logs = normal_cells.log_cells_on_grid(ends[0], ends[1], self.correlation[entries])
        return np.asarray(logs + jacobians[0][:, None] + jacobians[1])

    def reflected(self) -> Self:
        (x, n0), (y, n1) = self.sides()
        return replace(self, observed_h0=n0 - x, observed_h1=n1 - y)

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

    def derivatives(self, alpha: FloatArray, beta: FloatArray) -> Derivatives:
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
        return Derivatives(
            alpha=(right - left) / (2 * h),
            beta=(above - below) / (2 * k),
            alpha_alpha=(right - 2 * here + left) / (h * h),
            beta_beta=(above - 2 * here + below) / (k * k),
            alpha_beta=(both + 2 * here - right - left - above - below) / (2 * h * k),
        )
